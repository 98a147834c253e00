import { didYouMean, listNames } from "../../core/formats/did-you-mean.ts";
import type { McpRequest } from "../../core/formats/step.ts";
import type { Check } from "../../core/trace/events.ts";
import type { CallOptions, ServerSession, ToolDefinition } from "../../servers/client/session.ts";
import type { Answer } from "./answer.ts";

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
      : `${server} lists the tool "${tool}" ${listed.length} times, so that nobody can tell which of them is called`;
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
  const names = listed.kind === "result" ? namesOf(listed.result["prompts"]) : undefined;
  if (names === undefined || names.includes(request.prompt)) return undefined;
  const near = didYouMean(request.prompt, names);
  const question = near === undefined ? "" : `; did you mean "${near}"?`;
  return untried(
    `prompt "${request.prompt}"`,
    `${server} does not list the prompt "${request.prompt}"${question}: ${failure}`,
  );
}

function namesOf(prompts: unknown): readonly string[] | undefined {
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
