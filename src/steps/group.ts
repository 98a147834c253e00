import { McpvalsError } from "../core/errors/error.ts";
import type { GroupStep } from "../core/formats/step.ts";
import { innerContext } from "./running/run-inner.ts";
import {
  type CleanupOptions,
  joinedChecks,
  type Ran,
  runCleanup,
  runSequence,
} from "./running/run-sequence.ts";
import type { RunChild, StepAttempt, StepContext, StepRunner } from "./step-runner.ts";

/** Longest that a group's cleanup may take. */
const cleanupMs = 60_000;
/** The same for a group in a cleanup of which the time is up already. */
const lateCleanupMs = 2_000;

/**
 * Runs its setup, then its steps, then its cleanup in reverse, also when one of the others failed, timed out or was
 * interrupted. Its setup must succeed; what its steps check is what it checks.
 */
export const groupStep: StepRunner<GroupStep> = {
  type: "group",
  expand: (step) => step,
  input: ({ setup, steps, cleanup }) => ({
    setup: setup.length,
    steps: steps.length,
    cleanup: cleanup.length,
  }),
  async run(step, context, run) {
    try {
      return await runParts(step, context, run);
    } finally {
      const inner = partContext(step, context, "cleanup");
      await runCleanup(step.cleanup, inner, { ...cleanupLimit(context), run });
    }
  },
};

/** Its setup and its cleanup are those phases, wherever it stands; a look at the state stays one. */
function partContext(step: GroupStep, context: StepContext, part: "setup" | "cleanup"): StepContext {
  const inner = innerContext(step, context);
  return context.phase === "probe" ? inner : { ...inner, phase: part };
}

/** A cleanup inside another one ends with that; any other one also follows an interruption. */
function cleanupLimit({ ignored, signal }: StepContext): Pick<CleanupOptions, "timeoutMs" | "until"> {
  if (ignored !== true) return { timeoutMs: cleanupMs };
  return signal.aborted ? { timeoutMs: lateCleanupMs } : { timeoutMs: cleanupMs, until: signal };
}

async function runParts(step: GroupStep, outer: StepContext, run: RunChild): Promise<StepAttempt> {
  const context = innerContext(step, outer);
  const setup = await runSequence(step.setup, partContext(step, outer, "setup"), { kind: "setup", run });
  if (!setup.passed)
    return { kind: "error", error: setup.error ?? setupFailed(setup.ran, pathOf(step, outer)), checks: [] };
  const kind = context.phase === "setup" ? "setup" : "verify";
  const { ran, passed, error } = await runSequence(step.steps, context, { kind, run });
  const checks = joinedChecks(ran);
  return error === undefined
    ? { kind: "checked", checks, healthy: passed }
    : { kind: "error", error, checks };
}

/** What a reader finds the group by. An id that is made from its place says already which step it is in. */
function pathOf({ id, name }: GroupStep, { parent }: StepContext): string {
  const around = parent?.split("/").at(-1);
  const own = name ?? id;
  return parent === undefined || (around !== undefined && own.startsWith(around)) ? own : `${parent}/${own}`;
}

/** The error for setup steps, a phase's own or those of a group, that ran but did not do what they should. */
export function setupFailed(ran: readonly Ran[], group?: string): McpvalsError {
  const failed = joinedChecks(ran).filter((check) => !check.passed);
  const whose = group === undefined ? "setup" : `the setup of the group ${group}`;
  const told = failed.map((check) => `${check.name}: ${check.message}`).join("; ");
  return new McpvalsError("task/setup-failed", `${whose} failed: ${told || "a step was not healthy"}`);
}
