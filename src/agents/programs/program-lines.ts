import type { Emit } from "../../core/trace/events.ts";

export interface ProgramLinesOptions {
  readonly stream: "stdout" | "stderr";
  readonly emit: Emit;
}

/** Recorded of one stream, in bytes. */
const recordedLimit = 256 * 1024;
/** Kept of the end for error messages, in bytes. */
const tailLength = 4096;
/** A piece without a line end is recorded when it has this many bytes. */
const pieceLength = 8192;
const newline = 0x0a;
const empty = Buffer.alloc(0);

/**
 * Records what a program writes as `agent.output`: whole lines, so that no secret is cut in two, up to a limit, then only
 * how much more there was.
 */
export class ProgramLines {
  readonly #options: ProgramLinesOptions;
  #recorded = 0;
  #omitted = 0;
  #unfinished: Buffer = empty;
  #tail: Buffer = empty;

  constructor(options: ProgramLinesOptions) {
    this.#options = options;
  }

  /** The last 4 KiB; undefined when there is nothing. */
  get tail(): string | undefined {
    const text = this.#tail.toString("utf8").trim();
    return text === "" ? undefined : text;
  }

  push(chunk: Buffer): void {
    this.#tail = Buffer.concat([this.#tail, chunk.subarray(-tailLength)]).subarray(-tailLength);
    const taken = chunk.subarray(0, recordedLimit - this.#recorded);
    this.#recorded += taken.length;
    this.#omitted += chunk.length - taken.length;
    if (taken.length > 0) this.#take(taken);
    if (taken.length < chunk.length) this.#dropUnfinished();
  }

  /** Records what has no line end yet, and how much was left out. */
  finish(): void {
    this.#record(this.#unfinished.toString("utf8"));
    this.#unfinished = empty;
    if (this.#omitted > 0) this.#record(`[${this.#omitted} more bytes were left out]\n`);
    this.#omitted = 0;
  }

  #take(bytes: Buffer): void {
    const text = Buffer.concat([this.#unfinished, bytes]);
    const lines = text.lastIndexOf(newline) + 1;
    const end = lines === 0 && text.length > pieceLength ? text.length : lines;
    this.#unfinished = text.subarray(end);
    this.#record(text.toString("utf8", 0, end));
  }

  /** The line that the limit has cut in two is left out as a whole. */
  #dropUnfinished(): void {
    this.#omitted += this.#unfinished.length;
    this.#unfinished = empty;
  }

  #record(text: string): void {
    if (text !== "") this.#options.emit({ type: "agent.output", stream: this.#options.stream, text });
  }
}
