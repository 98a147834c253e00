import type { Step } from "../../core/formats/step.ts";
import { runSequence, type SequenceReport } from "./run-sequence.ts";
import { traceName } from "./trace-name.ts";
import type { RunChild, StepContext } from "../step-runner.ts";

export interface InnerOptions {
  /** Of the step that holds them. */
  readonly context: StepContext;
  readonly run: RunChild;
}

/** Runs the steps that a step holds, as the phase that they are in runs its own. */
export function runInner(
  holder: Step,
  steps: readonly Step[],
  { context, run }: InnerOptions,
): Promise<SequenceReport> {
  const kind = context.phase === "setup" ? "setup" : "verify";
  return runSequence(steps, innerContext(holder, context), { kind, run });
}

/** The context of the steps that a step holds. */
export function innerContext(holder: Step, context: StepContext): StepContext {
  return { ...context, parent: traceName(holder, context) };
}
