import type { CommandStep } from "../core/formats/step.ts";
import type { StepRunner } from "./step-runner.ts";

export const commandStep: StepRunner<CommandStep> = {
  type: "command",
  expand: (step) => step,
  input: () => ({}),
  run: () => Promise.reject(new Error("to be written")),
};
