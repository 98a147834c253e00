import type { Json } from "../formats/model.ts";

/**
 * Gives the value of what follows a root, such as `["a", "outputs", "id"]` after `steps`; undefined when there is no such
 * name. A root that has a value of its own gives it for no names.
 */
export type Resolve = (names: readonly string[], variant: string | undefined) => Json | undefined;

/** What templates may refer to: roots by name. A root that is not there is no root, so that its braces are text. */
export type Scope = ReadonlyMap<string, Resolve>;

/** The roots of every task; the variables of enclosing `foreach` steps come on top. */
export const taskRoots = ["env", "random", "task", "steps", "agent", "workspace", "servers"] as const;

/** A scope with more roots: the variable of a `foreach`, what a step gave. */
export function withLocals(scope: Scope, locals: Readonly<Record<string, Json>>): Scope {
  const roots = Object.entries(locals).map(([root, value]): [string, Resolve] => [root, resolveIn(value)]);
  return new Map([...scope, ...roots]);
}

/** A root that stands for one JSON value; names lead into its objects and lists. */
export function resolveIn(value: Json): Resolve {
  return (names, variant) => {
    if (variant !== undefined) return undefined;
    let found: Json | undefined = value;
    for (const name of names) found = member(found, name);
    return found;
  };
}

/** A root that stands for no value itself, only for what it has names for. */
export function resolveNames(values: Readonly<Record<string, Json>>): Resolve {
  const resolve = resolveIn(values);
  return (names, variant) => (names.length === 0 ? undefined : resolve(names, variant));
}

function member(value: Json | undefined, name: string): Json | undefined {
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, name)) return undefined;
  return (value as Readonly<Record<string, Json>>)[name];
}
