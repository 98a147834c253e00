/** One question to the judge about a text. */
export interface JudgeQuestion {
  /** Whether all of the reference must be in the text, or nothing else either; or whether it satisfies a rubric. */
  readonly kind: "contains" | "exact" | "rubric";
  /** The reference, or the rubric. */
  readonly reference: string;
  /** What the agent was told. */
  readonly prompt: string;
  /** What is judged. */
  readonly input: string;
}

/** What the judge answers; the score is from 0 to 1. */
export interface JudgeAnswer {
  readonly passed: boolean;
  readonly score: number;
  readonly reason: string;
}
