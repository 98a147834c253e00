import { ByteStore } from "./byte-store.ts";

/** Recorded of one stream, in bytes. */
const recordedLimit = 256 * 1024;
const newline = 0x0a;

/**
 * Gives what a program writes in whole lines, so that no secret is cut in two: all of it at first, then only how much it
 * was, so that a flood costs nothing.
 */
export class WholeLines {
  readonly #give: (text: string) => void;
  #taken = 0;
  #omitted = 0;
  readonly #unfinished = new ByteStore();

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
    if (this.#unfinished.length > 0) this.#give(this.#unfinished.take().toString("utf8"));
  }

  /** Gives the rest; the result is how many bytes were left out since the last time. */
  finish(): number {
    this.flush();
    const omitted = this.#omitted;
    this.#omitted = 0;
    return omitted;
  }

  #take(bytes: Buffer): void {
    const end = bytes.lastIndexOf(newline) + 1;
    this.#unfinished.push(bytes.subarray(0, end));
    if (end > 0) this.flush();
    this.#unfinished.push(bytes.subarray(end));
  }

  /** The line that the limit has cut in two is left out as a whole. */
  #dropUnfinished(): void {
    this.#omitted += this.#unfinished.length;
    this.#unfinished.clear();
  }
}
