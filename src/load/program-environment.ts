import { isAbsolute, resolve } from "node:path";
import type { CompleteProgram } from "../core/formats/config/build-agent.ts";
import { baseEnvironment, localBinPath, mergeEnvironments } from "../process/environment.ts";
import type { EnvironmentVariables } from "./environment.ts";
import { inherit, type ServerSurroundings, withoutPath } from "./server-environment.ts";

/**
 * Makes what completes agents that are programs: absolute paths of a folder and of a command beside the file, and the whole
 * environment. That is a small safe set, what the agent inherits by name, its own variables, those of the command line; later
 * ones win.
 */
export function programCompleter({ dir, environment, overrides }: ServerSurroundings): CompleteProgram {
  return ({ command, env, inheritEnv, cwd, isTemplate }) => {
    const base = baseEnvironment(environment);
    // Programs of the project that the config belongs to are found, wherever the agent works.
    const path = { PATH: localBinPath(resolve(dir), base["PATH"]) };
    const inherited = withoutPath(inherit(inheritEnv, environment));
    const given = (variables: EnvironmentVariables): EnvironmentVariables =>
      isTemplate ? escapeBraces(variables) : variables;
    const complete = mergeEnvironments([given(base), given(inherited), given(path), env, given(overrides)]);
    // In a folder of its own a program's path starts there, as a server's does.
    if (cwd !== undefined) return { env: complete, cwd: resolve(dir, cwd) };
    return { env: complete, ...(isRelativePath(command) ? { command: resolve(dir, command) } : {}) };
  };
}

/** Whether a command is a path that starts from some folder; names are looked for on PATH, and templates say later what they are. */
export function isRelativePath(command: string): boolean {
  return /[/\\]/.test(command) && !isAbsolute(command) && !command.includes("{");
}

/** Values as a template that gives them again. */
function escapeBraces(variables: EnvironmentVariables): EnvironmentVariables {
  return Object.fromEntries(
    Object.entries(variables).map(([name, value]) => [name, value.replaceAll("{", "{{")]),
  );
}
