import { McpvalsError } from "../core/errors/error.ts";
import type { AnyOfStep } from "../core/formats/step.ts";
import type { Check } from "../core/trace/events.ts";
import { innerContext } from "./running/run-inner.ts";
import { joinedChecks, type Ran } from "./running/run-sequence.ts";
import type { StepReport, StepRunner } from "./step-runner.ts";

/**
 * Passes with the first of its steps that passes and has looked at something; one in which every step was skipped has not.
 * When none does it has failed, unless one of them could not act: that one might have passed.
 */
export const anyOfStep: StepRunner<AnyOfStep> = {
  type: "anyOf",
  expand: (step) => step,
  input: (step) => ({ steps: step.steps.length }),
  async run(step, context, run) {
    const inner = innerContext(step, context);
    const tried: Ran[] = [];
    for (const alternative of step.steps) {
      const report = await run(alternative, inner);
      tried.push({ step: alternative, report });
      if (report.outcome === "passed" && report.checks.length > 0)
        return { kind: "checked", checks: [anyCheck(step, tried, true)] };
    }
    const checks = [anyCheck(step, tried, false)];
    if (tried.every(({ report }) => hasSeenNothing(report)))
      return { kind: "error", error: nothingSeen(step), checks };
    const broken = tried.find(({ report }) => report.outcome === "error" || report.outcome === "timeout");
    return broken === undefined
      ? { kind: "checked", checks }
      : { kind: "error", error: broken.report.error, checks };
  },
};

function hasSeenNothing({ outcome, checks, ignored }: StepReport): boolean {
  return (
    (ignored && outcome === "failed") ||
    outcome === "skipped" ||
    (outcome === "passed" && checks.length === 0)
  );
}

/** As a failure, it would be a proof for a `not` around it. */
function nothingSeen({ id }: AnyOfStep): McpvalsError {
  return new McpvalsError("step/cannot-run", `no alternative of ${id} looked at anything that counts`);
}

function anyCheck({ steps }: AnyOfStep, tried: readonly Ran[], passed: boolean): Check {
  const last = tried.at(-1);
  const { ignored = false, checks = [] } = last?.report ?? {};
  const acted = ignored || checks.every((check) => check.acted === true);
  const expected = `one of ${steps.length} alternatives`;
  const name = last?.step.name ?? last?.step.id ?? "";
  if (passed) {
    const check = { name: "anyOf", passed, expected, actual: name, message: `${name} holds` };
    return acted ? { ...check, acted } : check;
  }
  const reasons = tried.map((each) => reasonOf(each));
  const message = `none of ${steps.length} alternatives holds: ${reasons.join("; ")}`;
  const failed = joinedChecks(tried).filter((each) => !each.passed);
  const check = { name: "anyOf", passed, expected, actual: reasons, message };
  if (failed.some((each) => each.untried === true)) return { ...check, untried: true };
  const unplaced = failed.length > 0 && failed.every((each) => each.unplaced === true);
  return unplaced ? { ...check, unplaced } : check;
}

function reasonOf(each: Ran): string {
  const { step, report } = each;
  const failed = joinedChecks([each]).filter((check) => !check.passed);
  if (failed.length > 0) return failed.map((check) => `${check.name}: ${check.message}`).join(", ");
  const { error, outcome } = report;
  const ended = outcome === "passed" ? "it looked at nothing" : outcome;
  return `${step.name ?? step.id}: ${error instanceof Error ? error.message : ended}`;
}
