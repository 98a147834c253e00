import type { Json } from "../formats/model.ts";

/**
 * Gives the value of what follows a root, such as `["a", "outputs", "id"]` after `steps`; undefined when there is no such
 * name. A root that has a value of its own gives it for no names.
 */
export interface Resolve extends Trust {
  (names: readonly string[], variant: string | undefined): Json | undefined;
}

/** What is known of the values of a root that only some texts have. */
export interface Trust {
  /** The task's author wrote them; see `isTrustedRoot`. */
  readonly trusted?: boolean;
}

/** What templates may refer to: roots by name. A root that is not there is no root, so that its braces are text. */
export type Scope = ReadonlyMap<string, Resolve>;

/** The roots of every task; the variables of enclosing `foreach` steps come on top. */
export const taskRoots = ["env", "random", "task", "steps", "agent", "workspace", "servers"] as const;

/** Roots whose values come from the author, the command line, the shell or mcpvals itself. */
const trustedRoots: readonly string[] = ["env", "random", "task", "workspace", "servers"];

/**
 * Whether the values of a root are trusted. All others are what an agent, a server or a program gave in the trial: `agent`,
 * `steps`, what a step's outputs are made of, and the variable of a `foreach` over such values.
 */
export function isTrustedRoot(root: string, local: Trust | undefined): boolean {
  return local?.trusted === true || trustedRoots.includes(root);
}

/** A scope with more roots: the variable of a `foreach`, what a step gave. */
export function withLocals(
  scope: Scope,
  locals: Readonly<Record<string, Json>>,
  { trusted = false }: Trust = {},
): Scope {
  const roots = Object.entries(locals).map(([root, value]): [string, Resolve] => [
    root,
    Object.assign(resolveIn(value), { trusted }),
  ]);
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
