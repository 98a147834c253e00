import { McpvalsError } from "../core/errors/error.ts";
import { isJsonObject } from "../core/formats/json.ts";
import type { Json } from "../core/formats/model.ts";
import { previewJson, repeatedKey } from "../core/formats/read-json.ts";
import { boundedFetch, withBody } from "../process/bounded-fetch.ts";
import type { LanguageModelV4, ModelAccess } from "./locate-model.ts";

/**
 * Creates the model that `access` describes, loading only its provider's package. It reads a limited amount of
 * response data in its lifetime. Base URL, key and headers are always passed: a provider reads missing ones from the process's own
 * environment.
 *
 * Throws `config/invalid-value` when the package cannot be loaded because of an empty variable in that environment.
 */
export async function resolveModel(access: ModelAccess): Promise<LanguageModelV4> {
  const { wire, model, baseURL, provider, apiKey, headers } = access;
  // A provider without a key would look for one in the process's environment.
  const settings = { baseURL, apiKey: apiKey ?? "none", headers: { ...headers }, fetch: modelFetch() };
  try {
    switch (wire) {
      case "anthropic":
        return (await import("@ai-sdk/anthropic")).createAnthropic(settings)(model);
      case "openai-responses":
        return (await import("@ai-sdk/openai")).createOpenAI(settings).responses(model);
      case "openai-chat":
        return (await import("@ai-sdk/openai")).createOpenAI(settings).chat(model);
      case "google":
        return (await import("@ai-sdk/google")).createGoogle(settings)(model);
      case "openai-compatible": {
        const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
        const { apiKey: key, ...others } = settings;
        return createOpenAICompatible({
          ...others,
          ...(apiKey === undefined ? {} : { apiKey: key }),
          name: provider,
          // Without it no schema is sent with a request for structured output.
          supportsStructuredOutputs: true,
        })(model);
      }
    }
  } catch (error) {
    // Some packages create a default provider when they load, which fails if a base URL variable is set but empty.
    if (!(error instanceof Error) || error.name !== "AI_InvalidArgumentError") throw error;
    throw new McpvalsError(
      "config/invalid-value",
      `the package for ${access.label} does not load in this environment: ${error.message}`,
      { cause: error, hint: "Unset ANTHROPIC_BASE_URL or OPENAI_BASE_URL where it is set to an empty text." },
    );
  }
}

/** A response whose body is not used; the message is the reason. */
export class UnusableAnswer extends Error {}

/** Limits on all responses of a model together: a response is read whole before it is used, and a conversation keeps them all. */
export const mostRead = { bytes: 32 * 1024 * 1024, values: 100_000 } as const;

/**
 * `fetch` for the SDKs of providers. The SDKs accept duplicate keys, use only the first of several choices, and ignore an
 * error beside a choice; here, reading such a body fails with {@link UnusableAnswer}. Redirects are not followed: the key in
 * the headers is for the base URL alone.
 */
function modelFetch(): typeof fetch {
  const limits = {
    ...mostRead,
    onTooMuch: (more: string) => new UnusableAnswer(`with those before it, it has more than ${more}`),
  };
  const bounded = boundedFetch(limits, (input, init) => fetch(input, { ...init, redirect: "manual" }));
  return async (input, init) => {
    const response = await bounded(input, init);
    if (!response.ok || response.body === null) return response;
    return withBody(response, checked(response.body));
  };
}

async function* checked(body: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of body) {
    chunks.push(chunk);
    yield chunk;
  }
  const problem = problemOf(Buffer.concat(chunks).toString("utf8"));
  if (problem !== undefined) throw new UnusableAnswer(problem);
}

function problemOf(text: string): string | undefined {
  let body: Json;
  try {
    body = JSON.parse(text) as Json;
  } catch {
    return undefined; // the SDK reports it
  }
  if (!isJsonObject(body)) return undefined;
  const key = repeatedKey(text);
  if (key !== undefined) return `it has the key ${previewJson(key)} twice`;
  // OpenAI's Responses API has `error: null` in every successful response.
  const { error = null, choices, candidates } = body;
  if (error !== null) return `it has an error: ${previewJson(error)}`;
  const several = [choices, candidates].find((list) => Array.isArray(list) && list.length > 1);
  return several === undefined ? undefined : "it has more than one answer, and one was asked for";
}
