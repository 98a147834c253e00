import { type EventOf, eventsOf, type TraceEvent } from "../trace/events.ts";
import { type AgentTool, matchAgentTools } from "../trace/tool-events.ts";
import { type ToolCall, toolCalls } from "../trace/trajectory.ts";

/** One use of a tool by an agent: a recorded call, or what only the agent reports. */
export type AgentAct =
  | { readonly call: ToolCall; readonly told?: AgentTool }
  | { readonly reported: AgentTool };

const shownActs = 4;

/** The first and the last items of a long list, in two parts; a single one between them is not left out. */
export function firstAndLast<T>(
  items: readonly T[],
  total: number = items.length,
): readonly [readonly T[], readonly T[]] {
  return total > 2 * shownActs + 1 ? [items.slice(0, shownActs), items.slice(-shownActs)] : [items, []];
}

/** What an agent did with tools in its turns, in the order in which it began. */
export function agentActs(events: readonly TraceEvent[]): readonly AgentAct[] {
  const calls = toolCalls(events).filter(({ turn }) => turn !== undefined);
  const matched = matchAgentTools({ calls, events });
  const acts = [
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

/** The numbers of the events that show an agent's turns, its first and last uses of tools, and its last message; none where no agent took part. */
export function eventsOfAgent(events: readonly TraceEvent[]): readonly number[] {
  if (!events.some((event) => event.type === "phase.started" && event.phase === "agent")) return [];
  const acts = firstAndLast(agentActs(events)).flat();
  const calls = new Set(acts.flatMap((act) => ("call" in act ? [act.call.seq] : [])));
  const reports = new Set(acts.map((act) => ("call" in act ? act.told : act.reported)?.callId));
  const last = lastMessage(events);
  return events.flatMap((event) => {
    const isTurn = event.type === "turn.started" || event.type === "turn.finished";
    const isAct = calls.has(event.seq) || (event.type === "agent.tool" && reports.has(event.callId));
    return isTurn || isAct || event === last ? [event.seq] : [];
  });
}
