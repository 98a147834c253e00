import { McpvalsError } from "../core/errors/error.ts";
import type { Emit, Phase } from "../core/trace/events.ts";

/** Does the work of a phase between the phase's events. */
export async function runPhase<T>(phase: Phase, emit: Emit, work: () => Promise<T>): Promise<T> {
  const started = performance.now();
  emit({ type: "phase.started", phase });
  try {
    return await work();
  } finally {
    emit({ type: "phase.finished", phase, durationMs: performance.now() - started });
  }
}

/** The error of a trial that took too long. */
export function trialTimeout(limitMs: number): McpvalsError {
  return new McpvalsError("trial/timeout", `the trial took longer than ${limitMs / 1000} s`, {
    hint: "Raise limits.trial, the task's timeout or --timeout if the work is only slow.",
  });
}
