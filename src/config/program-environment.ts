import { resolve } from "node:path";
import type { CompleteProgram } from "../core/formats/config/build-agent.ts";
import { baseEnvironment, localBinPath, mergeEnvironments } from "../process/environment.ts";
import type { EnvironmentVariables } from "./environment.ts";
import { inherit, type ServerSurroundings, withoutPath } from "./server-environment.ts";

/**
 * Makes what completes agents that are programs: an absolute folder where one is named, and the whole environment. That is a
 * small safe set, what the agent inherits by name, its own variables, those of the command line; later ones win.
 */
export function programCompleter({ dir, environment, overrides }: ServerSurroundings): CompleteProgram {
  return ({ env, inheritEnv, cwd, isTemplate }) => {
    const base = baseEnvironment(environment);
    // Programs of the project that the config belongs to are found, wherever the agent works.
    const path = { PATH: localBinPath(resolve(dir), base["PATH"]) };
    const inherited = withoutPath(inherit(inheritEnv, environment));
    const given = (variables: EnvironmentVariables): EnvironmentVariables =>
      isTemplate ? escapeBraces(variables) : variables;
    const complete = mergeEnvironments([given(base), given(inherited), given(path), env, given(overrides)]);
    return { env: complete, ...(cwd === undefined ? {} : { cwd: resolve(dir, cwd) }) };
  };
}

/** Values as a template that gives them again. */
function escapeBraces(variables: EnvironmentVariables): EnvironmentVariables {
  return Object.fromEntries(
    Object.entries(variables).map(([name, value]) => [name, value.replaceAll("{", "{{")]),
  );
}
