import { equalJson } from "../checks/json-difference.ts";
import { isJsonObject } from "../formats/json.ts";
import type { Json } from "../formats/model.ts";
import type { TraceEvent } from "./events.ts";
import type { ToolCall, Trajectory } from "./trajectory.ts";

/** What an agent tells of one use of a tool. */
export interface AgentTool {
  readonly callId: string;
  readonly turn: number;
  readonly name: string;
  readonly source: string;
  readonly tool?: string;
  readonly status: "started" | "completed" | "failed";
  readonly args?: Json;
  readonly result?: Json;
  readonly parentCallId?: string;
  /** Number of the event that told of it first. */
  readonly seq: number;
  /** Milliseconds since the Unix epoch. */
  readonly startedAt: number;
  readonly endedAt?: number;
}

/** Joins what an agent tells of its uses of tools, in the order in which they began. Later news of a use wins. */
export function agentTools(events: readonly TraceEvent[]): readonly AgentTool[] {
  const tools = new Map<string, AgentTool>();
  for (const event of events) {
    if (event.type !== "agent.tool") continue;
    const { type: _type, trial: _trial, seq, at, ...told } = event;
    const before = tools.get(event.callId);
    tools.set(event.callId, {
      ...before,
      ...told,
      // An empty object is how some agents begin to tell of arguments that they do not have yet.
      ...(before?.args !== undefined && isEmpty(told.args) ? { args: before.args } : {}),
      seq: before?.seq ?? seq,
      startedAt: before?.startedAt ?? at,
      ...(event.status === "started" ? {} : { endedAt: at }),
    });
  }
  return [...tools.values()];
}

function isEmpty(args: Json | undefined): boolean {
  return args === undefined || (isJsonObject(args) && Object.keys(args).length === 0);
}

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
