import platformPath, { type PlatformPath } from "node:path";
import { isForeign, ownerOf } from "../files/ownership.ts";

/** Variables by name; a variable that is not set is absent or undefined. */
export type Environment = Readonly<Record<string, string | undefined>>;

type PathRules = Pick<PlatformPath, "delimiter" | "dirname" | "join">;

const posixNames = ["HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER"];
const windowsNames = [
  "APPDATA",
  "COMSPEC",
  "HOMEDRIVE",
  "HOMEPATH",
  "LOCALAPPDATA",
  "PATH",
  "PATHEXT",
  "PROGRAMDATA",
  "PROGRAMFILES",
  "SYSTEMDRIVE",
  "SYSTEMROOT",
  "TEMP",
  "TMP",
  "USERNAME",
  "USERPROFILE",
];

/**
 * Picks from an environment what a program needs to work at all and what holds no secret. On Windows, where names ignore
 * case, the result has upper-case names.
 */
export function baseEnvironment(
  env: Environment,
  platform: NodeJS.Platform = process.platform,
): Record<string, string> {
  const windows = platform === "win32";
  const names = new Set(windows ? windowsNames : posixNames);
  const picked: Record<string, string> = {};
  for (const [name, value] of Object.entries(env)) {
    const key = windows ? name.toUpperCase() : name;
    if (value !== undefined && (names.has(key) || (!windows && key.startsWith("LC_")))) picked[key] = value;
  }
  return picked;
}

/**
 * What a process that works for a task gets of an environment: what a program needs to work at all, and the variables that
 * are named; `true` means all.
 */
export function inheritedEnvironment(
  env: Environment,
  names: readonly string[] | true,
): Record<string, string> {
  const named = names === true ? env : Object.fromEntries(names.map((name) => [name, valueOf(name, env)]));
  return mergeEnvironments([baseEnvironment(env), named]);
}

function valueOf(name: string, env: Environment): string | undefined {
  return Object.hasOwn(env, name) ? env[name] : undefined;
}

/** Joins environments, later ones winning; on Windows `Path` replaces `PATH`, since names ignore case there. */
export function mergeEnvironments(
  environments: readonly Environment[],
  platform: NodeJS.Platform = process.platform,
): Record<string, string> {
  const merged = new Map<string, readonly [name: string, value: string]>();
  for (const [name, value] of environments.flatMap((env) => Object.entries(env))) {
    if (value !== undefined) merged.set(platform === "win32" ? name.toUpperCase() : name, [name, value]);
  }
  return Object.fromEntries(merged.values());
}

/**
 * Puts every `node_modules/.bin` from a folder upwards in front of a PATH, nearest first, as npm does for scripts, so that
 * a program that a project installed is found by its name. Those that another user than this one and the owner of the folder
 * may have filled are left out. `cwd` is absolute; `rules` are those of this platform.
 */
export function localBinPath(cwd: string, path: string | undefined, rules: PathRules = platformPath): string {
  const folders: string[] = [];
  const owner = ownerOf(cwd);
  for (let folder = cwd; ; folder = rules.dirname(folder)) {
    const programs = rules.join(folder, "node_modules", ".bin");
    if (!isForeign(programs, [owner])) folders.push(programs);
    if (rules.dirname(folder) === folder) break;
  }
  const rest = path === undefined || path === "" ? [] : [path];
  return [...folders, ...rest].join(rules.delimiter);
}
