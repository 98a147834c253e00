import { resolve } from "node:path";
import type { ParsedStdioServer } from "../core/formats/config/build-server.ts";
import type { StdioServerSpec } from "../core/formats/model.ts";
import { baseEnvironment, localBinPath, mergeEnvironments } from "../process/environment.ts";
import { type EnvironmentVariables, variableNamed } from "./environment.ts";

export interface ServerSurroundings {
  /** Folder of the config file. */
  readonly dir: string;
  readonly environment: EnvironmentVariables;
  /** Variables from the command line; they win over everything. */
  readonly overrides: EnvironmentVariables;
}

/**
 * Completes a local server: its absolute folder, and the whole environment that its process gets. That is a small safe
 * set, what the server inherits by name, its own variables, those of the command line; later ones win.
 */
export function completeStdio(
  server: ParsedStdioServer,
  { dir, environment, overrides }: ServerSurroundings,
): Pick<StdioServerSpec, "cwd" | "env"> {
  const cwd = resolve(dir, server.cwd ?? ".");
  const base = baseEnvironment(environment);
  const path = { PATH: localBinPath(cwd, base["PATH"]) };
  const inherited = inherit(server.inheritEnv, environment);
  const env = mergeEnvironments([base, withoutPath(inherited), path, server.env, overrides]);
  return { cwd, env };
}

/** Names in `inheritEnv` that are not set, so that nothing is inherited for them. */
export function unsetInherited(server: ParsedStdioServer, environment: EnvironmentVariables): string[] {
  return server.inheritEnv === true
    ? []
    : server.inheritEnv.filter((name) => variableNamed(name, environment) === undefined);
}

/** Variables of the environment by name; `true`: all. */
export function inherit(
  names: readonly string[] | true,
  environment: EnvironmentVariables,
): EnvironmentVariables {
  if (names === true) return environment;
  return Object.fromEntries(
    names.flatMap((name) => {
      const value = variableNamed(name, environment);
      return value === undefined ? [] : [[name, value]];
    }),
  );
}

/** The base environment has PATH already, with local programs in front. */
export function withoutPath(variables: EnvironmentVariables): EnvironmentVariables {
  return Object.fromEntries(Object.entries(variables).filter(([name]) => name.toUpperCase() !== "PATH"));
}
