import type { FinishReason, generateText, ModelMessage, ToolSet } from "ai";
import { isJsonObject } from "../core/formats/json.ts";
import type { Json, JsonObject } from "../core/formats/model.ts";
import { describeBlock, passableImage } from "./tool-output.ts";

/** What a server's request for sampling says about how the model is to be asked. */
export type SamplingRequest = Pick<
  Parameters<typeof generateText<ToolSet>>[0],
  "maxOutputTokens" | "temperature" | "stopSequences"
> & { readonly instructions?: string; readonly messages: ModelMessage[] };

/** A refusal that the server gets as a JSON-RPC error. */
class SamplingRefusal extends Error {
  readonly code: number;

  constructor(code: number, message: string) {
    super(message);
    this.name = "SamplingRefusal";
    this.code = code;
  }
}

const invalidParams = -32_602;
/** Errors that the client defines; the specification's own example for a refused sampling is -1. */
const refused = -1;

/** The refusal while nobody acts whose model could be asked. */
export function nobodyActs(): SamplingRefusal {
  return new SamplingRefusal(refused, "the agent does not act now, so its model cannot be asked");
}

/** How often servers may ask the model in one trial: each time costs what a request to a model costs. */
export const mostSampled = 1000;

/** The refusal when servers have asked {@link mostSampled} times. */
export function askedTooOften(): SamplingRefusal {
  return new SamplingRefusal(refused, `the model may be asked ${mostSampled} times in one trial`);
}

/**
 * Reads the params of `sampling/createMessage`. Preferences for models and requests for context are not heeded: the
 * specification leaves both to the client. Throws a refusal, with a code for the server, for a request without messages, or with tools,
 * which this client does not declare.
 */
export function readSampling(params: JsonObject): SamplingRequest {
  const { tools, messages, systemPrompt, maxTokens, temperature, stopSequences } = params;
  if (Array.isArray(tools) && tools.length > 0)
    throw new SamplingRefusal(
      invalidParams,
      "this client does not declare sampling.tools: ask without tools",
    );
  const said = Array.isArray(messages) ? messages.filter(isJsonObject).map(messageOf) : [];
  if (said.length === 0) throw new SamplingRefusal(invalidParams, "there are no messages to answer");
  return {
    messages: said,
    ...(typeof systemPrompt === "string" ? { instructions: systemPrompt } : {}),
    ...(typeof maxTokens === "number" ? { maxOutputTokens: maxTokens } : {}),
    ...(typeof temperature === "number" ? { temperature } : {}),
    ...(Array.isArray(stopSequences) ? { stopSequences: stopSequences.filter(isText) } : {}),
  };
}

/** The result of `sampling/createMessage`. */
export function samplingResult(
  { text, finishReason }: { readonly text: string; readonly finishReason: FinishReason },
  model: string,
): JsonObject {
  return {
    role: "assistant",
    content: { type: "text", text },
    model,
    stopReason: stopReasons[finishReason] ?? finishReason,
  };
}

const stopReasons: Readonly<Partial<Record<FinishReason, string>>> = { stop: "endTurn", length: "maxTokens" };

function messageOf({ role, content }: JsonObject): ModelMessage {
  const blocks = (Array.isArray(content) ? (content as readonly Json[]) : [content ?? ""]).filter(
    isJsonObject,
  );
  if (role === "assistant") return { role, content: blocks.map(describeBlock).join("\n") || "(nothing)" };
  return {
    role: "user",
    content: blocks.map(
      (block) => passableImage(block) ?? { type: "text", text: describeBlock(block) || "(nothing)" },
    ),
  };
}

function isText(value: Json): value is string {
  return typeof value === "string";
}
