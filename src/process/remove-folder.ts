import { randomUUID } from "node:crypto";
import { chmod, readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";

/** Longer paths may be longer than a system takes. */
const longestPath = 700;

/**
 * Removes a folder of ours with everything in it, also folders that are too deep for a path, or that whoever made them has
 * closed; it may be gone already. Throws what the file system throws.
 */
export async function removeFolder(path: string): Promise<void> {
  const remove = (): Promise<void> => rm(path, { recursive: true, force: true, maxRetries: 5 });
  try {
    await remove();
  } catch {
    await makeReachable(path);
    await remove();
  }
}

/** Opens all folders below one, and moves those up that are deep. */
async function makeReachable(root: string): Promise<void> {
  const folders = [root];
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    await chmod(folder, 0o700);
    for (const entry of await readdir(folder, { withFileTypes: true })) {
      if (!entry.isDirectory()) continue;
      const path = join(folder, entry.name);
      const near = path.length <= longestPath ? path : join(root, randomUUID());
      if (near !== path) await rename(path, near);
      folders.push(near);
    }
  }
}
