import { McpvalsError } from "../core/errors/error.ts";
import type { ExtensionStep } from "../core/formats/step.ts";
import { expandObject, type StepRunner } from "./step-runner.ts";

/** Operations of extensions are read but cannot be run; loading a task refuses them before anything starts. */
export const extensionStep: StepRunner<ExtensionStep> = {
  type: "extension",
  expand: (step, expander) => ({ ...step, args: expandObject(step.args, expander) }),
  input: ({ extension, operation, args }) => ({ extension, operation, args }),
  run: ({ extension, operation }) =>
    Promise.reject(
      new McpvalsError(
        "task/extension",
        `${extension}.${operation} is an operation of an extension, which cannot be run`,
      ),
    ),
};
