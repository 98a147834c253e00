import type { TraceEvent } from "./events.ts";
import { turnEnds } from "./turn-ends.ts";

/** What is odd about turns that the agent ended itself; the others are no matter of warnings, since they fail. */
export function turnWarnings(events: readonly TraceEvent[]): string[] {
  return turnEnds(events).flatMap(({ reason, oddity }) =>
    reason === "done" && oddity !== undefined ? [oddity] : [],
  );
}
