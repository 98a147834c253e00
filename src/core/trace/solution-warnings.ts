import { agentCalls, type AgentCall } from "./agent-calls.ts";
import type { TraceEvent } from "./events.ts";

/** Of how many calls it is told that they failed; of the others, how many there are. */
const most = 10;
const shownText = 300;

/**
 * Calls of a task's own solution that failed, each in a sentence: it plays on, so that only this tells of a tool that is
 * not called so. Other agents may fail as they like.
 */
export function solutionWarnings(events: readonly TraceEvent[]): string[] {
  if (!events.some((event) => event.type === "agent.started" && event.kind === "oracle")) return [];
  const failures = [...failedCalls(events), ...rejectedCalls(events)].toSorted((a, b) => a.seq - b.seq);
  const rest = failures.length - most;
  return [
    ...new Set(failures.slice(0, most).map(({ name, why }) => `solution: ${name} failed: ${clipped(why)}`)),
    ...(rest > 0 ? [`solution: ${rest} more calls failed`] : []),
  ];
}

interface Failure {
  readonly seq: number;
  readonly name: string;
  readonly why: string;
}

function failedCalls(events: readonly TraceEvent[]): readonly Failure[] {
  return agentCalls(events).calls.flatMap((call): Failure[] =>
    call.failure === undefined ? [] : [{ seq: call.seq, name: nameOf(call), why: call.failure }],
  );
}

/** Calls that reached no server; steps have none of these. */
function rejectedCalls(events: readonly TraceEvent[]): readonly Failure[] {
  return events.flatMap((event) =>
    event.type === "tool.rejected" ? [{ seq: event.seq, name: event.tool, why: event.reason }] : [],
  );
}

function nameOf({ server, name, type }: AgentCall): string {
  return type === "resource" ? `${name} of ${server}` : `${server}.${name}`;
}

function clipped(text: string): string {
  const line = text.trim().replaceAll(/\s*\n\s*/g, " ");
  return line.length <= shownText ? line : `${line.slice(0, shownText).toWellFormed()}…`;
}
