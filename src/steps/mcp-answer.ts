import { checkExpectedResult } from "../core/checks/expected-result.ts";
import { checkJson } from "../core/checks/json-expectation.ts";
import {
  answerText,
  outputProblem,
  resultProblem,
  resultText,
  structuredContent,
} from "../core/checks/result-text.ts";
import { formatSchemaError } from "../core/checks/schema-check.ts";
import { checkText } from "../core/checks/text-expectation.ts";
import { McpvalsError } from "../core/errors/error.ts";
import type { Json, JsonObject } from "../core/formats/model.ts";
import { readJsonText } from "../core/formats/read-json.ts";
import type { McpExpectation, McpRequest, McpStep } from "../core/formats/step.ts";
import { shortened } from "../core/text/visible-text.ts";
import type { Check } from "../core/trace/events.ts";
import type { CallOutcome, ToolDefinition } from "../servers/client/session.ts";
import { isToolTest } from "./mcp-request.ts";
import type { StepAttempt, StepContext } from "./step-runner.ts";

/** What a server answered, as a step looks at it. */
export interface Answer {
  readonly kind: McpRequest["kind"];
  readonly outcome: Exclude<CallOutcome, { kind: "timeout" }>;
  /** The message of the failure; undefined when there was none. */
  readonly failure: string | undefined;
  /** What the step's outputs may use: the raw result; where there is none, the error as an object, and its words. */
  readonly result: JsonObject;
  readonly text: string;
}

/** Reads what came back. A session hands on what is not of the shape that clients need; here it is no answer. */
export function readAnswer(kind: McpRequest["kind"], given: Answer["outcome"]): Answer {
  const problem = given.kind === "result" ? resultProblem(kind, given.result) : undefined;
  const outcome: Answer["outcome"] =
    problem === undefined
      ? given
      : { kind: "error", message: problem, unusable: true, latencyMs: given.latencyMs };
  if (outcome.kind === "result") {
    const { result } = outcome;
    const failure = kind === "tool" && result["isError"] === true ? resultText(result) : undefined;
    return { kind, outcome, failure, result, text: answerText(kind, result) };
  }
  const { message, code, data } = outcome;
  const error: Json = {
    message,
    ...(code === undefined ? {} : { code }),
    ...(data === undefined ? {} : { data }),
  };
  return { kind, outcome, failure: message, result: { error }, text: message };
}

/** Whether the answer could not be used: the failure's message is then not the server's. */
export function isUnusable({ outcome }: Answer): boolean {
  return outcome.kind === "error" && outcome.unusable === true;
}

/** JSON-RPC 2.0, section 5.1: the request could not be read, or the server broke over it. */
const brokenCodes: readonly number[] = [-32700, -32600, -32603];

/** Whether an answer says neither yes nor no to what a step asks: the server broke, or there is no result to look at. */
function saysNothing(answer: Answer, expect: McpExpectation): boolean {
  const { failure, outcome } = answer;
  if (failure === undefined || isUnusable(answer)) return false;
  const isBroken =
    outcome.kind === "error" && outcome.code !== undefined && brokenCodes.includes(outcome.code);
  return isBroken || (!mustFail(expect) && looksAtResult(expect));
}

function looksAtResult({ result, text, json, schema, content, maxLatencyMs }: McpExpectation): boolean {
  return [result, text, json, schema, content, maxLatencyMs].some((each) => each !== undefined);
}

/** Whether a call is expected to fail. */
export function mustFail({ isError, error }: McpExpectation): boolean {
  return isError ?? error !== undefined;
}

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

/** A missing answer is a timeout, unless the call had to be answered within that time. */
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

/** Only the server's own failure counts, not an answer that could not be used. */
function failingCall(answer: Answer): Check {
  const { failure, text } = answer;
  const passed = failure !== undefined && !isUnusable(answer);
  return { name: "call", passed, expected: "an error", actual: failure ?? text, message: failureMessage() };

  function failureMessage(): string {
    if (failure === undefined) return "expected an error, it succeeded";
    return passed ? "failed as expected" : `expected an error, the answer is unusable: ${failure}`;
  }
}

/** Only the server's own message counts, not mcpvals' message about an answer that could not be used. */
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

/** Clients cannot use a result that the tool's own schema refuses. In a tool test the grade of the calls reports it. */
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
  // An invalid result shows neither that something is there nor that it is missing.
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

/** Tries what is expected of the JSON in an answer. Throws `step/cannot-run` for a schema that cannot be used. */
async function checkValue(
  { id, expect }: McpStep,
  answer: Answer,
  { trial }: StepContext,
): Promise<readonly Check[]> {
  const { json, schema } = expect;
  if (json === undefined && schema === undefined) return [];
  const value = valueOf(answer);
  if (value === undefined) {
    return [
      ...(json === undefined ? [] : [missingValue("json", answer)]),
      ...(schema === undefined ? [] : [missingValue("schema", answer)]),
    ];
  }
  const jsonChecks = json === undefined ? [] : checkJson("json", json, value);
  if (schema === undefined) return jsonChecks;
  const validation = await trial.validateSchema(schema, value);
  if (validation.status === "unusable")
    throw new McpvalsError("step/cannot-run", `step ${id}: its schema cannot be used: ${validation.reason}`);
  const fits = validation.status === "valid";
  const message = fits
    ? "it fits the schema"
    : `it does not fit the schema: ${validation.errors.map((error) => formatSchemaError(error)).join("; ")}`;
  return [...jsonChecks, { name: "schema", passed: fits, expected: schema, actual: value, message }];
}

/** The value that expectations speak of; undefined when there is none. */
function valueOf({ kind, outcome, text }: Answer): Json | undefined {
  if (outcome.kind === "error") return kind === "tool" ? readJsonText(text).value : undefined;
  if (kind !== "tool") return outcome.result;
  return structuredContent(outcome.result) ?? readJsonText(text).value;
}

function missingValue(name: string, { outcome, text }: Answer): Check {
  const message =
    outcome.kind === "error"
      ? "there is no result"
      : `the result has no structured content and its text is not JSON: ${readJsonText(text).reason}`;
  return { name, passed: false, expected: "JSON", actual: text, message, unplaced: true };
}
