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
