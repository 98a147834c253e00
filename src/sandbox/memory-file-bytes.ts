import { statfsSync } from "node:fs";
import type { ProcessInfo } from "../process/list-processes.ts";
import { openMemoryOf } from "../process/open-memory-of.ts";
import type { Mount } from "./mounts.ts";

/** What `statfs` says of file systems in memory. */
const inMemory = 0x01021994;
/** What a file costs that has nothing in it, in bytes. */
const emptyFile = 1024;

/**
 * A function that gives how many bytes the files in memory have that a bubblewrap sandbox holds, by what descends from its
 * first process. What cannot be seen counts nothing: then only the sizes of these file systems limit it.
 */
export function memoryFileBytes(
  pid: number,
  mounts: readonly Mount[],
): (descendants: readonly ProcessInfo[]) => number {
  const folders = mounts.filter((mount) => mount.kind === "memory");
  return (descendants) => {
    const inside = descendants.find(({ parent }) => parent === pid);
    if (inside === undefined) return 0;
    return folders.reduce(
      (total, { at, size }) => total + usedBytes(`/proc/${inside.pid}/root${at}`, size),
      openMemoryOf(descendants.map((each) => each.pid)),
    );
  };
}

/** While a sandbox is being made, its folders are still those of this machine, which have another size. */
function usedBytes(path: string, size: number): number {
  try {
    const { type, bsize, blocks, bfree, files, ffree } = statfsSync(path);
    if (type !== inMemory || blocks * bsize !== size) return 0;
    return (blocks - bfree) * bsize + (files - ffree) * emptyFile;
  } catch {
    return 0; // it has ended, or it is not to be seen
  }
}
