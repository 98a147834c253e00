import { McpvalsError } from "../core/errors/error.ts";
import type { Step } from "../core/formats/step.ts";
import type { Check } from "../core/trace/events.ts";
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
  /** Why the row ended early or cannot be judged: a step that could not act. */
  readonly error?: unknown;
  /** Whether no step failed that counts. */
  readonly passed: boolean;
}

/**
 * Runs steps in a row. A step that cannot act ends it; a failed one does when it is `hard`, and in `setup` unless it is
 * `soft`. Steps whose failure is ignored end nothing. Throws only the signal's reason.
 */
export async function runSequence(
  steps: readonly Step[],
  context: StepContext,
  { kind, run }: { readonly kind: "setup" | "verify"; readonly run: RunChild },
): Promise<SequenceReport> {
  const ran: Ran[] = [];
  let passed = true;
  for (const step of steps) {
    const report = await run(step, context);
    ran.push({ step, report });
    const { outcome, ignored, error } = report;
    if (ignored || outcome === "passed" || outcome === "skipped") continue;
    if (outcome !== "failed") return { ran, passed: false, error };
    if (kind === "setup" && step.failure === "soft") continue;
    passed = false;
    if (kind === "setup" || step.failure === "hard") break;
  }
  return { ran, passed };
}

export interface CleanupOptions {
  /** Longest that all steps may take together. */
  readonly timeoutMs: number;
  /** Ends them early. */
  readonly until?: AbortSignal;
  readonly run: RunChild;
}

/**
 * Runs every step once, the last one first, whatever happens to the others; failures are only recorded. A step that
 * hangs is stopped early enough that each of the later ones keeps a share of half the time. The context's signal is not
 * heeded: cleanup also follows an interruption.
 */
export async function runCleanup(
  steps: readonly Step[],
  context: StepContext,
  { timeoutMs, until, run }: CleanupOptions,
): Promise<void> {
  const end = performance.now() + timeoutMs;
  const share = timeoutMs / 2 / Math.max(1, steps.length);
  for (const [index, step] of steps.toReversed().entries()) {
    const later = steps.length - index - 1;
    const limitMs = Math.max(share, end - performance.now() - later * share);
    using deadline = abortAfter(limitMs, () => timeUp(step, limitMs), until);
    await runToItsEnd(step, { ...context, ignored: true, signal: deadline.signal }, run);
  }
}

/** The step's events say how it went; when its time is up, that is told there too. */
async function runToItsEnd(step: Step, context: StepContext, run: RunChild): Promise<void> {
  try {
    await run(step, context);
  } catch (error) {
    if (!context.signal.aborted) throw error;
  }
}

function timeUp(step: Step, limitMs: number): McpvalsError {
  return new McpvalsError(
    "step/timeout",
    `cleanup step ${step.id}: it took longer than the ${Math.round(limitMs)} ms that cleanup had left for it`,
  );
}

/** The checks of steps in a row, for the step that holds them; those that are ignored are left out. */
export function joinedChecks(ran: readonly Ran[], prefix = ""): readonly Check[] {
  return ran
    .filter(({ report }) => !report.ignored)
    .flatMap(({ step, report }) =>
      report.checks.map((check) => ({ ...check, name: `${prefix}${labelled(step, check)}` })),
    );
}

/** The step's name before the check's, unless they are the same. */
function labelled({ name, id }: Step, check: Check): string {
  const label = name ?? id;
  return label === check.name ? label : `${label}: ${check.name}`;
}

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

/** The name of a step in the trace: unique, but for the attempts of steps that hold it. */
export function traceName(step: Step, { parent }: Pick<StepContext, "parent">): string {
  return parent === undefined ? step.id : `${parent}/${step.id}`;
}

/** The error for setup steps, a phase's own or those of a group, that ran but did not do what they should. */
export function setupFailed(ran: readonly Ran[], group?: string): McpvalsError {
  const failed = joinedChecks(ran).filter((check) => !check.passed);
  const whose = group === undefined ? "setup" : `the setup of the group ${group}`;
  const told = failed.map((check) => `${check.name}: ${check.message}`).join("; ");
  return new McpvalsError("task/setup-failed", `${whose} failed: ${told || "a step was not healthy"}`);
}
