import {
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readSync,
  realpathSync,
  type Stats,
  statSync,
} from "node:fs";
import * as nodeModule from "node:module";
import { dirname, isAbsolute, relative, sep } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { codeOf } from "./error.ts";

/**
 * Creates a folder with its parents, unless it exists. Throws what the file system throws. Node's `recursive` option never returns
 * where nothing can be created, as below /proc.
 */
export function makeFolder(path: string, mode = 0o777): void {
  try {
    mkdirSync(path, { mode });
  } catch (error) {
    if (isFolder(path)) return;
    if (codeOf(error) !== "ENOENT" || dirname(path) === path) throw error;
    makeFolder(dirname(path), mode);
    makeLast(path, mode);
  }
}

/** Another process may have created it meanwhile. */
function makeLast(path: string, mode: number): void {
  try {
    mkdirSync(path, { mode });
  } catch (error) {
    if (!isFolder(path)) throw error;
  }
}

function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false; // the caller rethrows the first error
  }
}

export class FileTooLargeError extends Error {
  constructor(limit: number) {
    super(`it is larger than ${limit / 1024} KiB, the most that such a file may have`);
  }
}

/**
 * Reads a regular file of at most `limit` bytes; links are followed. A pipe or a device, which could be endless or block, is not
 * read, even when it replaces the file meanwhile. Throws {@link FileTooLargeError}, an Error for other problems, and what the file
 * system throws.
 */
export function readRegularFile(path: string, limit: number): Buffer<ArrayBuffer> {
  const file = openRegularFile(path, limit);
  try {
    // Files of the kernel report a size of 0, and others may grow.
    return readUpTo(file, limit, fstatSync(file).size);
  } finally {
    closeSync(file);
  }
}

/** Opens for reading what {@link readRegularFile} reads, and throws what it throws. The caller closes it. */
export function openRegularFile(path: string, limit: number): number {
  // Opening a device can have side effects.
  requireFile(statSync(path));
  // Windows does not have the flag.
  const file = openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  try {
    const stats = fstatSync(file);
    requireFile(stats);
    if (stats.size > limit) throw new FileTooLargeError(limit);
    return file;
  } catch (error) {
    closeSync(file);
    throw error;
  }
}

function requireFile(stats: Stats): void {
  if (!stats.isFile()) throw new Error("it is not a regular file");
}

function readUpTo(file: number, limit: number, size: number): Buffer<ArrayBuffer> {
  const pieces: Buffer<ArrayBuffer>[] = [];
  let total = 0;
  for (let want = size + 1; ; want = pieceBytes) {
    const piece = Buffer.allocUnsafe(want);
    const length = readSync(file, piece, 0, want, null);
    if (length === 0) return joined(pieces, total);
    total += length;
    if (total > limit) throw new FileTooLargeError(limit);
    pieces.push(piece.subarray(0, length));
  }
}

/** Most files are one piece, which is not copied: it may be large. */
function joined(pieces: readonly Buffer<ArrayBuffer>[], total: number): Buffer<ArrayBuffer> {
  const [only, ...others] = pieces;
  return only !== undefined && others.length === 0 ? only : Buffer.concat(pieces, total);
}

const pieceBytes = 64 * 1024;

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
    return undefined; // it cannot be created
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
    return undefined; // it does not exist or is not accessible
  }
}

/** Whether a path is the folder or below it; both absolute, without links. */
export function isInside(folder: string, path: string): boolean {
  const way = relative(folder, path);
  return !isAbsolute(way) && way !== ".." && !way.startsWith(`..${sep}`);
}

/** Codes of what Node refuses before a module runs, and jiti may accept. */
const refusals: readonly unknown[] = [
  "ERR_UNKNOWN_FILE_EXTENSION",
  "ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX",
  "ERR_INVALID_TYPESCRIPT_SYNTAX",
  "ERR_UNSUPPORTED_NODE_MODULES_TYPE_STRIPPING",
  "ERR_MODULE_NOT_FOUND",
  "ERR_UNSUPPORTED_DIR_IMPORT",
  "ERR_IMPORT_ATTRIBUTE_MISSING",
];

/** By path of a config: how often it was imported, and the files that were, itself among them. */
const imported = new Map<string, { readonly version: number; readonly files: ReadonlySet<string> }>();

/**
 * Imports a module with Node, or else with jiti, which knows all of TypeScript and resolves imports as bundlers do. Adds the paths of the
 * files that it imports to `files`; those that have changed since an earlier import are read again.
 */
export async function importModule(file: string, text: string, files: Set<string>): Promise<unknown> {
  const earlier = imported.get(file) ?? { version: 0, files };
  const version = earlier.version + 1;
  imported.set(file, { version, files });
  const { cache } = nodeModule.createRequire(import.meta.url);
  for (const path of earlier.files) delete cache[path];
  try {
    return await importFile(file, { text, version, files });
  } catch (error) {
    // Node says best which export is missing; to jiti it would only be undefined.
    if (!(error instanceof Error) || error.message.includes("does not provide an export")) throw error;
    if (error.name !== "SyntaxError" && !refusals.includes(codeOf(error))) throw error;
  }
  const { createJiti } = await import("jiti");
  for (const path of files) delete cache[path];
  const others = new Set(Object.keys(cache));
  try {
    return await createJiti(import.meta.url, { fsCache: false }).import(file);
  } finally {
    for (const path of Object.keys(cache)) if (!others.has(path) && isOwn(path)) files.add(path);
  }
}

function isOwn(path: string): boolean {
  return !path.split(sep).includes("node_modules");
}

interface ImportOptions {
  readonly text: string;
  /** How often the file was imported, with this import. */
  readonly version: number;
  readonly files: Set<string>;
}

/**
 * Imports a module with Node's own loader. A file that is written as an ES module is taken for one whatever the
 * `package.json` above it says, so that a config works in any project and no warning about its type is printed.
 */
async function importFile(file: string, { text, version, files }: ImportOptions): Promise<unknown> {
  // Node imports a URL once; a file that may have changed since then needs another one.
  const versioned = (url: string): string => (version === 1 ? url : `${url}?version=${version}`);
  const root = versioned(pathToFileURL(file).href);
  // Node 22.13 and 22.14 do not have it; there the package.json decides, and imports are not known.
  if (!("registerHooks" in nodeModule)) return import(root);
  const isModule = /^\s*(?:import|export)\b/m.test(text);
  const format = /\.m?ts$/.test(file) ? "module-typescript" : "module";
  const hooks = nodeModule.registerHooks({
    resolve(specifier, context, next) {
      const found = next(specifier, context);
      const path = pathOf(found.url);
      const importer = pathOf(context.parentURL);
      if (path === undefined || importer === undefined || !files.has(importer) || !isOwn(path)) return found;
      files.add(path);
      return { ...found, url: versioned(pathToFileURL(path).href) };
    },
    load: (target, context, next) =>
      next(target, isModule && target === root ? { ...context, format } : context),
  });
  try {
    return (await import(root)) as unknown;
  } finally {
    hooks.deregister();
  }
}

function pathOf(url: string | undefined): string | undefined {
  return url?.startsWith("file:") === true ? fileURLToPath(url) : undefined;
}
