import { equalJson } from "../checks/json-difference.ts";
import { isJsonObject } from "../formats/json.ts";
import type { Json, JsonObject } from "../formats/model.ts";
import type { EventOf, TraceEvent } from "./events.ts";
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

/** What an agent did with tools in one trial, in numbers. */
export interface ToolDigest {
  /** Uses of tools of any kind. */
  readonly toolCalls: number;
  /** Calls of servers' tools on record, whatever came of them. */
  readonly mcpToolCalls: number;
  /** Names of the servers that were called, in the order of the task. */
  readonly serversUsed: readonly string[];
  /** Names of those that the trial had and the agent never called. */
  readonly serversUnused: readonly string[];
  readonly servers: Readonly<Record<string, ServerDigest>>;
}

/** The calls of one server. Times in milliseconds, of the calls that were answered. */
export interface ServerDigest {
  readonly calls: number;
  readonly errors: number;
  readonly distinctTools: number;
  readonly p50Ms?: number;
  readonly p95Ms?: number;
}

/** Counts the uses of tools of one trial; `servers` are the names of all that the trial had. */
export function toolDigest(events: readonly ToolEvent[], servers: readonly string[]): ToolDigest {
  const recorded = events.filter((event) => event.server !== undefined && event.unrecorded === undefined);
  const byServer = Map.groupBy(recorded, (event) => event.server ?? "");
  const used = [...new Set([...servers, ...byServer.keys()])].filter((name) => byServer.has(name));
  return {
    toolCalls: events.length,
    mcpToolCalls: recorded.length,
    serversUsed: used,
    serversUnused: servers.filter((name) => !byServer.has(name)),
    servers: Object.fromEntries(used.map((name) => [name, serverDigest(byServer.get(name) ?? [])])),
  };
}

function serverDigest(events: readonly ToolEvent[]): ServerDigest {
  const times = events.flatMap(({ durationMs }) => durationMs ?? []).toSorted((a, b) => a - b);
  const p50Ms = quantile(times, 0.5);
  const p95Ms = quantile(times, 0.95);
  return {
    calls: events.length,
    errors: events.filter(({ isError }) => isError).length,
    distinctTools: new Set(events.map(({ serverTool }) => serverTool)).size,
    ...(p50Ms === undefined ? {} : { p50Ms }),
    ...(p95Ms === undefined ? {} : { p95Ms }),
  };
}

/**
 * A quantile of sorted numbers, interpolated linearly between the two nearest ones (Hyndman and Fan 1996, definition 7), to
 * the microsecond; undefined when there are none.
 */
function quantile(sorted: readonly number[], share: number): number | undefined {
  const place = (sorted.length - 1) * share;
  const low = sorted[Math.floor(place)];
  const high = sorted[Math.ceil(place)];
  if (low === undefined || high === undefined) return undefined;
  return Math.round((low + (high - low) * (place - Math.floor(place))) * 1000) / 1000;
}

/**
 * What kind of failure a use of a tool ended with. `tool`: the tool ran and says that it failed (`isError`). `schema`: it was
 * refused before it ran, for a name or arguments that do not fit: no server has the tool, the arguments are no object, or the
 * server answers with JSON-RPC's "invalid params" (-32602). `timeout`: whoever called gave up, or the trial's time was over.
 * `protocol`: another JSON-RPC error, or no usable answer.
 */
export type ToolErrorKind = "tool" | "protocol" | "timeout" | "schema";

const invalidParams = -32602;

/** The kind of a recorded call's failure; undefined when it did not fail. `events` are those of the trial. */
function toolErrorKind(call: ToolCall, events: readonly TraceEvent[]): ToolErrorKind | undefined {
  const { result, error, responseSeq } = call;
  if (result !== undefined) return result["isError"] === true ? "tool" : undefined;
  if (error?.kind === "rejected") return "schema";
  if (responseSeq !== undefined)
    return answeredCode(responseSeq, events) === invalidParams ? "schema" : "protocol";
  return call.fault === "drop" || isGivenUp(call, events) ? "timeout" : "protocol";
}

function answeredCode(seq: number, events: readonly TraceEvent[]): unknown {
  const answer = messageAt(seq, events)?.message;
  const error = isJsonObject(answer) ? answer["error"] : undefined;
  return isJsonObject(error) ? error["code"] : undefined;
}

function isGivenUp({ seq }: ToolCall, events: readonly TraceEvent[]): boolean {
  const request = messageAt(seq, events);
  const finished = events.findLast((event) => event.type === "trial.finished");
  if (finished?.outcome === "timeout") return true;
  const broke = finished?.outcome === "error" ? finished.error?.message : undefined;
  return events.some((event) => {
    if (event.type !== "mcp.message" || request === undefined) return false;
    const params = cancellation(event, request);
    // What broke the trial, such as a message that is too large, ended the call too: nobody had waited too long.
    const reason = params?.["reason"];
    const isBroken = broke !== undefined && typeof reason === "string" && reason.includes(broke);
    return params !== undefined && !isBroken;
  });
}

/** The params of a message that cancels a request. */
function cancellation(
  event: EventOf<"mcp.message">,
  request: EventOf<"mcp.message">,
): JsonObject | undefined {
  const { message } = event;
  if (event.server !== request.server || event.client !== request.client) return undefined;
  if (event.seq < request.seq || !isJsonObject(message)) return undefined;
  const { method, params } = message;
  if (method !== "notifications/cancelled" || !isJsonObject(params)) return undefined;
  return isJsonObject(request.message) && params["requestId"] === request.message["id"] ? params : undefined;
}

function messageAt(seq: number, events: readonly TraceEvent[]): EventOf<"mcp.message"> | undefined {
  return events.find(
    (event): event is EventOf<"mcp.message"> => event.seq === seq && event.type === "mcp.message",
  );
}
