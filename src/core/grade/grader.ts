import type { ValidateSchema } from "../checks/schema-check.ts";
import type { SerializedError } from "../errors/error.ts";
import type { Trajectory } from "../trace/trajectory.ts";

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

/** The outside world as graders see it. */
export interface GradeContext {
  readonly validateSchema: ValidateSchema;
}

/** Reads a finished trial and gives a verdict; it never touches a server. */
export interface Grader {
  readonly name: string;
  /** Whether it has anything to say of a trial; absent: always. */
  applies?(trajectory: Trajectory): boolean;
  grade(trajectory: Trajectory, context: GradeContext): Grade | Promise<Grade>;
}
