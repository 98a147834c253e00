import { McpvalsError } from "../core/errors/error.ts";
import { boundedFetch } from "../process/bounded-fetch.ts";
import type { LanguageModelV4 } from "./language-model.ts";
import type { ModelAccess } from "./locate-model.ts";
import { UnusableAnswer } from "./model-failure.ts";
import { unambiguous } from "./unambiguous.ts";

/**
 * Makes the model that `access` describes, loading only its provider's package. It reads a limited amount of answers in its
 * life. Base URL, key and headers are always handed over: what a provider is not told it would read from the process's own
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

/** Some packages make a default provider as they load, which fails on a base URL variable that is set but empty. */
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
