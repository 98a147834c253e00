import { jsonExcess } from "../../core/formats/json-meter.ts";
import { deepestMessage } from "../json-rpc.ts";
import { excessive } from "../recording.ts";
import { messageTooLarge } from "./channel-errors.ts";
import { ByteStore } from "../../process/program-output.ts";
import { EventCutter, type StreamEvent } from "./event-cutter.ts";

export interface StreamReaderOptions {
  /** Name of the server, for messages. */
  readonly server: string;
  /** Longest body, or event of a stream, in bytes. */
  readonly limit: number;
}

/**
 * The events of a body, one after the other; what comes after the last one is given as bytes. Throws McpvalsError
 * `server/message-too-large` and `server/protocol-error` for one that is better not read, or why the connection broke.
 */
export async function* eventsOf(
  chunks: AsyncIterable<Uint8Array>,
  { server, limit }: StreamReaderOptions,
): AsyncGenerator<StreamEvent> {
  let isTooLong = false;
  const cutter = new EventCutter({
    limit,
    onTooLong: () => {
      isTooLong = true;
    },
  });
  for await (const chunk of chunks) {
    for (const event of cutter.push(chunk)) {
      if (event.data !== undefined) refuseExcess(server, Buffer.from(event.data));
      yield event;
    }
    if (isTooLong) throw messageTooLarge(server, limit);
  }
  const rest = cutter.rest();
  if (rest.length > 0) yield { bytes: rest };
}

/** A body in one piece. Throws as {@link eventsOf} does. */
export async function wholeOf(
  chunks: AsyncIterable<Uint8Array>,
  { server, limit }: StreamReaderOptions,
): Promise<Buffer> {
  const whole = new ByteStore();
  for await (const chunk of chunks) {
    if (whole.length + chunk.length > limit) throw messageTooLarge(server, limit);
    whole.push(chunk);
  }
  const body = whole.take();
  refuseExcess(server, body);
  return body;
}

/** Throws McpvalsError for JSON that is better not parsed. */
function refuseExcess(server: string, json: Uint8Array): void {
  const excess = jsonExcess(json, { levels: deepestMessage });
  if (excess !== undefined) throw excessive(server, excess);
}

/** A response's body as it comes. */
export async function* chunksOf(response: Response): AsyncGenerator<Uint8Array> {
  if (response.body === null) return;
  for await (const chunk of response.body) yield chunk as Uint8Array;
}
