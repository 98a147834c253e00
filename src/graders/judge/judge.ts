import { hash, randomUUID } from "node:crypto";
import { McpvalsError } from "../../base/error.ts";
import { judgeOf } from "./llm-judge.ts";
import { isJsonObject, type Json, withoutUndefined } from "../../base/json.ts";
import type { JudgeSpec } from "../../model/eval.ts";
import { previewJson, repeatedKey } from "../../base/read-json.ts";
import { type JudgePrompt, stepJudgePrompt } from "./judge-prompt.ts";
import { type AskJudge, type Reading, scoreForm, type VerdictForm, yesOrNoForm } from "./verdict-forms.ts";
import { shortened } from "../../base/visible-text.ts";
import type { Emit, JudgeAnswer, JudgeQuestion } from "../../model/event.ts";
import { trialModels } from "../../agents/models/exchanges.ts";
import type { Environment } from "../../agents/models/model-access.ts";
import { locateModel, resolveModel } from "../../agents/models/resolve-model.ts";
import {
  callSettings,
  createRetryingModel,
  loadAiSdk,
  type RetrySettings,
} from "../../agents/models/retrying-model.ts";
import type { JudgeRecord } from "../../model/grade.ts";
import type { SharedLimits } from "../../process/adaptive-limit.ts";
import type { Hold } from "../../process/deadline.ts";

export interface JudgeOptions {
  readonly env: Environment;
  /** Records the judge's model calls in the trial that is graded. */
  readonly emit: Emit;
  /** Ends a request at once; its reason is then thrown. */
  readonly signal: AbortSignal;
  /** Longest that one request to the model may take, in milliseconds. */
  readonly modelMs: number;
  readonly retry?: RetrySettings;
  /** Of the run; absent: requests are sent whatever others wait for. */
  readonly accounts?: SharedLimits;
  /** Stops a time limit of what asks while a request waits because of the provider's rate limit. */
  readonly hold?: Hold;
  /** Called with the `question` of the judge's record before it is asked; what this throws is thrown. */
  readonly beforeAsking?: (question: string) => void;
  /** Returns an unpredictable text. Default: a random UUID. */
  readonly nonce?: () => string;
}

/** Longest text that is judged, in characters. A text is judged whole or not at all: what is cut off could decide. */
const maxInputLength = 400_000;

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
    if (length > maxInputLength) {
      throw new McpvalsError(
        "judge/no-verdict",
        `the text to be judged has ${length} characters, and only ${maxInputLength} can be judged`,
        { hint: "Judge a part of it: give `input` the part that matters." },
      );
    }
    signal.throwIfAborted();
    const prompt = stepJudgePrompt(question, newNonce(options));
    const { model, passThreshold } = spec;
    const { system } = stepJudgePrompt(question, sameNonce);
    if (question.kind === "rubric") {
      const verdict = await askJudge({ prompt, form: scoreForm }, spec, { ...options, signal });
      // The rubric is an instruction too, although it stands in the other message.
      const hashed = promptHash(`${system}\n\n${question.reference}`, scoreForm);
      const judge = { model, prompt: hashed, threshold: passThreshold, votes: [verdict.score] };
      return { ...verdict, passed: verdict.score >= passThreshold, judge };
    }
    const verdict = await askJudge({ prompt, form: yesOrNoForm }, spec, { ...options, signal });
    const score = verdict.passed ? 1 : 0;
    const judge = { model, prompt: promptHash(system, yesOrNoForm), threshold: 1, votes: [score] };
    return { ...verdict, score, judge };
  };
}

/**
 * The judge for graders. A grader's own model has the settings of the eval's judge only where both are of
 * the server that `baseURL` names.
 */
export function createJudge(spec: JudgeSpec | undefined, options: JudgeOptions): AskJudge {
  return async ({ prompt, form, model }) => {
    const judge = judgeOf(spec, model);
    const hashes = hashesOf(prompt(sameNonce), form);
    options.beforeAsking?.(hashes.question);
    const asked = prompt(newNonce(options));
    const verdict = await askJudge({ prompt: asked, form }, judge, options);
    return { verdict, model: judge.model, ...hashes };
  };
}

function newNonce({ nonce = randomUUID }: Pick<JudgeOptions, "nonce">): string {
  const made = nonce();
  trialModels.getStore()?.texts.mark("nonce", made);
  return made;
}

const sameNonce = "00000000-0000-0000-0000-000000000000";

function promptHash(system: string, { schema }: Pick<VerdictForm<unknown>, "schema">): string {
  return `sha256:${hash("sha256", JSON.stringify([system, schema]))}`;
}

/** What tells whether a judge has the same instructions, and whether it is asked the same. */
function hashesOf(
  { system, user }: JudgePrompt,
  form: Pick<VerdictForm<unknown>, "schema">,
): Pick<Required<JudgeRecord>, "prompt" | "question"> {
  return { prompt: promptHash(system, form), question: promptHash(`${system}\n\n${user}`, form) };
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
  const { env, emit, signal, modelMs: requestTimeoutMs, retry, accounts, hold } = options;
  const access = locateModel(spec, env);
  const ai = await loadAiSdk();
  const purpose = "judge" as const;
  const settings = withoutUndefined({ access, purpose, emit, requestTimeoutMs, retry, accounts, hold });
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
      const reported =
        rawFinishReason === undefined ? "no finish reason" : `finish reason ${previewJson(rawFinishReason)}`;
      const ends: Readonly<Record<string, string>> = {
        "content-filter": "refused to judge",
        length: "was cut off at its output limit",
      };
      if (finishReason !== "stop")
        throw noVerdict(
          `${spec.model} ${ends[finishReason] ?? `did not end its answer: ${reported}`}`,
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
  const rival = Object.keys(value).find(
    (member) => verdictMembers.has(member.toLowerCase()) && !form.schema.required.includes(member),
  );
  const reading = form.read(value);
  return "problem" in reading || rival === undefined
    ? reading
    : { problem: `gave ${previewJson(rival)} beside its verdict, which may contradict it` };
}

/** Names of what is a verdict in some form. Any other member beside a verdict says nothing against it. */
const verdictMembers: ReadonlySet<string> = new Set(["score", "passed", "winner", "verdict"]);

function parse(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    // A judge's answer may be any text; one that is not JSON is not a verdict.
    return undefined;
  }
}

function noVerdict(message: string, shown: string, cause?: unknown): McpvalsError {
  const detail = shown.trim() === "" ? undefined : `The judge's answer: ${shortened(shown, 2000)}`;
  return new McpvalsError("judge/no-verdict", message, withoutUndefined({ detail, cause }));
}
