import { constants } from "node:fs";
import { access, stat } from "node:fs/promises";
import { posix, win32 } from "node:path";
import type { Environment } from "./environment.ts";

export interface ProgramPlace {
  /** Its PATH is looked through; on Windows its PATHEXT too. */
  readonly env: Environment;
  /** Absolute path that a name with a slash, and a relative folder on PATH, start from. */
  readonly cwd: string;
  readonly platform?: NodeJS.Platform;
}

/** The absolute path of the program that a name stands for, as a shell finds it; undefined when there is none. */
export async function findProgram(
  name: string,
  { env, cwd, platform = process.platform }: ProgramPlace,
): Promise<string | undefined> {
  const windows = platform === "win32";
  const rules = windows ? win32 : posix;
  const variable = (wanted: string): string | undefined =>
    windows ? valueIgnoringCase(env, wanted) : env[wanted];
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

/** Windows starts what ends in one of PATHEXT; a name that has such an ending already needs no other. */
function windowsEndings(name: string, pathExt = ".COM;.EXE;.BAT;.CMD"): readonly string[] {
  const endings = pathExt.split(";").filter((ending) => ending !== "");
  const hasOne = endings.some((ending) => name.toLowerCase().endsWith(ending.toLowerCase()));
  return hasOne ? ["", ...endings] : endings;
}

function valueIgnoringCase(env: Environment, wanted: string): string | undefined {
  return Object.entries(env).find(([name]) => name.toUpperCase() === wanted)?.[1];
}

async function isProgram(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK);
    return (await stat(path)).isFile();
  } catch {
    return false; // not there, or not for us: the next folder may have it
  }
}

/** A program with the arguments that come before the script. */
export interface Interpreter {
  readonly command: string;
  readonly args: readonly string[];
}

/**
 * What the first line of a script names as its interpreter; undefined when it names none. As on Linux, everything after
 * the program is one argument. Windows has none of the usual folders: there the program's bare name is looked for on PATH.
 */
export function interpreterOf(
  script: string,
  platform: NodeJS.Platform = process.platform,
): Interpreter | undefined {
  const [, command, rest = ""] = /^#![ \t]*(\S+)[ \t]*(.*)/.exec(script) ?? [];
  if (command === undefined) return undefined;
  const argument = rest.trim();
  if (platform === "win32") return windowsInterpreter(command, argument);
  return { command, args: argument === "" ? [] : [argument] };
}

function windowsInterpreter(command: string, argument: string): Interpreter {
  const words = argument.split(/\s+/).filter((word) => word !== "");
  const name = win32.basename(command);
  if (name !== "env") return { command: name, args: words };
  const [first = name, ...args] = words[0] === "-S" ? words.slice(1) : words;
  return { command: win32.basename(first), args };
}

/** What the accounts of services have in the place of a shell: it runs nothing, and yet ends with an exit code. */
const none = /(?:^|[/\\])(?:nologin|false|true)$/;

/**
 * The shell that runs a task's commands unless it names one: the variable SHELL, where it is one, else `/bin/sh`. On
 * Windows, which has no shell of its own that understands `-c`, it is `sh` from PATH, as Git for Windows brings it.
 */
export function defaultShell(env: Environment, platform: NodeJS.Platform = process.platform): string {
  const named = env["SHELL"];
  if (named !== undefined && named !== "" && !none.test(named)) return named;
  return platform === "win32" ? "sh" : "/bin/sh";
}
