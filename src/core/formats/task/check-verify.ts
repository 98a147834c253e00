import { asObject } from "../lenient.ts";
import type { Problem } from "../problem.ts";
import type { StepView } from "./view-steps.ts";

/** Refuses a verify phase in which nothing could fail. */
export function checkVerify(verify: readonly StepView[]): Problem[] {
  if (verify.length === 0 || verify.some(canFail)) return [];
  return [
    {
      code: "config/checks-nothing",
      message: "spec.verify checks nothing: none of its steps could fail",
      path: ["spec", "verify"],
      at: "value",
      hint: "Making or removing a file is no check, and continueOnError takes the effect of one away.",
    },
  ];
}

/** Whether a step could fail, and that would count. */
function canFail({ kind, body, inner }: StepView): boolean {
  const { continueOnError, expect } = asObject(body);
  if (continueOnError === true) return false;
  switch (kind) {
    case "file":
      return expect !== undefined;
    case "anyOf":
      return inner.steps.every(canFail);
    case "foreach":
    case "allOf":
    case "group":
      return inner.steps.some(canFail);
    case "not":
      return inner.steps.some((step) => asObject(step.body)["continueOnError"] !== true);
    case "command":
    case "http":
    case "llm":
    case "script":
    case "mcp":
    case "call":
    case "extension":
    case "operation":
      return true;
  }
}
