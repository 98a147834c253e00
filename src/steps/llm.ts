import type { LlmStep } from "../core/formats/step.ts";
import type { StepRunner } from "./step-runner.ts";

export const llmStep: StepRunner<LlmStep> = {
  type: "llm",
  expand: (step) => step,
  input: () => ({}),
  run: () => Promise.reject(new Error("to be written")),
};
