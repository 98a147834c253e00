import { equalJson } from "../expect/json-difference.ts";
import { isJsonObject, type Json, withoutUndefined } from "../base/json.ts";
import type { ServerDigest, ToolDigest } from "../model/result.ts";
import { type EventOf, eventsOf, type TraceEvent } from "../model/event.ts";
import {
  failureOf,
  hasFailed,
  lostToFault,
  perObject,
  readTrace,
  type AgentRequest,
  type Exchange,
  type ToolCall,
  type ToolDeclaration,
  type TraceView,
} from "./trajectory.ts";
import { errorCodes } from "../model/error-codes.ts";

/** What an agent reports of one use of a tool. */
export interface AgentTool extends Omit<EventOf<"agent.tool">, "type" | "trial" | "at"> {
  /** All its events, in order; `seq` is the number of the first. */
  readonly reports: readonly EventOf<"agent.tool">[];
  /** Milliseconds since the Unix epoch. */
  readonly startedAt: number;
  readonly endedAt?: number;
}

/** Joins what an agent reports of its uses of tools, in the order in which they began. A later report of a use wins. */
function agentTools(events: readonly TraceEvent[]): readonly AgentTool[] {
  const tools = new Map<string, AgentTool & { readonly reports: EventOf<"agent.tool">[] }>();
  for (const event of eventsOf(events, "agent.tool")) {
    const { type: _type, trial: _trial, seq, at, ...reported } = event;
    const before = tools.get(reported.callId);
    // One list for a use: it may have very many reports.
    const reports = before?.reports ?? [];
    reports.push(event);
    // An empty object is how some agents begin to report arguments that they do not have yet.
    const { args = {} } = reported;
    const isEmpty = isJsonObject(args) && Object.keys(args).length === 0;
    tools.set(reported.callId, {
      ...before,
      ...reported,
      ...(before?.args !== undefined && isEmpty ? { args: before.args } : {}),
      reports,
      seq: before?.seq ?? seq,
      startedAt: before?.startedAt ?? at,
      ...(reported.status === "started" ? {} : { endedAt: at }),
    });
  }
  return [...tools.values()];
}

/** One thing that the agent did: it asked a server for something, or used a tool of its own. */
export interface AgentAct {
  readonly type: AgentRequest["type"];
  /** The tool or the prompt by its own name, or the URI of the resource. */
  readonly target: string;
  /** `mcp:SERVER`, `builtin`, `skill`, or `unknown`: a call that was sent to no server, or a tool of unknown origin. */
  readonly source: string;
  /** The server that got it, as recorded, or as a transcript says where that is the record; absent: none did. */
  readonly server?: string | undefined;
  readonly args: Json;
  /** What the newest list of the server says of the tool; absent: it was never listed. */
  readonly declared?: ToolDeclaration | undefined;
  readonly turn?: number | undefined;
  /** Number and time of the event that began it. */
  readonly seq: number;
  readonly at: number;
  /** Numbers of all events that show it. */
  readonly seqs: readonly number[];
  /** What came of it, as recorded; absent: only the agent reports it. */
  readonly call?: ToolCall | undefined;
  /** What the agent reports of it. */
  readonly report?: AgentTool | undefined;
  readonly result?: Json | undefined;
  /** Why it failed; absent: it did not. */
  readonly failure?: string | undefined;
  /** A fault was injected that took its answer away. */
  readonly faulted?: true | undefined;
  readonly durationMs?: number | undefined;
}

/**
 * What the agent did, in the order in which it began. The gateway's record decides about what servers offer; the agent's own log
 * adds ids and names, and is the only source about its own tools.
 */
export const agentActs = perObject((view: TraceView): readonly AgentAct[] => {
  const tools = agentTools(view.events);
  const reports = matchReports(view.requests, tools.filter(isOfServer));
  const matched = new Set(reports.values());
  const acts = [
    ...view.requests.map((request) => recordedAct(request, reports.get(request))),
    ...tools
      .filter((tool) => !matched.has(tool))
      .map((tool) => (view.transcript === undefined ? reportedAct(tool) : transcribedAct(tool))),
  ];
  return acts.sort((a, b) => a.at - b.at || a.seq - b.seq);
});

/** The tools that the agent was offered, each once, as they were listed last. */
export const toolsForAgent = perObject(({ tools, hiddenTools }: TraceView): readonly ToolDeclaration[] => {
  const offered = new Map(tools.map((tool) => [keyOf(tool), tool]));
  for (const tool of hiddenTools) offered.delete(keyOf(tool));
  return [...offered.values()];
});

/** Whether an agent asked for tools and got no answer, though no fault kept it from that, and used none. */
export function gotNoTools({ exchanges }: Pick<TraceView, "exchanges">): boolean {
  const asked = Map.groupBy(
    exchanges.filter(({ byAgent }) => byAgent),
    ({ request }) => request.message["method"],
  );
  const [lists = [], calls = []] = ["tools/list", "tools/call"].map((method) => asked.get(method));
  return lists.length > 0 && lists.every(isUnanswered) && calls.every(isUnanswered);
}

function isUnanswered({ answer, cancelled, fault }: Exchange): boolean {
  return (answer === undefined || cancelled !== undefined) && (fault === undefined || fault === "delay");
}

function keyOf({ server, name }: Pick<ToolDeclaration, "server" | "name">): string {
  return `${server}\n${name}`;
}

/** Whether something is said to be of an MCP server. */
export function isOfServer({ source }: Pick<AgentAct, "source">): boolean {
  return source.startsWith("mcp:");
}

/** Whether it is a use of a server's tool that the agent reports and that is not on record. */
export function isUnrecorded(act: AgentAct): boolean {
  return act.server === undefined && act.call === undefined && isOfServer(act);
}

/**
 * Matches each recorded call of a tool with the agent's reports: the first one of that server and tool with the same arguments that is
 * not taken yet; then, of what is left, the first one of that server and tool.
 */
function matchReports(
  requests: readonly AgentRequest[],
  reports: readonly AgentTool[],
): ReadonlyMap<AgentRequest, AgentTool> {
  const matches = new Map<AgentRequest, AgentTool>();
  const waiting = Map.groupBy(reports, ({ source, tool }) => `${source}\n${tool ?? ""}`);
  const match = (fits: (report: AgentTool, call: ToolCall) => boolean): void => {
    for (const request of requests) {
      const { type, call } = request;
      const alike = type === "tool" ? (waiting.get(`mcp:${call.server ?? ""}\n${call.tool}`) ?? []) : [];
      const index = matches.has(request) ? -1 : alike.findIndex((report) => fits(report, call));
      if (index !== -1) for (const report of alike.splice(index, 1)) matches.set(request, report);
    }
  };
  if (reports.length === 0) return matches;
  match((report, call) => report.args !== undefined && equalJson(report.args, call.args));
  match(() => true);
  return matches;
}

function recordedAct(request: AgentRequest, report: AgentTool | undefined): AgentAct {
  const { type, call, seqs } = request;
  const { server, tool, args, declared, turn, seq, at, error, result, latencyMs } = call;
  const offeredBy = server ?? error?.known?.server;
  return {
    type,
    target: tool,
    source: offeredBy === undefined ? "unknown" : `mcp:${offeredBy}`,
    server: server ?? undefined,
    args,
    declared: declared?.[0],
    turn,
    seq,
    at,
    seqs: report === undefined ? seqs : [...seqs, ...report.reports.map((event) => event.seq)],
    call,
    report,
    result,
    failure: failureOf(request),
    faulted: lostToFault(call) ? true : undefined,
    durationMs: latencyMs,
  };
}

function reportedAct(report: AgentTool): AgentAct {
  const { name, tool, source, args = {}, turn, seq, startedAt, endedAt, result, status, reports } = report;
  return {
    type: "tool",
    target: tool ?? name,
    source,
    args,
    turn,
    seq,
    at: startedAt,
    seqs: reports.map((event) => event.seq),
    report,
    result,
    failure: status === "completed" ? undefined : `the agent reports that it ${status}`,
    durationMs: endedAt === undefined ? undefined : endedAt - startedAt,
  };
}

/** A use of a tool in a transcript, which is the record of it. The times of its entries say nothing of how long a call took. */
function transcribedAct(report: AgentTool): AgentAct {
  const act = reportedAct(report);
  const isOpen = report.status === "started";
  return {
    ...act,
    server: serverIn(act),
    failure: isOpen ? "the transcript has no result of it" : act.failure,
    durationMs: report.durationMs,
  };
}

/** `result` is `{error: message}` when there was none; `timestamp` is ISO 8601. */
type PastCall = { readonly serverName: string; readonly result: Json; readonly timestamp: string };

/** What the agent asked of servers, in the order of the requests. */
export interface CallHistory {
  readonly toolCalls: readonly (PastCall & { readonly toolName: string; readonly arguments: Json })[];
  readonly resourceReads: readonly (PastCall & { readonly uri: string })[];
  readonly promptGets: readonly (PastCall & { readonly promptName: string; readonly arguments: Json })[];
}

/** Reads from a trial's events what its agent asked of servers. */
export function callHistory(events: readonly TraceEvent[]): CallHistory {
  const past = agentActs(readTrace(events)).flatMap(
    ({ type, server: serverName, target, args, at, call }) => {
      if (serverName === undefined) return [];
      const result: Json = call?.result ?? { error: call?.error?.message ?? "" };
      return [{ type, target, args, past: { serverName, result, timestamp: new Date(at).toISOString() } }];
    },
  );
  const ofType = (type: AgentAct["type"]): typeof past => past.filter((each) => each.type === type);
  return {
    toolCalls: ofType("tool").map(({ target, args, past: call }) => ({
      ...call,
      toolName: target,
      arguments: args,
    })),
    resourceReads: ofType("resource").map(({ target, past: read }) => ({ ...read, uri: target })),
    promptGets: ofType("prompt").map(({ target, args, past: get }) => ({
      ...get,
      promptName: target,
      arguments: args,
    })),
  };
}

/** One use of a tool by an agent, of a server's tool or any other, as it is written for other programs. */
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
  /** Only the agent reports it: no server is on record that was called. */
  readonly unrecorded?: true | undefined;
}

/** Every use of a tool by the agent, for other programs. */
export function toolEvents(view: TraceView): readonly ToolEvent[] {
  return toolActs(view).map((act, index) => {
    const { call, report, server, result, durationMs } = act;
    const errorKind = errorKindOf(act, view.events);
    const own =
      call === undefined
        ? { source: act.source, server: serverIn(act), serverTool: report?.tool, args: report?.args }
        : {
            source: server === undefined ? "unknown" : act.source,
            server,
            serverTool: server === undefined ? undefined : act.target,
            args: act.args,
          };
    return withoutUndefined({
      sequence: index + 1,
      startedAt: new Date(act.at).toISOString(),
      turn: act.turn,
      callId: report?.callId ?? `event-${act.seq}`,
      name: report?.name ?? act.target,
      ...own,
      result: result ?? (call?.error === undefined ? undefined : { error: call.error.message }),
      isError: errorKind !== undefined,
      errorKind,
      durationMs: durationMs === undefined ? undefined : toMicroseconds(durationMs),
      parentCallId: report?.parentCallId,
      unrecorded: isUnrecorded(act) ? (true as const) : undefined,
    });
  });
}

function toolActs(view: TraceView): readonly AgentAct[] {
  return agentActs(view).filter(({ type }) => type === "tool");
}

/** The server that a source names; undefined for another source. */
export function serverIn(act: Pick<AgentAct, "source">): string | undefined {
  return isOfServer(act) ? act.source.slice("mcp:".length) : undefined;
}

/** Milliseconds to the microsecond; more digits are noise. */
export function toMicroseconds(milliseconds: number): number {
  return Math.round(milliseconds * 1000) / 1000;
}

/** What the agent did with tools, in numbers; `servers` are the names of all that the trial had. */
export function toolDigest(view: TraceView, servers: readonly string[]): ToolDigest {
  const acts = toolActs(view);
  const byServer = Map.groupBy(
    acts.filter(({ server }) => server !== undefined),
    ({ server = "" }) => server,
  );
  const used = [...new Set([...servers, ...byServer.keys()])].filter((name) => byServer.has(name));
  return {
    toolCalls: acts.length,
    mcpToolCalls: [...byServer.values()].flat().length,
    serversUsed: used,
    serversUnused: servers.filter((name) => !byServer.has(name)),
    servers: Object.fromEntries(used.map((name) => [name, serverDigest(byServer.get(name) ?? [], view)])),
  };
}

function serverDigest(acts: readonly AgentAct[], view: TraceView): ServerDigest {
  const times = acts.flatMap(({ durationMs }) => durationMs ?? []).toSorted((a, b) => a - b);
  return withoutUndefined({
    calls: acts.length,
    errors:
      view.transcript?.failuresUnknown === true
        ? undefined
        : acts.filter(({ call, failure }) =>
            call === undefined ? failure !== undefined : hasFailed(call) && !wasCutOff(call, view),
          ).length,
    distinctTools: new Set(acts.map(({ target }) => target)).size,
    p50Ms: quantile(times, 0.5),
    p95Ms: quantile(times, 0.95),
  });
}

/** Whether a call was open when its trial was killed: nobody knows what would have come of it. */
export function wasCutOff(
  { error, responseSeq }: Pick<ToolCall, "error" | "responseSeq">,
  { events }: Pick<TraceView, "events">,
): boolean {
  if (error?.kind !== "no-response" || responseSeq !== undefined || error.cancelled !== undefined)
    return false;
  return !events.some(({ type }) => type === "trial.finished");
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

/** The kind of a use's failure; undefined when it did not fail. */
function errorKindOf({ call, report }: AgentAct, events: readonly TraceEvent[]): ToolErrorKind | undefined {
  if (call === undefined) return report?.status === "failed" ? "tool" : undefined;
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
