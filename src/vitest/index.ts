import { expect } from "vitest";
import { matchers, type McpMatchers } from "./matchers.ts";

export { describeEval } from "./describe-eval.ts";
export { type Answer, type ServerOptions, startServer, type TestServer } from "./server.ts";
export type { FindingCriteria, McpMatchers } from "./matchers.ts";
export type { CheckOptions, CheckResult, Target, TargetOptions } from "../check.ts";
export type { EvaluateOptions } from "../evaluate.ts";
export type { RunFinding } from "../model/finding.ts";

expect.extend(matchers);

declare global {
  // The assertions of every version of Vitest extend this interface; their own interfaces differ in their type parameters.
  namespace Chai {
    interface Assertion extends McpMatchers {}
  }
}
