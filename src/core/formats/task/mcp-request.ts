import type { JsonObject } from "../model.ts";
import type { McpRequest } from "../step.ts";

/** What an `mcp` step, or a solution's, asks for; exactly one of the three is given. */
export function mcpRequest(asked: {
  readonly tool?: string | undefined;
  readonly resource?: string | undefined;
  readonly prompt?: string | undefined;
  readonly args?: JsonObject | undefined;
}): McpRequest {
  const { tool, resource, prompt = "", args = {} } = asked;
  if (tool !== undefined) return { kind: "tool", tool, args };
  return resource === undefined ? { kind: "prompt", prompt, args } : { kind: "resource", uri: resource };
}
