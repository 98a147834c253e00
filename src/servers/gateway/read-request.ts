import type { IncomingMessage } from "node:http";

/** Reads a request's body; undefined when it is longer than `limit` bytes, or does not come to its end. */
export async function readRequest(request: IncomingMessage, limit: number): Promise<Buffer | undefined> {
  const parts: Buffer[] = [];
  let length = 0;
  return new Promise((resolve) => {
    request.on("data", (chunk: Buffer) => {
      length += chunk.length;
      if (length > limit) resolve(undefined);
      else parts.push(chunk);
    });
    request.once("end", () => resolve(Buffer.concat(parts)));
    request.once("error", () => resolve(undefined));
    request.once("close", () => resolve(undefined));
  });
}
