import type { McpRequest } from "../core/formats/step.ts";
import type { CallOptions, CallOutcome, ServerSession } from "./session.ts";

/** Sends a request of any kind to a server. Throws as `ServerSession.callTool` does. */
export function sendRequest(
  session: ServerSession,
  request: McpRequest,
  options: CallOptions,
): Promise<CallOutcome> {
  switch (request.kind) {
    case "tool":
      return session.callTool(request.tool, request.args, options);
    case "resource":
      return session.readResource(request.uri, options);
    case "prompt":
      return session.getPrompt(request.prompt, request.args, options);
  }
}
