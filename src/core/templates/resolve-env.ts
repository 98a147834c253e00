import { McpvalsError } from "../errors/error.ts";
import { expandText, templateRoom } from "./expand.ts";
import type { Resolve, Scope } from "./scope.ts";

export interface EnvSources {
  /** From the command line; they win over everything. */
  readonly overrides: Readonly<Record<string, string>>;
  /** Templates of the task, which may use each other in any order. */
  readonly declared: Readonly<Record<string, string>>;
  readonly shell: Readonly<Record<string, string>>;
}

/**
 * Makes the root `env`: the command line's value, else the task's, else the shell's. A value of the task that uses its own
 * name means the shell's. `scope` is what the task's values may use besides `env`. The result throws `task/template` for
 * values that go round in a circle, and for those that are too long together.
 */
export function envRoot({ overrides, declared, shell }: EnvSources, scope: Scope): Resolve {
  const known = new Map<string, string>();
  const room = templateRoom();
  const valueOf = (name: string, within: readonly string[]): string | undefined => {
    if (Object.hasOwn(overrides, name)) return overrides[name];
    const own = Object.hasOwn(declared, name) ? declared[name] : undefined;
    if (own === undefined || within.at(-1) === name)
      return Object.hasOwn(shell, name) ? shell[name] : undefined;
    const before = known.get(name);
    if (before !== undefined) return before;
    if (within.includes(name)) throw circle([...within, name]);
    const inner: Scope = new Map([
      ...scope,
      [
        "env",
        ([next], variant) =>
          next === undefined || variant !== undefined ? undefined : valueOf(next, [...within, name]),
      ],
    ]);
    const value = expandText(own, inner, room);
    known.set(name, value);
    return value;
  };
  return (names, variant) => {
    const [name] = names;
    return name === undefined || names.length > 1 || variant !== undefined ? undefined : valueOf(name, []);
  };
}

function circle(names: readonly string[]): McpvalsError {
  return new McpvalsError("task/template", `the values of env go round in a circle: ${names.join(" → ")}`, {
    hint: "Let one of them stand on its own; a value may use the shell's value of its own name.",
  });
}
