import type { Task } from "../model/task.ts";
import { shortened } from "../base/visible-text.ts";
import { repeatedTurn, type StepRun, type Trajectory, withInner } from "../trace/trajectory.ts";
import { answerChecks } from "../trace/warnings.ts";
import { type GraderResult, graderKind, passOrFail, skip } from "./grader.ts";
import type { JudgedCheck } from "../model/grade.ts";

/** Above this many checks that hold, they are counted instead of listed. */
const maxShownChecks = 8;

/**
 * Did the checks of the task's verify steps hold? Score = held / all checks of each step's last attempt; all must hold. Side effects,
 * such as writing a file, are not counted, nor are checks whose failure is ignored.
 */
export const verifySteps = graderKind({
  type: "verify-steps",
  forms: ["tool-test", "task"],
  grade: (_, trajectory) => find(trajectory),
});

/** Whether verify steps have checked anything. */
export function hasLooked(trajectory: Trajectory): boolean {
  return trajectory.task.verify.length > 0 && find(trajectory).verdict !== "skip";
}

function find(trajectory: Trajectory): GraderResult {
  const { task, steps } = trajectory;
  const ignored = task.verify.flatMap(({ id, continueOnError }) => (continueOnError === true ? [id] : []));
  // The outcome of a step includes those of the steps inside it.
  const verified = steps.filter(
    ({ step, phase, last: { finished } }) =>
      phase === "verify" && finished?.ignored === undefined && !ignored.includes(step),
  );
  const checks = [...verified.flatMap((step) => checksOf(step, task)), ...repeatedChecks(trajectory)];
  const skipped = verified
    .filter(({ last }) => last.finished?.outcome === "skipped")
    .map(({ step }) => labelOf(step, task));
  const note = skipped.length === 0 ? "" : `; skipped, as its condition does not hold: ${skipped.join(", ")}`;
  if (checks.length === 0) return skip(`no step checks anything${note}`);
  const failed = checks.filter((check) => !check.passed);
  const reported = failed.length === 0 ? checks : failed;
  const reasons =
    failed.length === 0 && checks.length > maxShownChecks
      ? `all ${checks.length} checks of ${verified.length} steps hold`
      : reported.map((check) => check.reason).join("; ");
  const judged = judgedChecks(steps);
  const grade = passOrFail(checks.length - failed.length, checks.length, {
    reason: `${reasons}${note}`,
    evidence: [...new Set(reported.map((check) => check.seq))],
  });
  return judged.length === 0 ? grade : { ...grade, judged };
}

/** The verdicts of judges in verify steps, of the innermost ones, since the steps around them repeat their checks. */
function judgedChecks(steps: readonly StepRun[]): readonly JudgedCheck[] {
  return withInner(steps)
    .filter(({ phase, last }) => phase === "verify" && last.children.length === 0)
    .flatMap(({ last }) => last.finished?.checks ?? [])
    .flatMap(({ name, judge }) => (judge === undefined ? [] : [{ check: name, judge }]));
}

interface StepCheck {
  readonly passed: boolean;
  readonly reason: string;
  /** Number of the event that ended its step. */
  readonly seq: number;
}

function checksOf({ step, last: { finished }, attempts }: StepRun, task: Task): readonly StepCheck[] {
  if (finished === undefined) return [];
  const { outcome, seq } = finished;
  const label = labelOf(step, task);
  const count = attempts.length;
  let tried = "";
  if (count > 1) tried = outcome === "passed" ? ` (attempt ${count})` : ` (${count} attempts)`;
  const checks = finished.checks
    .filter((check) => !check.passed || check.evidence !== "sideEffect")
    .map(({ passed, name, message }) => {
      const isNamed = task.verify.length > 1 && label !== name;
      return { passed, reason: `${isNamed ? `${label}: ` : ""}${name}: ${message}${tried}`, seq };
    });
  // Health of the calls of a tool test has a grader of its own.
  const isBroken = task.form === "task" && outcome !== "passed" && outcome !== "skipped";
  if (!isBroken || checks.some((check) => !check.passed)) return checks;
  return [...checks, { passed: false, reason: `${label}: ${outcome}${tried}`, seq }];
}

/** A failed check for every one that holds only since the agent repeated what a simulated user had said: it is no evidence. */
function repeatedChecks(trajectory: Trajectory): readonly StepCheck[] {
  const { turns, task } = trajectory;
  if (turns.every(({ by }) => by === undefined)) return [];
  return answerChecks(trajectory).flatMap(({ step, expected, seq, says }) => {
    const repeated = says && repeatedTurn(trajectory, Infinity, says);
    const what = `${labelOf(step, task)}: the answer has ${JSON.stringify(shortened(expected, 80))} only`;
    return repeated === undefined
      ? []
      : [{ passed: false, reason: `${what} because the simulated user had said it`, seq }];
  });
}

function labelOf(step: string, { verify }: Task): string {
  return verify.find(({ id }) => id === step)?.name ?? step;
}
