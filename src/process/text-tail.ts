/** Kept of the end for error messages, in bytes. */
const tailLength = 4096;

/** Keeps the end of what a program writes. */
export class TextTail {
  #bytes: Buffer = Buffer.alloc(0);
  #isCut = false;

  /**
   * Of the last 4 KiB the whole lines, or the whole words where there is one line only, so that no secret is cut in two;
   * undefined when there is nothing to see.
   */
  get text(): string | undefined {
    const text = this.#bytes.toString("utf8").trimEnd();
    const whole = (this.#isCut ? withoutFirstPart(text) : text).trim();
    return whole === "" ? undefined : whole;
  }

  push(chunk: Buffer): void {
    this.#isCut ||= this.#bytes.length + chunk.length > tailLength;
    const last = chunk.subarray(-tailLength);
    this.#bytes = Buffer.concat([this.#bytes.subarray(last.length - tailLength), last]).subarray(-tailLength);
  }
}

function withoutFirstPart(text: string): string {
  const line = text.indexOf("\n");
  return line === -1 ? text.replace(/^\S*/, "…") : text.slice(line + 1);
}
