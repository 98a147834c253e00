import { expandJsonExpectations, expandTextExpectation } from "../core/checks/expand-expectation.ts";
import { McpvalsError } from "../core/errors/error.ts";
import type { McpExpectation, McpRequest, McpStep } from "../core/formats/step.ts";
import type { Expander } from "../core/templates/expand.ts";
import type { JsonObject } from "../core/formats/model.ts";
import { sendRequest } from "../servers/client/session.ts";
import {
  type Answer,
  checkAnswer,
  checkMissingAnswer,
  isUnusable,
  mustFail,
  readAnswer,
} from "./mcp-answer.ts";
import { isToolTest, sessionFor, toolNotOffered, unknownRequest, unusableTool } from "./mcp-request.ts";
import { expandObject, type StepAttempt, type StepContext, type StepRunner } from "./step-runner.ts";

/** Calls one tool, or reads one resource or prompt, and checks what comes back and how soon. */
export const mcpStep: StepRunner<McpStep> = {
  type: "mcp",
  keepsTime: true,
  expand: (step, expander) => ({
    ...step,
    ...(step.server === undefined ? {} : { server: expander.text(step.server) }),
    request: expandRequest(step.request, expander),
    expect: expandExpect(step.expect, expander),
  }),
  input: ({ request, server }) => ({
    ...requestInput(request),
    ...(server === undefined ? {} : { server }),
  }),
  run,
};

async function run(step: McpStep, context: StepContext): Promise<StepAttempt> {
  const { timeoutMs, request } = step;
  const options = { timeoutMs, signal: context.signal };
  const session = await sessionFor(step, context);
  if (session === undefined) return toolNotOffered(step, context.sessions);
  const listed = request.kind === "tool" ? await session.toolsNamed(request.tool, options) : [];
  const [tool] = listed;
  const unusable = request.kind === "tool" ? unusableTool(request.tool, listed, session) : undefined;
  if (unusable !== undefined) return { kind: "checked", checks: [unusable], healthy: false };
  const outcome = await sendRequest(session, request, options);
  if (outcome.kind === "timeout") return checkMissingAnswer(step, outcome.message);
  const answer = readAnswer(request.kind, outcome);
  if (isUnusable(answer) && !judgesServer(step, context)) throw unusableAnswer(step, answer);
  const unknown = await unknownRequest(request, answer, { session, options });
  if (unknown !== undefined) return { kind: "checked", checks: [unknown], healthy: false };
  return {
    kind: "checked",
    checks: await checkAnswer(step, answer, { ...context, tool }),
    healthy: answer.failure === undefined || mustFail(step.expect),
    values: { result: answer.result, text: answer.text },
  };
}

/** A tool test, and a step of the older forms, in which whatever goes wrong with a call is a failed check. */
function judgesServer({ failure }: McpStep, context: StepContext): boolean {
  return isToolTest(context) || failure !== undefined;
}

/** The error for an answer that could not be used: it proves nothing. */
function unusableAnswer({ id, server }: McpStep, { failure = "" }: Answer): McpvalsError {
  const whose = server === undefined ? "the server" : `the server "${server}"`;
  return new McpvalsError(
    "server/protocol-error",
    `step ${id}: ${whose} gave an unusable answer: ${failure}`,
  );
}

function requestInput(request: McpRequest): JsonObject {
  switch (request.kind) {
    case "tool":
      return { tool: request.tool, args: request.args };
    case "resource":
      return { resource: request.uri };
    case "prompt":
      return { prompt: request.prompt, args: request.args };
  }
}

function expandRequest(request: McpRequest, expander: Expander): McpRequest {
  const { text } = expander;
  switch (request.kind) {
    case "tool":
      return { ...request, tool: text(request.tool), args: expandObject(request.args, expander) };
    case "resource":
      return { ...request, uri: text(request.uri) };
    case "prompt":
      return { ...request, prompt: text(request.prompt), args: expandObject(request.args, expander) };
  }
}

function expandExpect(expect: McpExpectation, expander: Expander): McpExpectation {
  const { result, error, text, json, schema, content } = expect;
  return {
    ...expect,
    ...(result === undefined ? {} : { result: expander.json(result) }),
    ...(error === undefined ? {} : { error: expander.text(error) }),
    ...(text === undefined ? {} : { text: expandTextExpectation(text, expander) }),
    ...(json === undefined ? {} : { json: expandJsonExpectations(json, expander) }),
    ...(schema === undefined ? {} : { schema: expandObject(schema, expander) }),
    ...(content === undefined ? {} : { content: expandTextExpectation(content, expander) }),
  };
}
