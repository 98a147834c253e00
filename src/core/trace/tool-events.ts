import type { Json } from "../formats/model.ts";
import type { AgentTool } from "./agent-tools.ts";
import { matchAgentTools } from "./match-agent-tools.ts";
import type { TraceEvent } from "./events.ts";
import { toolErrorKind, type ToolErrorKind } from "./tool-error-kind.ts";
import type { ToolCall, Trajectory } from "./trajectory.ts";

/** One use of a tool by an agent, whoever's the tool is. */
export interface ToolEvent {
  /** Number of the turn, counting from 0. */
  readonly turn?: number;
  /** Position among the uses of the trial, counting from 1, by when they began. */
  readonly sequence: number;
  /** The agent's id of the use, where it tells one; else the number of the event. */
  readonly callId: string;
  /** The tool as the agent names it. */
  readonly name: string;
  /**
   * `mcp:SERVER`: it is on record that the server was called. `skill`: a load of a skill. `builtin`: another tool of the
   * agent's own. `unknown`: nobody knows whose.
   */
  readonly source: string;
  readonly server?: string;
  /** The server's own name of the tool. */
  readonly serverTool?: string;
  readonly args?: Json;
  readonly result?: Json;
  readonly isError: boolean;
  /** `tool` also where the agent says that a tool failed of which there is no record. */
  readonly errorKind?: ToolErrorKind;
  /** ISO 8601, UTC. */
  readonly startedAt: string;
  /** Without waits for a rate limit. */
  readonly durationMs?: number;
  readonly parentCallId?: string;
  /** Only the agent tells of it: no server was called. */
  readonly unrecorded?: true;
}

/**
 * Every use of a tool by the agent. What the gateway recorded is the truth about servers' tools; the agent's own log adds
 * ids and names, and is all there is about its own tools.
 */
export function toolEvents(trajectory: Trajectory): readonly ToolEvent[] {
  const { calls, unrecorded, others } = matchAgentTools(trajectory);
  const times = new Map(trajectory.events.map(({ seq, at }) => [seq, at]));
  const events = [
    ...calls.map(({ call, told }) => ({
      at: times.get(call.seq) ?? 0,
      event: ofCall(call, told, trajectory.events),
    })),
    ...unrecorded.map((tool) => ({
      at: tool.startedAt,
      event: { ...ofAgent(tool), unrecorded: true as const },
    })),
    ...others.map((tool) => ({ at: tool.startedAt, event: ofAgent(tool) })),
  ];
  return events
    .toSorted((a, b) => a.at - b.at)
    .map(({ at, event }, index) => ({
      sequence: index + 1,
      startedAt: new Date(at).toISOString(),
      ...event,
      ...(event.durationMs === undefined ? {} : { durationMs: toMicroseconds(event.durationMs) }),
    }));
}

/** More digits are noise. */
function toMicroseconds(milliseconds: number): number {
  return Math.round(milliseconds * 1000) / 1000;
}

type Unplaced = Omit<ToolEvent, "sequence" | "startedAt">;

function ofCall(call: ToolCall, told: AgentTool | undefined, events: readonly TraceEvent[]): Unplaced {
  const kind = toolErrorKind(call, events);
  const result = call.result ?? (call.error === undefined ? undefined : { error: call.error.message });
  return {
    ...(call.turn === undefined ? {} : { turn: call.turn }),
    callId: told?.callId ?? `event-${call.seq}`,
    name: told?.name ?? call.tool,
    source: call.server === null ? "unknown" : `mcp:${call.server}`,
    ...(call.server === null ? {} : { server: call.server, serverTool: call.tool }),
    args: call.args,
    ...(result === undefined ? {} : { result }),
    isError: kind !== undefined,
    ...(kind === undefined ? {} : { errorKind: kind }),
    ...(call.latencyMs === undefined ? {} : { durationMs: call.latencyMs }),
    ...(told?.parentCallId === undefined ? {} : { parentCallId: told.parentCallId }),
  };
}

function ofAgent({ source, tool, status, ...told }: AgentTool): Unplaced {
  const server = source.startsWith("mcp:") ? source.slice("mcp:".length) : undefined;
  return {
    turn: told.turn,
    callId: told.callId,
    name: told.name,
    source,
    ...(server === undefined ? {} : { server }),
    ...(tool === undefined ? {} : { serverTool: tool }),
    ...(told.args === undefined ? {} : { args: told.args }),
    ...(told.result === undefined ? {} : { result: told.result }),
    isError: status === "failed",
    ...(status === "failed" ? { errorKind: "tool" as const } : {}),
    ...(told.endedAt === undefined ? {} : { durationMs: told.endedAt - told.startedAt }),
    ...(told.parentCallId === undefined ? {} : { parentCallId: told.parentCallId }),
  };
}
