import { mkdirSync, statSync } from "node:fs";
import { dirname } from "node:path";

/**
 * Makes a folder, unless it is there, with those above it. Throws what the file system throws. Node's own way of making several at
 * once never returns where the system says that there can be nothing, as below /proc.
 */
export function makeFolder(path: string, mode = 0o777): void {
  try {
    mkdirSync(path, { mode });
  } catch (error) {
    if (isFolder(path)) return;
    if (!(error instanceof Error && "code" in error && error.code === "ENOENT") || dirname(path) === path)
      throw error;
    makeFolder(dirname(path), mode);
    makeLast(path, mode);
  }
}

/** Somebody else may have made it meanwhile. */
function makeLast(path: string, mode: number): void {
  try {
    mkdirSync(path, { mode });
  } catch (error) {
    if (!isFolder(path)) throw error;
  }
}

function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false; // the first error says more
  }
}
