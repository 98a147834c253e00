import { shortened } from "../../base/visible-text.ts";
import { once } from "node:events";
import { createReadStream, createWriteStream } from "node:fs";
import { stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";
import type { ReadEntry } from "tar";
import { McpvalsError, messageOf } from "../../base/error.ts";
import { makeFolder } from "../../base/files.ts";

type Kind = "file" | "folder";

interface ArchiveEntry {
  /** As written. */
  readonly name: string;
  readonly kind: Kind;
  /** As the archive says, in bytes. */
  readonly bytes: number;
  readonly executable: boolean;
  /** Called at most once, before the next entry is asked for. */
  open(): Promise<AsyncIterable<Uint8Array>>;
}

interface ReadOptions {
  /** What errors call the archive. */
  readonly shown: string;
  readonly signal: AbortSignal;
  /** Bytes that its files may have together. */
  readonly maxBytes: number;
}

export const archiveLimits = { bytes: 1024 ** 3, files: 10_000 };
/** Largest ratio of unpacked to packed size. Programs have about 10; only an archive that is meant to fill disks has more than 100. */
const maxRatio = 100;
/** Allowed for archives of any size. */
const alwaysBytes = 64 * 1024 ** 2;
/** Longest path, and longest part of one, which file systems limit; in bytes. */
const maxNameLength = 1024;
const maxPartLength = 255;

/** Whether the name of a file is that of a supported archive. */
export function isArchive(name: string): boolean {
  return /\.(?:zip|tar\.gz|tgz)$/i.test(name);
}

/** The error `extension/unsafe-archive`: `archive` and `fault` make a sentence. */
export function unsafeArchive(archive: string, fault: string, cause?: unknown): McpvalsError {
  return new McpvalsError("extension/unsafe-archive", `${archive} ${fault}. Nothing of it was kept.`, {
    cause,
  });
}

/**
 * Unpacks a `.zip`, `.tar.gz` or `.tgz` into an empty folder, and gives the paths of executable files; other permissions are
 * ignored. Throws McpvalsError `extension/unsafe-archive` for names that leave the folder or collide, links, devices, and
 * exceeded limits; what was written until then stays.
 */
export async function unpackArchive(
  path: string,
  folder: string,
  options: { readonly shown: string; readonly signal: AbortSignal; readonly limits?: typeof archiveLimits },
): Promise<ReadonlySet<string>> {
  const { shown, signal, limits = archiveLimits } = options;
  const { size } = await stat(path);
  const maxBytes = Math.min(limits.bytes, Math.max(alwaysBytes, size * maxRatio));
  const executables = new Set<string>();
  const checkName = nameChecker(shown);
  let [entries, files, total] = [0, 0, 0];
  const read = /\.zip$/i.test(path) ? readZip : readTar;
  try {
    for await (const entry of read(path, { shown, signal, maxBytes })) {
      signal.throwIfAborted();
      entries += 1;
      if (entries > limits.files) throw unsafeArchive(shown, `has more than ${limits.files} files`);
      const name = checkName(entry.name, entry.kind);
      total += entry.bytes;
      if (total > maxBytes) throw tooLarge(shown, maxBytes);
      const target = join(folder, name);
      makeFolder(entry.kind === "folder" ? target : dirname(target));
      if (entry.kind === "folder") continue;
      const content = withLength(await entry.open(), entry.bytes, shown);
      // Never overwrites a file.
      const file = createWriteStream(target, { flags: "wx", mode: entry.executable ? 0o755 : 0o644 });
      await pipeline(content, file, { signal });
      files += 1;
      if (entry.executable) executables.add(name);
    }
  } catch (error) {
    signal.throwIfAborted();
    // A full disk is not the fault of the archive. Errors of the parsers have no errno.
    const isSystemError = error instanceof Error && "errno" in error && "syscall" in error;
    if (error instanceof McpvalsError || isSystemError) throw error;
    throw unsafeArchive(shown, `cannot be unpacked: ${messageOf(error)}`, error);
  }
  if (files === 0) throw unsafeArchive(shown, "has no files");
  return executables;
}

/** Throws unless the content has exactly the announced number of bytes. */
async function* withLength(
  content: AsyncIterable<Uint8Array>,
  announced: number,
  shown: string,
): AsyncIterable<Uint8Array> {
  let bytes = 0;
  for await (const chunk of content) {
    bytes += chunk.length;
    if (bytes > announced) throw unsafeArchive(shown, "has a file that is longer than it says");
    yield chunk;
  }
  if (bytes < announced) throw unsafeArchive(shown, "ends in the middle of a file");
}

function tooLarge(shown: string, maxBytes: number): McpvalsError {
  return unsafeArchive(shown, `unpacks to more than ${Math.round(maxBytes / 1024 ** 2)} MB`);
}

/**
 * Makes a function that checks the names of one archive as the strictest file system requires, and gives their paths without a
 * trailing slash: they stay in their folder, and no two of them are the same without case. It throws McpvalsError
 * `extension/unsafe-archive`.
 */
export function nameChecker(archive: string): (name: string, kind: Kind) => string {
  /** By path without case. */
  const taken = new Map<string, { readonly path: string; readonly kind: Kind }>();
  const claim = (path: string, kind: Kind): void => {
    const key = path.normalize("NFC").toLowerCase();
    const earlier = taken.get(key);
    if (earlier === undefined) taken.set(key, { path, kind });
    else if (earlier.path !== path || earlier.kind !== kind || kind === "file") {
      throw unsafeArchive(archive, `has both ${show(earlier.path)} and ${show(path)}`);
    }
  };
  return (name, kind) => {
    const parts = (kind === "folder" ? name.replace(/\/+$/, "") : name).replace(/^(\.\/)+/, "").split("/");
    const path = parts.join("/");
    if (kind === "folder" && (path === "" || path === ".")) return "";
    const isTooLong = Buffer.byteLength(name) > maxNameLength;
    const fault = isTooLong ? "is too long" : parts.map(faultOf).find((each) => each !== undefined);
    if (fault !== undefined) throw unsafeArchive(archive, `has the name ${show(name)}, which ${fault}`);
    for (const index of parts.keys()) if (index > 0) claim(parts.slice(0, index).join("/"), "folder");
    claim(path, kind);
    return path;
  };
}

/** What is wrong with one part of a path, as the end of a sentence. */
function faultOf(part: string): string | undefined {
  if (part === "") return "is absolute or has an empty part";
  if (Buffer.byteLength(part) > maxPartLength) return "has a part that is too long";
  if (part === "." || part === "..") return "leaves its folder";
  if (part.includes("\\")) return "has a backslash";
  if (part.includes(":")) return "has a colon, as in the name of a drive";
  if (/\p{Cc}/u.test(part)) return "has a control character";
  if (/[. ]$/.test(part)) return "has a part that ends in a dot or a space";
  return /^(con|prn|aux|nul|com\d|lpt\d)(\.|$)/i.test(part) ? "is a device on Windows" : undefined;
}

function show(name: string): string {
  return JSON.stringify(shortened(name, 200));
}

/** The entries of a gzipped tar. Throws McpvalsError `extension/unsafe-archive`, and an Error for an invalid file. */
async function* readTar(path: string, { shown, signal, maxBytes }: ReadOptions): AsyncIterable<ArchiveEntry> {
  const { Parser } = await import("tar");
  const parser = new Parser({ strict: true });
  const stop = new AbortController();
  let isOver = false;
  let current: ReadEntry | undefined;
  let fail: ((error: unknown) => void) | undefined;
  const entries = new ReadableStream<ReadEntry>({
    start(controller) {
      fail = (error) => {
        controller.error(error);
        // Otherwise the reader of the current entry would wait forever.
        current?.on("error", () => undefined);
        current?.destroy(error);
      };
      parser.on("entry", (entry) => controller.enqueue(entry));
      // Entries of unknown types are refused below.
      parser.on("ignoredEntry", (entry) => controller.enqueue(entry));
      parser.on("error", (error) => fail?.(error));
      parser.on("end", () => controller.close());
      parser.on("eof", () => {
        isOver = true;
      });
    },
  });
  const feed = async (): Promise<void> => {
    const both = AbortSignal.any([stop.signal, signal]);
    const [file, chunks] = [createReadStream(path, { signal: both }), createGunzip()];
    file.on("error", (error) => chunks.destroy(error));
    let bytes = 0;
    try {
      for await (const chunk of file.pipe(chunks) as AsyncIterable<Buffer>) {
        bytes += chunk.length;
        // Metadata between files has no limit of its own.
        if (bytes > 2 * maxBytes) throw tooLarge(shown, maxBytes);
        if (!parser.write(chunk) && !isOver) await once(parser, "drain", { signal: both });
        // Data behind the end of the archive may be endless.
        if (isOver) break;
      }
      parser.end();
    } finally {
      file.destroy();
    }
  };
  const fed = feed().catch((error: unknown) => fail?.(error));
  try {
    for await (const entry of entries) {
      current = entry;
      const { path: name, type, size: bytes, mode = 0 } = entry;
      const kind = tarKinds[type];
      if (kind === undefined) {
        const isLink = type === "SymbolicLink" || type === "Link";
        const what = isLink ? "a link" : "which is neither a file nor a folder";
        throw unsafeArchive(shown, `has ${JSON.stringify(name)}, ${what}`);
      }
      yield { name, kind, bytes, executable: (mode & 0o111) !== 0, open: async () => entry };
      current = undefined;
      entry.resume();
    }
  } finally {
    stop.abort();
    await fed;
  }
}

const tarKinds: Readonly<Record<string, Kind>> = {
  File: "file",
  OldFile: "file",
  ContiguousFile: "file",
  Directory: "folder",
};

const zipTypes = { mask: 0o170000, link: 0o120000, file: 0o100000, folder: 0o040000 };

/** The entries of a zip. Throws McpvalsError `extension/unsafe-archive`, and an Error for an invalid file. */
async function* readZip(path: string, { shown }: ReadOptions): AsyncIterable<ArchiveEntry> {
  const { openPromise } = await import("yauzl");
  const zip = await openPromise(path, { autoClose: false, strictFileNames: true, validateEntrySizes: true });
  try {
    for await (const entry of zip.eachEntry()) {
      const name = entry.fileName;
      const mode = entry.externalFileAttributes >>> 16;
      const type = mode & zipTypes.mask;
      const kind = name.endsWith("/") ? "folder" : "file";
      if (entry.isEncrypted()) throw unsafeArchive(shown, `has ${JSON.stringify(name)} encrypted`);
      if (type === zipTypes.link) throw unsafeArchive(shown, `has a link, ${JSON.stringify(name)}`);
      if (type !== 0 && type !== zipTypes[kind]) {
        throw unsafeArchive(shown, `has ${JSON.stringify(name)}, which is neither a file nor a folder`);
      }
      const open = (): Promise<AsyncIterable<Uint8Array>> => zip.openReadStreamPromise(entry);
      yield { name, kind, bytes: entry.uncompressedSize, executable: (mode & 0o111) !== 0, open };
    }
  } finally {
    zip.close();
  }
}
