import { realpathSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { basename, resolve } from "node:path";
import type { StdioServerSpec } from "../model/server.ts";
import { isInside } from "../sandbox/mounts.ts";
import { plantedFolders } from "./canaries.ts";
import { type CopyLimits, isSmall } from "./folder-copies.ts";

/** Of a larger folder the server sees the original, and cannot write it. */
const givenLimits: CopyLimits = { files: 2000, bytes: 64 * 1024 ** 2, nested: true };

/** A folder among the arguments of a server. */
export interface GivenFolder {
  /** Which argument it is; -1: none, the server was given no folder. */
  readonly index: number;
  /** Undefined: an empty folder. */
  readonly source: string | undefined;
  /** How it is called in reports: as in the arguments. */
  readonly label: string;
  /** Where the server sees the copy. */
  readonly path: string;
}

/** The folders of a server, at least one; the first has the planted files. Throws errors of the file system. */
export async function givenFolders({
  args,
  cwd,
}: Pick<StdioServerSpec, "args" | "cwd">): Promise<readonly GivenFolder[]> {
  const found: GivenFolder[] = [];
  for (const [index, arg] of args.entries()) {
    if (statSync(resolve(cwd, arg), { throwIfNoEntry: false })?.isDirectory() !== true) continue;
    const source = realpathSync(resolve(cwd, arg));
    const isSecret = isInside(realpathSync(homedir()), source);
    if (!isSecret && !(await isSmall(source, givenLimits))) continue;
    const label = arg.replace(/(?<=.)\/+$/, "");
    // The home folder has the secrets of its user.
    const copied = isSecret ? undefined : source;
    found.push({
      index,
      source: copied,
      label,
      path: `${plantedFolders}/${index}/${basename(source) || "root"}`,
    });
  }
  if (found.length > 0) return found;
  return [{ index: -1, source: undefined, label: "{workspace}", path: `${plantedFolders}/workspace` }];
}
