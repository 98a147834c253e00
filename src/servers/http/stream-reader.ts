import { EventCutter, type StreamEvent } from "./event-cutter.ts";

export interface StreamReaderOptions {
  /** Longest event, in bytes. */
  readonly limit: number;
  /** Makes the error for a longer one. */
  readonly onTooLong: () => Error;
}

/** The events of a response, one after the other; what comes after the last one is given as bytes. Throws what `onTooLong` gives, or why the connection broke. */
export async function* eventsOf(
  response: Response,
  { limit, onTooLong }: StreamReaderOptions,
): AsyncGenerator<StreamEvent> {
  let isTooLong = false;
  const cutter = new EventCutter({
    limit,
    onTooLong: () => {
      isTooLong = true;
    },
  });
  for await (const chunk of chunksOf(response)) {
    yield* cutter.push(chunk);
    if (isTooLong) throw onTooLong();
  }
  const rest = cutter.rest();
  if (rest.length > 0) yield { bytes: rest };
}

/** A response's body in one piece. Throws as {@link eventsOf} does. */
export async function wholeOf(
  response: Response,
  { limit, onTooLong }: StreamReaderOptions,
): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of chunksOf(response)) {
    length += chunk.length;
    if (length > limit) throw onTooLong();
    parts.push(chunk);
  }
  return Buffer.concat(parts);
}

/** A response's body as it comes. */
export async function* chunksOf(response: Response): AsyncGenerator<Uint8Array> {
  if (response.body === null) return;
  for await (const chunk of response.body) yield chunk as Uint8Array;
}
