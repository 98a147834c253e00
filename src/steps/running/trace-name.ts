import type { Step } from "../../core/formats/step.ts";
import type { StepContext } from "../step-runner.ts";

/** The name of a step in the trace: unique, but for the attempts of steps that hold it. */
export function traceName(step: Step, { parent }: Pick<StepContext, "parent">): string {
  return parent === undefined ? step.id : `${parent}/${step.id}`;
}
