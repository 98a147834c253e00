import { withoutUndefined } from "../../../src/base/json.ts";
import type { CallItem, Excerpt, TraceItem, TrialDocument } from "../../../src/report/documents/documents.ts";
import type { Grade } from "../../../src/model/grade.ts";

/** How an item is shown: what went wrong, what is in progress, what is only there for those who look for it. */
export type ItemStatus = "ok" | "bad" | "open" | "quiet";

export function itemStatus(item: TraceItem): ItemStatus {
  switch (item.kind) {
    case "call":
      return wasRightlyRefused(item) ? "ok" : callStatuses[item.status];
    case "step":
      if (item.outcome === undefined) return "open";
      if (item.outcome === "skipped") return "quiet";
      return item.outcome === "passed" || item.ignored === true ? "ok" : "bad";
    case "request":
      return item.error === undefined ? "quiet" : "bad";
    case "turn":
      return item.problem === undefined ? "ok" : "bad";
    case "event":
      return item.problem === true ? "bad" : "quiet";
    case "model":
      return item.retried === undefined ? "quiet" : "bad";
    case "message":
    case "phase":
      return "ok";
    case "output":
      return "quiet";
  }
}

const callStatuses: Readonly<Record<CallItem["status"], ItemStatus>> = {
  ok: "ok",
  error: "bad",
  rejected: "bad",
  pending: "open",
};

type CallOfTrial = Extract<TraceItem, { readonly kind: "call" }>;

/** Whether it is a call of a check that the server answered with an error, as it must: its arguments do not fit the tool's schema. */
export function wasRightlyRefused({ phase, status, invalid = [], endSeq }: CallOfTrial): boolean {
  return phase === "probe" && status === "error" && invalid.length > 0 && endSeq !== undefined;
}

/** An item as it was known at a time of its trial: without its end and its result if they came later. */
export function itemAt(item: TraceItem, time: number): TraceItem {
  if (item.at + (item.durationMs ?? 0) <= time) return item;
  const end = { durationMs: undefined, endSeq: undefined, result: undefined, error: undefined };
  switch (item.kind) {
    case "call":
      return withoutUndefined({ ...item, ...end, media: undefined, status: "pending" as const });
    case "step":
      return withoutUndefined({ ...item, ...end, outcome: undefined, outputs: undefined, checks: [] });
    case "turn":
      return withoutUndefined({ ...item, ...end, reason: undefined, problem: undefined });
    default:
      return withoutUndefined({ ...item, ...end });
  }
}

const essentialEvents: readonly string[] = ["user.finished", "attack.injected"];

/** Whether an item belongs to the short view: what was said, called, injected and checked, and what went wrong. */
export function isEssential(item: TraceItem): boolean {
  const isEssentialEvent = item.kind === "event" && essentialEvents.includes(item.type);
  return itemStatus(item) !== "quiet" || item.kind === "step" || isEssentialEvent;
}

/** What a search for an item looks at: its words, and the beginning of each of its texts. */
export function itemText(item: TraceItem): string {
  return [...wordsOf(item), ...excerptsOf(item).map(({ text }) => text)].join(" ");
}

/** Whether an item has a text of which a search looks only at the beginning. */
export function hasLargeText(item: TraceItem): boolean {
  return excerptsOf(item).some(({ text, length }) => length > text.length);
}

function wordsOf(item: TraceItem): readonly (string | undefined)[] {
  switch (item.kind) {
    case "phase":
      return [item.name];
    case "turn":
    case "message":
      return [];
    case "call":
      return [item.server, item.tool, item.error];
    case "step":
      return [item.name, item.stepType, item.summary, ...item.checks.map(({ message }) => message)];
    case "request":
      return [item.server, item.method, item.error];
    case "output":
      return [item.from];
    case "model":
      return [item.model, item.finishReason, item.retried];
    case "event":
      return [item.type, item.text];
  }
}

function excerptsOf(item: TraceItem): readonly Excerpt[] {
  switch (item.kind) {
    case "turn":
      return [item.user];
    case "message":
    case "output":
      return [item.text];
    case "call":
      return [item.args, item.result].flatMap((each) => each ?? []);
    case "step":
      return [item.input, item.outputs].flatMap((each) => each ?? []);
    case "request":
      return [item.params, item.result].flatMap((each) => each ?? []);
    case "phase":
    case "model":
    case "event":
      return [];
  }
}

/** The lane of the waterfall that an item is in; undefined for what has none. */
export function laneOf(item: TraceItem, servers: readonly string[]): string | undefined {
  switch (item.kind) {
    case "call":
      return item.server !== undefined && servers.includes(item.server) ? item.server : agentLane;
    case "request":
      return item.server;
    case "output":
      return servers.includes(item.from) ? item.from : undefined;
    case "event":
      return item.server;
    case "step":
      return stepLane;
    case "turn":
    case "message":
    case "model":
      return agentLane;
    case "phase":
      return undefined;
  }
}

export const agentLane = "agent";
export const stepLane = "steps";

/** The lanes of a trial: the agent, one for each server, the steps; those that have something. */
export function lanesOf({ items, servers }: Pick<TrialDocument, "items" | "servers">): readonly string[] {
  const used = new Set(items.map((item) => laneOf(item, servers)));
  return [agentLane, ...servers, stepLane].filter((lane) => servers.includes(lane) || used.has(lane));
}

/** Finds the item that begins or ends with an event, or else the innermost that it is in, by the event's number. */
export function itemFinder(items: readonly TraceItem[]): (seq: number) => TraceItem | undefined {
  const exact = new Map<number, TraceItem>();
  for (const item of items) {
    if (item.endSeq !== undefined && !exact.has(item.endSeq)) exact.set(item.endSeq, item);
    exact.set(item.seq, item);
  }
  return (seq) =>
    exact.get(seq) ??
    items.findLast((item) => item.kind !== "phase" && item.seq < seq && seq < (item.endSeq ?? 0)) ??
    items.findLast((item) => item.seq <= seq);
}

/** The grades that cite each item, by the item's number. */
export function citations(
  items: readonly TraceItem[],
  grades: readonly Grade[],
): ReadonlyMap<number, readonly Grade[]> {
  const find = itemFinder(items);
  const cited = new Map<number, Set<Grade>>();
  for (const grade of grades)
    for (const seq of grade.evidence) {
      const item = find(seq);
      if (item !== undefined) cited.set(item.seq, (cited.get(item.seq) ?? new Set()).add(grade));
    }
  return new Map([...cited].map(([seq, set]) => [seq, [...set]]));
}

/** When the last item has ended, in milliseconds since the first event. */
export function endOf(items: readonly TraceItem[]): number {
  let end = 0;
  for (const item of items) {
    const { at, durationMs = 0, phase } = item;
    // What graders ask a judge is not part of the trial.
    const isGrading = item.kind === "model" && item.purpose === "judge" && phase === undefined;
    end = Math.max(end, isGrading ? at : at + durationMs);
  }
  return end;
}

/** When the agent began to act, or what else follows the start of the servers: the zero of the times that are shown. */
export function originOf(items: readonly TraceItem[]): number {
  const phases = items.filter((item) => item.kind === "phase");
  const first =
    phases.find(({ name }) => name === "agent") ??
    phases.find(({ name }) => name !== "workspace" && name !== "servers");
  return first?.at ?? 0;
}

/** Whether a grade is a reason why the trial did not pass. */
export function isReason({ verdict, required }: Grade): boolean {
  return required !== false && (verdict === "fail" || verdict === "error");
}
