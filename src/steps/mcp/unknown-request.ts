import type { McpRequest } from "../../core/formats/step.ts";
import type { Check } from "../../core/trace/events.ts";
import type { ServerSession } from "../../servers/session.ts";
import type { Answer } from "./answer.ts";

/** JSON-RPC 2.0, section 5.1. */
const methodNotFound = -32601;

/**
 * The failed check for a request that failed because the server knows no such tool or method: a slip of the task, or a
 * server that lacks it, and in neither case the failure that a step may be waiting for. Undefined for any other answer.
 */
export function unknownRequest(
  request: McpRequest,
  answer: Answer,
  session: ServerSession,
): Check | undefined {
  const { failure, outcome } = answer;
  if (failure === undefined) return undefined;
  const wanted = wantedBy(request, session, outcome.kind === "error" && outcome.code === methodNotFound);
  if (wanted === undefined) return undefined;
  const message = `the server "${session.name}" offers no ${wanted}: ${failure}`;
  return { name: "call", passed: false, expected: wanted, actual: failure, message, untried: true };
}

function wantedBy(request: McpRequest, session: ServerSession, isUnknownMethod: boolean): string | undefined {
  if (request.kind !== "tool") return isUnknownMethod ? `${request.kind}s` : undefined;
  const isOffered = session.tools.some((tool) => tool.name === request.tool);
  return isOffered && !isUnknownMethod ? undefined : `tool "${request.tool}"`;
}
