import type { IncomingMessage } from "node:http";
import { ByteStore } from "../../process/program-output.ts";

/** Reads a request's body; undefined when `take` refuses so many more bytes, or it does not come to its end. */
export async function readRequest(
  request: IncomingMessage,
  take: (bytes: number) => boolean,
): Promise<Buffer | undefined> {
  const body = new ByteStore();
  return new Promise((resolve) => {
    const read = (chunk: Buffer): void => {
      if (take(chunk.length)) return body.push(chunk);
      request.off("data", read);
      body.clear();
      // What comes yet is read and forgotten, so that the agent hears why.
      request.resume();
      resolve(undefined);
    };
    request.on("data", read);
    request.once("end", () => resolve(body.take()));
    request.once("error", () => resolve(undefined));
    request.once("close", () => resolve(undefined));
  });
}
