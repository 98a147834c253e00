import type { Plan, Trial } from "../plan/plan.ts";
import type { TraceEvent } from "../trace/events.ts";
import type { RunEnvironment, RunResult, TrialResult } from "./result.ts";

export type Awaitable<T> = T | Promise<T>;

/** What is known when a run begins. */
export interface RunStart {
  readonly id: string;
  readonly plan: Plan;
  readonly startedAt: string;
  readonly environment: RunEnvironment;
  /** The run folder; absent when nothing is kept. */
  readonly folder?: string;
}

/** What is known when a run has ended. */
export interface RunEnd {
  readonly result: RunResult;
  /** What `collectEvidence` gives for each trial that did not pass, by trial id. */
  readonly evidence: ReadonlyMap<string, readonly TraceEvent[]>;
}

/** A listener to a run; it cannot change it. Every method is optional. */
export interface Reporter {
  onRunStart?(start: RunStart): Awaitable<void>;
  onTrialStart?(trial: Trial): Awaitable<void>;
  onEvent?(event: TraceEvent): void;
  onTrialEnd?(result: TrialResult): Awaitable<void>;
  onRunEnd?(end: RunEnd): Awaitable<void>;
  /** Called on every way out, after onRunEnd or instead of it. */
  close?(): Awaitable<void>;
}

/** Where a reporter writes, and what the place can show. */
export interface ReporterOutput {
  write(text: string): void;
  readonly isTerminal: boolean;
  readonly colors: boolean;
  /** Width in columns; 80 when unknown. */
  readonly columns: () => number;
  /** Milliseconds since the Unix epoch. */
  readonly now: () => number;
  /** Calls back about every `ms` until the returned function is called; used for live progress. */
  every(ms: number, callback: () => void): () => void;
  /**
   * Gives a reporter that draws in place the notices that would break its drawing, until the returned function is called.
   * Absent where notices are not shown in the same place.
   */
  notices?(listener: (text: string) => void): () => void;
}
