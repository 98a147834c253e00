import { isJsonObject } from "../../core/formats/json.ts";
import type { Json } from "../../core/formats/model.ts";
import type { Emit } from "../../core/trace/events.ts";
import { TextTail } from "../../process/text-tail.ts";
import { WholeLines } from "../../process/whole-lines.ts";
import { largestAnswer } from "./answer-limit.ts";
import { cutText } from "./cut-text.ts";

/** Recorded of what stands on stdout and is no message, in lines. */
const invalidLineLimit = 50;
/** Kept of such a line, in characters. */
const invalidLineLength = 2000;
/** Recorded of the notifications `log`. */
const logLimit = { messages: 1000, bytes: 256 * 1024 } as const;
const levels = new Set(["debug", "info", "warn", "error"]);

/** Records what an extension writes besides its answers: all of it at first, then only how much, so that a flood costs nothing. */
export class ExtensionOutput {
  readonly #extension: string;
  readonly #emit: Emit;
  readonly #stderr: WholeLines;
  readonly #tail = new TextTail();
  readonly #logs = { messages: 0, bytes: 0, omitted: 0 };
  readonly #invalid = { lines: 0, omitted: 0 };
  #firstInvalid: string | undefined;

  constructor(extension: string, emit: Emit) {
    this.#extension = extension;
    this.#emit = emit;
    this.#stderr = new WholeLines((text) => void emit({ type: "extension.stderr", extension, text }));
  }

  /** For the detail of an error: the end of stderr, and the first line of stdout that is no message. */
  get detail(): { readonly detail?: string } {
    const invalid = this.#firstInvalid === undefined ? [] : [`stdout, no message: ${this.#firstInvalid}`];
    const parts = [...invalid, ...(this.#tail.text === undefined ? [] : [this.#tail.text])];
    return parts.length === 0 ? {} : { detail: parts.join("\n") };
  }

  /** Whether no log is recorded any more, so that nobody needs to read them. */
  get isLogFull(): boolean {
    return this.#logs.messages >= logLimit.messages || this.#logs.bytes >= logLimit.bytes;
  }

  /** Whether so much on stdout was no message that there will hardly be one. */
  get isFlooded(): boolean {
    return this.#invalid.omitted > largestAnswer;
  }

  stderr(chunk: Buffer): void {
    this.#tail.push(chunk);
    this.#stderr.push(chunk);
  }

  /** Takes a line of stdout that is no message, or that comes unasked. */
  invalidLine(line: Buffer): void {
    if (this.#invalid.lines === invalidLineLimit) {
      this.#invalid.omitted += line.length + 1;
      return;
    }
    this.#invalid.lines += 1;
    // A character has at most four bytes.
    const text = cutText(line.toString("utf8", 0, invalidLineLength * 4), invalidLineLength);
    this.#firstInvalid ??= text;
    this.#emit({ type: "extension.invalid_output", extension: this.#extension, text });
  }

  /** Takes the params of a `log`, `bytes` long; false when they are none. */
  log(params: Json | undefined, bytes: number): boolean {
    if (!isJsonObject(params)) return false;
    const { level, message, data } = params;
    if (typeof level !== "string" || !levels.has(level) || typeof message !== "string") return false;
    // What does not fit is left out as a whole: a secret that is cut in two would not be found.
    if (this.isLogFull || this.#logs.bytes + bytes > logLimit.bytes) this.omitLog();
    else {
      this.#logs.messages += 1;
      this.#logs.bytes += bytes;
      const more = data === undefined || data === null ? {} : { data };
      this.#emit({ type: "extension.log", extension: this.#extension, level, message, ...more });
    }
    return true;
  }

  omitLog(): void {
    this.#logs.omitted += 1;
  }

  /** Records the rest, and how much was left out. */
  finish(): void {
    this.#omitted("stderr", this.#stderr.finish());
    this.#omitted("stdout", this.#invalid.omitted);
    this.#omitted("log", this.#logs.omitted);
    this.#invalid.omitted = 0;
    this.#logs.omitted = 0;
  }

  #omitted(stream: "stderr" | "stdout" | "log", count: number): void {
    if (count === 0) return;
    this.#emit({ type: "extension.output_omitted", extension: this.#extension, stream, count });
  }
}
