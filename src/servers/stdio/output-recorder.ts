import type { Emit } from "../../core/trace/events.ts";
import { invalidLineText } from "./output-tail.ts";

export interface OutputRecorderOptions {
  readonly server: string;
  readonly emit: Emit;
}

/** Recorded of a server's stderr in one trial, in bytes. */
const stderrLimit = 256 * 1024;
/** A piece of stderr without a line end is recorded when it has this many bytes. */
const pieceLength = 8192;
/** Recorded of what stands on stdout and is no message. */
const invalidLineLimit = 50;

const newline = 0x0a;
const empty = Buffer.alloc(0);

/** Records what a server writes besides MCP: all of it at first, then only how much, so that a flood costs nothing. */
export class OutputRecorder {
  readonly #options: OutputRecorderOptions;
  #recorded = 0;
  #omitted = 0;
  #unfinished: Buffer = empty;
  #invalidLines = 0;
  #invalidOmitted = 0;

  constructor(options: OutputRecorderOptions) {
    this.#options = options;
  }

  /** Takes a piece of stderr. Whole lines are recorded together, so that no secret is cut in two. */
  stderr(chunk: Buffer): void {
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
    const text = invalidLineText(line);
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
