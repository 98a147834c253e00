import { shortened } from "../../core/text/visible-text.ts";
import type { Emit } from "../../core/trace/events.ts";
import { WholeLines } from "../../process/program-output.ts";

/** Recorded lines on stdout that are not messages. */
const invalidLineLimit = 50;
/** Recorded of a line on stdout that is not a message, in characters. */
const invalidLineLength = 2000;

/** Records what a server writes besides MCP, up to a limit, and then only how much it is. */
export class OutputRecorder {
  readonly #server: string;
  readonly #emit: Emit;
  readonly #stderr: WholeLines;
  #invalidLines = 0;
  #invalidOmitted = 0;

  constructor(server: string, emit: Emit) {
    this.#server = server;
    this.#emit = emit;
    this.#stderr = new WholeLines((text) => void emit({ type: "server.stderr", server, text }));
  }

  stderr(chunk: Buffer): void {
    this.#stderr.push(chunk);
  }

  invalidLine(line: Buffer): void {
    this.#invalidLines += 1;
    if (this.#invalidLines > invalidLineLimit) this.#invalidOmitted += line.length + 1;
    else this.#emit({ type: "server.invalid_output", server: this.#server, text: invalidLineText(line) });
  }

  /** Records an unfinished line. */
  flush(): void {
    this.#stderr.flush();
  }

  /** Records the rest, and how much was omitted. */
  finish(): void {
    const omitted = { stderr: this.#stderr.finish(), stdout: this.#invalidOmitted };
    this.#invalidOmitted = 0;
    for (const stream of ["stderr", "stdout"] as const) {
      const bytes = omitted[stream];
      if (bytes > 0) this.#emit({ type: "server.output_omitted", server: this.#server, stream, bytes });
    }
  }
}

/** The recorded text of a line that is not a message. */
export function invalidLineText(line: Buffer): string {
  // A character has at most four bytes.
  return shortened(line.toString("utf8", 0, invalidLineLength * 4), invalidLineLength);
}
