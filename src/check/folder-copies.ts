import { existsSync } from "node:fs";
import { lstat, readdir } from "node:fs/promises";
import { basename, join } from "node:path";

// Which folders of this machine a confined server gets as copies, and what is in these.

/** How much of a folder is copied. */
export interface CopyLimits {
  readonly files: number;
  readonly bytes: number;
  /** Whether it may have folders of installed packages elsewhere than at its top. */
  readonly nested: boolean;
}

/** Folders of packages, which a program in a folder needs as they are; a copy has links to them. */
const installed: readonly string[] = ["node_modules", ".venv", "venv"];

/** Those that are in a folder. */
export function installedIn(folder: string): readonly string[] {
  return installed.map((name) => join(folder, name)).filter((path) => existsSync(path));
}

/** Where runs of mcpvals are kept; each makes it larger. */
const ownRuns = ".mcpvals";

function isCopied(path: string): boolean {
  return ![...installed, ownRuns].includes(basename(path));
}

/** Pipes, sockets and devices cannot be copied. */
export async function canBeCopied(path: string): Promise<boolean> {
  if (!isCopied(path)) return false;
  const found = await lstat(path);
  return found.isFile() || found.isDirectory() || found.isSymbolicLink();
}

/** Whether a folder can be copied in little time, as a whole. */
export async function isSmall(folder: string, limits: CopyLimits): Promise<boolean> {
  let [count, bytes] = [0, 0];
  const folders = [folder];
  for (const each of folders)
    for (const entry of await readdir(each, { withFileTypes: true }).catch(() => [])) {
      if (!limits.nested && each !== folder && installed.includes(entry.name)) return false;
      const path = join(each, entry.name);
      if (entry.isFile()) bytes += (await lstat(path).catch(() => undefined))?.size ?? 0;
      if ((count += 1) > limits.files || bytes > limits.bytes) return false;
      if (entry.isDirectory() && isCopied(entry.name)) folders.push(path);
    }
  return true;
}
