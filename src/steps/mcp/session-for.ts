import { McpvalsError } from "../../core/errors/error.ts";
import { didYouMean } from "../../core/formats/did-you-mean.ts";
import type { McpRequest, McpStep } from "../../core/formats/step.ts";
import type { ServerSession } from "../../servers/client/session.ts";
import { isToolTest } from "./tool-test.ts";
import type { StepAttempt, StepContext } from "../step-runner.ts";

/**
 * The server that a request goes to: the one that is named, or the only one, since its answer is then the verdict, or the
 * one that offers the tool; undefined when none of several offers it. Throws `config/unknown-reference` when the file does
 * not say which one is meant, and `server/missing` when it is, or may be, one that did not start.
 */
export async function sessionFor(step: McpStep, context: StepContext): Promise<ServerSession | undefined> {
  const { server, request } = step;
  const { sessions, absent = [] } = context;
  const candidates = server === undefined ? sessions : sessions.filter((session) => session.name === server);
  const isNeeded = candidates.length > 1 || absent.length > 0;
  const offering =
    isNeeded && request.kind === "tool" ? await offeringOf(request.tool, candidates, step, context) : [];
  const meant = server === undefined ? absent : absent.filter((name) => name === server);
  // What nobody offers may have been offered by the one that is not there.
  if (meant.length > 0 && offering.length === 0) throw missing(step, meant);
  const [only, ...others] = candidates;
  if (only === undefined) throw unknown(step, `is not among those of the task: ${namesOf(sessions)}`);
  if (others.length === 0) return only;
  if (request.kind !== "tool")
    throw unclear(`could be asked for the ${wordsFor(request)}`, candidates, context);
  if (offering.length > 1) throw unclear(`offer the ${wordsFor(request)}`, offering, context);
  return offering[0];
}

/** The servers that list a tool; where none did so when it was last asked, all are asked again. */
async function offeringOf(
  tool: string,
  candidates: readonly ServerSession[],
  { timeoutMs }: McpStep,
  { signal }: StepContext,
): Promise<readonly ServerSession[]> {
  const isOffered = ({ tools }: ServerSession): boolean => tools.some(({ name }) => name === tool);
  if (!candidates.some(isOffered))
    await Promise.all(candidates.map((session) => session.toolsNamed(tool, { timeoutMs, signal })));
  return candidates.filter(isOffered);
}

/** The attempt of a step whose tool no server offers: the servers are at fault. */
export function toolNotOffered({ request }: McpStep, sessions: readonly ServerSession[]): StepAttempt {
  const expected = request.kind === "tool" ? request.tool : "";
  const near = didYouMean(
    expected,
    sessions.flatMap(({ tools }) => tools.map(({ name }) => name)),
  );
  const question = near === undefined ? "" : `; did you mean "${near}"?`;
  const message = `no server lists the ${wordsFor(request)} (servers: ${namesOf(sessions)})${question}`;
  return {
    kind: "checked",
    checks: [{ name: "tool", passed: false, expected, actual: null, message, untried: true }],
    healthy: false,
  };
}

function unknown({ server, request }: McpStep, problem: string): McpvalsError {
  const message =
    server === undefined
      ? `the task has no server to ask for the ${wordsFor(request)}`
      : `the server "${server}" of ${wordsFor(request)} ${problem}`;
  return new McpvalsError("config/unknown-reference", message, {
    hint: "Name one of the task's servers with `server:`.",
  });
}

function missing({ request }: McpStep, names: readonly string[]): McpvalsError {
  const servers = names.map((name) => `"${name}"`).join(", ");
  const which = names.length === 1 ? `server ${servers}` : `one of the servers ${servers}`;
  return new McpvalsError("server/missing", `the ${wordsFor(request)} needs ${which}, which did not start`);
}

function unclear(problem: string, sessions: readonly ServerSession[], context: StepContext): McpvalsError {
  const place = isToolTest(context) ? "tool test" : "step";
  return new McpvalsError("config/unknown-reference", `several servers ${problem}: ${namesOf(sessions)}`, {
    hint: `Name the server with \`server:\` in the ${place}.`,
  });
}

function wordsFor(request: McpRequest): string {
  switch (request.kind) {
    case "tool":
      return `tool "${request.tool}"`;
    case "resource":
      return `resource "${request.uri}"`;
    case "prompt":
      return `prompt "${request.prompt}"`;
  }
}

function namesOf(sessions: readonly ServerSession[]): string {
  return sessions.map((session) => session.name).join(", ");
}
