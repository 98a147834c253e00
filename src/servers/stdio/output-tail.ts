import { TextTail } from "../../process/text-tail.ts";
import { shortened } from "../../core/text/shortened.ts";

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
