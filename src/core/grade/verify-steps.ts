import type { StepView, Trajectory } from "../trace/trajectory.ts";
import type { Grade } from "./grade.ts";
import type { Grader } from "./grader.ts";

const name = "verify-steps";

/** Did the checks of the task's verify steps hold? Score = held / all checks of each step's last attempt; all must hold. */
export const verifySteps: Grader = { name, grade };

function grade(trajectory: Trajectory): Grade {
  const checks = trajectory.steps.filter(isVerified).flatMap((step) => checksOf(step));
  if (checks.length === 0) {
    return { grader: name, verdict: "skip", score: null, reason: "no step checks anything", evidence: [] };
  }
  const failed = checks.filter((check) => !check.passed);
  const told = failed.length === 0 ? checks : failed;
  return {
    grader: name,
    verdict: failed.length === 0 ? "pass" : "fail",
    score: (checks.length - failed.length) / checks.length,
    reason: told.map((check) => check.reason).join("; "),
    evidence: [...new Set(told.map((check) => check.seq))],
  };
}

/** A phase's own step: what it holds has told it how it went. */
function isVerified({ phase, parent, last }: StepView): boolean {
  return phase === "verify" && parent === undefined && last?.ignored !== true;
}

function checksOf(step: StepView): { passed: boolean; reason: string; seq: number }[] {
  const { last } = step;
  if (last === undefined) return [];
  const attempt = step.attempts.length > 1 ? ` (attempt ${step.attempts.length})` : "";
  return last.checks.map((check) => ({
    passed: check.passed,
    reason: `${check.name}: ${check.message}${attempt}`,
    seq: last.seq,
  }));
}
