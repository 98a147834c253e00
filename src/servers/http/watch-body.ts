import { McpvalsError } from "../../core/errors/error.ts";
import { eventsOf, type StreamReaderOptions, wholeOf } from "./stream-reader.ts";

export interface BodyWatcher extends StreamReaderOptions {
  readonly isEventStream: boolean;
  /** Called once, for a body or an event that is better not read; the error breaks the body. */
  readonly onRefused: (error: McpvalsError) => void;
  /** The connection broke in the middle. */
  readonly onBroken: (error: unknown) => void;
  readonly onEnd: () => void;
  /** Called with a whole body or, in a stream of events, with each event and its data, before it is passed on. */
  readonly onText: (bytes: Buffer, data?: string) => void;
}

type Body = ReadableStream<Uint8Array>;

/** Passes a response's body on, a stream event by event and anything else in one piece, and tells how it goes. */
export function watchBody(body: Body, watcher: BodyWatcher): Body {
  return relayed(
    body,
    watcher.isEventStream ? (chunks) => events(chunks, watcher) : (chunks) => whole(chunks, watcher),
    watcher,
  );
}

/** Passes on the beginning of a body. */
export function cutBody(body: Body, most: number): Body {
  return relayed(body, (chunks) => beginning(chunks, most));
}

function relayed(
  body: Body,
  pass: (chunks: AsyncIterable<Uint8Array>) => AsyncGenerator<Uint8Array>,
  watcher?: BodyWatcher,
): Body {
  const reader = body.getReader();
  const pieces = pass(chunksFrom(reader));
  return new ReadableStream(
    {
      async pull(controller) {
        try {
          const { done, value } = await pieces.next();
          if (done !== true) return controller.enqueue(value);
          watcher?.onEnd();
          controller.close();
        } catch (error) {
          if (error instanceof McpvalsError) watcher?.onRefused(error);
          else watcher?.onBroken(error);
          controller.error(error);
        }
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
}

/** Leaving it early cancels the rest. */
async function* chunksFrom(reader: ReadableStreamDefaultReader<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    await reader.cancel();
  }
}

async function* events(chunks: AsyncIterable<Uint8Array>, watcher: BodyWatcher): AsyncGenerator<Uint8Array> {
  for await (const { bytes, data } of eventsOf(chunks, watcher)) {
    if (data !== undefined) watcher.onText(bytes, data);
    yield bytes;
  }
}

async function* whole(chunks: AsyncIterable<Uint8Array>, watcher: BodyWatcher): AsyncGenerator<Uint8Array> {
  const bytes = await wholeOf(chunks, watcher);
  watcher.onText(bytes);
  yield bytes;
}

async function* beginning(chunks: AsyncIterable<Uint8Array>, most: number): AsyncGenerator<Uint8Array> {
  let left = most;
  for await (const chunk of chunks) {
    yield chunk.subarray(0, left);
    left -= chunk.length;
    if (left <= 0) return;
  }
}
