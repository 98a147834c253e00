import { once } from "node:events";
import { createReadStream } from "node:fs";
import { createGunzip } from "node:zlib";
import { Parser, type ReadEntry } from "tar";
import { tooLarge, unsafeArchive } from "./archive-names.ts";
import type { ArchiveEntry, ReadOptions } from "./archive.ts";

/** The entries of a gzipped tar. Throws McpvalsError `extension/unsafe-archive`, and an Error for what is no tar. */
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
      yield describe(entry, shown);
      entry.resume();
    }
  } finally {
    stop.abort();
    await fed;
  }
}

/** What comes behind the end of the archive is not read: it may be endless. */
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
      // Notes about files, of which there can be any number, are no files.
      if (bytes > 2 * mostBytes) throw tooLarge(shown, mostBytes);
      if (!parser.write(chunk) && !isOver) await once(parser, "drain", { signal });
      if (isOver) break;
    }
    parser.end();
  } finally {
    file.destroy();
  }
}

/** What a parser finds, to be asked for one by one. */
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
    // What the parser knows no meaning of is refused when its turn comes.
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
    // Whoever is reading an entry would wait for its end forever.
    this.#current?.on("error", () => undefined);
    this.#current?.destroy(error);
    this.#wake();
  }
}

function describe(entry: ReadEntry, shown: string): ArchiveEntry {
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
