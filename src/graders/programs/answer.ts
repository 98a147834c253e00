import * as z from "zod";
import { closedObject, duration, optional, passingScore, variableName } from "../../model/fields.ts";
import { McpvalsError } from "../../base/error.ts";
import { isJsonObject, type Json, type JsonObject, withoutUndefined } from "../../base/json.ts";
import { validate } from "../../base/problem.ts";
import { readJsonText } from "../../base/read-json.ts";
import { problemsOfIssues } from "../../model/zod-problems.ts";
import { shortened } from "../../base/visible-text.ts";
import type { GraderResult, GraderProgram, KindContext, ProgramEnd } from "../grader.ts";
import type { Trajectory } from "../../trace/trajectory.ts";
import type { TrajectoryRecord } from "./trajectory-record.ts";

const answerSchema = z.lazy(() =>
  closedObject({
    score: z.number().min(0).max(1).nullish(),
    passed: z.boolean().nullish(),
    reason: z.string().nullish(),
    evidence: z.array(z.int().min(1)).nullish(),
  }),
);

/**
 * What a grader of your own answers: a score from 0 to 1 (null: there was nothing to judge), a verdict, or both. Without a
 * verdict it passes at the grader's `threshold`; without a score a pass is 1 and a failure 0. `evidence`: numbers of events.
 */
export type GraderAnswer = z.output<typeof answerSchema>;

/** Settings of graders that run something. */
export const runFields = {
  timeout: optional(duration, "How long it may take.", "30 seconds"),
  inheritEnv: z
    .array(variableName)
    .default([])
    .describe("Variables of the environment that it gets, besides those that every program needs."),
} as const;

/** How long what a grader runs may take, in milliseconds. */
export const defaultTimeoutMs = 30_000;

/** Settings of graders whose answer may have a score. */
export const answerFields = {
  ...runFields,
  threshold: optional(
    passingScore,
    "Lowest score that passes, where the answer has a score and does not say whether it passed.",
    "1",
  ),
} as const;

/** Longest reason, in characters. */
const maxReasonLength = 2000;

/**
 * The answer on stdout: a JSON object that begins a line, with nothing after it. Undefined where no line begins with `{`. Throws
 * `grader/broken` for anything else that does, and for other JSON but a number or a string: it may be a verdict, and must not be taken
 * for a mere text.
 */
export function answerIn({ stdout, omitted }: ProgramEnd): GraderAnswer | undefined {
  const text = stdout.trim();
  const [last = ""] = /^\s*(?:\[[^]*|true|false|null)$/m.exec(text) ?? [];
  const { value: other } = readJsonText(last);
  if (other !== undefined) return readAnswer(other, "what the program wrote on stdout is not an answer");
  const begins = text.search(/^\s*\{/m);
  if (begins === -1) return undefined;
  const what = "what the program wrote on stdout begins with { and is not an answer";
  if (omitted > 0) throw broken("it is too long and was cut", what);
  const { value, reason } = readJsonText(text.slice(begins));
  if (value === undefined) throw broken(`it is not one JSON object: ${reason}`, what);
  return readAnswer(value, what);
}

/** Reads an answer. Throws `grader/broken` for one that has another form, or neither a score nor a verdict. */
export function readAnswer(value: Json, what?: string): GraderAnswer {
  if (!isJsonObject(value)) throw broken("it is not an object", what);
  const { data, issues } = validate(answerSchema, value);
  if (data === undefined)
    throw broken(problemsOfIssues(issues, value)[0]?.message ?? "it has another form", what);
  if (data.score === undefined && (data.passed ?? undefined) === undefined)
    throw broken("it has neither `score` nor `passed`", what);
  return data;
}

function broken(problem: string, what = "the answer of the grader is unusable"): McpvalsError {
  return new McpvalsError("grader/broken", `${what}: ${problem}`, {
    hint: 'It is one JSON object: {"score": 0 to 1, "passed": true or false, "reason": "…", "evidence": [numbers of events]}.',
  });
}

/**
 * The finding that an answer makes. A score of null means that there was nothing to judge. Without evidence of its own it
 * cites everything that the agent said and did. Throws `grader/broken` for evidence that is not there.
 */
export function findingOf(
  { score, passed, reason, evidence }: GraderAnswer,
  { threshold = 1, record, trajectory }: AnswerContext,
): GraderResult {
  const done = [...record.messages, ...record.calls].map(({ seq }) => seq);
  const reported = evidence ?? (done.length === 0 ? [trajectory.agentStarted ?? 1] : done);
  const missing = reported.find((seq) => seq > trajectory.events.length);
  if (missing !== undefined) throw broken(`evidence: the trial has no event ${missing}`);
  const cited = [...new Set(reported)].toSorted((a, b) => a - b);
  const said = (otherwise: string): string => shortened(reason?.trim() || otherwise, maxReasonLength);
  if (score === null && passed !== false)
    return { verdict: "skip", score: null, reason: said("nothing to judge"), evidence: cited };
  const holds = passed ?? (score ?? 0) >= threshold;
  const verdict = holds ? "pass" : "fail";
  const given = score ?? (holds ? 1 : 0);
  return { verdict, score: given, reason: said(`score ${given}`), evidence: cited };
}

interface AnswerContext {
  readonly threshold?: number | undefined;
  readonly record: TrajectoryRecord;
  readonly trajectory: Trajectory;
}

/** What the program for graders in JavaScript gets on stdin. */
export type JavaScriptWork =
  | {
      readonly kind: "script";
      /** Path from the folder that the program runs in. */
      readonly file: string;
      readonly settings: JsonObject;
      /** Absent: only whether it can be used is asked; the answer is null. */
      readonly trajectory?: TrajectoryRecord;
    }
  | { readonly kind: "code"; readonly assertions: readonly string[]; readonly variables: JsonObject };

/** The last line that a program writes on stdout which runs code of graders. */
export type CodeAnswer = { readonly answer: unknown } | { readonly problem: string };

/** What came of one assertion. */
export interface CodeResult {
  readonly holds: boolean;
  /** Why it could not be evaluated. */
  readonly error?: string;
}

/**
 * Runs code of a grader in a process of its own, and gives its answer. Throws `grader/broken` for code that gives none; `shown` is
 * what the code is called then.
 */
export async function runCode(
  shown: string,
  work: JavaScriptWork,
  { dir: cwd, runProgram, ...program }: CodeContext,
): Promise<Json> {
  const stdin = JSON.stringify(work);
  const { stdout, stderr, omitted } = await runProgram({ args: [], ...program, cwd, stdin });
  const refuse = (problem: string, hint?: string): McpvalsError => {
    const detail = stderr === "" ? undefined : stderr;
    return new McpvalsError("grader/broken", `${shown} ${problem}`, withoutUndefined({ hint, detail }));
  };
  if (omitted > 0) throw refuse("gave an answer that is too long");
  const { value } = readJsonText(stdout.trim().split("\n").at(-1) ?? "");
  if (!isJsonObject(value)) throw refuse("ended without an answer");
  if (typeof value["problem"] === "string")
    throw refuse(value["problem"], "Correct the code of the grader, or its settings.");
  return value["answer"] ?? null;
}

type CodeContext = Pick<KindContext, "dir" | "runProgram"> &
  Pick<GraderProgram, "inheritEnv" | "timeoutMs"> &
  Partial<Pick<GraderProgram, "command" | "args">>;

/** A schema of any library that keeps to Standard Schema, such as zod, Valibot or ArkType. */
export interface SettingsSchema<T> {
  readonly "~standard": {
    readonly validate: (value: unknown) => SettingsResult<T> | Promise<SettingsResult<T>>;
  };
}

type SettingsResult<T> =
  | { readonly value: T; readonly issues?: undefined }
  | {
      readonly issues: readonly {
        readonly message: string;
        readonly path?: readonly unknown[] | undefined;
      }[];
    };

/** A grader of your own. */
export interface GraderDefinition<T = JsonObject> {
  /** Schema of `settings` of graders of type `script`; absent: they are given as they are. */
  readonly settings?: SettingsSchema<T>;
  /**
   * Judges a finished trial. What it throws is an error of this grader, and so is everything that takes longer than its `timeout`.
   * A score of null means that there was nothing to judge.
   */
  grade(
    trajectory: TrajectoryRecord,
    context: { readonly settings: T },
  ): GraderAnswer | Promise<GraderAnswer>;
}

/**
 * Gives a grader its types. A file has it as its default export, and a grader of type `script` names the file:
 *
 * ```ts
 * export default defineGrader({
 *   grade: ({ calls }) => ({ score: calls.length === 1 ? 1 : 0, reason: `${calls.length} calls` }),
 * });
 * ```
 */
export function defineGrader<T = JsonObject>(definition: GraderDefinition<T>): GraderDefinition<T> {
  return definition;
}
