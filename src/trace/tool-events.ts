import { equalJson } from "../expect/json-difference.ts";
import { isJsonObject, type Json, withoutUndefined } from "../base/json.ts";
import type { ServerDigest, ToolDigest } from "../model/result.ts";
import { type EventOf, eventsOf, type TraceEvent } from "../model/event.ts";
import type { ToolCall, Trajectory } from "./trajectory.ts";
import { errorCodes } from "../model/error-codes.ts";

/** What an agent reports of one use of a tool. */
export interface AgentTool extends Omit<EventOf<"agent.tool">, "type" | "trial" | "at"> {
  /** Milliseconds since the Unix epoch. */
  readonly startedAt: number;
  readonly endedAt?: number;
}

/**
 * Joins what an agent reports of its uses of tools, in the order in which they began. A later report of a use wins; `seq` is
 * the number of the first.
 */
export function agentTools(events: readonly TraceEvent[]): readonly AgentTool[] {
  const tools = new Map<string, AgentTool>();
  for (const { type: _type, trial: _trial, seq, at, ...reported } of eventsOf(events, "agent.tool")) {
    const before = tools.get(reported.callId);
    // An empty object is how some agents begin to report arguments that they do not have yet.
    const { args = {} } = reported;
    const isEmpty = isJsonObject(args) && Object.keys(args).length === 0;
    tools.set(reported.callId, {
      ...before,
      ...reported,
      ...(before?.args !== undefined && isEmpty ? { args: before.args } : {}),
      seq: before?.seq ?? seq,
      startedAt: before?.startedAt ?? at,
      ...(reported.status === "started" ? {} : { endedAt: at }),
    });
  }
  return [...tools.values()];
}

/** An agent's own log compared with the record of the gateway. */
export interface MatchedTools {
  /** The record's calls, with the agent's report of each. */
  readonly calls: readonly { readonly call: ToolCall; readonly report?: AgentTool | undefined }[];
  /** Uses of servers' tools that the agent reports and the record lacks. */
  readonly unrecorded: readonly AgentTool[];
  /** Uses of other tools, or of tools of unknown origin. */
  readonly others: readonly AgentTool[];
}

/**
 * Matches each recorded call of an agent with the agent's reports: the first one of that server and tool with the same
 * arguments that is not taken yet; then, of what is left, the first one of that server and tool.
 */
export function matchAgentTools({ calls, events }: Pick<Trajectory, "calls" | "events">): MatchedTools {
  const reports = Map.groupBy(agentTools(events), ({ source }) => source.startsWith("mcp:"));
  const left = new Set(reports.get(true));
  const matches = new Map<ToolCall, AgentTool>();
  const recorded = calls.filter((call) => call.step === undefined);
  const match = (fits: (tool: AgentTool, call: ToolCall) => boolean): void => {
    for (const call of recorded) {
      if (left.size === 0) return;
      if (matches.has(call)) continue;
      const tool = [...left].find(
        (each) => each.source === `mcp:${call.server ?? ""}` && each.tool === call.tool && fits(each, call),
      );
      if (tool === undefined) continue;
      left.delete(tool);
      matches.set(call, tool);
    }
  };
  match((tool, call) => tool.args !== undefined && equalJson(tool.args, call.args));
  match(() => true);
  return {
    calls: recorded.map((call) => ({ call, report: matches.get(call) })),
    unrecorded: [...left],
    others: reports.get(false) ?? [],
  };
}

/** One use of a tool by an agent, of a server's tool or any other. */
export interface ToolEvent {
  /** Number of the turn, counting from 0. */
  readonly turn?: number | undefined;
  /** Position among the uses of the trial, counting from 1, by when they began. */
  readonly sequence: number;
  /** The agent's id of the use, if it reports one; else the number of the event. */
  readonly callId: string;
  /** As the agent names it; where it does not report it, the server's own name. */
  readonly name: string;
  /** `mcp:SERVER`, `skill`, `builtin`, or `unknown`: a tool that no server offers or of unknown origin. */
  readonly source: string;
  readonly server?: string | undefined;
  /** The server's own name of the tool. */
  readonly serverTool?: string | undefined;
  readonly args?: Json | undefined;
  readonly result?: Json | undefined;
  readonly isError: boolean;
  /** `tool` also where the agent reports a failed tool that is not on record. */
  readonly errorKind?: ToolErrorKind | undefined;
  /** ISO 8601, UTC. */
  readonly startedAt: string;
  /** Without waits for a rate limit. */
  readonly durationMs?: number | undefined;
  readonly parentCallId?: string | undefined;
  /** Only the agent reports it: no server was called. */
  readonly unrecorded?: true | undefined;
}

/**
 * Every use of a tool by the agent. The gateway's record decides about servers' tools; the agent's own log adds
 * ids and names, and is the only source about its own tools.
 */
export function toolEvents(trajectory: Trajectory): readonly ToolEvent[] {
  return placedUses(trajectory)
    .toSorted((a, b) => a.at - b.at)
    .map(({ at, event }, index) =>
      withoutUndefined({
        sequence: index + 1,
        startedAt: new Date(at).toISOString(),
        ...event,
        durationMs: event.durationMs === undefined ? undefined : toMicroseconds(event.durationMs),
      }),
    );
}

/** The same without their places in time, in any order. */
export function unplacedToolEvents(trajectory: Trajectory): readonly UnplacedToolEvent[] {
  return placedUses(trajectory).map(({ event }) => event);
}

interface PlacedUse {
  readonly at: number;
  readonly event: UnplacedToolEvent;
}

function placedUses(trajectory: Trajectory): readonly PlacedUse[] {
  const { calls, unrecorded, others } = matchAgentTools(trajectory);
  return [
    ...calls.map(({ call, report }) => ({ at: call.at, event: ofCall(call, report, trajectory) })),
    ...unrecorded.map((tool) => ({
      at: tool.startedAt,
      event: { ...ofAgent(tool), unrecorded: true as const },
    })),
    ...others.map((tool) => ({ at: tool.startedAt, event: ofAgent(tool) })),
  ];
}

/** Milliseconds to the microsecond; more digits are noise. */
export function toMicroseconds(milliseconds: number): number {
  return Math.round(milliseconds * 1000) / 1000;
}

/** A use of a tool without its place in time. */
export type UnplacedToolEvent = Omit<ToolEvent, "sequence" | "startedAt">;

function ofCall(call: ToolCall, reported: AgentTool | undefined, { events }: Trajectory): UnplacedToolEvent {
  const { turn, server, tool, args, error } = call;
  const errorKind = errorKindOf(call, events);
  return {
    turn,
    callId: reported?.callId ?? `event-${call.seq}`,
    name: reported?.name ?? tool,
    source: server === null ? "unknown" : `mcp:${server}`,
    server: server ?? undefined,
    serverTool: server === null ? undefined : tool,
    args,
    result: call.result ?? (error === undefined ? undefined : { error: error.message }),
    isError: errorKind !== undefined,
    errorKind,
    durationMs: call.latencyMs,
    parentCallId: reported?.parentCallId,
  };
}

function ofAgent({
  source,
  tool,
  status,
  startedAt,
  endedAt,
  seq: _seq,
  ...reported
}: AgentTool): UnplacedToolEvent {
  const isError = status === "failed";
  return {
    ...reported,
    source,
    server: source.startsWith("mcp:") ? source.slice("mcp:".length) : undefined,
    serverTool: tool,
    isError,
    errorKind: isError ? "tool" : undefined,
    durationMs: endedAt === undefined ? undefined : endedAt - startedAt,
  };
}

/** What an agent did with tools in one trial, in numbers; `servers` are the names of all that the trial had. */
export function toolDigest(events: readonly UnplacedToolEvent[], servers: readonly string[]): ToolDigest {
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

function serverDigest(events: readonly UnplacedToolEvent[]): ServerDigest {
  const times = events.flatMap(({ durationMs }) => durationMs ?? []).toSorted((a, b) => a - b);
  return withoutUndefined({
    calls: events.length,
    errors: events.filter(({ isError }) => isError).length,
    distinctTools: new Set(events.map(({ serverTool }) => serverTool)).size,
    p50Ms: quantile(times, 0.5),
    p95Ms: quantile(times, 0.95),
  });
}

/**
 * A quantile of sorted numbers, interpolated linearly between the two nearest ones (Hyndman and Fan 1996, definition 7), to
 * the microsecond; undefined when there are none.
 */
export function quantile(sorted: readonly number[], share: number): number | undefined {
  const place = (sorted.length - 1) * share;
  const low = sorted[Math.floor(place)];
  const high = sorted[Math.ceil(place)];
  if (low === undefined || high === undefined) return undefined;
  return toMicroseconds(low + (high - low) * (place - Math.floor(place)));
}

/**
 * How a use of a tool failed. `tool`: the tool ran and reports an error (`isError`). `schema`: it was refused before it ran:
 * no server has the tool, the arguments are no object, or the server answers with JSON-RPC's "invalid params" (-32602).
 * `timeout`: the client gave up, or the trial's time was over. `protocol`: another JSON-RPC error, or no usable answer.
 */
export type ToolErrorKind = "tool" | "protocol" | "timeout" | "schema";

/** The kind of a recorded call's failure; undefined when it did not fail. */
function errorKindOf(call: ToolCall, events: readonly TraceEvent[]): ToolErrorKind | undefined {
  const { result, error, responseSeq, fault } = call;
  if (result !== undefined) return result["isError"] === true ? "tool" : undefined;
  if (error?.kind === "rejected" || error?.code === errorCodes.invalidParams) return "schema";
  if (responseSeq !== undefined) return "protocol";
  const finished = events.findLast((event) => event.type === "trial.finished");
  if (fault === "drop" || finished?.outcome === "timeout") return "timeout";
  // What broke the trial, such as a message that is too large, ended the call too: the client had not waited too long.
  const broke = finished?.outcome === "error" ? finished.error?.message : undefined;
  const isGivenUp =
    error?.cancelled !== undefined && (broke === undefined || !error.cancelled.includes(broke));
  return isGivenUp ? "timeout" : "protocol";
}
