import { McpvalsError } from "../core/errors/error.ts";
import { isJsonObject } from "../core/formats/json.ts";
import type { Json } from "../core/formats/model.ts";
import { previewJson, repeatedKey } from "../core/formats/read-json.ts";
import { boundedFetch } from "../process/bounded-fetch.ts";
import type { LanguageModelV4, ModelAccess } from "./locate-model.ts";
import { UnusableAnswer } from "./model-failure.ts";

/**
 * Creates the model that `access` describes, loading only its provider's package. It reads a limited amount of responses in its
 * lifetime. Base URL, key and headers are always passed: a provider reads missing ones from the process's own
 * environment.
 *
 * Throws `config/invalid-value` when the package cannot be loaded because of an empty variable in that environment.
 */
export async function resolveModel(access: ModelAccess): Promise<LanguageModelV4> {
  switch (access.wire) {
    case "anthropic": {
      const { createAnthropic } = await loaded(access, import("@ai-sdk/anthropic"));
      return createAnthropic(settingsOf(access))(access.model);
    }
    case "openai-responses": {
      const { createOpenAI } = await loaded(access, import("@ai-sdk/openai"));
      return createOpenAI(settingsOf(access)).responses(access.model);
    }
    case "openai-chat": {
      const { createOpenAI } = await loaded(access, import("@ai-sdk/openai"));
      return createOpenAI(settingsOf(access)).chat(access.model);
    }
    case "google": {
      const { createGoogle } = await loaded(access, import("@ai-sdk/google"));
      return createGoogle(settingsOf(access))(access.model);
    }
    case "openai-compatible":
      return openAICompatible(access);
  }
}

async function openAICompatible(access: ModelAccess): Promise<LanguageModelV4> {
  const { createOpenAICompatible } = await loaded(access, import("@ai-sdk/openai-compatible"));
  const { apiKey, ...settings } = settingsOf(access);
  return createOpenAICompatible({
    ...settings,
    ...(access.apiKey === undefined ? {} : { apiKey }),
    name: access.provider,
    // Without it no schema is sent with a request for structured output.
    supportsStructuredOutputs: true,
  })(access.model);
}

/** Some packages create a default provider when they load, which fails if a base URL variable is set but empty. */
async function loaded<T>(access: ModelAccess, loading: Promise<T>): Promise<T> {
  try {
    return await loading;
  } catch (error) {
    if (!(error instanceof Error) || error.name !== "AI_InvalidArgumentError") throw error;
    throw new McpvalsError(
      "config/invalid-value",
      `the package for ${access.label} does not load in this environment: ${error.message}`,
      { cause: error, hint: "Unset ANTHROPIC_BASE_URL or OPENAI_BASE_URL where it is set to an empty text." },
    );
  }
}

/** Read of all answers together: all of one is read before any of it is used, and a conversation keeps them all. */
export const mostRead = { bytes: 32 * 1024 * 1024, values: 100_000 } as const;

/** Redirects are not followed: the key in the headers is for the base URL alone. */
function modelFetch(): typeof fetch {
  return unambiguous(
    boundedFetch({ ...mostRead, onTooMuch }, (input, init) => fetch(input, { ...init, redirect: "manual" })),
  );
}

function onTooMuch(more: string): Error {
  return new UnusableAnswer(`with those before it, it has more than ${more}`);
}

interface ProviderSettings {
  readonly fetch: typeof fetch;
  readonly baseURL: string;
  readonly apiKey: string;
  readonly headers: Record<string, string>;
}

function settingsOf(access: ModelAccess): ProviderSettings {
  // A provider that is given no key at all looks for one in the process's environment.
  const { baseURL, apiKey = "none", headers } = access;
  return { baseURL, apiKey, headers: { ...headers }, fetch: modelFetch() };
}

/**
 * `fetch` for the SDKs of providers, which take the last of two equal keys and the first of several answers, and look for no
 * error where there is an answer: reading such a body fails with {@link UnusableAnswer}.
 */
function unambiguous(inner: typeof fetch): typeof fetch {
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
    // The next reader reports what it is instead.
    return undefined;
  }
}
