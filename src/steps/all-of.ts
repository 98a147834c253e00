import type { AllOfStep } from "../core/formats/step.ts";
import { runInner } from "./running/run-inner.ts";
import { joinedChecks } from "./running/run-sequence.ts";
import type { StepRunner } from "./step-runner.ts";

/** Passes when all of its steps pass. */
export const allOfStep: StepRunner<AllOfStep> = {
  type: "allOf",
  expand: (step) => step,
  input: (step) => ({ steps: step.steps.length }),
  async run(step, context, run) {
    const { ran, passed, error } = await runInner(step, step.steps, { context, run });
    const checks = joinedChecks(ran);
    return error === undefined
      ? { kind: "checked", checks, healthy: passed }
      : { kind: "error", error, checks };
  },
};
