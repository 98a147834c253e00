import { randomUUID } from "node:crypto";
import { McpvalsError, serializeError } from "../core/errors/error.ts";
import type { JudgeSpec } from "../core/formats/model.ts";
import type { Grade } from "../core/grade/grade.ts";
import type { Grader } from "../core/grade/grader.ts";
import { judgePrompt, type JudgePrompt } from "../core/grade/judge-prompt.ts";
import type { Emit } from "../core/trace/events.ts";
import type { Trajectory } from "../core/trace/trajectory.ts";
import { callSettings } from "../models/call-settings.ts";
import type { Environment } from "../models/language-model.ts";
import { loadAiSdk } from "../models/load-ai-sdk.ts";
import { locateModel } from "../models/locate-model.ts";
import { resolveModel } from "../models/resolve-model.ts";
import { createRetryingModel, type RetrySettings } from "../models/retrying-model.ts";

export interface JudgeOptions {
  readonly env: Environment;
  /** Records the judge's model calls; of the trial that is graded. */
  readonly emit: Emit;
  /** Ends a request at once; its reason is then thrown. */
  readonly signal: AbortSignal;
  /** Longest that one request to the model may take, in milliseconds. */
  readonly modelMs: number;
  readonly retry?: RetrySettings;
  /** Gives a text that nobody can know before. Default: a random UUID. */
  readonly nonce?: () => string;
}

const name = "llm-judge";

/**
 * Makes a grader that asks a language model for a score from 0 to 1; the grade passes at the spec's threshold. It
 * rests on the last assistant message and the tool calls. Without a usable verdict, for whatever reason, the grade is
 * an error without a score: `judge/no-verdict`, or the code that says why the model could not be asked.
 *
 * `grade` throws only the signal's reason.
 */
export function createJudge(spec: JudgeSpec, options: JudgeOptions): Grader {
  return {
    name,
    async grade(trajectory): Promise<Grade> {
      const evidence = evidenceOf(trajectory);
      if (trajectory.task.turns.length === 0) {
        return { grader: name, verdict: "skip", score: null, reason: "no agent took part", evidence };
      }
      try {
        const prompt = judgePrompt(trajectory, { nonce: (options.nonce ?? randomUUID)() });
        const { score, reason } = readVerdict(await ask(prompt, spec, options), spec.model);
        return {
          grader: name,
          verdict: score >= spec.passThreshold ? "pass" : "fail",
          score,
          reason: reason.trim() || "the judge gave no reason",
          evidence,
        };
      } catch (error) {
        options.signal.throwIfAborted();
        if (!(error instanceof McpvalsError)) throw error;
        return {
          grader: name,
          verdict: "error",
          score: null,
          reason: error.message,
          evidence,
          error: serializeError(error),
        };
      }
    },
  };
}

function evidenceOf({ events, calls }: Trajectory): number[] {
  const message = events.findLast((event) => event.type === "agent.message");
  const seqs = calls.filter((call) => call.step === undefined).map((call) => call.seq);
  return [...seqs, ...(message === undefined ? [] : [message.seq])].toSorted((a, b) => a - b);
}

/** What the judge answered: JSON that was parsed already, or a text that was none. */
type JudgeAnswer =
  | { readonly kind: "json"; readonly value: unknown }
  | { readonly kind: "text"; readonly text: string; readonly cause: unknown };

async function ask(prompt: JudgePrompt, spec: JudgeSpec, options: JudgeOptions): Promise<JudgeAnswer> {
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
      output: ai.Output.object({ schema: ai.jsonSchema(verdictSchema), name: "verdict" }),
      abortSignal: options.signal,
    });
    if (result.finishReason === "content-filter")
      throw noVerdict(`${spec.model} refused to judge`, result.text);
    return { kind: "json", value: result.output };
  } catch (error) {
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

/** Without limits on the score: not every provider takes them, and it is checked here anyway. */
const verdictSchema = {
  type: "object",
  properties: {
    score: { type: "number", description: "from 0 to 1" },
    reason: { type: "string", description: "one or two sentences" },
  },
  required: ["score", "reason"],
  additionalProperties: false,
} as const;

interface Verdict {
  readonly score: number;
  readonly reason: string;
}

function readVerdict(answer: JudgeAnswer, model: string): Verdict {
  const value = answer.kind === "json" ? answer.value : parseFenced(answer.text);
  const cause = answer.kind === "text" ? answer.cause : undefined;
  const shown = answer.kind === "json" ? JSON.stringify(answer.value) : answer.text;
  if (typeof value !== "object" || value === null) {
    const what =
      shown.trim() === "" ? "gave an empty answer" : "answered with something that is not a verdict";
    throw noVerdict(`${model} ${what}`, shown, cause);
  }
  const { score, reason } = value as Partial<Record<keyof Verdict, unknown>>;
  if (typeof score !== "number" || !(score >= 0 && score <= 1)) {
    throw noVerdict(
      `${model} gave no score from 0 to 1, but ${JSON.stringify(score) ?? "none"}`,
      shown,
      cause,
    );
  }
  if (typeof reason !== "string") throw noVerdict(`${model} gave a score without a reason`, shown, cause);
  return { score, reason };
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
