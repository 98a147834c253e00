import { previewJson } from "../base/read-json.ts";
import type { EventOf, TraceEvent } from "../model/event.ts";

type Started = EventOf<"step.started">;

/**
 * Says how steps are called for a reader: a step's name or id, behind the names of the steps that it is in, such as
 * `hosts (host="b") › answers`. A step that no event names keeps its name in the trace.
 */
export function stepPaths(events: readonly TraceEvent[]): (step: string) => string {
  const steps = new Map<string, Started>();
  for (const event of events) if (event.type === "step.started") steps.set(event.step, event);
  return (step) => joined(partsOf(step, steps));
}

interface Part {
  readonly text: string;
  /** The id, where the author gave no name; it may begin with the id of the step around it. */
  readonly id?: string;
}

/** An id that is made from its place says already which step it is in. */
function joined(parts: readonly Part[]): string {
  return parts
    .filter(({ id }, index) => id === undefined || parts[index + 1]?.id?.startsWith(id) !== true)
    .map((part) => part.text)
    .join(" › ");
}

function partsOf(step: string, steps: ReadonlyMap<string, Started>): readonly Part[] {
  const started = steps.get(step);
  if (started === undefined) return [{ text: step }];
  const { parent, name } = started;
  const id = parent !== undefined && step.startsWith(`${parent}/`) ? step.slice(parent.length + 1) : step;
  const own: Part = name === undefined ? { text: id, id } : { text: name };
  return parent === undefined ? [own] : [...aroundOf(parent, steps), own];
}

/** The steps around a step; in a `foreach`, with the item. */
function aroundOf(parent: string, steps: ReadonlyMap<string, Started>): readonly Part[] {
  const round = steps.has(parent) ? null : /^(.*)\[(\d+)\]$/s.exec(parent);
  const [, holder = parent, index] = round ?? [];
  const parts = partsOf(holder, steps);
  const last = parts.at(-1);
  const item = index === undefined ? undefined : itemOf(steps.get(holder), Number(index));
  return last === undefined || item === undefined
    ? parts
    : [...parts.slice(0, -1), { text: `${last.text} (${item})` }];
}

function itemOf(holder: Started | undefined, index: number): string {
  const { var: variable, in: items } = holder?.input ?? {};
  const name = typeof variable === "string" ? variable : "item";
  const item: unknown = Array.isArray(items) ? items[index] : undefined;
  return item === undefined ? `${name} ${index + 1}` : `${name}=${previewJson(item, 40)}`;
}
