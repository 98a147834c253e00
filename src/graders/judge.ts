import { randomUUID } from "node:crypto";
import { McpvalsError, serializeError } from "../core/errors/error.ts";
import { isJsonObject } from "../core/formats/json.ts";
import type { Json, JsonObject, JudgeSpec } from "../core/formats/model.ts";
import { previewJson, repeatedKey } from "../core/formats/read-json.ts";
import type { Grader } from "../core/grade/grader.ts";
import { judgeName } from "../core/grade/graders.ts";
import {
  type JudgeAnswer,
  judgePrompt,
  type JudgePrompt,
  type JudgeQuestion,
  stepJudgePrompt,
} from "../core/grade/judge-prompt.ts";
import { shortened } from "../core/text/visible-text.ts";
import type { Emit } from "../core/trace/events.ts";
import type { Trajectory } from "../core/trace/trajectory.ts";
import { type Environment, locateModel } from "../models/locate-model.ts";
import { resolveModel } from "../models/resolve-model.ts";
import {
  callSettings,
  createRetryingModel,
  loadAiSdk,
  type RetrySettings,
} from "../models/retrying-model.ts";

export interface JudgeOptions {
  readonly env: Environment;
  /** Records the judge's model calls in the trial that is graded. */
  readonly emit: Emit;
  /** Ends a request at once; its reason is then thrown. */
  readonly signal: AbortSignal;
  /** Longest that one request to the model may take, in milliseconds. */
  readonly modelMs: number;
  readonly retry?: RetrySettings;
  /** Returns an unpredictable text. Default: a random UUID. */
  readonly nonce?: () => string;
}

/**
 * Creates a grader that asks a language model for a score from 0 to 1; the grade passes at the spec's threshold. It
 * rests on the last assistant message and the tool calls. Without a usable verdict, for whatever reason, the grade is
 * an error without a score: `judge/no-verdict`, or the code of the model's error.
 *
 * `grade` throws only the signal's reason.
 */
export function createJudge(spec: JudgeSpec, options: JudgeOptions): Grader {
  return {
    name: judgeName,
    async grade(trajectory) {
      const evidence = evidenceOf(trajectory);
      const unscored = { grader: judgeName, score: null, evidence };
      if (trajectory.task.turns.length === 0)
        return { ...unscored, verdict: "skip", reason: "no agent took part" };
      try {
        const prompt = judgePrompt(trajectory, { nonce: (options.nonce ?? randomUUID)() });
        const { score, reason } = await askJudge({ prompt, form: scoreForm }, spec, options);
        return { ...unscored, verdict: score >= spec.passThreshold ? "pass" : "fail", score, reason };
      } catch (error) {
        options.signal.throwIfAborted();
        if (!(error instanceof McpvalsError)) throw error;
        return { ...unscored, verdict: "error", reason: error.message, error: serializeError(error) };
      }
    },
  };
}

function evidenceOf({ events, calls }: Trajectory): number[] {
  const message = events.findLast((event) => event.type === "agent.message");
  const seqs = calls.filter((call) => call.step === undefined).map((call) => call.seq);
  return [...seqs, ...(message === undefined ? [] : [message.seq])].toSorted((a, b) => a - b);
}

/** Longest text that is judged, in characters. A text is judged whole or not at all: what is cut off could decide. */
const longestInput = 400_000;

/**
 * Creates the judge for steps. Whether a text contains a reference or equals it is the judge's own yes or no, with a
 * score of 1 or 0; a rubric passes from the spec's threshold on. The judge throws `judge/no-verdict` without a usable
 * verdict, what the model throws when it could not be asked, and the signal's reason.
 */
export function createStepJudge(
  spec: JudgeSpec,
  options: Omit<JudgeOptions, "signal">,
): (question: JudgeQuestion, signal: AbortSignal) => Promise<JudgeAnswer> {
  return async (question, signal) => {
    const { length } = question.input;
    if (length > longestInput) {
      throw new McpvalsError(
        "judge/no-verdict",
        `the text to be judged has ${length} characters, and only ${longestInput} can be judged`,
        { hint: "Judge a part of it: give `input` the part that matters." },
      );
    }
    signal.throwIfAborted();
    const prompt = stepJudgePrompt(question, (options.nonce ?? randomUUID)());
    if (question.kind === "rubric") {
      const verdict = await askJudge({ prompt, form: scoreForm }, spec, { ...options, signal });
      return { ...verdict, passed: verdict.score >= spec.passThreshold };
    }
    const verdict = await askJudge({ prompt, form: yesOrNoForm }, spec, { ...options, signal });
    return { ...verdict, score: verdict.passed ? 1 : 0 };
  };
}

/** A prompt, and what a verdict has to look like. */
export interface Asked<V> {
  readonly prompt: JudgePrompt;
  readonly form: VerdictForm<V>;
}

/**
 * Asks a judge's model for a verdict. Throws `judge/no-verdict` when the answer is none, what the model throws when it
 * could not be asked, and the signal's reason.
 */
export async function askJudge<V>(
  { prompt, form }: Asked<V>,
  spec: JudgeSpec,
  options: JudgeOptions,
): Promise<V> {
  const { env, emit, signal, modelMs: requestTimeoutMs, retry } = options;
  const access = locateModel(spec, env);
  const ai = await loadAiSdk();
  const settings = {
    access,
    purpose: "judge",
    emit,
    requestTimeoutMs,
    ...(retry === undefined ? {} : { retry }),
  } as const;
  const model = await createRetryingModel(await resolveModel(access), settings);
  const text = await (async () => {
    try {
      const { responseFormat } = ai.Output.object({ schema: ai.jsonSchema(form.schema), name: "verdict" });
      const result = await ai.generateText({
        ...callSettings(spec, access),
        model,
        instructions: prompt.system,
        prompt: prompt.user,
        // Read as text: the library's own reading of JSON takes the last of two equal keys.
        output: { ...ai.Output.text(), responseFormat },
        abortSignal: signal,
      });
      const { finishReason, rawFinishReason } = result;
      const told =
        rawFinishReason === undefined ? "no finish reason" : `finish reason ${previewJson(rawFinishReason)}`;
      const ends: Readonly<Record<string, string>> = {
        "content-filter": "refused to judge",
        length: "was cut off at its output limit",
      };
      if (finishReason !== "stop")
        throw noVerdict(
          `${spec.model} ${ends[finishReason] ?? `did not end its answer: ${told}`}`,
          result.text,
        );
      return result.output;
    } catch (error) {
      signal.throwIfAborted();
      if (ai.AISDKError.isInstance(error))
        throw noVerdict(`${spec.model} gave no verdict`, error.message, error);
      throw error;
    }
  })();
  const reading = readAnswer(text, form);
  if ("problem" in reading) throw noVerdict(`${spec.model} ${reading.problem}`, text);
  return reading.verdict;
}

function readAnswer<V>(text: string, form: VerdictForm<V>): Reading<V> {
  if (text.trim() === "") return { problem: "gave an empty answer" };
  // JSON in a code fence only if there is nothing else: a quoted verdict is not one.
  const json = /^```(?:json)?\s*\n([\s\S]*?)\n?\s*```$/i.exec(text.trim())?.[1] ?? text;
  const value = parse(json);
  if (!isJsonObject(value)) return { problem: "answered with something that is not a verdict" };
  const key = repeatedKey(json);
  if (key !== undefined) return { problem: `gave ${previewJson(key)} twice in one answer` };
  const other = Object.keys(value).find((member) => !form.schema.required.includes(member));
  const reading = form.read(value);
  return "problem" in reading || other === undefined
    ? reading
    : { problem: `gave ${previewJson(other)}, which is no part of a verdict` };
}

function parse(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    // A judge's answer may be any text; one that is not JSON is no verdict.
    return undefined;
  }
}

function noVerdict(message: string, shown: string, cause?: unknown): McpvalsError {
  return new McpvalsError("judge/no-verdict", message, {
    ...(shown.trim() === "" ? {} : { detail: `The judge's answer: ${shortened(shown, 2000)}` }),
    ...(cause === undefined ? {} : { cause }),
  });
}

type Reading<V> = { readonly verdict: V } | { readonly problem: string };

/** What a judge's verdict has to look like. */
export interface VerdictForm<V> {
  /** The schema for the model; other properties, which could contradict the verdict, are not allowed. */
  readonly schema: JsonObject & { readonly required: readonly string[] };
  /** Parses an answer; `problem` says why it is no verdict. */
  readonly read: (answer: JsonObject) => Reading<V>;
}

function schemaOf(key: string, property: JsonObject): VerdictForm<unknown>["schema"] {
  const reason = { type: "string", description: "one or two sentences" };
  return {
    type: "object",
    properties: { [key]: property, reason },
    required: [key, "reason"],
    additionalProperties: false,
  };
}

/** A score from 0 to 1. The schema has no limits on it: not every provider takes them, and it is checked here anyway. */
export const scoreForm: VerdictForm<{ readonly score: number; readonly reason: string }> = {
  schema: schemaOf("score", { type: "number", description: "from 0 to 1" }),
  read({ score, reason }) {
    if (typeof score !== "number" || !(score >= 0 && score <= 1))
      return { problem: `gave no score from 0 to 1, but ${JSON.stringify(score) ?? "none"}` };
    if (typeof reason !== "string") return { problem: "gave a score without a reason" };
    return { verdict: { score, reason: reason.trim() || noReason } };
  },
};

export const yesOrNoForm: VerdictForm<{ readonly passed: boolean; readonly reason: string }> = {
  schema: schemaOf("passed", { type: "boolean" }),
  read({ passed, reason }) {
    if (typeof passed !== "boolean")
      return { problem: `said neither yes nor no, but ${JSON.stringify(passed) ?? "nothing"}` };
    if (typeof reason !== "string") return { problem: "gave a verdict without a reason" };
    return { verdict: { passed, reason: reason.trim() || noReason } };
  },
};

const noReason = "the judge gave no reason";
