import { constants } from "node:fs";
import { access, stat } from "node:fs/promises";
import platformPath, { type PlatformPath, posix, win32 } from "node:path";
import { isForeign, ownerOf } from "../base/files.ts";

/** The operating system, as Node names it, such as `linux`, `darwin` or `win32`. */
export function runningPlatform(): string {
  return process.platform;
}

/** An operating system and a processor, by their names in release files. */
export interface ReleasePlatform {
  /** `linux`, `darwin`, `windows`, else Node's name. */
  readonly os: string;
  /** `amd64`, `arm64`, `386`, else Node's name. */
  readonly arch: string;
}

export function releasePlatform(
  platform: string = process.platform,
  arch: string = process.arch,
): ReleasePlatform {
  const archNames: Readonly<Record<string, string>> = { x64: "amd64", ia32: "386" };
  return { os: platform === "win32" ? "windows" : platform, arch: archNames[arch] ?? arch };
}

/** Variables by name; a variable that is not set is absent or undefined. */
export type Environment = Readonly<Record<string, string | undefined>>;

type PathRules = Pick<PlatformPath, "delimiter" | "dirname" | "join">;

const posixNames = "HOME LANG LOGNAME PATH SHELL TERM TMPDIR USER".split(" ");
const windowsNames =
  `APPDATA COMSPEC HOMEDRIVE HOMEPATH LOCALAPPDATA PATH PATHEXT PROGRAMDATA PROGRAMFILES SYSTEMDRIVE SYSTEMROOT TEMP TMP
  USERNAME USERPROFILE`.split(/\s+/);

/**
 * Picks the variables that programs need and that hold no secrets. On Windows, where names ignore case, the result has upper-case
 * names.
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

/** The environment of a process of a task: the variables that programs need, and the named ones; `true` means all. */
export function inheritedEnvironment(
  env: Environment,
  names: readonly string[] | true,
): Record<string, string> {
  const named = Object.entries(env).filter(([name]) => names === true || names.includes(name));
  return mergeEnvironments([baseEnvironment(env), Object.fromEntries(named)]);
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
 * the programs of a project are found by name. Folders that may have been filled by a user other than this one and the owner of
 * `cwd` are left out. `cwd` is absolute; `rules` are those of this platform.
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

export interface ProgramPlace {
  /** Its PATH is searched; on Windows its PATHEXT applies. */
  readonly env: Environment;
  /** Absolute base of names with a slash and of relative folders on PATH. */
  readonly cwd: string;
  readonly platform?: NodeJS.Platform;
}

/** The absolute path of a program, as a shell finds it; undefined when there is none. */
export async function findProgram(
  name: string,
  { env, cwd, platform = process.platform }: ProgramPlace,
): Promise<string | undefined> {
  const windows = platform === "win32";
  const rules = windows ? win32 : posix;
  const variable = (wanted: string): string | undefined =>
    Object.entries(env).find(([name]) => (windows ? name.toUpperCase() : name) === wanted)?.[1];
  const isPath = windows ? /[/\\]/.test(name) : name.includes("/");
  const folders = isPath ? [""] : (variable("PATH") ?? "").split(rules.delimiter);
  const endings = windows ? windowsEndings(name, variable("PATHEXT")) : [""];
  for (const folder of folders) {
    for (const ending of endings) {
      const path = rules.resolve(cwd, folder, name + ending);
      if (await isProgram(path)) return path;
    }
  }
  return undefined;
}

/** Windows starts files with an extension of PATHEXT, which may be part of the name. */
function windowsEndings(name: string, pathExt = ".COM;.EXE;.BAT;.CMD"): readonly string[] {
  const endings = pathExt.split(";").filter((ending) => ending !== "");
  const hasOne = endings.some((ending) => name.toLowerCase().endsWith(ending.toLowerCase()));
  return hasOne ? ["", ...endings] : endings;
}

async function isProgram(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK);
    return (await stat(path)).isFile();
  } catch {
    return false; // missing or not executable: the next folder may have it
  }
}

/** A program with the arguments that come before the script. */
export interface Interpreter {
  readonly command: string;
  readonly args: readonly string[];
}

/**
 * The interpreter in the first line of a script; undefined when there is none. As on Linux, everything after the program is one
 * argument. On Windows, which lacks the usual folders, it is the program's bare name, to be found on PATH.
 */
export function interpreterOf(
  script: string,
  platform: NodeJS.Platform = process.platform,
): Interpreter | undefined {
  const [, command, rest = ""] = /^#![ \t]*(\S+)[ \t]*(.*)/.exec(script) ?? [];
  if (command === undefined) return undefined;
  const argument = rest.trim();
  if (platform !== "win32") return { command, args: argument === "" ? [] : [argument] };
  const words = argument.split(/\s+/).filter((word) => word !== "");
  const name = win32.basename(command);
  if (name !== "env") return { command: name, args: words };
  const [first = name, ...args] = words[0] === "-S" ? words.slice(1) : words;
  return { command: win32.basename(first), args };
}

/** The "shells" of service accounts, which run nothing. */
const noShell = /(?:^|[/\\])(?:nologin|false|true)$/;

/**
 * The default shell of a task's commands: the variable SHELL, else `/bin/sh`. On Windows, which has no shell that understands
 * `-c`, it is `sh` from PATH, which Git for Windows installs.
 */
export function defaultShell(env: Environment, platform: NodeJS.Platform = process.platform): string {
  const named = env["SHELL"];
  if (named !== undefined && named !== "" && !noShell.test(named)) return named;
  return platform === "win32" ? "sh" : "/bin/sh";
}
