import type { HttpStep } from "../core/formats/step.ts";
import type { StepRunner } from "./step-runner.ts";

export const httpStep: StepRunner<HttpStep> = {
  type: "http",
  expand: (step) => step,
  input: () => ({}),
  run: () => Promise.reject(new Error("to be written")),
};
