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
  #parts: Buffer[] = [];
  #length = 0;
  #stopped = false;

  constructor(options: LineReaderOptions) {
    this.#options = options;
  }

  push(chunk: Buffer): void {
    let start = 0;
    while (!this.#stopped) {
      const end = chunk.indexOf(newline, start);
      const piece = chunk.subarray(start, end === -1 ? undefined : end);
      if (this.#length + piece.length > this.#options.limit) {
        this.stop();
        this.#options.onTooLong();
      } else if (end === -1) {
        if (piece.length > 0) this.#hold(piece);
        return;
      } else {
        this.#finish(piece);
        start = end + 1;
      }
    }
  }

  /** Gives the last line if the stream ended without a line end. */
  end(): void {
    if (!this.#stopped && this.#length > 0) this.#finish(Buffer.alloc(0));
    this.stop();
  }

  stop(): void {
    this.#stopped = true;
    this.#parts = [];
    this.#length = 0;
  }

  #hold(piece: Buffer): void {
    this.#parts.push(piece);
    this.#length += piece.length;
  }

  #finish(piece: Buffer): void {
    let line = piece;
    if (this.#length > 0) {
      this.#hold(piece);
      line = Buffer.concat(this.#parts);
      this.#parts = [];
      this.#length = 0;
    }
    this.#options.onLine(line.at(-1) === carriageReturn ? line.subarray(0, -1) : line);
  }
}
