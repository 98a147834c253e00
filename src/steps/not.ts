import type { NotStep } from "../core/formats/step.ts";
import { runInner } from "./run-inner.ts";
import { joinedChecks, type Ran } from "./run-sequence.ts";
import type { StepRunner } from "./step-runner.ts";

/**
 * Passes when not all of its steps pass. A step that could not act proves nothing either way and is an error, and so does
 * a row in which every step was skipped. With a step that was not tried it fails.
 */
export const notStep: StepRunner<NotStep> = {
  type: "not",
  expand: (step) => step,
  input: (step) => ({ steps: step.steps.length }),
  async run(step, context, run) {
    const { ran, passed, error } = await runInner(step, step.steps, { context, run });
    if (error !== undefined) return { kind: "error", error, checks: [] };
    const looked = ran.filter(({ report }) => report.outcome !== "skipped" && !report.ignored);
    if (looked.length === 0) return { kind: "checked", checks: [] };
    const untried = looked.find(({ report }) => report.untried === true);
    if (untried !== undefined) return { kind: "checked", checks: untried.report.checks };
    const message = passed ? `it holds: ${told(looked, true)}` : `it does not hold: ${told(looked, false)}`;
    return {
      kind: "checked",
      checks: [
        {
          name: "not",
          passed: !passed,
          expected: "does not hold",
          actual: passed ? "holds" : "does not hold",
          message,
        },
      ],
    };
  },
};

function told(ran: readonly Ran[], passed: boolean): string {
  const checks = joinedChecks(ran).filter((check) => check.passed === passed);
  return checks.map((check) => `${check.name}: ${check.message}`).join("; ");
}
