import type { ScriptStep } from "../core/formats/step.ts";
import type { StepRunner } from "./step-runner.ts";

export const scriptStep: StepRunner<ScriptStep> = {
  type: "script",
  expand: (step) => step,
  input: () => ({}),
  run: () => Promise.reject(new Error("to be written")),
};
