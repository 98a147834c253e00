import type { Task } from "../core/formats/model.ts";
import type { Trial } from "../core/plan/plan.ts";
import type { Emit, Phase, TraceEvent } from "../core/trace/events.ts";

/** A trial and its task, with the servers of the trial's variant. */
export interface TaskOfTrial {
  readonly trial: Trial;
  readonly task: Task;
}

/** One execution of a task. */
export interface TrialRun extends TaskOfTrial {
  readonly emit: Emit;
  /** The trial's events so far, in order, without secrets. */
  readonly events: readonly TraceEvent[];
  /** Aborts when the run is interrupted, with an McpvalsError as its reason. */
  readonly signal: AbortSignal;
}

/** Runs a phase between the phase's events. */
export async function runPhase<T>(phase: Phase, emit: Emit, work: () => Promise<T>): Promise<T> {
  const started = performance.now();
  emit({ type: "phase.started", phase });
  try {
    return await work();
  } finally {
    emit({ type: "phase.finished", phase, durationMs: performance.now() - started });
  }
}
