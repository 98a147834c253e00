import { existsSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { LockFile } from "../../core/formats/extension/lock-file.ts";
import { readLock } from "../resolve/lock.ts";

/**
 * Reads the lock of an eval: the nearest one upwards from the eval's folder. Without one, gives where it is to be made: in
 * the working folder when the eval is inside of it, so that all evals of a project share one, else in the eval's folder.
 * Throws `extension/invalid-lock`.
 */
export async function findLock(
  dir: string,
  cwd: string,
): Promise<{ readonly path: string; readonly lock: LockFile }> {
  const nearest = await readLock(dir);
  if (existsSync(nearest.path) || !isFoundFrom(dir, cwd)) return nearest;
  return { ...nearest, path: join(cwd, basename(nearest.path)) };
}

/** Whether a lock in the working folder would be found from a folder: it is above, in the same repository. */
function isFoundFrom(dir: string, cwd: string): boolean {
  for (let place = dir; place !== cwd; place = dirname(place)) {
    if (dirname(place) === place || existsSync(join(place, ".git"))) return false;
  }
  return true;
}
