import { McpvalsError } from "../core/errors/error.ts";
import type { JudgeSpec } from "../core/formats/model.ts";
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

/** What the judge answered: JSON that was parsed already, or a text that was none. */
type ModelAnswer =
  | { readonly kind: "json"; readonly value: unknown }
  | { readonly kind: "text"; readonly text: string; readonly cause: unknown };

async function ask(
  { prompt, form }: Asked<unknown>,
  spec: JudgeSpec,
  options: AskOptions,
): Promise<ModelAnswer> {
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
    const result = await ai.generateText({
      ...callSettings(spec, access),
      model,
      instructions: prompt.system,
      prompt: prompt.user,
      output: ai.Output.object({ schema: ai.jsonSchema(form.schema), name: "verdict" }),
      abortSignal: options.signal,
    });
    if (result.finishReason === "content-filter")
      throw noVerdict(`${spec.model} refused to judge`, result.text);
    return { kind: "json", value: result.output };
  } catch (error) {
    options.signal.throwIfAborted();
    if (ai.NoObjectGeneratedError.isInstance(error)) {
      const text = error.text ?? "";
      if (error.finishReason === "content-filter")
        throw noVerdict(`${spec.model} refused to judge`, text, error);
      return { kind: "text", text, cause: error };
    }
    if (ai.AISDKError.isInstance(error))
      throw noVerdict(`${spec.model} gave no verdict`, error.message, error);
    throw error;
  }
}

function readVerdict<V>(answer: ModelAnswer, form: VerdictForm<V>, model: string): V {
  const value = answer.kind === "json" ? answer.value : parseFenced(answer.text);
  const cause = answer.kind === "text" ? answer.cause : undefined;
  const shown = answer.kind === "json" ? JSON.stringify(answer.value) : answer.text;
  if (typeof value !== "object" || value === null) {
    const what =
      shown.trim() === "" ? "gave an empty answer" : "answered with something that is not a verdict";
    throw noVerdict(`${model} ${what}`, shown, cause);
  }
  const reading = form.read(value as Readonly<Record<string, unknown>>);
  if ("problem" in reading) throw noVerdict(`${model} ${reading.problem}`, shown, cause);
  return reading.verdict;
}

/** Takes JSON only when it is all that there is in the fence and the fence is all that there is: a quoted one is no verdict. */
function parseFenced(text: string): unknown {
  const fenced = /^```(?:json)?\s*\n([\s\S]*?)\n?\s*```$/i.exec(text.trim());
  try {
    return JSON.parse(fenced?.[1] ?? text);
  } catch {
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
