import { randomUUID } from "node:crypto";
import type { FinishReason } from "ai";
import { McpvalsError, serializeError } from "../core/errors/error.ts";
import { isJsonObject } from "../core/formats/json.ts";
import type { Json, JsonObject, JudgeSpec } from "../core/formats/model.ts";
import { previewJson, repeatedKey } from "../core/formats/read-json.ts";
import type { Grade, Grader } from "../core/grade/grader.ts";
import {
  type JudgeAnswer,
  judgePrompt,
  type JudgePrompt,
  type JudgeQuestion,
  stepJudgePrompt,
} from "../core/grade/judge-prompt.ts";
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

/** `emit` is that of the trial that is graded. */
export interface JudgeOptions extends AskOptions {
  /** Returns an unpredictable text. Default: a random UUID. */
  readonly nonce?: () => string;
}

const name = "llm-judge";

/**
 * Creates a grader that asks a language model for a score from 0 to 1; the grade passes at the spec's threshold. It
 * rests on the last assistant message and the tool calls. Without a usable verdict, for whatever reason, the grade is
 * an error without a score: `judge/no-verdict`, or the code of the model's error.
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
        const { score, reason } = await askJudge({ prompt, form: scoreForm }, spec, options);
        return {
          grader: name,
          verdict: score >= spec.passThreshold ? "pass" : "fail",
          score,
          reason,
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

/** Accepts JSON in a code fence only if there is nothing else: a quoted verdict is not one. */
function withoutFence(text: string): string {
  const fenced = /^```(?:json)?\s*\n([\s\S]*?)\n?\s*```$/i.exec(text.trim());
  return fenced?.[1] ?? text;
}

function parse(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    // A judge's answer may be any text; one that is not JSON is no verdict.
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

/** What a judge's verdict has to look like. */
export interface VerdictForm<V> {
  /** The schema for the model; other properties, which could contradict the verdict, are not allowed. */
  readonly schema: JsonObject;
  /** Parses an answer; `problem` says why it is no verdict. */
  readonly read: (
    answer: Readonly<Record<string, unknown>>,
  ) => { readonly verdict: V } | { readonly problem: string };
}

const reasonSchema = { type: "string", description: "one or two sentences" } as const;

export interface Score {
  readonly score: number;
  readonly reason: string;
}

/** A score from 0 to 1. The schema has no limits on it: not every provider takes them, and it is checked here anyway. */
export const scoreForm: VerdictForm<Score> = {
  schema: {
    type: "object",
    properties: { score: { type: "number", description: "from 0 to 1" }, reason: reasonSchema },
    required: ["score", "reason"],
    additionalProperties: false,
  },
  read({ score, reason }) {
    if (typeof score !== "number" || !(score >= 0 && score <= 1))
      return { problem: `gave no score from 0 to 1, but ${JSON.stringify(score) ?? "none"}` };
    if (typeof reason !== "string") return { problem: "gave a score without a reason" };
    return { verdict: { score, reason: shownReason(reason) } };
  },
};

export interface YesOrNo {
  readonly passed: boolean;
  readonly reason: string;
}

/** Yes or no. */
export const yesOrNoForm: VerdictForm<YesOrNo> = {
  schema: {
    type: "object",
    properties: { passed: { type: "boolean" }, reason: reasonSchema },
    required: ["passed", "reason"],
    additionalProperties: false,
  },
  read({ passed, reason }) {
    if (typeof passed !== "boolean")
      return { problem: `said neither yes nor no, but ${JSON.stringify(passed) ?? "nothing"}` };
    if (typeof reason !== "string") return { problem: "gave a verdict without a reason" };
    return { verdict: { passed, reason: shownReason(reason) } };
  },
};

function shownReason(reason: string): string {
  return reason.trim() || "the judge gave no reason";
}

interface StepJudgeOptions extends Omit<AskOptions, "signal"> {
  /** Returns an unpredictable text. Default: a random UUID. */
  readonly nonce?: () => string;
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
  options: StepJudgeOptions,
): (question: JudgeQuestion, signal: AbortSignal) => Promise<JudgeAnswer> {
  const { nonce = randomUUID, ...ask } = options;
  return async (question, signal) => {
    checkLength(question);
    signal.throwIfAborted();
    const prompt = stepJudgePrompt(question, nonce());
    if (question.kind === "rubric") {
      const verdict = await askJudge({ prompt, form: scoreForm }, spec, { ...ask, signal });
      return { ...verdict, passed: verdict.score >= spec.passThreshold };
    }
    const verdict = await askJudge({ prompt, form: yesOrNoForm }, spec, { ...ask, signal });
    return { ...verdict, score: verdict.passed ? 1 : 0 };
  };
}

function checkLength({ input }: JudgeQuestion): void {
  if (input.length <= longestInput) return;
  throw new McpvalsError(
    "judge/no-verdict",
    `the text to be judged has ${input.length} characters, and only ${longestInput} can be judged`,
    { hint: "Judge a part of it: give `input` the part that matters." },
  );
}
