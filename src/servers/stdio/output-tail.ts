/** Kept of the end of stderr for error messages, in bytes. */
const tailLength = 4096;
/** Kept of a line on stdout that is no message, in characters. */
const invalidLineLength = 2000;

const empty = Buffer.alloc(0);

/** Keeps what error messages say of a server's output: the end of its stderr, and the first line that is no message. */
export class OutputTail {
  #tail: Buffer = empty;
  #firstInvalidLine: string | undefined;

  /** The last 4 KiB of stderr; undefined when it is empty. */
  get stderrTail(): string | undefined {
    const text = this.#tail.toString("utf8").trim();
    return text === "" ? undefined : text;
  }

  get firstInvalidLine(): string | undefined {
    return this.#firstInvalidLine;
  }

  stderr(chunk: Buffer): void {
    const last = chunk.subarray(-tailLength);
    this.#tail = Buffer.concat([this.#tail.subarray(last.length - tailLength), last]).subarray(-tailLength);
  }

  invalidLine(line: Buffer): void {
    this.#firstInvalidLine ??= invalidLineText(line);
  }
}

/** What is shown of a line that is no message. */
export function invalidLineText(line: Buffer): string {
  // A character has at most four bytes.
  return line.toString("utf8", 0, invalidLineLength * 4).slice(0, invalidLineLength);
}
