import { JsonMeter } from "../core/formats/read-json.ts";

/** Limits of JSON responses. */
export interface AnswerBound {
  /** Most bytes of all responses together, after decompression. */
  readonly bytes: number;
  /** Most objects, arrays and members of one response: a schema validator can need a kilobyte for each. */
  readonly values: number;
  /** Creates the error for responses with `more` than that. */
  readonly onTooMuch: (more: string) => Error;
}

/** Deeper values overflow the stack of programs that read or write them. */
export const mostLevels = 500;

/**
 * `fetch` with limits, for callers that read and parse whole bodies, such as SDKs. The request's signal limits the time, that
 * of the body included.
 */
export function boundedFetch(
  { bytes, values, onTooMuch }: AnswerBound,
  inner: typeof fetch = fetch,
): typeof fetch {
  let read = 0;
  const measured = (): TransformStream<Uint8Array, Uint8Array> => {
    const meter = new JsonMeter();
    return new TransformStream({
      transform(chunk, controller) {
        read += chunk.length;
        const { values: found, deepest } = meter.push(chunk);
        if (read > bytes) controller.error(onTooMuch(`${bytes / 1024 ** 2} MiB`));
        else if (found > values) controller.error(onTooMuch(`${values} values`));
        else if (deepest > mostLevels) controller.error(onTooMuch(`${mostLevels} levels`));
        else controller.enqueue(chunk);
      },
    });
  };
  return async (input, init) => {
    const response = await inner(input, init);
    if (response.body === null) return response;
    const { status, statusText, headers } = response;
    return new Response(response.body.pipeThrough(measured()), { status, statusText, headers });
  };
}
