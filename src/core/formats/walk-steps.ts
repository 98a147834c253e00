import type { Step } from "./step.ts";

/** Gives every step, those inside others included, in the order of the file. */
export function* walkSteps(steps: readonly Step[]): Generator<Step> {
  for (const step of steps) {
    yield step;
    if (step.type === "group") yield* walkSteps([...step.setup, ...step.steps, ...step.cleanup]);
    else if ("steps" in step) yield* walkSteps(step.steps);
  }
}
