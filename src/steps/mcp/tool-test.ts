import type { StepContext } from "../step-runner.ts";

/**
 * Whether a step is a tool test of a config: only those have no templates. Its calls are graded for their health too, so
 * that the step need not tell again what the events show.
 */
export function isToolTest({ scope }: StepContext): boolean {
  return scope === undefined;
}
