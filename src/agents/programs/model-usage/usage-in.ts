import type { Usage } from "../../../core/trace/events.ts";
import { objectOf, textOf, type WireObject } from "../../../core/formats/presets/preset.ts";

/** Tokens and the model as far as one piece of an answer tells of them. */
export type ToldTokens = Partial<Omit<Usage, "requests">> & { readonly model?: string };

/**
 * Reads the tokens out of an answer of a model's API, or out of one event of a stream: Anthropic Messages, OpenAI Responses
 * and Chat Completions, Gemini. Later pieces of a stream replace what earlier ones told. Input is all of it, what came from
 * a cache included.
 */
export function usageIn(piece: unknown): ToldTokens {
  const value = objectOf(piece);
  const { message, response } = value;
  const model = [
    value["model"],
    value["modelVersion"],
    objectOf(message)["model"],
    objectOf(response)["model"],
  ]
    .map(textOf)
    .find((name) => name !== undefined);
  return { ...tokensIn(value), ...(model === undefined ? {} : { model }) };
}

function tokensIn(value: WireObject): ToldTokens {
  if ("usageMetadata" in value) return geminiUsage(objectOf(value["usageMetadata"]));
  const holder = [value, objectOf(value["message"]), objectOf(value["response"])].find(
    (each) => typeof each["usage"] === "object" && each["usage"] !== null,
  );
  if (holder === undefined) return {};
  const usage = objectOf(holder["usage"]);
  if ("prompt_tokens" in usage) return chatUsage(usage);
  return "input_tokens_details" in usage || holder === objectOf(value["response"])
    ? responsesUsage(usage)
    : anthropicUsage(usage);
}

function geminiUsage(usage: WireObject): ToldTokens {
  return told({
    inputTokens: sum(usage["promptTokenCount"], usage["toolUsePromptTokenCount"]),
    outputTokens: sum(usage["candidatesTokenCount"], usage["thoughtsTokenCount"]),
    cacheReadTokens: sum(usage["cachedContentTokenCount"]),
  });
}

function chatUsage(usage: WireObject): ToldTokens {
  return told({
    inputTokens: sum(usage["prompt_tokens"]),
    outputTokens: sum(usage["completion_tokens"]),
    cacheReadTokens: sum(objectOf(usage["prompt_tokens_details"])["cached_tokens"]),
  });
}

function responsesUsage(usage: WireObject): ToldTokens {
  return told({
    inputTokens: sum(usage["input_tokens"]),
    outputTokens: sum(usage["output_tokens"]),
    cacheReadTokens: sum(objectOf(usage["input_tokens_details"])["cached_tokens"]),
  });
}

/** Its `input_tokens` are those that no cache had. */
function anthropicUsage(usage: WireObject): ToldTokens {
  const read = usage["cache_read_input_tokens"];
  const written = usage["cache_creation_input_tokens"];
  const fresh = usage["input_tokens"];
  return told({
    inputTokens: typeof fresh === "number" ? sum(fresh, read, written) : undefined,
    outputTokens: sum(usage["output_tokens"]),
    cacheReadTokens: sum(read),
    cacheWriteTokens: sum(written),
  });
}

/** Undefined when there is no number among them. */
function sum(...values: readonly unknown[]): number | undefined {
  const numbers = values.filter((value): value is number => typeof value === "number" && value >= 0);
  return numbers.length === 0 ? undefined : numbers.reduce((total, each) => total + each, 0);
}

function told(counts: Readonly<Record<string, number | undefined>>): ToldTokens {
  return Object.fromEntries(Object.entries(counts).filter(([, count]) => count !== undefined));
}
