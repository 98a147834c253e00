import { shortened } from "../../core/text/shortened.ts";
import type { Emit } from "../../core/trace/events.ts";
import { TextTail, WholeLines } from "../../process/program-output.ts";

export interface OutputRecorderOptions {
  readonly server: string;
  readonly emit: Emit;
}

/** Recorded of what stands on stdout and is no message. */
const invalidLineLimit = 50;

/** Records what a server writes besides MCP: all of it at first, then only how much, so that a flood costs nothing. */
export class OutputRecorder {
  readonly #options: OutputRecorderOptions;
  readonly #stderr: WholeLines;
  #invalidLines = 0;
  #invalidOmitted = 0;

  constructor(options: OutputRecorderOptions) {
    this.#options = options;
    const { server, emit } = options;
    this.#stderr = new WholeLines((text) => void emit({ type: "server.stderr", server, text }));
  }

  /** Takes a piece of stderr. */
  stderr(chunk: Buffer): void {
    this.#stderr.push(chunk);
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
    this.#stderr.flush();
  }

  /** Records the rest, and how much was left out. */
  finish(): void {
    this.#emitOmitted("stderr", this.#stderr.finish());
    this.#emitOmitted("stdout", this.#invalidOmitted);
    this.#invalidOmitted = 0;
  }

  #emitOmitted(stream: "stderr" | "stdout", bytes: number): void {
    if (bytes === 0) return;
    const { server, emit } = this.#options;
    emit({ type: "server.output_omitted", server, stream, bytes });
  }
}

/** Kept of a line on stdout that is no message, in characters. */
const invalidLineLength = 2000;

/** Keeps what error messages say of a server's output: the end of its stderr, and the first line that is no message. */
export class OutputTail {
  readonly #stderr = new TextTail();
  #firstInvalidLine: string | undefined;

  /** The last 4 KiB of stderr; undefined when it is empty. */
  get stderrTail(): string | undefined {
    return this.#stderr.text;
  }

  get firstInvalidLine(): string | undefined {
    return this.#firstInvalidLine;
  }

  stderr(chunk: Buffer): void {
    this.#stderr.push(chunk);
  }

  invalidLine(line: Buffer): void {
    this.#firstInvalidLine ??= invalidLineText(line);
  }
}

/** What is shown of a line that is no message. */
export function invalidLineText(line: Buffer): string {
  // A character has at most four bytes.
  return shortened(line.toString("utf8", 0, invalidLineLength * 4), invalidLineLength);
}
