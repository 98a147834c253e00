import type { TraceEvent } from "../../model/event.ts";
import type { Plan, Trial } from "../../model/plan.ts";
import type { RunEnvironment, TrialResult } from "../../model/result.ts";

/** A trial that a worker has taken. */
export interface TakenTrial {
  readonly trial: Trial;
  /** Aborts when somebody else has it now, or its run was cancelled. */
  readonly signal: AbortSignal;
}

/** What gives a run its trials, where they are those of several machines, and takes what happens in them. */
export interface TrialSource {
  /** Most trials at once. */
  readonly concurrency: number;
  /** Refuses a plan that is not the one that was submitted. Throws McpvalsError. */
  accept(current: { readonly plan: Plan; readonly environment: RunEnvironment }): void;
  /** The next trial; undefined: there is none for now. Never throws. */
  next(): Promise<TakenTrial | undefined>;
  append(event: TraceEvent, json: string): void;
  /** Called when the last event of a trial was added. */
  ended(result: TrialResult): void;
}
