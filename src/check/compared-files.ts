import { hash } from "node:crypto";
import { constants, lstatSync, readdirSync } from "node:fs";
import { open } from "node:fs/promises";
import { codeOf } from "../base/error.ts";
import { gitEntries, isGitIndex } from "./git-index.ts";

/** Something among the files that are compared. */
export interface Entry {
  /** Differs after every change, also one of the mode. */
  readonly sign: string;
  /** Whether a change after this look gives another sign: the clock of a file system moves in steps. */
  readonly isSettled: boolean;
  /** The hash of a file; of other things, what they are. */
  readonly content: string;
}

export type Entries = ReadonlyMap<string, Entry>;

/**
 * Everything in a folder, by the path that the server sees, in the order of the paths. Links are not followed: the server may have made
 * them. `outside`: where the folder is; `leftOut`: paths that are not looked at; `known`: the last look. Most files did not change since
 * then, and many are looked at after each call: that is much faster without promises.
 */
export async function readFolder(
  path: string,
  {
    outside,
    leftOut,
    known,
    isCompared,
  }: {
    readonly outside: string;
    readonly leftOut: readonly string[];
    readonly known: Entries;
    readonly isCompared: (path: string) => boolean;
  },
): Promise<Entries> {
  const found = new Map<string, Entry>();
  const read = async (folder: string, at: string): Promise<void> => {
    for (const name of namesIn(at)) {
      const [inside, file] = [`${folder}/${name}`, `${at}/${name}`];
      const stats = leftOut.includes(inside)
        ? undefined
        : lstatSync(file, { bigint: true, throwIfNoEntry: false });
      if (stats === undefined) continue;
      const sign = `${stats.ino} ${stats.ctimeNs} ${stats.size}`;
      const before = known.get(inside);
      const content = stats.isDirectory()
        ? "folder"
        : !stats.isFile() || !isCompared(inside)
          ? "other"
          : before?.isSettled === true && before.sign === sign
            ? before.content
            : await hashOf(file);
      if (content === undefined) continue;
      found.set(inside, { sign, isSettled: Date.now() - Number(stats.ctimeMs) > clockStepMs, content });
      if (stats.isDirectory()) await read(inside, file);
    }
  };
  await read(path, outside);
  return found;
}

/** The names in a folder, in order; none where it is gone meanwhile, or may not be read. */
function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder).toSorted();
  } catch {
    return [];
  }
}

/** The longest step of the clock of a file system, in milliseconds, with some to spare. */
const clockStepMs = 50;

/** The hash of a file; of one that cannot be read, or became something else, that; undefined: it is gone. */
async function hashOf(path: string): Promise<string | undefined> {
  try {
    await using file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    if (!(await file.stat()).isFile()) return "other";
    const content = await file.readFile();
    return hash("sha256", isGitIndex(path) ? (gitEntries(content) ?? content) : content);
  } catch (error) {
    const code = codeOf(error);
    return code === "ENOENT" ? undefined : (code ?? "unreadable");
  }
}
