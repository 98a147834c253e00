import { isJsonObject } from "../core/formats/json.ts";
import type { Json } from "../core/formats/model.ts";
import { previewJson, repeatedKey } from "../core/formats/read-json.ts";
import { UnusableAnswer } from "./model-failure.ts";

/**
 * `fetch` for the SDKs of providers, which take the last of two equal keys and the first of several answers, and look for no
 * error where there is an answer: reading such a body fails with {@link UnusableAnswer}.
 */
export function unambiguous(inner: typeof fetch): typeof fetch {
  return async (input, init) => {
    const response = await inner(input, init);
    if (!response.ok || response.body === null) return response;
    const { status, statusText, headers } = response;
    return new Response(response.body.pipeThrough(checked()), { status, statusText, headers });
  };
}

function checked(): TransformStream<Uint8Array, Uint8Array> {
  const chunks: Uint8Array[] = [];
  return new TransformStream({
    transform(chunk, controller) {
      chunks.push(chunk);
      controller.enqueue(chunk);
    },
    flush(controller) {
      const problem = problemOf(Buffer.concat(chunks).toString("utf8"));
      if (problem !== undefined) controller.error(new UnusableAnswer(problem));
    },
  });
}

function problemOf(text: string): string | undefined {
  const body = parse(text);
  if (!isJsonObject(body)) return undefined;
  const key = repeatedKey(text);
  if (key !== undefined) return `it has the key ${previewJson(key)} twice`;
  // OpenAI's Responses API has `error: null` in all of its answers.
  const { error = null, choices, candidates } = body;
  if (error !== null) return `it has an error: ${previewJson(error)}`;
  const several = [choices, candidates].find((list) => Array.isArray(list) && list.length > 1);
  return several === undefined ? undefined : "it has more than one answer, and one was asked for";
}

function parse(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    // Whoever reads it next says what it is instead.
    return undefined;
  }
}
