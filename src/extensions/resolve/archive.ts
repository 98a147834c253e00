import { createWriteStream } from "node:fs";
import { stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { McpvalsError } from "../../core/errors/error.ts";
import { ArchiveNames, tooLarge, unsafeArchive } from "./archive-names.ts";
import { makeFolder } from "../../files/make-folder.ts";

/** One thing in an archive. */
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

/** Gives the entries of an archive, and the reason why they cannot be: links, devices, what is encrypted. */
export type ArchiveReader = (path: string, options: ReadOptions) => AsyncIterable<ArchiveEntry>;

export interface ArchiveLimits {
  readonly bytes: number;
  readonly files: number;
}

/** Limits of what is unpacked. */
export const archiveLimits: ArchiveLimits = { bytes: 1024 ** 3, files: 10_000 };
/** Programs become a tenth when they are packed; only what fills disks becomes less than a hundredth. */
const mostTimes = 100;
/** So much is allowed whatever the archive's size. */
const alwaysBytes = 64 * 1024 ** 2;

export interface UnpackOptions {
  /** What errors call the archive. */
  readonly shown: string;
  readonly signal: AbortSignal;
  readonly limits?: ArchiveLimits;
}

/** Tells by its name whether a file is an archive that can be unpacked. */
export function isArchive(name: string): boolean {
  return loaderOf(name) !== undefined;
}

/**
 * Unpacks a `.zip`, `.tar.gz` or `.tgz` into a folder that is there and empty. Of permissions only the executable bit is
 * kept. The result is the paths of the files that have it. Throws McpvalsError `extension/unsafe-archive` for names that
 * leave the folder or fall together, links, devices, more than the limits, and more than a hundred times its own size; what was
 * written until then stays.
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
  const mostBytes = Math.min(limits.bytes, Math.max(alwaysBytes, size * mostTimes));
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
  if (/\.zip$/i.test(name)) return async () => (await import("./read-zip.ts")).readZip;
  if (/\.(tar\.gz|tgz)$/i.test(name)) return async () => (await import("./read-tar.ts")).readTar;
  return undefined;
}

/** A full disk is not the archive's fault; errors of reading it have codes without a number, or none. */
function isSystemError(error: unknown): boolean {
  return error instanceof Error && "errno" in error && "syscall" in error;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
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
    // Never over something that is there.
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
