import { checkExpectedResult } from "../core/checks/expected-result.ts";
import { resultText } from "../core/checks/result-text.ts";
import { McpvalsError } from "../core/errors/error.ts";
import type { JsonObject } from "../core/formats/model.ts";
import type { McpStep } from "../core/formats/step.ts";
import type { Check } from "../core/trace/events.ts";
import type { CallOutcome, ServerSession } from "../servers/session.ts";
import type { StepAttempt, StepContext, StepRunner } from "./step-runner.ts";

/** Calls one tool directly and checks its result, its error and its latency. */
export const mcpStep: StepRunner<McpStep> = {
  type: "mcp",
  keepsTime: true,
  expand: (step) => step,
  input: ({ request, server }) => ({
    ...(request.kind === "tool" ? { tool: request.tool, args: request.args } : {}),
    ...(server === undefined ? {} : { server }),
  }),
  run: (step, context) => {
    if (step.request.kind !== "tool") throw new Error("to be written");
    return run({ ...step, tool: step.request.tool, args: step.request.args }, context);
  },
};

type ToolStep = McpStep & { readonly tool: string; readonly args: JsonObject };

async function run(step: ToolStep, context: StepContext): Promise<StepAttempt> {
  const session = sessionFor(step, context.sessions);
  if (session === undefined) return withoutTool(step, context.sessions);
  const outcome = await session.callTool(step.tool, step.args, {
    timeoutMs: step.timeoutMs,
    signal: context.signal,
  });
  if (outcome.kind === "timeout") return unanswered(step, outcome.message);
  const failure = failureText(outcome);
  return {
    kind: "checked",
    checks: [
      ...callChecks(step, outcome),
      ...errorChecks(step, outcome, failure),
      ...resultChecks(step, outcome, failure),
      ...latencyChecks(step, outcome),
    ],
    healthy: failure === undefined || step.expect.error !== undefined,
  };
}

/** The server to call; undefined when none of several offers the tool. Of a single server, its answer decides. */
function sessionFor(step: ToolStep, sessions: readonly ServerSession[]): ServerSession | undefined {
  const named =
    step.server === undefined ? sessions : sessions.filter((session) => session.name === step.server);
  const [only, ...others] = named;
  if (only !== undefined && others.length === 0) return only;
  const offering = named.filter((session) => session.tools.some((tool) => tool.name === step.tool));
  if (named.length > 0 && offering.length < 2) return offering[0];
  const problem =
    offering.length > 1
      ? `several servers offer the tool "${step.tool}": ${namesOf(offering)}`
      : `the server "${step.server ?? ""}" of tool "${step.tool}" is not among those of the task: ${namesOf(sessions)}`;
  throw new McpvalsError("config/unknown-reference", problem, {
    hint: "Name the server with `server:` in the tool test.",
  });
}

/** No answer proves nothing, but for a call that had to be answered within that time. */
function unanswered(step: McpStep, message: string): StepAttempt {
  const { timeoutMs, expect } = step;
  const limit = expect.maxLatencyMs;
  if (limit === undefined || limit > timeoutMs) return { kind: "timeout", message };
  const actual = `no answer within ${timeoutMs} ms`;
  return {
    kind: "checked",
    checks: [
      { name: "latency", passed: false, expected: limit, actual, message: `${actual}, ${limit} ms allowed` },
    ],
    healthy: false,
  };
}

function withoutTool(step: ToolStep, sessions: readonly ServerSession[]): StepAttempt {
  const message = `no server offers the tool "${step.tool}" (servers: ${namesOf(sessions)})`;
  return {
    kind: "checked",
    checks: [{ name: "tool", passed: false, expected: step.tool, actual: null, message }],
    healthy: false,
  };
}

function namesOf(sessions: readonly ServerSession[]): string {
  return sessions.map((session) => session.name).join(", ");
}

type Answer = Exclude<CallOutcome, { kind: "timeout" }>;

function failureText(outcome: Answer): string | undefined {
  if (outcome.kind === "error") return outcome.message;
  return outcome.result["isError"] === true ? resultText(outcome.result) : undefined;
}

/** What came instead of a result, where no other check says so and the events may not show it: an answer that is none. */
function callChecks(step: McpStep, outcome: Answer): Check[] {
  const { error, result } = step.expect;
  if (outcome.kind === "result" || outcome.code !== undefined) return [];
  if (error !== undefined || result !== undefined) return [];
  const { message } = outcome;
  return [
    { name: "call", passed: false, expected: "a result", actual: message, message: `no result: ${message}` },
  ];
}

/** Only the server's own words count: what we say of an answer that is none must not pass for the expected error. */
function errorChecks(step: McpStep, outcome: Answer, failure: string | undefined): Check[] {
  const expected = step.expect.error;
  if (expected === undefined) return [];
  const unusable = outcome.kind === "error" && outcome.unusable === true;
  const passed = !unusable && failure?.toLowerCase().includes(expected.toLowerCase()) === true;
  const said =
    failure === undefined ? "the call succeeded" : `it says ${JSON.stringify(failure.slice(0, 300))}`;
  const found = unusable ? `the answer is unusable: ${failure ?? ""}` : said;
  const message = passed
    ? "failed as expected"
    : `expected an error containing ${JSON.stringify(expected)}, ${found}`;
  return [{ name: "error", passed, expected, actual: failure ?? null, message }];
}

function resultChecks(step: McpStep, outcome: Answer, failure: string | undefined): Check[] {
  const expected = step.expect.result;
  if (expected === undefined) return [];
  if (outcome.kind === "result") return [checkExpectedResult(expected, outcome.result)];
  return [{ name: "result", passed: false, expected, actual: null, message: `no result: ${failure ?? ""}` }];
}

function latencyChecks(step: McpStep, outcome: Answer): Check[] {
  const limit = step.expect.maxLatencyMs;
  if (limit === undefined) return [];
  const actual = Math.round(outcome.latencyMs * 10) / 10;
  const message = `${actual} ms, ${limit} ms allowed`;
  return [{ name: "latency", passed: actual <= limit, expected: limit, actual, message }];
}
