import type { Task } from "../formats/model.ts";
import type { StepView, Trajectory } from "../trace/trajectory.ts";
import type { Grade, Grader } from "./grader.ts";

const name = "verify-steps";
/** Above this many checks that hold, they are counted instead of told. */
const toldChecks = 8;

/**
 * Did the checks of the task's verify steps hold? Score = held / all checks of each step's last attempt; all must hold. What
 * a step only did, such as writing a file, is no check, nor is one whose failure would change nothing.
 */
export const verifySteps: Grader = { name, grade };

interface TriedCheck {
  readonly passed: boolean;
  readonly reason: string;
  /** Number of the event that ended its step. */
  readonly seq: number;
}

/** Whether verify steps have found anything, be it that something does not hold. */
export function hasLooked(trajectory: Trajectory): boolean {
  return trajectory.task.verify.length > 0 && grade(trajectory).verdict !== "skip";
}

function grade({ task, steps }: Trajectory): Grade {
  const ignored = new Set(
    task.verify.flatMap(({ id, continueOnError }) => (continueOnError === true ? [id] : [])),
  );
  const verified = steps.filter((step) => isVerified(step) && !ignored.has(step.step));
  const checks = verified.flatMap((step) => checksOf(step, task));
  const skipped = skippedNote(verified, task);
  if (checks.length === 0) {
    const reason = `no step checks anything${skipped}`;
    return { grader: name, verdict: "skip", score: null, reason, evidence: [] };
  }
  const failed = checks.filter((check) => !check.passed);
  const told = failed.length === 0 ? checks : failed;
  const reasons =
    failed.length === 0 && checks.length > toldChecks
      ? `all ${checks.length} checks of ${verified.length} steps hold`
      : told.map((check) => check.reason).join("; ");
  return {
    grader: name,
    verdict: failed.length === 0 ? "pass" : "fail",
    score: (checks.length - failed.length) / checks.length,
    reason: `${reasons}${skipped}`,
    evidence: [...new Set(told.map((check) => check.seq))],
  };
}

/** A phase's own step: what it holds has told it how it went. */
function isVerified({ phase, parent, last }: StepView): boolean {
  return phase === "verify" && parent === undefined && last?.ignored !== true;
}

function checksOf({ step, last, attempts }: StepView, task: Task): readonly TriedCheck[] {
  if (last === undefined) return [];
  const label = task.verify.length > 1 ? labelOf(step, task) : undefined;
  const count = attempts.length;
  const tried = count < 2 ? "" : last.outcome === "passed" ? ` (attempt ${count})` : ` (${count} attempts)`;
  const found = last.checks.filter((check) => !check.passed || check.acted !== true);
  const checks = found.map((check) => ({
    passed: check.passed,
    reason: `${label === undefined || label === check.name ? "" : `${label}: `}${check.name}: ${check.message}${tried}`,
    seq: last.seq,
  }));
  // Health of the calls of a tool test has a grader of its own.
  const isUntold = task.form === "task" && last.outcome !== "passed" && last.outcome !== "skipped";
  if (!isUntold || checks.some((check) => !check.passed)) return checks;
  return [
    ...checks,
    { passed: false, reason: `${labelOf(step, task)}: ${last.outcome}${tried}`, seq: last.seq },
  ];
}

function labelOf(step: string, { verify }: Task): string {
  return verify.find(({ id }) => id === step)?.name ?? step;
}

function skippedNote(steps: readonly StepView[], task: Task): string {
  const skipped = steps.filter(({ last }) => last?.outcome === "skipped");
  return skipped.length === 0
    ? ""
    : `; skipped, as its condition does not hold: ${skipped.map(({ step }) => labelOf(step, task)).join(", ")}`;
}
