import type { CallHistory } from "./call-history.ts";
import type { TraceEvent } from "./events.ts";

/** Reads from a trial's events what its agent called; calls of steps are left out. */
export function callHistory(_events: readonly TraceEvent[]): CallHistory {
  return { toolCalls: [], resourceReads: [], promptGets: [] };
}
