import { JsonMeter } from "../core/formats/read-json.ts";

/** How much is read of answers in JSON. */
export interface AnswerBound {
  /** Most bytes of all answers together, after decompression. */
  readonly bytes: number;
  /** Most objects, lists and members of one answer: what checks JSON against a schema can need a kilobyte for each. */
  readonly values: number;
  /** Makes the error for answers with `more` than that, with which reading fails. */
  readonly onTooMuch: (more: string) => Error;
}

/** Deeper values overflow the stack of whoever reads or writes them. */
export const mostLevels = 500;

/**
 * `fetch` for those who read a body whole and parse it, such as the SDKs of others: no body gets larger than it may,
 * whatever the other side sends. How long it takes is the request's signal to limit, which ends the body, too.
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
