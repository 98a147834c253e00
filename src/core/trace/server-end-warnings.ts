import type { EventOf, TraceEvent } from "./events.ts";

/**
 * Servers that did not end in order: with an exit code when their stdin was closed, which can be a crash; or by themselves,
 * in a trial that this did not break, since its cleanup may have ended them.
 */
export function serverEndWarnings(events: readonly TraceEvent[]): string[] {
  const isCompleted = events.some(
    (event) => event.type === "trial.finished" && event.outcome === "completed",
  );
  const byStdin = new Set(
    events.flatMap((event) =>
      event.type === "server.stopped" && event.by === "stdin" ? [event.server] : [],
    ),
  );
  const told = events.flatMap((event) => {
    if (event.type !== "server.exited") return [];
    if (!event.expected)
      return isCompleted ? [`server "${event.server}" ended by itself: ${howOf(event)}`] : [];
    const isOdd = byStdin.has(event.server) && event.exitCode !== null && event.exitCode !== 0;
    return isOdd ? [`server "${event.server}" ended with ${howOf(event)} when its stdin was closed`] : [];
  });
  return [...new Set(told)];
}

function howOf({ exitCode, signal }: EventOf<"server.exited">): string {
  return signal ?? `exit code ${exitCode}`;
}
