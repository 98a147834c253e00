import { McpvalsError } from "../core/errors/error.ts";
import type { Step } from "../core/formats/step.ts";
import type { Check, Emit, Phase } from "../core/trace/events.ts";
import { abortAfter } from "../process/deadline.ts";
import type { RunChild, StepContext, StepReport } from "./step-runner.ts";

/** A step and how it went. */
export interface Ran {
  readonly step: Step;
  readonly report: StepReport;
}

/** How steps in a row went. */
export interface SequenceReport {
  readonly ran: readonly Ran[];
  /** The error of a step that could not act, which ended the row. */
  readonly error?: unknown;
  /** Whether no step failed that counts. */
  readonly passed: boolean;
}

/**
 * Runs steps in a row, as a setup in the phase `setup`. A step that cannot act ends it; a failed one does when it is `hard`,
 * and in a setup unless it is `soft`. Steps whose failure is ignored end nothing. Throws only the signal's reason.
 */
export async function runSequence(
  steps: readonly Step[],
  context: StepContext,
  run: RunChild,
): Promise<SequenceReport> {
  const isSetup = context.phase === "setup";
  const ran: Ran[] = [];
  let passed = true;
  for (const step of steps) {
    const report = await run(step, context);
    ran.push({ step, report });
    const { outcome, ignored, error } = report;
    if (ignored || outcome === "passed" || outcome === "skipped") continue;
    if (outcome !== "failed") return { ran, passed: false, error };
    if (isSetup && step.failure === "soft") continue;
    passed = false;
    if (isSetup || step.failure === "hard") break;
  }
  return { ran, passed };
}

export interface CleanupOptions {
  /** Longest that all steps may take together. */
  readonly timeoutMs: number;
  /** Ends them early. */
  readonly until?: AbortSignal;
}

/**
 * Runs every step once, the last one first, whatever happens to the others; failures are only recorded. A step that
 * hangs is stopped early enough that each of the later ones keeps a share of half the time. The context's signal is
 * ignored: cleanup also follows an interruption.
 */
export async function runCleanup(
  steps: readonly Step[],
  context: StepContext,
  run: RunChild,
  { timeoutMs, until }: CleanupOptions,
): Promise<void> {
  const end = performance.now() + timeoutMs;
  const share = timeoutMs / 2 / Math.max(1, steps.length);
  for (const [index, step] of steps.toReversed().entries()) {
    const later = steps.length - index - 1;
    const limitMs = Math.max(share, end - performance.now() - later * share);
    const message = `cleanup step ${step.id}: it took longer than the ${Math.round(limitMs)} ms that cleanup had left for it`;
    using deadline = abortAfter(limitMs, () => new McpvalsError("step/timeout", message), until);
    try {
      await run(step, { ...context, ignored: true, signal: deadline.signal });
    } catch (error) {
      // The events of the step have the timeout.
      if (!deadline.signal.aborted) throw error;
    }
  }
}

/** The checks of steps in a row, for the step around them; those that are ignored are left out. */
export function joinedChecks(ran: readonly Ran[], prefix = ""): readonly Check[] {
  return ran
    .filter(({ report }) => !report.ignored)
    .flatMap(({ step, report }) => {
      const label = step.name ?? step.id;
      return report.checks.map((check) => ({
        ...check,
        name: `${prefix}${label === check.name ? label : `${label}: ${check.name}`}`,
      }));
    });
}

/** The context of the steps inside a step. */
export function innerContext(step: Step, context: StepContext): StepContext {
  return { ...context, parent: traceName(step, context) };
}

/** The name of a step in the trace: unique, but for the attempts of steps around it. */
export function traceName({ id }: Step, { parent }: Pick<StepContext, "parent">): string {
  return parent === undefined ? id : `${parent}/${id}`;
}

/** The error for setup steps, of a phase or a group, that ran and failed. */
export function setupFailed(ran: readonly Ran[], group?: string): McpvalsError {
  const failed = joinedChecks(ran).filter((check) => !check.passed);
  const whose = group === undefined ? "setup" : `the setup of the group ${group}`;
  const reasons = failed.map((check) => `${check.name}: ${check.message}`).join("; ");
  return new McpvalsError("task/setup-failed", `${whose} failed: ${reasons || "a step was not healthy"}`);
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
