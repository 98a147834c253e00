import { homedir, tmpdir } from "node:os";
import { isAbsolute, join, relative, resolve, sep } from "node:path";
import type { CompleteProgram } from "../agents/declared-agents.ts";
import type { ParsedProgram, ServerProgramSpec } from "../model/server.ts";
import type { Task } from "../model/task.ts";
import type { ClientInput } from "./convert/client/client-file.ts";
import { mapValues, withoutUndefined } from "../base/json.ts";
import type { LookupVariable } from "../base/read-json.ts";
import { baseEnvironment, localBinPath, mergeEnvironments, runningPlatform } from "../process/environment.ts";

/** Environment variables by name. */
export type EnvironmentVariables = Readonly<Record<string, string>>;

/**
 * The environment of this process: the only place that reads it. `TMPDIR` is always there, so that a config can name the
 * folder for temporary files on every system.
 */
export function environment(): EnvironmentVariables {
  return { TMPDIR: tmpdir(), ...withoutUndefined({ ...process.env }) };
}

/** The value of a variable; on Windows upper and lower case of its name are the same. */
export function variableNamed(name: string, variables: EnvironmentVariables): string | undefined {
  if (Object.hasOwn(variables, name)) return variables[name];
  if (sep === "/") return undefined;
  const same = Object.keys(variables).find((other) => other.toUpperCase() === name.toUpperCase());
  return same === undefined ? undefined : variables[same];
}

/** Variables of an environment by name; `true`: all. */
export function pickVariables(
  names: readonly string[] | true,
  variables: EnvironmentVariables,
): EnvironmentVariables {
  if (names === true) return variables;
  const found = names.map((name) => [name, variableNamed(name, variables)] as const);
  return withoutUndefined(Object.fromEntries(found));
}

type Variables = Pick<LoadContext, "overrides" | "environment">;

/** Gives the value of a variable: from the command line, else from the environment. */
export function lookupIn({ overrides, environment: shell }: Variables): LookupVariable {
  return (name) => variableNamed(name, overrides) ?? variableNamed(name, shell);
}

/**
 * The whole environment of a process: a small safe set, what it inherits by name, its own variables, those of the command
 * line; later ones win. Programs of the project that `folder` belongs to are found.
 */
function processEnvironment(
  folder: string,
  { env, inheritEnv }: { readonly env: EnvironmentVariables; readonly inheritEnv: readonly string[] | true },
  { environment: shell, overrides }: Variables,
  written: (variables: EnvironmentVariables) => EnvironmentVariables = (variables) => variables,
): EnvironmentVariables {
  const base = baseEnvironment(shell);
  // The base environment has PATH already, with local programs in front.
  const inherited = Object.fromEntries(
    Object.entries(pickVariables(inheritEnv, shell)).filter(([name]) => name.toUpperCase() !== "PATH"),
  );
  const path = { PATH: localBinPath(folder, base["PATH"]) };
  return mergeEnvironments([...[base, inherited, path].map(written), env, written(overrides)]);
}

/** Completes the program of a server: its absolute folder, and the whole environment that its process gets. */
export function completeStdio(
  server: ParsedProgram,
  { dir, ...variables }: Variables & { readonly dir: string },
): Pick<ServerProgramSpec, "cwd" | "env"> {
  const cwd = resolve(dir, server.cwd ?? ".");
  return { cwd, env: processEnvironment(cwd, server, variables) };
}

/** Names in `inheritEnv` that are not set, so that nothing is inherited for them. */
export function unsetInherited({ inheritEnv }: ParsedProgram, shell: EnvironmentVariables): string[] {
  return inheritEnv === true ? [] : inheritEnv.filter((name) => variableNamed(name, shell) === undefined);
}

/**
 * Creates the function that completes agents that are programs: absolute paths of a folder and of a command beside the file, and the whole
 * environment.
 */
export function programCompleter({
  dir,
  ...variables
}: Variables & { readonly dir: string }): CompleteProgram {
  return ({ command, env: own, inheritEnv, cwd, isTemplate, homeVariables = [] }) => {
    const program = { env: own, inheritEnv };
    const all = processEnvironment(resolve(dir), program, variables, isTemplate ? escapeBraces : undefined);
    const named = new Set([...Object.keys(own), ...(inheritEnv === true ? [] : inheritEnv)]);
    const env = Object.fromEntries(
      Object.entries(all).filter(
        ([name]) => named.has(name) || !homeVariables.includes(sep === "/" ? name : name.toUpperCase()),
      ),
    );
    const shell = { ...variables.environment, ...variables.overrides };
    const parts =
      homeVariables.length === 0 ? { env } : { env, userHome: pickVariables(homeVariables, shell) };
    // In a folder of its own a program's path starts there, as a server's does.
    if (cwd !== undefined) return { ...parts, cwd: resolve(dir, cwd) };
    return { ...parts, ...(isRelativePath(command) ? { command: resolve(dir, command) } : {}) };
  };
}

/** Values as a template that gives them again. */
function escapeBraces(values: EnvironmentVariables): EnvironmentVariables {
  return mapValues(values, (value) => value.replaceAll("{", "{{"));
}

/** Whether a command is a path that starts from some folder; names are looked for on PATH, and templates say later what they are. */
export function isRelativePath(command: string): boolean {
  return /[/\\]/.test(command) && !isAbsolute(command) && !command.includes("{");
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
  readonly judge?: boolean | undefined;
  /** Model that judges, whatever the files say. */
  readonly judgeModel?: string | undefined;
  /** Model that plays simulated users, whatever the files say. */
  readonly userModel?: string | undefined;
  /** Absolute path of an MCP config file that gives servers. */
  readonly mcpConfig?: string | undefined;
  /** Absolute path of a file of prices, whatever the files say. */
  readonly prices?: string | undefined;
  /** Whether nothing is to be run, so that an agent that cannot be run is only noted. */
  readonly lookOnly: boolean;
  /** Whether nothing is started or asked, so that a variable of a config that is not set has any value. */
  readonly isReplayed?: boolean | undefined;
  /** Whether only the servers are of interest, so that a config may have nothing to run. */
  readonly serversOnly?: boolean | undefined;
  /** Recorded sessions that the graders of a config look at, in the place of everything that it runs. */
  readonly sessions?: readonly Task[] | undefined;
  /** Whether paths of tasks may leave their folders. */
  readonly allowOutside: boolean;
  /** Longest that a config that is a program may take, in milliseconds. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
  /** Asks the person at the terminal; absent: there is none. */
  readonly ask?: ((input: ClientInput) => Promise<string>) | undefined;
}

/** A file as messages name it: relative to where the reader is. */
export function displayPath(cwd: string, file: string): string {
  return relative(cwd, file) || file;
}

/** This user's cache folder; undefined if the user has no home folder. */
export function cacheFolder(
  variables: EnvironmentVariables = environment(),
  platform: string = runningPlatform(),
): string | undefined {
  const [name, defaultPath] = placeOn(platform);
  const given = variableNamed(name, variables) ?? "";
  if (isAbsolute(given)) return join(given, "mcpvals");
  const home = homeFolder();
  return home === undefined ? undefined : join(home, defaultPath, "mcpvals");
}

/** The variable that names the cache folder, and its default path in the home folder. */
function placeOn(platform: string): readonly [variable: string, defaultPath: string] {
  if (platform === "win32") return ["LOCALAPPDATA", join("AppData", "Local")];
  return ["XDG_CACHE_HOME", platform === "darwin" ? join("Library", "Caches") : ".cache"];
}

function homeFolder(): string | undefined {
  try {
    const home = homedir();
    return isAbsolute(home) ? home : undefined;
  } catch {
    return undefined; // the system does not know this user
  }
}
