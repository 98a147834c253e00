import { on } from "node:events";
import type { Readable } from "node:stream";

const newline = 0x0a;

/**
 * Gives the lines of a stream of UTF-8, of any length and however they arrive, the last one also without a line end. The
 * stream is read whether or not somebody takes the lines, so that `onEnd` is called as soon as it ends.
 */
export async function* readLines(input: Readable, onEnd: () => void): AsyncGenerator<string> {
  input.once("end", onEnd).once("close", onEnd);
  const chunks: AsyncIterable<readonly Buffer[]> = on(input, "data", { close: ["end", "close"] });
  let parts: Buffer[] = [];
  for await (const [chunk = Buffer.alloc(0)] of chunks) {
    let start = 0;
    for (let end = chunk.indexOf(newline); end !== -1; end = chunk.indexOf(newline, start)) {
      yield Buffer.concat([...parts, chunk.subarray(start, end)]).toString("utf8");
      parts = [];
      start = end + 1;
    }
    if (start < chunk.length) parts.push(chunk.subarray(start));
  }
  if (parts.length > 0) yield Buffer.concat(parts).toString("utf8");
}
