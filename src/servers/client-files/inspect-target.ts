import type { Stats } from "node:fs";
import { lstat, realpath } from "node:fs/promises";
import { dirname, isAbsolute, join, relative, sep } from "node:path";
import { readRegularFile } from "../../files/read-file.ts";
import { clientConfigError, codeOf, reasonOf } from "./failure.ts";
import { backupOf } from "./journal.ts";

/** In bytes; a client's own file can hold more than servers. */
const largestFile = 1024 * 1024;

/** What is at the place of a client's file before it is written. */
export interface Target {
  readonly path: string;
  /** Undefined when there is no file yet. */
  readonly text: string | undefined;
  readonly hasFolder: boolean;
}

/**
 * Looks at the place of a file in a folder, which is absolute and without links. Throws McpvalsError `agent/client-config`
 * for what is no file, for a link that leads out of the folder, and for what cannot be read.
 */
export async function inspectTarget(folder: string, file: string): Promise<Target> {
  const path = join(folder, ...file.split("/"));
  const hasFolder = await inspectFolder(folder, dirname(path));
  const found = hasFolder ? await look(path) : undefined;
  if (hasFolder && (await look(backupOf(path))) !== undefined) {
    throw clientConfigError(`${backupOf(path)} is in the way`, {
      hint: "It is what an earlier run kept and could not put back: rename it to what it was, or remove it.",
    });
  }
  if (found === undefined) return { path, text: undefined, hasFolder };
  if (found.isSymbolicLink()) await requireInside(folder, path);
  else if (!found.isFile()) throw clientConfigError(`${path} is not a file`);
  return { path, text: readText(path), hasFolder };
}

/** Of a folder in a folder: whether it is there. */
async function inspectFolder(folder: string, path: string): Promise<boolean> {
  const found = await look(path);
  if (found === undefined) return false;
  if (found.isSymbolicLink()) await requireInside(folder, path);
  else if (!found.isDirectory()) throw clientConfigError(`${path} is not a folder`);
  return true;
}

async function requireInside(folder: string, path: string): Promise<void> {
  let real: string;
  try {
    real = await realpath(path);
  } catch (error) {
    throw clientConfigError(`${path} is a link that leads nowhere`, { cause: error });
  }
  const way = relative(folder, real);
  if (way !== ".." && !way.startsWith(`..${sep}`) && !isAbsolute(way)) return;
  throw clientConfigError(`${path} is a link that leads out of ${folder}`, {
    hint: "Files outside the folder are not touched; put a copy in the place of the link, or choose another folder.",
  });
}

async function look(path: string): Promise<Stats | undefined> {
  try {
    return await lstat(path);
  } catch (error) {
    if (codeOf(error) === "ENOENT" || codeOf(error) === "ENOTDIR") return undefined;
    throw clientConfigError(`cannot look at ${path}: ${reasonOf(error)}`, { cause: error });
  }
}

function readText(path: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(
      readRegularFile(path, largestFile),
    );
  } catch (error) {
    throw clientConfigError(`cannot read ${path}: ${reasonOf(error)}`, { cause: error });
  }
}
