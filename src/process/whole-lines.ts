/** Recorded of one stream, in bytes. */
const recordedLimit = 256 * 1024;
/** A piece without a line end is given when it has this many bytes. */
const pieceLength = 8192;
const newline = 0x0a;
const empty = Buffer.alloc(0);

/**
 * Gives what a program writes in whole lines, so that no secret is cut in two: all of it at first, then only how much it
 * was, so that a flood costs nothing.
 */
export class WholeLines {
  readonly #give: (text: string) => void;
  #taken = 0;
  #omitted = 0;
  #unfinished: Buffer = empty;

  /** `give` gets one line or more at a time, and never an empty text. */
  constructor(give: (text: string) => void) {
    this.#give = give;
  }

  push(chunk: Buffer): void {
    const taken = chunk.subarray(0, recordedLimit - this.#taken);
    this.#taken += taken.length;
    this.#omitted += chunk.length - taken.length;
    if (taken.length > 0) this.#take(taken);
    if (taken.length < chunk.length) this.#dropUnfinished();
  }

  /** Gives what has come so far without a line end. */
  flush(): void {
    this.#giveBytes(this.#unfinished);
    this.#unfinished = empty;
  }

  /** Gives the rest; the result is how many bytes were left out since the last time. */
  finish(): number {
    this.flush();
    const omitted = this.#omitted;
    this.#omitted = 0;
    return omitted;
  }

  #take(bytes: Buffer): void {
    const text = Buffer.concat([this.#unfinished, bytes]);
    const lines = text.lastIndexOf(newline) + 1;
    const end = lines === 0 && text.length > pieceLength ? text.length : lines;
    this.#unfinished = text.subarray(end);
    this.#giveBytes(text.subarray(0, end));
  }

  /** The line that the limit has cut in two is left out as a whole. */
  #dropUnfinished(): void {
    this.#omitted += this.#unfinished.length;
    this.#unfinished = empty;
  }

  #giveBytes(bytes: Buffer): void {
    if (bytes.length > 0) this.#give(bytes.toString("utf8"));
  }
}
