import { answerText, resultProblem, resultText } from "../../core/checks/result-text.ts";
import type { Json, JsonObject } from "../../core/formats/model.ts";
import type { McpExpectation, McpRequest } from "../../core/formats/step.ts";
import type { CallOutcome } from "../../servers/client/session.ts";

/** What came back, read. */
export interface Answer {
  readonly kind: McpRequest["kind"];
  readonly outcome: Exclude<CallOutcome, { kind: "timeout" }>;
  /** In what words it failed; undefined when it did not. */
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

/** Whether the server's answer could not be used: the words of the failure are then not its own. */
export function isUnusable({ outcome }: Answer): boolean {
  return outcome.kind === "error" && outcome.unusable === true;
}

/** JSON-RPC 2.0, section 5.1: the request could not be read, or the server broke over it. */
const brokenCodes: readonly number[] = [-32700, -32600, -32603];

/** Whether an answer says neither yes nor no to what a step asks: the server broke, or there is no result to look at. */
export function saysNothing(answer: Answer, expect: McpExpectation): boolean {
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
