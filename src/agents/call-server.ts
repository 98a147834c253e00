import type { Json } from "../core/formats/model.ts";
import type { McpRequest } from "../core/formats/step.ts";
import { type CallOutcome, sendRequest, type ServerSession } from "../servers/client/session.ts";
import type { AgentContext } from "./driver.ts";

/**
 * Makes a call that is written down, on the server that it names, or on the only one that offers the tool or that there
 * is. When there is none or more than one, the call is recorded as rejected and undefined is given. Throws what the session
 * throws.
 */
export async function callServer(
  request: McpRequest,
  server: string | undefined,
  { sessions, emit, callTimeoutMs: timeoutMs, signal }: AgentContext,
): Promise<CallOutcome | undefined> {
  const candidates = candidatesFor(request, server, sessions);
  const [session] = candidates;
  if (session === undefined || candidates.length > 1) {
    const reason = rejection(request, server, { candidates, sessions });
    emit({ type: "tool.rejected", tool: nameOf(request), args: argsOf(request), reason });
    return undefined;
  }
  return sendRequest(session, request, { timeoutMs, signal });
}

function candidatesFor(
  request: McpRequest,
  server: string | undefined,
  sessions: readonly ServerSession[],
): readonly ServerSession[] {
  if (server !== undefined) return sessions.filter((session) => session.name === server);
  if (request.kind !== "tool") return sessions;
  return sessions.filter((session) => session.tools.some((offered) => offered.name === request.tool));
}

function rejection(
  request: McpRequest,
  server: string | undefined,
  found: { readonly candidates: readonly ServerSession[]; readonly sessions: readonly ServerSession[] },
): string {
  const name = JSON.stringify(nameOf(request));
  if (server !== undefined) {
    const names = found.sessions.map((session) => session.name).join(", ");
    return `no server is called ${JSON.stringify(server)}; there are: ${names || "none"}`;
  }
  if (found.candidates.length === 0)
    return request.kind === "tool"
      ? `no server offers a tool called ${name}`
      : `there is no server to ask for ${name}`;
  const names = found.candidates.map((session) => session.name).join(" and ");
  return request.kind === "tool"
    ? `${names} both offer ${name}; the action must name its server`
    : `${names} could be asked for ${name}; the action must name its server`;
}

function nameOf(request: McpRequest): string {
  switch (request.kind) {
    case "tool":
      return request.tool;
    case "resource":
      return request.uri;
    case "prompt":
      return request.prompt;
  }
}

function argsOf(request: McpRequest): Json {
  return request.kind === "resource" ? {} : request.args;
}
