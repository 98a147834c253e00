import {
  anError,
  answerText,
  checkExpectedResult,
  formatSchemaError,
  outputProblem,
  resultProblem,
  resultText,
  structuredContent,
} from "../expect/tool-result.ts";
import { checkJson, checkText } from "../expect/expectations.ts";
import { McpvalsError } from "../base/error.ts";
import { didYouMean, listNames } from "../base/did-you-mean.ts";
import { asList, asObject, withoutUndefined, type JsonObject } from "../base/json.ts";
import { readJsonText } from "../base/read-json.ts";
import type { McpExpectation, McpRequest, McpStep } from "../model/step.ts";
import { shortened } from "../base/visible-text.ts";
import type { Check } from "../model/event.ts";
import { isServerFault } from "../servers/connections/host.ts";
import {
  type CallOptions,
  type CallOutcome,
  sendRequest,
  type ServerSession,
  type ToolDefinition,
} from "../servers/client/session.ts";
import type { StepAttempt, StepContext, StepRunner } from "./step-runner.ts";
import { errorCodes } from "../model/error-codes.ts";

/** Calls a tool, reads a resource or gets a prompt, and checks the answer. */
export const mcpStep: StepRunner<McpStep> = {
  keepsTime: true,
  input({ request, server }) {
    const { kind: _, ...named } = request;
    const asked = request.kind === "resource" ? { resource: request.uri } : named;
    return withoutUndefined({ ...asked, server });
  },
  async run(step, context) {
    try {
      return await attempt(step, context);
    } catch (error) {
      const failed = isToolTest(context) ? failureOfServer(error, context) : undefined;
      if (failed === undefined) throw error;
      return failed;
    }
  },
};

async function attempt(step: McpStep, context: StepContext): Promise<StepAttempt> {
  const { timeoutMs, request, expect } = step;
  const { signal } = context;
  const options = { timeoutMs, signal };
  const session = await sessionFor(step, context);
  if (session === undefined) return failedAttempt(notOffered(request, context.sessions));
  const listed = request.kind === "tool" ? await session.toolsNamed(request.tool, options) : [];
  if (request.kind === "tool" && listed.length !== 1)
    return failedAttempt(unusableTool(request.tool, listed.length, session));
  const { maxLatencyMs: limit = Infinity } = expect;
  const outcome = await sendRequest(session, request, { timeoutMs: Math.min(timeoutMs, limit), signal });
  if (outcome.kind === "timeout") {
    if (limit <= timeoutMs) {
      const actual = `no answer within ${limit} ms`;
      const message = `${actual}, the maximum latency`;
      return failedAttempt({ name: "latency", passed: false, expected: limit, actual, message });
    }
    return isToolTest(context) ? unansweredCall : { kind: "timeout", message: outcome.message };
  }
  const answer = readAnswer(request.kind, outcome);
  const { failure, isUnusable, result, text } = answer;
  // In a tool test, and in steps of the older forms, every failure of a call is a failed check.
  if (isUnusable && !isToolTest(context) && step.failure === undefined) {
    const whose = step.server === undefined ? "the server" : `the server "${step.server}"`;
    const message = `step ${step.id}: ${whose} gave an unusable answer: ${failure}`;
    throw new McpvalsError("server/protocol-error", message);
  }
  const unknown = await unknownRequest(request, answer, session, options);
  if (unknown !== undefined) return failedAttempt(unknown);
  return {
    kind: "checked",
    checks: await checkAnswer(step, answer, listed[0], context),
    healthy: failure === undefined || mustFail(expect),
    values: { result, text },
  };
}

/** For a tool test: the grade of the calls reports a call without an answer. */
const unansweredCall: StepAttempt = { kind: "checked", checks: [], healthy: false };

/**
 * The attempt of a tool test whose server was lost, which the grade of the calls reports too, or no longer lists its tools: the
 * server is the subject, so this is a failure. Undefined for other errors.
 */
function failureOfServer(error: unknown, { sessions }: StepContext): StepAttempt | undefined {
  if (!isServerFault(error)) return undefined;
  if (sessions.some(({ lost }) => lost.reason === error)) return unansweredCall;
  const { code, message } = error;
  if (code !== "server/call-timeout" && code !== "server/protocol-error") return undefined;
  return failedAttempt(notRunCheck("call", "a list of tools", message));
}

function failedAttempt(check: Check): StepAttempt {
  return { kind: "checked", checks: [check], healthy: false };
}

/** Whether the task is a tool test. The grade of its calls reports their failures, so that the step need not. */
function isToolTest({ form }: StepContext): boolean {
  return form === "tool-test";
}

/**
 * The server that a request goes to: the named one, the only one, or the one that offers the tool; undefined when none of several
 * offers it. Throws `config/unknown-reference` when several are possible or none has the name, and `server/missing` when it is, or
 * may be, one that did not start.
 */
async function sessionFor(step: McpStep, context: StepContext): Promise<ServerSession | undefined> {
  const { server, request, timeoutMs } = step;
  const { sessions, absent = [], signal } = context;
  const what = describeRequest(request);
  const candidates = server === undefined ? sessions : sessions.filter(({ name }) => name === server);
  let offering: readonly ServerSession[] = [];
  if (request.kind === "tool" && (candidates.length > 1 || absent.length > 0)) {
    const { tool } = request;
    const isOffered = ({ tools }: ServerSession): boolean => tools.some(({ name }) => name === tool);
    // If no server has listed the tool, all are asked again.
    if (!candidates.some(isOffered))
      await Promise.all(candidates.map((session) => session.toolsNamed(tool, { timeoutMs, signal })));
    offering = candidates.filter(isOffered);
  }
  const missing = server === undefined ? absent : absent.filter((name) => name === server);
  // A server that did not start may offer the tool.
  if (missing.length > 0 && offering.length === 0) {
    const names = missing.map((name) => `"${name}"`).join(", ");
    const which = missing.length === 1 ? `server ${names}` : `one of the servers ${names}`;
    throw new McpvalsError("server/missing", `the ${what} needs ${which}, which did not start`);
  }
  const [only, ...others] = candidates;
  if (only === undefined) {
    const message =
      server === undefined
        ? `the task has no server to ask for the ${what}`
        : `the task has no server "${server}" for the ${what}; it has ${namesOf(sessions) || "none"}`;
    const hint = "Name one of the task's servers with `server:`.";
    throw new McpvalsError("config/unknown-reference", message, { hint });
  }
  if (others.length === 0) return only;
  const isTool = request.kind === "tool";
  if (isTool && offering.length <= 1) return offering[0];
  const problem = isTool ? `offer the ${what}` : `could be asked for the ${what}`;
  const names = namesOf(isTool ? offering : candidates);
  throw new McpvalsError("config/unknown-reference", `several servers ${problem}: ${names}`, {
    hint: `Name the server with \`server:\` in the ${isToolTest(context) ? "tool test" : "step"}.`,
  });
}

function describeRequest(request: McpRequest): string {
  if (request.kind === "tool") return `tool "${request.tool}"`;
  return request.kind === "resource" ? `resource "${request.uri}"` : `prompt "${request.prompt}"`;
}

function namesOf(sessions: readonly ServerSession[]): string {
  return sessions.map(({ name }) => name).join(", ");
}

function notRunCheck(name: string, expected: string, message: string): Check {
  return { name, passed: false, expected, actual: null, message, evidence: "notRun" };
}

/** The failed check for a tool that no server offers. */
function notOffered(request: McpRequest, sessions: readonly ServerSession[]): Check {
  const tool = request.kind === "tool" ? request.tool : "";
  const near = didYouMean(
    tool,
    sessions.flatMap(({ tools }) => tools.map(({ name }) => name)),
  );
  const question = near === undefined ? "" : `; did you mean "${near}"?`;
  const message = `no server lists the ${describeRequest(request)} (servers: ${namesOf(sessions)})${question}`;
  return notRunCheck("tool", tool, message);
}

/**
 * The failed check for a tool that a server does not list, or lists more than once. It is not called: not every client can call
 * such a tool, and an error would not be the tool's own.
 */
function unusableTool(tool: string, count: number, { name: server, abilities, tools }: ServerSession): Check {
  const names = [...new Set(tools.map(({ name }) => name))];
  const near = didYouMean(tool, names);
  const question = near === undefined ? "" : `; did you mean "${near}"?`;
  let known = `listed: ${listNames(names)}${question}`;
  if (!abilities.tools) known = "it does not declare that it has tools";
  else if (names.length === 0) known = "it lists none";
  const problem =
    count === 0
      ? `does not list the tool "${tool}"; ${known}`
      : `lists the tool "${tool}" ${count} times, so it is not clear which of them is called`;
  return notRunCheck("call", `tool "${tool}"`, `the server "${server}" ${problem}`);
}

/**
 * The failed check for a request whose method or prompt the server does not know, which is not the failure that a step may expect.
 * Undefined for any other answer.
 */
async function unknownRequest(
  request: McpRequest,
  { failure, outcome }: Answer,
  session: ServerSession,
  options: CallOptions,
): Promise<Check | undefined> {
  if (failure === undefined) return undefined;
  const server = `the server "${session.name}"`;
  if (outcome.kind === "error" && outcome.code === errorCodes.methodNotFound) {
    const wanted = request.kind === "tool" ? `tool "${request.tool}"` : `${request.kind}s`;
    return notRunCheck("call", wanted, `${server} offers no ${wanted}: ${failure}`);
  }
  if (request.kind !== "prompt") return undefined;
  const listed = await session.list("prompts", options);
  const prompts = listed.kind === "result" ? listed.result["prompts"] : undefined;
  if (!Array.isArray(prompts)) return undefined;
  const names = asList(prompts).flatMap((prompt) => {
    const { name } = asObject(prompt);
    return typeof name === "string" ? [name] : [];
  });
  if (names.includes(request.prompt)) return undefined;
  const near = didYouMean(request.prompt, names);
  const question = near === undefined ? "" : `; did you mean "${near}"?`;
  const message = `${server} does not list the prompt "${request.prompt}"${question}: ${failure}`;
  return notRunCheck("call", `prompt "${request.prompt}"`, message);
}

/** A server's answer. */
interface Answer {
  readonly kind: McpRequest["kind"];
  readonly outcome: Exclude<CallOutcome, { kind: "timeout" }>;
  /** The message of the failure; undefined when it succeeded. */
  readonly failure: string | undefined;
  /** Whether the answer is invalid, so that the message is from mcpvals, not from the server. */
  readonly isUnusable: boolean;
  /** For the step's outputs: the raw result, or the error as an object, and its text. */
  readonly result: JsonObject;
  readonly text: string;
}

/** Reads an outcome. A session passes on results of an invalid shape; here they become unusable answers. */
function readAnswer(kind: McpRequest["kind"], given: Answer["outcome"]): Answer {
  const problem = given.kind === "result" ? resultProblem(kind, given.result) : undefined;
  const outcome: Answer["outcome"] =
    problem === undefined
      ? given
      : { kind: "error", message: problem, unusable: true, latencyMs: given.latencyMs };
  if (outcome.kind === "result") {
    const { result } = outcome;
    const failure = kind === "tool" && result["isError"] === true ? resultText(result) : undefined;
    return { kind, outcome, failure, isUnusable: false, result, text: answerText(kind, result) };
  }
  const { message, code, data, unusable: isUnusable = false } = outcome;
  const error: JsonObject = withoutUndefined({ message, code, data });
  return { kind, outcome, failure: message, isUnusable, result: { error }, text: message };
}

/** JSON-RPC 2.0, section 5.1: the request could not be read, or the server failed internally. */
const brokenCodes: readonly (number | undefined)[] = [
  errorCodes.parse,
  errorCodes.invalidRequest,
  errorCodes.internal,
];

/** Whether a call is expected to fail. */
function mustFail({ isError, error, result }: McpExpectation): boolean {
  return isError ?? (error !== undefined || asObject(result)["isError"] === true);
}

/** Checks every expectation of a step; text, JSON and content only if the call ended as expected. Throws `step/cannot-run`. */
async function checkAnswer(
  step: McpStep,
  answer: Answer,
  tool: ToolDefinition | undefined,
  context: StepContext,
): Promise<readonly Check[]> {
  const { expect } = step;
  const { failure, outcome, isUnusable } = answer;
  const endedWell = (failure !== undefined) === mustFail(expect) && !isUnusable;
  const ofResult = resultChecks(expect, answer);
  const checks = [
    ...callChecks(expect, answer, ofResult, context),
    ...errorChecks(expect, answer),
    ...ofResult,
    ...(endedWell ? await contentChecks(step, answer, context) : []),
    ...(await schemaChecks(answer, tool, context)),
    ...latencyChecks(expect, answer),
  ];
  if (checks.length === 0 && !isToolTest(context)) return [goodCall];
  if (failure === undefined || isUnusable) return checks;
  const isBroken = outcome.kind === "error" && brokenCodes.includes(outcome.code);
  const { isError: _, error: __, ...wanted } = expect;
  const lacksResult = !mustFail(expect) && Object.values(wanted).some((each) => each !== undefined);
  if (!isBroken && !lacksResult) return checks;
  // The server broke, or there is no result to check: a failed check is no evidence.
  return checks.map((check) => (check.passed ? check : { ...check, evidence: "notRun" }));
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

/** Checks whether the call ended as expected, where no other check does, such as a failed one of the result. */
function callChecks(
  expect: McpExpectation,
  answer: Answer,
  ofResult: readonly Check[],
  context: StepContext,
): Check[] {
  const { failure, isUnusable, outcome, text } = answer;
  if (expect.isError === true) {
    const passed = failure !== undefined && !isUnusable;
    let message = "failed as expected";
    if (failure === undefined) message = "expected an error, it succeeded";
    else if (isUnusable) message = `expected an error, the answer is unusable: ${failure}`;
    return [{ name: "call", passed, expected: anError, actual: failure ?? text, message }];
  }
  if (mustFail(expect)) return [];
  if (failure === undefined) return expect.isError === false ? [goodCall] : [];
  if (ofResult.some(({ passed }) => !passed)) return [];
  // In a tool test, the grade of the calls reports an error of the server.
  if (isToolTest(context) && (outcome.kind === "result" || outcome.code !== undefined)) return [];
  const message = failure === "" ? "it failed without a message" : `no result: ${failure}`;
  return [{ name: "call", passed: false, expected: aResult, actual: failure, message }];
}

/** Only the server's own message counts, not that of mcpvals about an unusable answer. */
function errorChecks({ error: expected }: McpExpectation, { failure, isUnusable }: Answer): Check[] {
  if (expected === undefined) return [];
  const passed = !isUnusable && failure?.toLowerCase().includes(expected.toLowerCase()) === true;
  let found = `it says ${JSON.stringify(shortened(failure ?? "", 300))}`;
  if (isUnusable) found = `the answer is unusable: ${failure ?? ""}`;
  else if (failure === undefined) found = "the call succeeded";
  const message = passed
    ? "failed as expected"
    : `expected an error containing ${JSON.stringify(expected)}, ${found}`;
  return [{ name: "error", passed, expected, actual: failure ?? null, message }];
}

function resultChecks(
  { result: expected }: McpExpectation,
  { kind, outcome, failure = "" }: Answer,
): Check[] {
  if (expected === undefined) return [];
  if (outcome.kind === "result") return [checkExpectedResult(expected, outcome.result, kind)];
  return [{ name: "result", passed: false, expected, actual: null, message: `no result: ${failure}` }];
}

/** Clients cannot use a result that violates the tool's `outputSchema`. In a tool test the grade of the calls reports it. */
async function schemaChecks(
  { failure, outcome }: Answer,
  tool: ToolDefinition | undefined,
  context: StepContext,
): Promise<Check[]> {
  const { phase, trial } = context;
  const isChecked = (phase === "setup" || phase === "verify") && !isToolTest(context);
  if (!isChecked || failure !== undefined || outcome.kind !== "result") return [];
  if (tool?.outputSchema === undefined) return [];
  const { outputSchema: expected, name } = tool;
  const problem = await outputProblem(expected, outcome.result, trial.validateSchema);
  if (problem === undefined) return [];
  const actual = outcome.result["structuredContent"] ?? null;
  const check = { name: "outputSchema", passed: false, expected, actual, message: `${name} ${problem}` };
  // An invalid result is no evidence.
  return [{ ...check, evidence: "notRun" }];
}

function latencyChecks({ maxLatencyMs: limit }: McpExpectation, { outcome }: Answer): Check[] {
  if (limit === undefined) return [];
  const actual = Math.round(outcome.latencyMs * 10) / 10;
  const message = `${actual} ms, ${limit} ms allowed`;
  return [{ name: "latency", passed: actual <= limit, expected: limit, actual, message }];
}

/** Checks the text, the JSON and the content list of an answer. Throws `step/cannot-run`. */
async function contentChecks(step: McpStep, answer: Answer, context: StepContext): Promise<readonly Check[]> {
  const { text, content } = step.expect;
  return [
    ...(text === undefined ? [] : checkText("text", text, answer.text)),
    ...(await valueChecks(step, answer, context)),
    ...(content === undefined
      ? []
      : checkText("content", content, JSON.stringify(answer.result["content"] ?? null))),
  ];
}

/** Checks the JSON of an answer. Throws `step/cannot-run` for a schema that cannot be used. */
async function valueChecks(
  { id, expect: { json, schema } }: McpStep,
  { kind, outcome, text }: Answer,
  { trial }: StepContext,
): Promise<readonly Check[]> {
  if (json === undefined && schema === undefined) return [];
  const parsed = readJsonText(text);
  let { value } = parsed;
  if (kind !== "tool") value = outcome.kind === "error" ? undefined : outcome.result;
  else if (outcome.kind === "result") value = structuredContent(outcome.result) ?? value;
  if (value === undefined) {
    const message =
      outcome.kind === "error"
        ? "there is no result"
        : `the result has no structured content and its text is not JSON: ${parsed.reason}`;
    const names = Object.keys(withoutUndefined({ json, schema }));
    const check = {
      passed: false,
      expected: "JSON",
      actual: text,
      message,
      evidence: "pathMissing",
    } as const;
    return names.map((name) => ({ name, ...check }));
  }
  const checks: Check[] = json === undefined ? [] : [...checkJson("json", json, value)];
  if (schema === undefined) return checks;
  const validation = await trial.validateSchema(schema, value);
  if (validation.status === "unusable")
    throw new McpvalsError("step/cannot-run", `step ${id}: its schema cannot be used: ${validation.reason}`);
  const passed = validation.status === "valid";
  const message = passed
    ? "it fits the schema"
    : `it does not fit the schema: ${validation.errors.map((error) => formatSchemaError(error)).join("; ")}`;
  return [...checks, { name: "schema", passed, expected: schema, actual: value, message }];
}
