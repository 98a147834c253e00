import { realpath } from "node:fs/promises";
import { resolve } from "node:path";
import { McpvalsError } from "../core/errors/error.ts";
import { isInside } from "./is-inside.ts";

/** A file or folder of this machine that is shown inside at a path, which is absolute. */
export interface ListedMount {
  readonly kind: "read" | "write";
  readonly at: string;
  /** Where it really is. */
  readonly source: string;
}

/**
 * What a confinement lists, at its paths and, when links lead to it, also where it really is: programs ask for both. What is
 * to be read but lies in what may be written is left out: a program that ran there before could have put a link to anything
 * in its place. Throws McpvalsError `server/spawn-failed` for what is not there.
 */
export async function listedMounts(
  read: readonly string[],
  write: readonly string[],
): Promise<{ readonly readable: readonly ListedMount[]; readonly writable: readonly ListedMount[] }> {
  const writable = await each("write", write);
  const outside = read.filter((path) => !writable.some(({ at }) => isInside(resolve(path), at)));
  return { readable: await each("read", outside), writable };
}

/** Each path once. */
async function each(kind: ListedMount["kind"], paths: readonly string[]): Promise<readonly ListedMount[]> {
  const mounts = (await Promise.all(paths.map((path) => listed(kind, path)))).flat();
  return [...new Map(mounts.map((mount) => [mount.at, mount])).values()];
}

async function listed(kind: ListedMount["kind"], path: string): Promise<readonly ListedMount[]> {
  try {
    const source = await realpath(path);
    return [...new Set([resolve(path), source])].map((at) => ({ kind, at, source }));
  } catch (cause) {
    throw new McpvalsError("server/spawn-failed", `the sandbox cannot show ${path}: it is not there`, {
      hint: "Check the paths that the sandbox lists.",
      cause,
    });
  }
}
