import { lstatSync, realpathSync, type Stats, statSync } from "node:fs";
import { dirname } from "node:path";
import { makeFolder } from "./make-folder.ts";

const root = 0;
const writableByOthers = 0o022;
const sticky = 0o1000;
const anythingForOthers = 0o077;

/** The effective user of this process; undefined on Windows, where files have no comparable owner. */
export function ownUser(): number | undefined {
  return process.geteuid?.();
}

/** The owner of a file or folder; undefined when it does not exist. Links are followed. */
export function ownerOf(path: string): number | undefined {
  return statsOf(path, statSync)?.uid;
}

/** Whether a path is a symbolic link. */
export function isLink(path: string): boolean {
  return statsOf(path, lstatSync)?.isSymbolicLink() === true;
}

/**
 * Whether another user may have created what is at a path: the file or folder, the link to it, or its parent belongs neither to
 * this user, nor to one of `owners`, nor to root. False where nothing exists, and on Windows.
 */
export function isForeign(path: string, owners: readonly (number | undefined)[] = []): boolean {
  const self = ownUser();
  if (self === undefined) return false;
  const known = new Set([root, self, ...owners]);
  const found = [statsOf(path, lstatSync), statsOf(path, statSync)];
  if (found.every((stats) => stats === undefined)) return false;
  return [...found, statsOf(dirname(path), statSync)].some(
    (stats) => stats !== undefined && !known.has(stats.uid),
  );
}

/**
 * Creates a folder that no other user can read or write, unless it exists, and gives its real path; undefined when it cannot be
 * created, is a link or another user's, or could be replaced by others, who can write to a folder above it. On Windows it has the
 * permissions of its parent.
 */
export function privateFolder(path: string): string | undefined {
  try {
    makeFolder(path, 0o700);
    const found = lstatSync(path);
    const self = ownUser();
    if (self === undefined) return found.isDirectory() ? path : undefined;
    const isOurs = found.isDirectory() && found.uid === self && (found.mode & anythingForOthers) === 0;
    const real = realpathSync(path);
    return isOurs && isSafeBelow(dirname(real), self) ? real : undefined;
  } catch {
    return undefined; // whatever keeps it from being made, there is none
  }
}

/** Whether only a user and root can replace the contents of a folder, given by its real path. */
function isSafeBelow(folder: string, self: number): boolean {
  const { uid, mode } = lstatSync(folder);
  const isKept = (mode & writableByOthers) === 0 || (mode & sticky) !== 0;
  if (!isKept || (uid !== root && uid !== self)) return false;
  return dirname(folder) === folder || isSafeBelow(dirname(folder), self);
}

function statsOf(path: string, read: (path: string) => Stats): Stats | undefined {
  try {
    return read(path);
  } catch {
    return undefined; // not there, or not for us to see
  }
}
