import { once } from "node:events";
import { createReadStream, createWriteStream } from "node:fs";
import { stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";
import { Parser, type ReadEntry } from "tar";
import { type Entry, openPromise } from "yauzl";
import { McpvalsError } from "../../core/errors/error.ts";
import { messageOf } from "./files.ts";
import { makeFolder } from "../../files/make-folder.ts";

/** A file or folder of an archive. */
export interface ArchiveEntry {
  /** As written. */
  readonly name: string;
  readonly kind: "file" | "folder";
  /** As the archive says, in bytes. */
  readonly bytes: number;
  readonly executable: boolean;
  /** Called once for a file, before the next entry is asked for. */
  open(): Promise<AsyncIterable<Uint8Array>>;
}

export interface ReadOptions {
  /** What errors call the archive. */
  readonly shown: string;
  readonly signal: AbortSignal;
  /** Bytes that its files may have together. */
  readonly mostBytes: number;
}

/** Gives the entries of an archive. Throws for links, devices and encrypted entries. */
export type ArchiveReader = (path: string, options: ReadOptions) => AsyncIterable<ArchiveEntry>;

export interface ArchiveLimits {
  readonly bytes: number;
  readonly files: number;
}

/** Limits of what is unpacked. */
export const archiveLimits: ArchiveLimits = { bytes: 1024 ** 3, files: 10_000 };
/** Largest ratio of unpacked to packed size. Programs have about 10; only an archive that is meant to fill disks has more than 100. */
const mostRatio = 100;
/** Allowed for archives of any size. */
const alwaysBytes = 64 * 1024 ** 2;

export interface UnpackOptions {
  /** What errors call the archive. */
  readonly shown: string;
  readonly signal: AbortSignal;
  readonly limits?: ArchiveLimits;
}

/** Whether the name of a file is that of a supported archive. */
export function isArchive(name: string): boolean {
  return loaderOf(name) !== undefined;
}

/**
 * Unpacks a `.zip`, `.tar.gz` or `.tgz` into an empty folder, and gives the paths of executable files; other permissions are
 * ignored. Throws McpvalsError `extension/unsafe-archive` for names that leave the folder or collide, links, devices, and
 * exceeded limits; what was written until then stays.
 */
export async function unpackArchive(
  path: string,
  folder: string,
  { shown, signal, limits = archiveLimits }: UnpackOptions,
): Promise<ReadonlySet<string>> {
  const load = loaderOf(path);
  if (load === undefined) throw unsafeArchive(shown, "is neither a zip nor a gzipped tar");
  const read = await load();
  const { size } = await stat(path);
  const mostBytes = Math.min(limits.bytes, Math.max(alwaysBytes, size * mostRatio));
  const writer = new Unpacking({ folder, shown, signal, mostBytes, mostFiles: limits.files });
  try {
    for await (const entry of read(path, { shown, signal, mostBytes })) await writer.add(entry);
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof McpvalsError || isSystemError(error)) throw error;
    throw unsafeArchive(shown, `cannot be unpacked: ${messageOf(error)}`, error);
  }
  if (writer.files === 0) throw unsafeArchive(shown, "has no files");
  return writer.executables;
}

/** Readers are loaded when they are needed, which is seldom. */
function loaderOf(name: string): (() => Promise<ArchiveReader>) | undefined {
  if (/\.zip$/i.test(name)) return async () => (await import("./archive.ts")).readZip;
  if (/\.(tar\.gz|tgz)$/i.test(name)) return async () => (await import("./archive.ts")).readTar;
  return undefined;
}

/** A full disk is not the fault of the archive. Errors of the parsers have no errno. */
function isSystemError(error: unknown): boolean {
  return error instanceof Error && "errno" in error && "syscall" in error;
}

interface UnpackingOptions extends ReadOptions {
  readonly folder: string;
  readonly mostFiles: number;
}

class Unpacking {
  readonly executables = new Set<string>();
  files = 0;
  readonly #options: UnpackingOptions;
  readonly #names: ArchiveNames;
  #entries = 0;
  #bytes = 0;

  constructor(options: UnpackingOptions) {
    this.#options = options;
    this.#names = new ArchiveNames(options.shown);
  }

  async add(entry: ArchiveEntry): Promise<void> {
    const { folder, shown, signal, mostFiles } = this.#options;
    signal.throwIfAborted();
    this.#entries += 1;
    if (this.#entries > mostFiles) throw unsafeArchive(shown, `has more than ${mostFiles} files`);
    const path = this.#names.take(entry.name, entry.kind);
    this.#count(entry.bytes);
    if (entry.kind === "folder") {
      makeFolder(join(folder, path));
      return;
    }
    const target = join(folder, path);
    makeFolder(dirname(target));
    const content = await entry.open();
    // Never overwrites a file.
    const file = createWriteStream(target, { flags: "wx", mode: entry.executable ? 0o755 : 0o644 });
    await pipeline(() => this.#checked(content, entry.bytes), file, { signal });
    this.files += 1;
    if (entry.executable) this.executables.add(path);
  }

  #count(bytes: number): void {
    this.#bytes += bytes;
    const { shown, mostBytes } = this.#options;
    if (this.#bytes > mostBytes) throw tooLarge(shown, mostBytes);
  }

  async *#checked(content: AsyncIterable<Uint8Array>, announced: number): AsyncIterable<Uint8Array> {
    let bytes = 0;
    for await (const chunk of content) {
      bytes += chunk.length;
      if (bytes > announced)
        throw unsafeArchive(this.#options.shown, "has a file that is longer than it says");
      yield chunk;
    }
    if (bytes < announced) throw unsafeArchive(this.#options.shown, "ends in the middle of a file");
  }
}

/**
 * Checks the names of an archive as the strictest file system requires: they stay in their folder, and no two of them are the
 * same without case.
 */
export class ArchiveNames {
  readonly #archive: string;
  /** By name without case. */
  readonly #taken = new Map<string, { readonly path: string; readonly kind: "file" | "folder" }>();

  /** `archive` is what errors call it. */
  constructor(archive: string) {
    this.#archive = archive;
  }

  /** Checks a name, and gives its path without a trailing slash. Throws McpvalsError `extension/unsafe-archive`. */
  take(name: string, kind: "file" | "folder"): string {
    if (Buffer.byteLength(name) > longestName)
      throw unsafeArchive(this.#archive, `has the name ${show(name)}, which is too long`);
    const parts = (kind === "folder" ? name.replace(/\/+$/, "") : name).replace(/^(\.\/)+/, "").split("/");
    if (kind === "folder" && (parts.join("/") === "" || parts.join("/") === ".")) return "";
    const reason = parts.map((part) => problemOf(part)).find((problem) => problem !== undefined);
    if (reason !== undefined)
      throw unsafeArchive(this.#archive, `has the name ${show(name)}, which ${reason}`);
    for (let count = 1; count < parts.length; count += 1) {
      this.#claim(parts.slice(0, count).join("/"), "folder");
    }
    const path = parts.join("/");
    this.#claim(path, kind);
    return path;
  }

  #claim(path: string, kind: "file" | "folder"): void {
    const key = path.normalize("NFC").toLowerCase();
    const earlier = this.#taken.get(key);
    if (earlier === undefined) this.#taken.set(key, { path, kind });
    else if (earlier.path !== path || earlier.kind !== kind || kind === "file") {
      throw unsafeArchive(this.#archive, `has both ${show(earlier.path)} and ${show(path)}`);
    }
  }
}

/** Longest path, and longest part of one, which file systems limit; in bytes. */
const longestName = 1024;
const longestPart = 255;

/** The error `extension/unsafe-archive`: `archive` and `fault` make a sentence. */
export function unsafeArchive(archive: string, fault: string, cause?: unknown): McpvalsError {
  return new McpvalsError("extension/unsafe-archive", `${archive} ${fault}. Nothing of it was kept.`, {
    cause,
  });
}

/** What is wrong with one part of a path, as the end of a sentence. */
function problemOf(part: string): string | undefined {
  if (part === "") return "is absolute or has an empty part";
  if (Buffer.byteLength(part) > longestPart) return "has a part that is too long";
  if (part === "." || part === "..") return "leaves its folder";
  if (part.includes("\\")) return "has a backslash";
  if (part.includes(":")) return "has a colon, as in the name of a drive";
  if (/\p{Cc}/u.test(part)) return "has a control character";
  if (/[. ]$/.test(part)) return "has a part that ends in a dot or a space";
  return /^(con|prn|aux|nul|com\d|lpt\d)(\.|$)/i.test(part) ? "is a device on Windows" : undefined;
}

function show(name: string): string {
  return JSON.stringify(name.length > 200 ? `${name.slice(0, 200)}…` : name);
}

export function tooLarge(shown: string, mostBytes: number): McpvalsError {
  return unsafeArchive(shown, `unpacks to more than ${Math.round(mostBytes / 1024 ** 2)} MB`);
}

/** The entries of a gzipped tar. Throws McpvalsError `extension/unsafe-archive`, and an Error for an invalid file. */
export async function* readTar(path: string, options: ReadOptions): AsyncIterable<ArchiveEntry> {
  const { shown, signal } = options;
  const parser = new Parser({ strict: true });
  const entries = new TarEntries(parser);
  const stop = new AbortController();
  const fed = feed(path, parser, { ...options, signal: AbortSignal.any([stop.signal, signal]) }).catch(
    (error: unknown) => entries.fail(error),
  );
  try {
    for (;;) {
      const entry = await entries.next();
      if (entry === undefined) return;
      yield describeTarEntry(entry, shown);
      entry.resume();
    }
  } finally {
    stop.abort();
    await fed;
  }
}

/** Data behind the end of the archive is not read: it may be endless. */
async function feed(path: string, parser: Parser, { shown, signal, mostBytes }: ReadOptions): Promise<void> {
  let isOver = false;
  let bytes = 0;
  parser.on("eof", () => {
    isOver = true;
  });
  const [file, chunks] = [createReadStream(path, { signal }), createGunzip()];
  file.on("error", (error) => chunks.destroy(error));
  try {
    for await (const chunk of file.pipe(chunks) as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      // Metadata between files has no limit of its own.
      if (bytes > 2 * mostBytes) throw tooLarge(shown, mostBytes);
      if (!parser.write(chunk) && !isOver) await once(parser, "drain", { signal });
      if (isOver) break;
    }
    parser.end();
  } finally {
    file.destroy();
  }
}

/** The entries of a parser, one by one. */
class TarEntries {
  readonly #found: ReadEntry[] = [];
  #state: "reading" | "ended" | { readonly error: unknown } = "reading";
  #current: ReadEntry | undefined;
  #wake: () => void = () => undefined;

  constructor(parser: Parser) {
    const take = (entry: ReadEntry): void => {
      this.#found.push(entry);
      this.#wake();
    };
    parser.on("entry", take);
    // Entries of unknown types are refused later.
    parser.on("ignoredEntry", take);
    parser.on("error", (error: unknown) => this.fail(error));
    parser.on("end", () => {
      if (this.#state === "reading") this.#state = "ended";
      this.#wake();
    });
  }

  /** The next one, once the one before was read; undefined at the end. */
  async next(): Promise<ReadEntry | undefined> {
    this.#current = undefined;
    for (;;) {
      if (typeof this.#state === "object") throw this.#state.error;
      this.#current = this.#found.shift();
      if (this.#current !== undefined || this.#state === "ended") return this.#current;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  fail(error: unknown): void {
    if (this.#state !== "reading") return;
    this.#state = { error };
    // Otherwise the reader of the current entry would wait forever.
    this.#current?.on("error", () => undefined);
    this.#current?.destroy(error);
    this.#wake();
  }
}

function describeTarEntry(entry: ReadEntry, shown: string): ArchiveEntry {
  const { path: name, type, size: bytes, mode = 0 } = entry;
  const kind = kinds[type];
  if (kind === undefined) throw unsafeArchive(shown, `has ${JSON.stringify(name)}, ${titleOf(type)}`);
  return { name, kind, bytes, executable: (mode & 0o111) !== 0, open: () => Promise.resolve(entry) };
}

const kinds: Readonly<Record<string, ArchiveEntry["kind"]>> = {
  File: "file",
  OldFile: "file",
  ContiguousFile: "file",
  Directory: "folder",
};

function titleOf(type: string): string {
  return type === "SymbolicLink" || type === "Link" ? "a link" : "which is neither a file nor a folder";
}

/** The entries of a zip. Throws McpvalsError `extension/unsafe-archive`, and an Error for an invalid file. */
export async function* readZip(path: string, { shown }: ReadOptions): AsyncIterable<ArchiveEntry> {
  const zip = await openPromise(path, { autoClose: false, strictFileNames: true, validateEntrySizes: true });
  try {
    for await (const entry of zip.eachEntry()) {
      yield { ...describeZipEntry(entry, shown), open: () => zip.openReadStreamPromise(entry) };
    }
  } finally {
    zip.close();
  }
}

function describeZipEntry(entry: Entry, shown: string): Omit<ArchiveEntry, "open"> {
  const mode = entry.externalFileAttributes >>> 16;
  const name = entry.fileName;
  if (entry.isEncrypted()) throw unsafeArchive(shown, `has ${JSON.stringify(name)} encrypted`);
  const kind = name.endsWith("/") ? "folder" : "file";
  const type = mode & typeBits;
  if (type === linkType) throw unsafeArchive(shown, `has a link, ${JSON.stringify(name)}`);
  if (type !== 0 && type !== (kind === "file" ? fileType : folderType)) {
    throw unsafeArchive(shown, `has ${JSON.stringify(name)}, which is neither a file nor a folder`);
  }
  return { name, kind, bytes: entry.uncompressedSize, executable: (mode & 0o111) !== 0 };
}

/** File types of Unix in a zip. */
const typeBits = 0o170000;
const linkType = 0o120000;
const fileType = 0o100000;
const folderType = 0o040000;
