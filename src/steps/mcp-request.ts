import { McpvalsError } from "../core/errors/error.ts";
import { didYouMean, listNames } from "../core/formats/did-you-mean.ts";
import type { McpRequest, McpStep } from "../core/formats/step.ts";
import type { Check } from "../core/trace/events.ts";
import type { CallOptions, ServerSession, ToolDefinition } from "../servers/client/session.ts";
import type { Answer } from "./mcp-answer.ts";
import type { StepAttempt, StepContext } from "./step-runner.ts";

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

/** JSON-RPC 2.0, section 5.1. */
const methodNotFound = -32601;

/**
 * The failed check for a tool that a server does not list, or lists more than once; `listed` has those of its name. What the
 * server would answer shows nothing: neither is a tool that every client can call, and an error is not the tool's own.
 */
export function unusableTool(
  tool: string,
  listed: readonly ToolDefinition[],
  session: ServerSession,
): Check | undefined {
  if (listed.length === 1) return undefined;
  const server = `the server "${session.name}"`;
  const message =
    listed.length === 0
      ? `${server} does not list the tool "${tool}"; ${namesListed(tool, session)}`
      : `${server} lists the tool "${tool}" ${listed.length} times, so it is not clear which of them is called`;
  return untried(`tool "${tool}"`, message);
}

function namesListed(tool: string, { abilities, tools }: ServerSession): string {
  if (!abilities.tools) return "it does not declare that it has tools";
  const names = [...new Set(tools.map(({ name }) => name))];
  if (names.length === 0) return "it lists none";
  const near = didYouMean(tool, names);
  return `listed: ${listNames(names)}${near === undefined ? "" : `; did you mean "${near}"?`}`;
}

interface Asked {
  readonly session: ServerSession;
  readonly options: CallOptions;
}

/**
 * The failed check for a request that failed because the server knows no such method or prompt: a slip of the task, or a
 * server that lacks it, and in neither case the failure that a step may be waiting for. Undefined for any other answer.
 */
export async function unknownRequest(
  request: McpRequest,
  { failure, outcome }: Answer,
  { session, options }: Asked,
): Promise<Check | undefined> {
  if (failure === undefined) return undefined;
  const server = `the server "${session.name}"`;
  if (outcome.kind === "error" && outcome.code === methodNotFound) {
    const wanted = request.kind === "tool" ? `tool "${request.tool}"` : `${request.kind}s`;
    return untried(wanted, `${server} offers no ${wanted}: ${failure}`);
  }
  if (request.kind !== "prompt") return undefined;
  const listed = await session.list("prompts", options);
  const names = listed.kind === "result" ? promptNames(listed.result["prompts"]) : undefined;
  if (names === undefined || names.includes(request.prompt)) return undefined;
  const near = didYouMean(request.prompt, names);
  const question = near === undefined ? "" : `; did you mean "${near}"?`;
  return untried(
    `prompt "${request.prompt}"`,
    `${server} does not list the prompt "${request.prompt}"${question}: ${failure}`,
  );
}

function promptNames(prompts: unknown): readonly string[] | undefined {
  if (!Array.isArray(prompts)) return undefined;
  return prompts.flatMap((prompt: unknown) =>
    typeof prompt === "object" && prompt !== null && "name" in prompt && typeof prompt.name === "string"
      ? [prompt.name]
      : [],
  );
}

function untried(expected: string, message: string): Check {
  return { name: "call", passed: false, expected, actual: null, message, untried: true };
}

/**
 * Whether a step is a tool test of a config: only those have no templates. Its calls are graded for their health too, so
 * that the step need not tell again what the events show.
 */
export function isToolTest({ scope }: StepContext): boolean {
  return scope === undefined;
}
