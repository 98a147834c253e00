import { equalJson } from "../checks/json-match.ts";
import { type AgentTool, agentTools } from "./agent-tools.ts";
import type { ToolCall, Trajectory } from "./trajectory.ts";

/** An agent's own log laid beside the record of the gateway. */
export interface MatchedTools {
  /** The record's calls, with what the agent tells of each. */
  readonly calls: readonly { readonly call: ToolCall; readonly told?: AgentTool }[];
  /** Uses of servers' tools that the agent tells of and the record lacks. */
  readonly unrecorded: readonly AgentTool[];
  /** Uses of tools that are no server's, or nobody knows whose. */
  readonly others: readonly AgentTool[];
}

/**
 * Matches each recorded call of an agent with what the agent tells of it: the first one of that server and tool with the
 * same arguments that is not taken yet; then, of what is left, the first one of that server and tool.
 */
export function matchAgentTools({ calls, events }: Pick<Trajectory, "calls" | "events">): MatchedTools {
  const told = agentTools(events);
  const left = new Set(told.filter(({ source }) => source.startsWith("mcp:")));
  const matches = new Map<ToolCall, AgentTool>();
  const recorded = calls.filter((call) => call.step === undefined);
  const match = (fits: (tool: AgentTool, call: ToolCall) => boolean): void => {
    for (const call of recorded) {
      if (matches.has(call)) continue;
      const tool = [...left].find((candidate) => isSameTool(candidate, call) && fits(candidate, call));
      if (tool === undefined) continue;
      left.delete(tool);
      matches.set(call, tool);
    }
  };
  match((tool, call) => tool.args !== undefined && equalJson(tool.args, call.args));
  match(() => true);
  return {
    calls: recorded.map((call) => {
      const tool = matches.get(call);
      return tool === undefined ? { call } : { call, told: tool };
    }),
    unrecorded: [...left],
    others: told.filter(({ source }) => !source.startsWith("mcp:")),
  };
}

function isSameTool({ source, tool }: AgentTool, call: ToolCall): boolean {
  return source === `mcp:${call.server ?? ""}` && tool === call.tool;
}
