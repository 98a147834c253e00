import type { NotStep } from "../core/formats/step.ts";
import type { Check } from "../core/trace/events.ts";
import { aResult } from "./mcp/check-answer.ts";
import { runInner } from "./running/run-inner.ts";
import { joinedChecks, type Ran } from "./running/run-sequence.ts";
import type { StepReport, StepRunner } from "./step-runner.ts";

/**
 * Passes when not all of its steps pass. A step that could not act proves nothing either way and is an error. A row in
 * which every step was skipped proves nothing either: then there is no check. With a step that has looked at nothing, such
 * as one that was not tried or whose program ended with a code that answers neither yes nor no, it fails; and also where all
 * that failed are checks of places in JSON of which nothing is known.
 */
export const notStep: StepRunner<NotStep> = {
  type: "not",
  expand: (step) => step,
  input: (step) => ({ steps: step.steps.length }),
  async run(step, context, run) {
    const { ran, passed, error } = await runInner(step, step.steps, { context, run });
    if (error !== undefined) return { kind: "error", error, checks: [] };
    const looked = ran.filter(({ report }) => hasLooked(report));
    if (looked.length === 0) return { kind: "checked", checks: [] };
    const untried = joinedChecks(looked).filter((check) => check.untried === true);
    if (untried.length > 0) return { kind: "checked", checks: untried.map(withAdvice) };
    const failed = joinedChecks(looked).filter((check) => !check.passed);
    if (!passed && failed.length > 0 && failed.every((check) => check.unplaced === true))
      return { kind: "checked", checks: failed };
    const doubt = failed.find((check) => check.doubt !== undefined)?.doubt;
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
          ...(passed || doubt === undefined ? {} : { doubt }),
          ...(passed && isOnlyActed(looked) ? { untried: true as const } : {}),
        },
      ],
    };
  },
};

/** An end that tells neither yes nor no may be the one that the author waits for. */
function withAdvice(check: Check): Check {
  const [, name] = /(?:^|: )(exit code|status|call)$/.exec(check.name) ?? [];
  const what = name === "call" ? (check.expected === aResult ? "failure" : undefined) : name;
  if (what === undefined) return check;
  const advice = `the ${what} tells neither that it holds nor that it does not; where it is meant, expect it, in place of not`;
  return check.message.endsWith(advice) ? check : { ...check, message: `${check.message}; ${advice}` };
}

/** A step that holds only skipped ones passes without a check. */
function hasLooked({ outcome, checks, ignored }: StepReport): boolean {
  return !ignored && outcome !== "skipped" && (outcome !== "passed" || checks.length > 0);
}

/** What steps did is no more evidence that something holds than that it does not. */
function isOnlyActed(ran: readonly Ran[]): boolean {
  return joinedChecks(ran).every(({ acted }) => acted === true);
}

function told(ran: readonly Ran[], passed: boolean): string {
  const checks = joinedChecks(ran).filter((check) => check.passed === passed);
  return checks.map((check) => `${check.name}: ${check.message}`).join("; ");
}
