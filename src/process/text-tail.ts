/** Kept of the end for error messages, in bytes. */
const tailLength = 4096;

/** Keeps the end of what a program writes. */
export class TextTail {
  #bytes: Buffer = Buffer.alloc(0);

  /** The last 4 KiB; undefined when there is nothing to see. */
  get text(): string | undefined {
    const text = this.#bytes.toString("utf8").trim();
    return text === "" ? undefined : text;
  }

  push(chunk: Buffer): void {
    const last = chunk.subarray(-tailLength);
    this.#bytes = Buffer.concat([this.#bytes.subarray(last.length - tailLength), last]).subarray(-tailLength);
  }
}
