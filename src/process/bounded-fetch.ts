import { maxRecordDepth } from "../base/limits.ts";
import { JsonMeter } from "../base/read-json.ts";

/** Limits of JSON responses. */
export interface AnswerBound {
  /** Maximum number of bytes of all responses together, after decompression. */
  readonly bytes: number;
  /** Maximum number of objects, arrays and members of one response: a schema validator can need a kilobyte for each. */
  readonly values: number;
  /** Creates the error for responses with `more` than that. */
  readonly onTooMuch: (more: string) => Error;
}

/** `fetch` with limits, for callers that read and parse whole bodies, such as SDKs. The request's signal limits the time, also of the body. */
export function boundedFetch(bound: AnswerBound): typeof fetch {
  const bounded = boundedBodies(bound);
  return async (input, init) => {
    const response = await fetch(input, init);
    return response.body === null ? response : withBody(response, bounded(response.body));
  };
}

/** Makes the function that passes on the bodies of responses until one is beyond the limits. */
export function boundedBodies({
  bytes,
  values,
  onTooMuch,
}: AnswerBound): (body: ReadableStream<Uint8Array>) => AsyncIterable<Uint8Array> {
  let read = 0;
  return async function* measured(body: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
    const meter = new JsonMeter();
    for await (const chunk of body) {
      read += chunk.length;
      const { values: found, deepest } = meter.push(chunk);
      if (read > bytes) throw onTooMuch(`${bytes / 1024 ** 2} MiB`);
      if (found > values) throw onTooMuch(`${values} values`);
      if (deepest > maxRecordDepth) throw onTooMuch(`${maxRecordDepth} levels`);
      yield chunk;
    }
  };
}

/** The response with another body. A transform stream would take several times as long as a generator. */
export function withBody(
  { status, statusText, headers }: Response,
  body: AsyncIterable<Uint8Array>,
): Response {
  return new Response(ReadableStream.from(body), { status, statusText, headers });
}
