import { ByteStore } from "./program-output.ts";

const newline = 0x0a;
const carriageReturn = 0x0d;

export interface LineReaderOptions {
  /** Longest line, in bytes. */
  readonly limit: number;
  readonly onLine: (line: Buffer) => void;
  /** Called once, for a line over the limit; nothing is read any more. */
  readonly onTooLong: () => void;
}

/** Cuts a stream of bytes into lines, without the line ends; holds no more than `limit` bytes of an unfinished line. */
export class LineReader {
  readonly #options: LineReaderOptions;
  readonly #unfinished = new ByteStore();
  #stopped = false;

  constructor(options: LineReaderOptions) {
    this.#options = options;
  }

  push(chunk: Buffer): void {
    let start = 0;
    while (!this.#stopped) {
      const end = chunk.indexOf(newline, start);
      const piece = chunk.subarray(start, end === -1 ? undefined : end);
      if (this.#unfinished.length + piece.length > this.#options.limit) {
        this.stop();
        this.#options.onTooLong();
      } else if (end === -1) {
        this.#unfinished.push(piece);
        return;
      } else {
        this.#finish(piece);
        start = end + 1;
      }
    }
  }

  /** Gives the last line if the stream ended without a line end. */
  end(): void {
    if (!this.#stopped && this.#unfinished.length > 0) this.#finish(Buffer.alloc(0));
    this.stop();
  }

  stop(): void {
    this.#stopped = true;
    this.#unfinished.clear();
  }

  #finish(piece: Buffer): void {
    let line = piece;
    if (this.#unfinished.length > 0) {
      this.#unfinished.push(piece);
      line = this.#unfinished.take();
    }
    this.#options.onLine(line.at(-1) === carriageReturn ? line.subarray(0, -1) : line);
  }
}
