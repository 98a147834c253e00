import type { generateText } from "ai";
import type { ModelSpec } from "../core/formats/model.ts";
import type { ModelAccess } from "./locate-model.ts";

type CallSettings = Pick<
  Parameters<typeof generateText>[0],
  "maxRetries" | "temperature" | "maxOutputTokens" | "providerOptions"
>;

/** Anthropic's API demands a limit; the AI SDK knows one only for the models that it knows. */
const anthropicOutputTokens = 8192;

/**
 * What every request to a model carries: temperature and output limit only if the user set them. Retrying is the
 * wrapped model's work, so the SDK's own is off. OpenAI is asked to store nothing: the conversation is then sent whole
 * with each request instead of by reference to what OpenAI kept.
 */
export function callSettings(spec: ModelSpec, access: ModelAccess): CallSettings {
  const maxOutputTokens =
    spec.maxOutputTokens ?? (access.wire === "anthropic" ? anthropicOutputTokens : undefined);
  return {
    maxRetries: 0,
    ...(spec.temperature === undefined ? {} : { temperature: spec.temperature }),
    ...(maxOutputTokens === undefined ? {} : { maxOutputTokens }),
    ...(access.wire === "openai-responses" ? { providerOptions: { openai: { store: false } } } : {}),
  };
}
