import { createHash, hash } from "node:crypto";
import { closeSync, createReadStream, fstatSync, lstatSync, openSync, readFileSync, readSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate as turn } from "node:timers/promises";
import { McpvalsError } from "../../core/errors/error.ts";
import { runningPlatform } from "../../process/environment.ts";
import { hasCode } from "./errors.ts";

/** A file in a folder. */
export interface TreeFile {
  /** Relative, with slashes. */
  readonly path: string;
  /** SHA-256 in hex. */
  readonly hash: string;
  readonly executable: boolean;
  readonly bytes: number;
}

export interface Tree {
  /** `sha256:HEX` over the names, the executable bits and the content of all files; empty folders do not count. */
  readonly hash: string;
  /** In the order of their paths. */
  readonly files: readonly TreeFile[];
  /** Whether the files and folders are, as far as the file system tells, what they were when they were read. */
  readonly isUntouched: () => boolean;
}

export interface TreeOptions {
  /** Paths of the files that were made executable: where the system keeps no such bit, they count as it. */
  readonly executables: ReadonlySet<string>;
  readonly signal: AbortSignal;
}

/**
 * Reads every file of a folder. Throws McpvalsError `extension/integrity` when it has anything but files and folders:
 * a link could lead anywhere.
 */
export async function hashTree(folder: string, options: TreeOptions): Promise<Tree> {
  const stamps = new Map<string, string>();
  const paths = (await listFiles(folder, stamps)).sort(byCodeUnits);
  const files: TreeFile[] = [];
  for (const path of paths) {
    if (files.length % filesInTurn === 0) await turn();
    options.signal.throwIfAborted();
    files.push(await hashFile(folder, path, options));
  }
  const lines = files.map(
    ({ path, hash, executable }) => `${executable ? "x" : "-"} ${hash} ${JSON.stringify(path)}\n`,
  );
  return {
    hash: `sha256:${hash("sha256", lines.join(""))}`,
    files,
    isUntouched: () => [...stamps].every(([path, stamp]) => stampOf(path) === stamp),
  };
}

/**
 * What changes with every change of a file, or of what is in a folder: nobody but root can set the time of the last change back.
 * Undefined for what is not there.
 */
function stampOf(path: string): string | undefined {
  const found = lstatSync(path, { bigint: true, throwIfNoEntry: false });
  return found && `${found.dev} ${found.ino} ${found.size} ${found.mode} ${found.ctimeNs}`;
}

/**
 * Reading is synchronous, several times as fast for many small files, and before anything that it could keep waiting has
 * begun; others get their turn after so many files.
 */
const filesInTurn = 50;
/** Files up to this size are read at once, larger ones in pieces of it. */
const pieceBytes = 1024 * 1024;

/** Paths of all files below a folder, relative and with slashes. What it meets is put into `stamps`. */
export async function listFiles(folder: string, stamps = new Map<string, string>()): Promise<string[]> {
  stamps.set(folder, stampOf(folder) ?? "");
  const entries = await readdir(folder, { withFileTypes: true });
  const found = await Promise.all(
    entries.map(async (entry) => {
      const path = join(folder, entry.name);
      if (entry.isFile()) {
        stamps.set(path, stampOf(path) ?? "");
        return [entry.name];
      }
      if (!entry.isDirectory()) throw notPlain(path);
      const below = await listFiles(path, stamps);
      return below.map((path) => `${entry.name}/${path}`);
    }),
  );
  return found.flat();
}

/** `sha256:HEX` */
export function hashBytes(content: Uint8Array): string {
  return `sha256:${hash("sha256", content)}`;
}

function notPlain(path: string): McpvalsError {
  return new McpvalsError(
    "extension/integrity",
    `${path} is neither a file nor a folder, and an extension has nothing else. Nothing of it was run.`,
    { hint: "Find out who put it there; then remove that version and fetch it again." },
  );
}

async function hashFile(folder: string, path: string, options: TreeOptions): Promise<TreeFile> {
  const file = openSync(join(folder, path), "r");
  try {
    const { size, mode } = fstatSync(file);
    const executable = runningPlatform() === "win32" ? options.executables.has(path) : (mode & 0o100) !== 0;
    if (size <= pieceBytes) {
      const content = readFileSync(file);
      return { path, hash: hash("sha256", content), executable, bytes: content.length };
    }
    return { path, executable, ...(await hashPieces(file, options.signal)) };
  } finally {
    closeSync(file);
  }
}

async function hashPieces(file: number, signal: AbortSignal): Promise<{ hash: string; bytes: number }> {
  const sum = createHash("sha256");
  const piece = Buffer.allocUnsafe(pieceBytes);
  for (let bytes = 0; ;) {
    const length = readSync(file, piece, 0, pieceBytes, bytes);
    if (length === 0) return { hash: sum.digest("hex"), bytes };
    sum.update(piece.subarray(0, length));
    bytes += length;
    await turn();
    signal.throwIfAborted();
  }
}

/** Not the order of a language, which differs between machines. */
function byCodeUnits(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

/** `sha256:HEX` of a program; undefined for one that may be run but not read. */
export async function programHash(path: string): Promise<string | undefined> {
  const sum = createHash("sha256");
  try {
    for await (const piece of createReadStream(path)) sum.update(piece as Buffer);
  } catch (error) {
    if (hasCode(error, "EACCES", "EPERM")) return undefined;
    throw error;
  }
  return `sha256:${sum.digest("hex")}`;
}
