import type { OperationResult } from "../core/formats/extension/protocol.ts";
import type { ExtensionStep } from "../core/formats/step.ts";
import type { Check } from "../core/trace/events.ts";
import { expandObject, type StepAttempt, type StepContext, type StepRunner } from "./step-runner.ts";

/** Has an extension run one of its operations. That it did not succeed is a finding; what else goes wrong is an error. */
export const extensionStep: StepRunner<ExtensionStep> = {
  type: "extension",
  keepsTime: true,
  expand: (step, expander) => ({ ...step, args: expandObject(step.args, expander) }),
  input: ({ extension, operation, args }) => ({ extension, operation, args }),
  run,
};

async function run(step: ExtensionStep, { trial, phase, signal }: StepContext): Promise<StepAttempt> {
  const { id, extension, operation, args, timeoutMs } = step;
  await trial.releasePorts([JSON.stringify(args)]);
  const call = { step: id, extension, operation, args, phase, timeoutMs };
  const result = await trial.extensions.execute(call, signal);
  const { outputs = {} } = result;
  return { kind: "checked", checks: [checkOf(step, result)], values: outputs, outputs };
}

function checkOf(
  { extension, operation }: ExtensionStep,
  { success, message, error }: OperationResult,
): Check {
  const told = [message, error].filter((text) => text !== undefined && text.trim() !== "");
  return {
    name: `${extension}.${operation}`,
    passed: success,
    expected: true,
    actual: success,
    message:
      [...new Set(told)].join(": ") || (success ? "it succeeded" : "it did not succeed, without a message"),
  };
}
