import { mkdirSync, statSync } from "node:fs";
import { dirname } from "node:path";

/**
 * Creates a folder with its parents, unless it exists. Throws what the file system throws. Node's `recursive` option never returns
 * where nothing can be created, as below /proc.
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

/** Another process may have created it meanwhile. */
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
