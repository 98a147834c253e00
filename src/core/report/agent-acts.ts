import { type EventOf, eventsOf, type TraceEvent } from "../trace/events.ts";
import { type AgentTool, matchAgentTools } from "../trace/tool-events.ts";
import { type AgentCall, agentCalls, exchangesIn, type ToolCall, toolCalls } from "../trace/trajectory.ts";

/** One act of an agent: a recorded call of a tool, a resource read or a prompt asked for, or a use of a tool that only the agent reports. */
export type AgentAct =
  | { readonly call: ToolCall; readonly told?: AgentTool }
  | { readonly request: AgentCall }
  | { readonly reported: AgentTool };

const shownActs = 4;

/** The first and the last items of a long list, in two parts; a single one between them is not left out. */
export function firstAndLast<T>(
  items: readonly T[],
  total: number = items.length,
): readonly [readonly T[], readonly T[]] {
  return total > 2 * shownActs + 1 ? [items.slice(0, shownActs), items.slice(-shownActs)] : [items, []];
}

/** What an agent did with tools and servers in its turns, in the order in which it began. */
export function agentActs(events: readonly TraceEvent[]): readonly AgentAct[] {
  const calls = toolCalls(events).filter(({ turn }) => turn !== undefined);
  const matched = matchAgentTools({ calls, events });
  const requests = agentCalls({ exchanges: exchangesIn(events) }).filter(({ type }) => type !== "tool");
  const acts = [
    ...requests.map((request) => ({ at: request.at, seq: request.seq, act: { request } })),
    ...matched.calls.map((act) => ({ at: act.call.at, seq: act.call.seq, act })),
    ...[...matched.unrecorded, ...matched.others].map((reported) => {
      return { at: reported.startedAt, seq: reported.seq, act: { reported } };
    }),
  ];
  return acts.toSorted((a, b) => a.at - b.at || a.seq - b.seq).map(({ act }) => act);
}

/** What an agent said last; undefined: nothing. */
export function lastMessage(events: readonly TraceEvent[]): EventOf<"agent.message"> | undefined {
  return eventsOf(events, "agent.message").findLast(({ text }) => text.trim() !== "");
}

/** The numbers of the events that show an agent's phase and turns, its first and last acts, and its last message; none where no agent took part. */
export function eventsOfAgent(events: readonly TraceEvent[]): readonly number[] {
  if (!events.some((event) => event.type === "phase.started" && event.phase === "agent")) return [];
  const acts = firstAndLast(agentActs(events)).flat();
  const calls = new Set(acts.flatMap((act) => requestOf(act)?.seq ?? []));
  const reports = new Set(acts.flatMap((act) => reportOf(act)?.callId ?? []));
  const last = lastMessage(events);
  return events.flatMap((event) => {
    const isTurn = event.type === "turn.started" || event.type === "turn.finished";
    const isPhase =
      (event.type === "phase.started" || event.type === "phase.finished") && event.phase === "agent";
    const isAct = calls.has(event.seq) || (event.type === "agent.tool" && reports.has(event.callId));
    return isTurn || isPhase || isAct || event === last ? [event.seq] : [];
  });
}

/** The request on record that an act is; undefined: only the agent reports it. */
export function requestOf(act: AgentAct): ToolCall | AgentCall | undefined {
  if ("call" in act) return act.call;
  return "request" in act ? act.request : undefined;
}

function reportOf(act: AgentAct): AgentTool | undefined {
  if ("reported" in act) return act.reported;
  return "call" in act ? act.told : undefined;
}
