import { type Step, walkSteps } from "./step.ts";

/** Whether one of the steps, or of those inside them, asks a judge. */
export function usesJudge(steps: readonly Step[]): boolean {
  return [...walkSteps(steps)].some((step) => step.type === "llm");
}
