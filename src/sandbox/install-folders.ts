import { access, realpath } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { isInside } from "./is-inside.ts";

/**
 * What must be seen so that a program runs: its file, and the folder that it is installed in when that looks like one of
 * its own (`FOLDER/bin/NAME` beside `FOLDER/lib`), as for version managers and virtual environments. Never a home folder,
 * what is above one, or `~/.local`. `path` and the result are absolute.
 */
export async function installFolders(path: string, home: string): Promise<readonly string[]> {
  const real = await realpath(path);
  const found: string[] = [];
  for (const one of new Set([path, real])) found.push((await installFolder(one, home)) ?? one);
  return found;
}

async function installFolder(path: string, home: string): Promise<string | undefined> {
  const folder = dirname(dirname(path));
  if (basename(dirname(path)) !== "bin" || isPrivate(folder, home)) return undefined;
  try {
    await access(join(folder, "lib"));
    return folder;
  } catch {
    return undefined; // bin stands alone
  }
}

function isPrivate(folder: string, home: string): boolean {
  return isInside(home, folder) || folder === join(home, ".local");
}
