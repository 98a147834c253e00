import { checkExpectedResult } from "../../core/checks/expected-result.ts";
import { outputProblem } from "../../core/checks/result-text.ts";
import { checkText } from "../../core/checks/text-expectation.ts";
import type { McpExpectation, McpStep } from "../../core/formats/step.ts";
import type { Check } from "../../core/trace/events.ts";
import type { ToolDefinition } from "../../servers/client/session.ts";
import type { StepAttempt, StepContext } from "../step-runner.ts";
import { type Answer, isUnusable, mustFail, saysNothing } from "./answer.ts";
import { checkValue } from "./check-value.ts";
import { isToolTest } from "./tool-test.ts";
import { shortened } from "../../core/text/shortened.ts";

export interface AnswerContext extends StepContext {
  /** The tool that was called, as its server lists it. */
  readonly tool: ToolDefinition | undefined;
}

/** Tries every expectation of a step; what is said of a result only when the call ended as it should. Throws `step/cannot-run`. */
export async function checkAnswer(
  step: McpStep,
  answer: Answer,
  context: AnswerContext,
): Promise<readonly Check[]> {
  const { expect } = step;
  const endedWell = (answer.failure !== undefined) === mustFail(expect) && !isUnusable(answer);
  const checks = [
    ...callChecks(expect, answer, context),
    ...errorChecks(expect, answer),
    ...resultChecks(expect, answer),
    ...(endedWell && expect.text !== undefined ? checkText("text", expect.text, answer.text) : []),
    ...(endedWell ? await checkValue(step, answer, context) : []),
    ...(await schemaChecks(answer, context)),
    ...(endedWell ? contentChecks(expect, answer) : []),
    ...latencyChecks(expect, answer),
  ];
  if (checks.length === 0 && !isToolTest(context)) return [goodCall];
  return saysNothing(answer, expect) ? checks.map(asUntried) : checks;
}

function asUntried(check: Check): Check {
  return check.passed ? check : { ...check, untried: true };
}

/** No answer proves nothing, but for a call that had to be answered within that time. */
export function checkMissingAnswer({ timeoutMs, expect }: McpStep, message: string): StepAttempt {
  const limit = expect.maxLatencyMs;
  if (limit === undefined || limit > timeoutMs) return { kind: "timeout", message };
  const actual = `no answer within ${timeoutMs} ms`;
  const missed = `${actual}, ${limit} ms allowed`;
  return {
    kind: "checked",
    checks: [{ name: "latency", passed: false, expected: limit, actual, message: missed }],
    healthy: false,
  };
}

/** Whether the call ended as it should, where no other check says so. */
function callChecks(expect: McpExpectation, answer: Answer, context: StepContext): Check[] {
  const { isError, error } = expect;
  if (isError === true) return [failingCall(answer)];
  if (isError === undefined && error !== undefined) return [];
  if (answer.failure !== undefined)
    return isToolTest(context) && isToldElsewhere(expect, answer) ? [] : [failedCall(answer.failure)];
  return isError === false ? [goodCall] : [];
}

/** What is expected of a call that must not fail. */
export const aResult = "a result";

const goodCall: Check = {
  name: "call",
  passed: true,
  expected: aResult,
  actual: aResult,
  message: "it succeeded",
};

/** By the grade of the calls, when the events show the failure, and by the check of the result. */
function isToldElsewhere({ result }: McpExpectation, { outcome }: Answer): boolean {
  return outcome.kind === "result" || outcome.code !== undefined || result !== undefined;
}

function failedCall(failure: string): Check {
  const message = failure === "" ? "it failed without a word" : `no result: ${failure}`;
  return { name: "call", passed: false, expected: aResult, actual: failure, message };
}

/** Only the server's own failure counts: what we say of an answer that is none is not what was expected. */
function failingCall(answer: Answer): Check {
  const { failure, text } = answer;
  const passed = failure !== undefined && !isUnusable(answer);
  return { name: "call", passed, expected: "an error", actual: failure ?? text, message: failureMessage() };

  function failureMessage(): string {
    if (failure === undefined) return "expected an error, it succeeded";
    return passed ? "failed as expected" : `expected an error, the answer is unusable: ${failure}`;
  }
}

/** Only the server's own words count: what we say of an answer that is none must not pass for the expected error. */
function errorChecks({ error: expected }: McpExpectation, answer: Answer): Check[] {
  if (expected === undefined) return [];
  const { failure } = answer;
  const unusable = isUnusable(answer);
  const passed = !unusable && failure?.toLowerCase().includes(expected.toLowerCase()) === true;
  const said =
    failure === undefined ? "the call succeeded" : `it says ${JSON.stringify(shortened(failure, 300))}`;
  const found = unusable ? `the answer is unusable: ${failure ?? ""}` : said;
  const message = passed
    ? "failed as expected"
    : `expected an error containing ${JSON.stringify(expected)}, ${found}`;
  return [{ name: "error", passed, expected, actual: failure ?? null, message }];
}

function resultChecks({ result: expected }: McpExpectation, { outcome, failure = "" }: Answer): Check[] {
  if (expected === undefined) return [];
  if (outcome.kind === "result") return [checkExpectedResult(expected, outcome.result)];
  return [{ name: "result", passed: false, expected, actual: null, message: `no result: ${failure}` }];
}

/** A result that a tool's own schema refuses is none that clients can use. In a tool test the grade of the calls says so. */
async function schemaChecks({ failure, outcome }: Answer, context: AnswerContext): Promise<Check[]> {
  const { tool, phase, trial } = context;
  if (isToolTest(context) || phase !== "verify" || failure !== undefined || outcome.kind !== "result")
    return [];
  if (tool?.outputSchema === undefined) return [];
  const { outputSchema: expected, name } = tool;
  const problem = await outputProblem(expected, outcome.result, trial.validateSchema);
  if (problem === undefined) return [];
  const actual = outcome.result["structuredContent"] ?? null;
  const message = `${name} ${problem}`;
  // What a task looks for is neither there nor missing in a result that is none.
  return [{ name: "outputSchema", passed: false, expected, actual, message, untried: true }];
}

/** Of the content as the server gave it, block by block. */
function contentChecks({ content }: McpExpectation, { result }: Answer): Check[] {
  return content === undefined
    ? []
    : checkText("content", content, JSON.stringify(result["content"] ?? null));
}

function latencyChecks({ maxLatencyMs: limit }: McpExpectation, { outcome }: Answer): Check[] {
  if (limit === undefined) return [];
  const actual = Math.round(outcome.latencyMs * 10) / 10;
  const message = `${actual} ms, ${limit} ms allowed`;
  return [{ name: "latency", passed: actual <= limit, expected: limit, actual, message }];
}
