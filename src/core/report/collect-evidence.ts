import { isJsonObject } from "../formats/json.ts";
import type { Grade } from "../grade/grade.ts";
import type { TraceEvent } from "../trace/events.ts";

/**
 * The events of a trial that a report needs to show why its grades are what they are, in order: those that grades
 * cite; the other half of every cited JSON-RPC request or response, with its HTTP status; and for a cited step its
 * start and the messages that it exchanged.
 */
export function collectEvidence(events: readonly TraceEvent[], grades: readonly Grade[]): TraceEvent[] {
  const cited = new Set(grades.flatMap((grade) => grade.evidence));
  const wanted = withSteps(events, cited);
  const exchanges = new Set<string>();
  for (const event of events) {
    if (wanted.has(event.seq)) for (const key of exchangesOf(event)) exchanges.add(key);
  }
  return events.filter(
    (event) => wanted.has(event.seq) || exchangesOf(event).some((key) => exchanges.has(key)),
  );
}

/** Adds to the cited events, for every cited step, its start and the messages that it exchanged. */
function withSteps(events: readonly TraceEvent[], cited: ReadonlySet<number>): ReadonlySet<number> {
  const wanted = new Set(cited);
  let sinceStart: number[] = [];
  for (const event of events) {
    if (event.type === "step.started") sinceStart = [event.seq];
    if (event.type === "mcp.message" && sinceStart.length > 0) sinceStart.push(event.seq);
    if (event.type !== "step.finished") continue;
    if (cited.has(event.seq)) for (const seq of sinceStart) wanted.add(seq);
    sinceStart = [];
  }
  return wanted;
}

/** Names the JSON-RPC exchanges that an event belongs to; requests of client and server are numbered apart. */
function exchangesOf(event: TraceEvent): string[] {
  if (event.type === "http.response") {
    return event.requestIds.map((id) => exchangeKey(event.server, "client-to-server", id));
  }
  if (event.type !== "mcp.message" || !isJsonObject(event.message)) return [];
  const { id, method } = event.message;
  if (typeof id !== "string" && typeof id !== "number") return [];
  const answered = event.direction === "client-to-server" ? "server-to-client" : "client-to-server";
  return [exchangeKey(event.server, method === undefined ? answered : event.direction, id)];
}

function exchangeKey(server: string, direction: string, id: string | number): string {
  return JSON.stringify([server, direction, id]);
}
