import type { SerializedError } from "../errors/error.ts";

export type Verdict = "pass" | "fail" | "error" | "timeout" | "skip";

/** What one grader says of one trial. */
export interface Grade {
  readonly grader: string;
  readonly verdict: "pass" | "fail" | "error" | "skip";
  /** 0 to 1; null when there is nothing to score. */
  readonly score: number | null;
  readonly reason: string;
  /** Numbers of the events that the verdict rests on. */
  readonly evidence: readonly number[];
  /** Why there is no verdict, when `verdict` is `error`. */
  readonly error?: SerializedError;
}
