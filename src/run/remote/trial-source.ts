import type { TraceEvent } from "../../model/event.ts";
import type { Plan, Trial } from "../../model/plan.ts";
import type { RunEnvironment, TrialResult } from "../../model/result.ts";
import type { RateLimit } from "../../model/server.ts";
import type { SharedPause } from "../../process/adaptive-limit.ts";
import type { ReserveSlots } from "../../servers/filters/filters.ts";

/** A trial that a worker has taken. */
export interface TakenTrial {
  readonly trial: Trial;
  /** Aborts when somebody else has it now, or its run was cancelled. */
  readonly signal: AbortSignal;
  /** Resolves when it waits for others, so that another one may run in its place. */
  readonly waits: Promise<void>;
}

/** What gives a run its trials, where they are those of several machines, and takes what happens in them. */
export interface TrialSource {
  /** Most trials at once. */
  readonly concurrency: number;
  /** A pause that all workers of the run make together, by what it is for. */
  pauseOf(key: string): SharedPause;
  /** As {@link ReserveSlots}, for a server's limit that all workers of the run share. Rejects also when this worker has to end. */
  reserve(server: string, limit: RateLimit, ...slots: Parameters<ReserveSlots>): ReturnType<ReserveSlots>;
  /** Refuses a plan that is not the one that was submitted. Throws McpvalsError. */
  accept(current: { readonly plan: Plan; readonly environment: RunEnvironment }): void;
  /** The next trial; undefined: there is none for now. Never throws. */
  next(): Promise<TakenTrial | undefined>;
  /**
   * The events of trials, once they have ended or nobody will run them, for another one that waits for them; others take its place meanwhile.
   * Rejects with the reason of a signal, and when this worker has to end.
   */
  eventsOf(
    trials: readonly string[],
    waiting: Trial,
    signal: AbortSignal,
  ): Promise<readonly (readonly TraceEvent[])[]>;
  append(event: TraceEvent, json: string): void;
  /** Called when the last event of a trial was added. */
  ended(result: TrialResult): void;
}
