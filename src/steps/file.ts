import type { FileStep } from "../core/formats/step.ts";
import type { StepRunner } from "./step-runner.ts";

export const fileStep: StepRunner<FileStep> = {
  type: "file",
  expand: (step) => step,
  input: () => ({}),
  run: () => Promise.reject(new Error("to be written")),
};
