import type { FinishReason } from "ai";
import { McpvalsError } from "../core/errors/error.ts";
import { isJsonObject } from "../core/formats/json.ts";
import type { Json, JudgeSpec } from "../core/formats/model.ts";
import { previewJson, repeatedKey } from "../core/formats/read-json.ts";
import type { JudgePrompt } from "../core/grade/judge-prompt.ts";
import type { Emit } from "../core/trace/events.ts";
import { callSettings } from "../models/call-settings.ts";
import type { Environment } from "../models/language-model.ts";
import { loadAiSdk } from "../models/load-ai-sdk.ts";
import { locateModel } from "../models/locate-model.ts";
import { resolveModel } from "../models/resolve-model.ts";
import { createRetryingModel, type RetrySettings } from "../models/retrying-model.ts";
import type { VerdictForm } from "./verdict-form.ts";

export interface AskOptions {
  readonly env: Environment;
  /** Records the judge's model calls. */
  readonly emit: Emit;
  /** Ends a request at once; its reason is then thrown. */
  readonly signal: AbortSignal;
  /** Longest that one request to the model may take, in milliseconds. */
  readonly modelMs: number;
  readonly retry?: RetrySettings;
}

export interface Asked<V> {
  readonly prompt: JudgePrompt;
  /** What a verdict has to look like. */
  readonly form: VerdictForm<V>;
}

/**
 * Asks a judge's model for a verdict. Throws `judge/no-verdict` when the answer is none, what the model throws when it
 * could not be asked, and the signal's reason.
 */
export async function askJudge<V>(
  { prompt, form }: Asked<V>,
  spec: JudgeSpec,
  options: AskOptions,
): Promise<V> {
  return readVerdict(await ask({ prompt, form }, spec, options), form, spec.model);
}

/** The text of the judge's answer. */
async function ask({ prompt, form }: Asked<unknown>, spec: JudgeSpec, options: AskOptions): Promise<string> {
  const access = locateModel(spec, options.env);
  const ai = await loadAiSdk();
  const model = await createRetryingModel(await resolveModel(access), {
    access,
    purpose: "judge",
    emit: options.emit,
    requestTimeoutMs: options.modelMs,
    ...(options.retry === undefined ? {} : { retry: options.retry }),
  });
  try {
    const { responseFormat } = ai.Output.object({ schema: ai.jsonSchema(form.schema), name: "verdict" });
    const result = await ai.generateText({
      ...callSettings(spec, access),
      model,
      instructions: prompt.system,
      prompt: prompt.user,
      // Read as text: the library's own reading of JSON takes the last of two equal keys.
      output: { ...ai.Output.text(), responseFormat },
      abortSignal: options.signal,
    });
    if (result.finishReason !== "stop")
      throw noVerdict(`${spec.model} ${endOf(result.finishReason, result.rawFinishReason)}`, result.text);
    return result.output;
  } catch (error) {
    options.signal.throwIfAborted();
    if (ai.AISDKError.isInstance(error))
      throw noVerdict(`${spec.model} gave no verdict`, error.message, error);
    throw error;
  }
}

/** How an answer ended that the model did not end as it should. */
function endOf(reason: FinishReason, told: string | undefined): string {
  if (reason === "content-filter") return "refused to judge";
  if (reason === "length") return "was cut off at its output limit";
  return `did not end its answer: ${told === undefined ? "no finish reason" : `finish reason ${previewJson(told)}`}`;
}

function readVerdict<V>(text: string, form: VerdictForm<V>, model: string): V {
  const reading = readAnswer(text, form);
  if ("problem" in reading) throw noVerdict(`${model} ${reading.problem}`, text);
  return reading.verdict;
}

function readAnswer<V>(text: string, form: VerdictForm<V>): ReturnType<VerdictForm<V>["read"]> {
  if (text.trim() === "") return { problem: "gave an empty answer" };
  const json = withoutFence(text);
  const value = parse(json);
  if (!isJsonObject(value)) return { problem: "answered with something that is not a verdict" };
  const key = repeatedKey(json);
  if (key !== undefined) return { problem: `gave ${previewJson(key)} twice in one answer` };
  const { properties } = form.schema;
  const other = Object.keys(value).find(
    (name) => !isJsonObject(properties) || !Object.hasOwn(properties, name),
  );
  const reading = form.read(value);
  return "problem" in reading || other === undefined
    ? reading
    : { problem: `gave ${previewJson(other)}, which is no part of a verdict` };
}

/** Takes JSON only when it is all that there is in the fence and the fence is all that there is: a quoted one is no verdict. */
function withoutFence(text: string): string {
  const fenced = /^```(?:json)?\s*\n([\s\S]*?)\n?\s*```$/i.exec(text.trim());
  return fenced?.[1] ?? text;
}

function parse(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    // A judge's answer may be any text; one that is no JSON is told as no verdict.
    return undefined;
  }
}

const longestShown = 2000;

function noVerdict(message: string, shown: string, cause?: unknown): McpvalsError {
  const detail = shown.length > longestShown ? `${shown.slice(0, longestShown)}…` : shown;
  return new McpvalsError("judge/no-verdict", message, {
    ...(detail.trim() === "" ? {} : { detail: `The judge's answer: ${detail}` }),
    ...(cause === undefined ? {} : { cause }),
  });
}
