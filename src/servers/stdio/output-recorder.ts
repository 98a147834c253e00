import type { Emit } from "../../core/trace/events.ts";

export interface OutputRecorderOptions {
  readonly server: string;
  readonly emit: Emit;
}

/** Recorded of a server's stderr in one trial, in bytes. */
const stderrLimit = 256 * 1024;
/** Kept of the end of stderr for error messages, in bytes. */
const tailLength = 4096;
/** A piece of stderr without a line end is recorded when it has this many bytes. */
const pieceLength = 8192;
/** Recorded of what stands on stdout and is no message. */
const invalidLineLimit = 50;
const invalidLineLength = 2000;

const newline = 0x0a;
const empty = Buffer.alloc(0);

/** Records what a server writes besides MCP: all of it at first, then only how much, so that a flood costs nothing. */
export class OutputRecorder {
  readonly #options: OutputRecorderOptions;
  #recorded = 0;
  #omitted = 0;
  #unfinished: Buffer = empty;
  #tail: Buffer = empty;
  #invalidLines = 0;
  #invalidOmitted = 0;
  #firstInvalidLine: string | undefined;

  constructor(options: OutputRecorderOptions) {
    this.#options = options;
  }

  /** The last 4 KiB of stderr; undefined when it is empty. */
  get stderrTail(): string | undefined {
    const text = this.#tail.toString("utf8").trim();
    return text === "" ? undefined : text;
  }

  get firstInvalidLine(): string | undefined {
    return this.#firstInvalidLine;
  }

  /** Takes a piece of stderr. Whole lines are recorded together, so that no secret is cut in two. */
  stderr(chunk: Buffer): void {
    const last = chunk.subarray(-tailLength);
    this.#tail = Buffer.concat([this.#tail.subarray(last.length - tailLength), last]).subarray(-tailLength);
    const room = stderrLimit - this.#recorded;
    const taken = chunk.subarray(0, room);
    this.#recorded += taken.length;
    this.#omitted += chunk.length - taken.length;
    if (taken.length > 0) this.#takeStderr(taken);
    if (chunk.length > room) this.#dropUnfinished();
  }

  #takeStderr(bytes: Buffer): void {
    const text = Buffer.concat([this.#unfinished, bytes]);
    const lines = text.lastIndexOf(newline) + 1;
    const end = lines === 0 && text.length > pieceLength ? text.length : lines;
    this.#unfinished = text.subarray(end);
    this.#emitStderr(text.subarray(0, end));
  }

  /** The line that the limit has cut in two is left out as a whole. */
  #dropUnfinished(): void {
    this.#omitted += this.#unfinished.length;
    this.#unfinished = empty;
  }

  /** Takes a line of stdout that is not a message. */
  invalidLine(line: Buffer): void {
    if (this.#invalidLines === invalidLineLimit) {
      this.#invalidOmitted += line.length + 1;
      return;
    }
    this.#invalidLines += 1;
    // A character has at most four bytes.
    const text = line.toString("utf8", 0, invalidLineLength * 4).slice(0, invalidLineLength);
    this.#firstInvalidLine ??= text;
    this.#options.emit({ type: "server.invalid_output", server: this.#options.server, text });
  }

  /** Records what has come so far without a line end. */
  flush(): void {
    this.#emitStderr(this.#unfinished);
    this.#unfinished = empty;
  }

  /** Records the rest, and how much was left out. */
  finish(): void {
    this.flush();
    this.#emitOmitted("stderr", this.#omitted);
    this.#emitOmitted("stdout", this.#invalidOmitted);
    this.#omitted = 0;
    this.#invalidOmitted = 0;
  }

  #emitStderr(bytes: Buffer): void {
    if (bytes.length === 0) return;
    const { server, emit } = this.#options;
    emit({ type: "server.stderr", server, text: bytes.toString("utf8") });
  }

  #emitOmitted(stream: "stderr" | "stdout", bytes: number): void {
    if (bytes === 0) return;
    const { server, emit } = this.#options;
    emit({ type: "server.output_omitted", server, stream, bytes });
  }
}
