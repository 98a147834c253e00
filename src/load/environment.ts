import { tmpdir } from "node:os";
import { isAbsolute, relative, resolve, sep } from "node:path";
import type { CompleteProgram } from "../core/formats/config/agent.ts";
import type { ParsedStdioServer } from "../core/formats/config/server.ts";
import { interpolate, type Interpolation, type LookupVariable } from "../core/formats/interpolate.ts";
import { isJsonObject } from "../core/formats/json.ts";
import type { Json, StdioServerSpec } from "../core/formats/model.ts";
import { baseEnvironment, localBinPath, mergeEnvironments } from "../process/environment.ts";

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

/** Gives the value of a variable: from the command line, else from the environment. */
export function lookupIn({
  overrides,
  environment: shell,
}: Pick<ProcessContext, "overrides" | "environment">): LookupVariable {
  return (name) => variableNamed(name, overrides) ?? variableNamed(name, shell);
}

interface ProcessContext {
  /** Folder of the config file. */
  readonly dir: string;
  readonly environment: EnvironmentVariables;
  /** Variables from the command line; they override all others. */
  readonly overrides: EnvironmentVariables;
}

/**
 * Completes a local server: its absolute folder, and the whole environment that its process gets. That is a small safe
 * set, what the server inherits by name, its own variables, those of the command line; later ones win.
 */
export function completeStdio(
  server: ParsedStdioServer,
  { dir, environment, overrides }: ProcessContext,
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
function inherit(names: readonly string[] | true, environment: EnvironmentVariables): EnvironmentVariables {
  if (names === true) return environment;
  return Object.fromEntries(
    names.flatMap((name) => {
      const value = variableNamed(name, environment);
      return value === undefined ? [] : [[name, value]];
    }),
  );
}

/** The base environment has PATH already, with local programs in front. */
function withoutPath(variables: EnvironmentVariables): EnvironmentVariables {
  return Object.fromEntries(Object.entries(variables).filter(([name]) => name.toUpperCase() !== "PATH"));
}

/**
 * Creates the function that completes agents that are programs: absolute paths of a folder and of a command beside the file, and the whole
 * environment. That is a small safe set, what the agent inherits by name, its own variables, those of the command line; later
 * ones win.
 */
export function programCompleter({ dir, environment, overrides }: ProcessContext): CompleteProgram {
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

/** Replaces `${VAR}` in some parts of a document, named by their paths; the others stay as they are. */
export function interpolateParts(
  document: Json,
  parts: readonly (readonly string[])[],
  variables: Pick<ProcessContext, "overrides" | "environment">,
): Interpolation {
  const chosen = parts.reduce<Json>((value, path) => copyPart(document, value, path), {});
  const found = interpolate(chosen, lookupIn(variables));
  const value = parts.reduce<Json>((rest, path) => copyPart(found.value, rest, path), document);
  return { ...found, value };
}

/** The target with the part of the source at a path; without it where the source has none. */
function copyPart(source: Json, target: Json, [key, ...rest]: readonly string[]): Json {
  if (key === undefined) return source;
  const inner = isJsonObject(source) && Object.hasOwn(source, key) ? source[key] : undefined;
  if (inner === undefined) return target;
  const base = isJsonObject(target) ? target : {};
  return { ...base, [key]: copyPart(inner, base[key] ?? {}, rest) };
}

/** What loading is given besides the files. */
export interface LoadContext {
  /** Absolute path of the folder that sources start from. */
  readonly cwd: string;
  readonly environment: EnvironmentVariables;
  /** Variables from the command line; they override all others. */
  readonly overrides: EnvironmentVariables;
  /** Agents asked for; empty: the files' own choice. */
  readonly agents: readonly string[];
  /** Whether a model judges, whatever the files say. */
  readonly judge?: boolean;
  /** Model that judges, whatever the files say. */
  readonly judgeModel?: string;
  /** Absolute path of an MCP config file that gives servers. */
  readonly mcpConfig?: string;
  /** Whether nothing is to be run, so that an agent that cannot be run is only noted. */
  readonly lookOnly: boolean;
  /** Whether paths of tasks may leave their folders. */
  readonly allowOutside: boolean;
  /** Longest that a config that is a program may take, in milliseconds. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}

/** A file as messages name it: relative to where the reader is. */
export function shownFrom(cwd: string, file: string): string {
  return relative(cwd, file) || file;
}
