import { checkExpectedResult } from "../core/checks/expected-result.ts";
import { resultText } from "../core/checks/result-text.ts";
import { McpvalsError } from "../core/errors/error.ts";
import type { McpStep } from "../core/formats/model.ts";
import type { Check } from "../core/trace/events.ts";
import type { CallOutcome, ServerSession } from "../servers/session.ts";
import type { StepAttempt, StepContext, StepRunner } from "./step-runner.ts";

/** Calls one tool directly and checks its result, its error and its latency. */
export const mcpStep: StepRunner = { type: "mcp", run };

async function run(step: McpStep, context: StepContext): Promise<StepAttempt> {
  const session = sessionFor(step, context.sessions);
  const outcome = await session.callTool(step.tool, step.args, {
    timeoutMs: step.timeoutMs,
    signal: context.signal,
  });
  if (outcome.kind === "timeout") return { kind: "timeout", message: outcome.message };
  const failure = failureText(outcome);
  return {
    kind: "checked",
    checks: [
      ...errorChecks(step, failure),
      ...resultChecks(step, outcome, failure),
      ...latencyChecks(step, outcome),
    ],
    healthy: failure === undefined || step.expect.error !== undefined,
  };
}

function sessionFor(step: McpStep, sessions: readonly ServerSession[]): ServerSession {
  const [only, ...others] = sessions;
  if (step.server !== undefined) {
    const named = sessions.find((session) => session.name === step.server);
    if (named !== undefined) return named;
  } else {
    if (only !== undefined && others.length === 0) return only;
    const offering = sessions.filter((session) => session.tools.some((tool) => tool.name === step.tool));
    const [first, second] = offering;
    if (first !== undefined && second === undefined) return first;
  }
  const names = sessions.map((session) => session.name).join(", ");
  throw new McpvalsError(
    "config/unknown-reference",
    `no single server is meant by tool "${step.tool}" (servers: ${names})`,
    {
      hint: "Name the server with `server:` in the tool test.",
    },
  );
}

type Answer = Exclude<CallOutcome, { kind: "timeout" }>;

function failureText(outcome: Answer): string | undefined {
  if (outcome.kind === "error") return outcome.message;
  return outcome.result["isError"] === true ? resultText(outcome.result) : undefined;
}

function errorChecks(step: McpStep, failure: string | undefined): Check[] {
  const expected = step.expect.error;
  if (expected === undefined) return [];
  const passed = failure !== undefined && failure.toLowerCase().includes(expected.toLowerCase());
  const found =
    failure === undefined ? "the call succeeded" : `it says ${JSON.stringify(failure.slice(0, 300))}`;
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
  const passed = outcome.latencyMs <= limit;
  return [{ name: "latency", passed, expected: limit, actual, message: `${actual} ms, ${limit} ms allowed` }];
}
