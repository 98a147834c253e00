import { lstatSync, realpathSync, type Stats, statSync } from "node:fs";
import { dirname } from "node:path";
import { makeFolder } from "./make-folder.ts";

const root = 0;
const writableByOthers = 0o022;
const sticky = 0o1000;
const anythingForOthers = 0o077;

/** The user that this process acts as; undefined where files have no owner that could be compared (Windows). */
export function ownUser(): number | undefined {
  return process.geteuid?.();
}

/** Whose something is; undefined when it is not there. Links are followed. */
export function ownerOf(path: string): number | undefined {
  return statsOf(path, statSync)?.uid;
}

/** Whether there is a link at a path itself. */
export function isLink(path: string): boolean {
  return statsOf(path, lstatSync)?.isSymbolicLink() === true;
}

/**
 * Whether another user may have put there what is at a path: the file or folder, the link to it, or what holds it, belongs
 * neither to this user, nor to one of `owners`, nor to root, who can do anything as this user. False where nothing is, and
 * on Windows.
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
 * Makes a folder that no other user can read or write, unless it is there already, and gives its real path; undefined when there
 * is none: it cannot be made, it is a link or another user's, or others may replace it since a folder above it is open to them.
 * On Windows it has the rights of the folder above it.
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

/** Whether nobody but a user and root can replace what is in a folder, which is a real path. */
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
