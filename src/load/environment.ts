import { tmpdir } from "node:os";
import { sep } from "node:path";

/** Environment variables by name. */
export type EnvironmentVariables = Readonly<Record<string, string>>;

/**
 * The environment of this process: the only place that reads it. `TMPDIR` is always there, so that a config can name the
 * folder for temporary files on every system.
 */
export function environment(): EnvironmentVariables {
  const set = Object.entries(process.env).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, value]],
  );
  return { TMPDIR: tmpdir(), ...Object.fromEntries(set) };
}

/** The value of a variable; on Windows upper and lower case of its name are the same. */
export function variableNamed(name: string, variables: EnvironmentVariables): string | undefined {
  if (Object.hasOwn(variables, name)) return variables[name];
  if (sep === "/") return undefined;
  const same = Object.keys(variables).find((other) => other.toUpperCase() === name.toUpperCase());
  return same === undefined ? undefined : variables[same];
}
