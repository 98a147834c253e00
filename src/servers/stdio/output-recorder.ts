import type { Emit } from "../../core/trace/events.ts";
import { WholeLines } from "../../process/whole-lines.ts";
import { invalidLineText } from "./output-tail.ts";

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
