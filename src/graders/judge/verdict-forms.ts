import type { Json, JsonObject } from "../../base/json.ts";
import type { JudgePrompt } from "./judge-prompt.ts";

/** What a judge's verdict has to look like. */
export interface VerdictForm<V> {
  /** The schema for the model. */
  readonly schema: JsonObject & { readonly required: readonly string[] };
  /** Parses an answer; `problem` says why it is not a verdict. */
  readonly read: (answer: JsonObject) => Reading<V>;
}

export type Reading<V> = { readonly verdict: V } | { readonly problem: string };

function schemaOf(key: string, property: JsonObject): VerdictForm<unknown>["schema"] {
  const reason = { type: "string", description: "one or two sentences" };
  return {
    type: "object",
    properties: { [key]: property, reason },
    required: [key, "reason"],
    additionalProperties: false,
  };
}

export interface ScoreVerdict {
  readonly score: number;
  readonly reason: string;
}

/**
 * A score from 0 to 1; with `levels`, one of them. The schema has no limits on it: not every provider takes them, and it
 * is checked here anyway.
 */
export function scoreFormOf(levels?: readonly number[]): VerdictForm<ScoreVerdict> {
  const range = levels === undefined ? "from 0 to 1" : `one of ${levels.join(", ")}`;
  return {
    schema: schemaOf("score", { type: "number", description: range }),
    read({ score, reason }) {
      const fits = typeof score === "number" && (levels?.includes(score) ?? (score >= 0 && score <= 1));
      const given = score === undefined ? "no score" : `the score ${JSON.stringify(score)}`;
      if (!fits) return { problem: `gave ${given}; it has to be ${range}` };
      if (typeof reason !== "string") return { problem: "gave a score without a reason" };
      return { verdict: { score, reason: reason.trim() || noReason } };
    },
  };
}

export const scoreForm: VerdictForm<ScoreVerdict> = scoreFormOf();

export const yesOrNoForm: VerdictForm<{ readonly passed: boolean; readonly reason: string }> = {
  schema: schemaOf("passed", { type: "boolean" }),
  read({ passed, reason }) {
    if (typeof passed !== "boolean")
      return { problem: `said neither yes nor no, but ${JSON.stringify(passed) ?? "nothing"}` };
    if (typeof reason !== "string") return { problem: "gave a verdict without a reason" };
    return { verdict: { passed, reason: reason.trim() || noReason } };
  },
};

export interface WinnerVerdict {
  /** Score of answer A: from 1, much better than B, to 0, much worse. */
  readonly score: number;
  readonly reason: string;
}

/** What a judge may say of two answers, with the score of answer A. */
const winners: ReadonlyMap<unknown, number> = new Map([
  ["A much better", 1],
  ["A slightly better", 0.75],
  ["tie", 0.5],
  ["B slightly better", 0.25],
  ["B much better", 0],
]);

/** Which of two answers is better, and how much. */
export const winnerForm: VerdictForm<WinnerVerdict> = {
  schema: schemaOf("winner", { type: "string", enum: [...winners.keys()] as Json[] }),
  read({ winner, reason }) {
    const score = winners.get(winner);
    if (score === undefined)
      return { problem: `did not say which answer is better, but ${JSON.stringify(winner) ?? "nothing"}` };
    if (typeof reason !== "string") return { problem: "gave a verdict without a reason" };
    return { verdict: { score, reason: reason.trim() || noReason } };
  },
};

const noReason = "the judge gave no reason";

/** One question to a judge. */
export interface JudgeRequest<V> {
  /** Writes it around an unpredictable text; the system message depends on nothing else of the trial. */
  readonly prompt: (nonce: string) => JudgePrompt;
  readonly form: VerdictForm<V>;
  /** A model other than that of the eval's judge. */
  readonly model?: string | undefined;
}

/** What a judge said, and who it was. */
export interface JudgeResponse<V> {
  readonly verdict: V;
  readonly model: string;
  /** `sha256:HEX` of its instructions: those of every trial that is judged the same way. */
  readonly prompt: string;
  /** `sha256:HEX` of all that it was asked. */
  readonly question: string;
}

/** Asks a judge. Rejects with `judge/no-verdict` without a usable verdict, and with what the model throws. */
export type AskJudge = <V>(request: JudgeRequest<V>) => Promise<JudgeResponse<V>>;
