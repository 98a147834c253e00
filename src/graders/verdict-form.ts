import type { JsonObject } from "../core/formats/model.ts";

/** What a judge's verdict has to look like. */
export interface VerdictForm<V> {
  /** What the model is told; a verdict has no other properties, which could contradict it. */
  readonly schema: JsonObject;
  /** Reads an answer; `problem` says what the judge did instead. */
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
