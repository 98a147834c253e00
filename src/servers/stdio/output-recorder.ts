import { shortened } from "../../core/text/visible-text.ts";
import type { Emit } from "../../core/trace/events.ts";
import { TextTail, WholeLines } from "../../process/program-output.ts";

export interface OutputRecorderOptions {
  readonly server: string;
  readonly emit: Emit;
}

/** Recorded lines on stdout that are not messages. */
const invalidLineLimit = 50;

/** Records what a server writes besides MCP, up to a limit, and then only how much it is. */
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

  stderr(chunk: Buffer): void {
    this.#stderr.push(chunk);
  }

  invalidLine(line: Buffer): void {
    if (this.#invalidLines === invalidLineLimit) {
      this.#invalidOmitted += line.length + 1;
      return;
    }
    this.#invalidLines += 1;
    const text = invalidLineText(line);
    this.#options.emit({ type: "server.invalid_output", server: this.#options.server, text });
  }

  /** Records an unfinished line. */
  flush(): void {
    this.#stderr.flush();
  }

  /** Records the rest, and how much was omitted. */
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

/** Recorded of a line on stdout that is not a message, in characters. */
const invalidLineLength = 2000;

/** Keeps the output for error messages: the end of stderr, and the first line on stdout that is not a message. */
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

/** The recorded text of a line that is not a message. */
export function invalidLineText(line: Buffer): string {
  // A character has at most four bytes.
  return shortened(line.toString("utf8", 0, invalidLineLength * 4), invalidLineLength);
}
