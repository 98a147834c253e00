const newline = 0x0a;
const carriageReturn = 0x0d;

export interface BodyWatcher {
  /** Longest body or, in a stream of events, longest event, in bytes. */
  readonly limit: number;
  readonly isEventStream: boolean;
  /** Called once, for more than that; the error that it gives breaks the body. */
  readonly onTooLong: () => Error;
  /** The connection broke in the middle. */
  readonly onBroken: (error: unknown) => void;
  readonly onEnd: () => void;
}

/** Passes a response's body on as it comes, and tells how it goes. */
export function watchBody(
  body: ReadableStream<Uint8Array>,
  watcher: BodyWatcher,
): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  const meter = watcher.isEventStream ? new EventMeter() : new Meter();
  return new ReadableStream(
    {
      async pull(controller) {
        try {
          const { done, value } = await reader.read();
          if (done) {
            watcher.onEnd();
            controller.close();
          } else if (meter.add(value) > watcher.limit) {
            const error = watcher.onTooLong();
            controller.error(error);
            await reader.cancel(error);
          } else controller.enqueue(value);
        } catch (error) {
          watcher.onBroken(error);
          controller.error(error);
        }
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
}

/** Counts bytes. */
class Meter {
  #length = 0;

  add(chunk: Uint8Array): number {
    this.#length += chunk.length;
    return this.#length;
  }
}

/** Counts the bytes of each event: an empty line ends one. */
class EventMeter {
  #length = 0;
  #lineIsEmpty = true;

  /** Adds a chunk and gives the length of the longest event that it is part of, as far as it has come. */
  add(chunk: Uint8Array): number {
    let longest = 0;
    let start = 0;
    for (;;) {
      const end = chunk.indexOf(newline, start);
      const line = chunk.subarray(start, end === -1 ? undefined : end);
      this.#length += line.length;
      longest = Math.max(longest, this.#length);
      this.#lineIsEmpty &&= line.every((byte) => byte === carriageReturn);
      if (end === -1) return longest;
      if (this.#lineIsEmpty) this.#length = 0;
      this.#lineIsEmpty = true;
      start = end + 1;
    }
  }
}
