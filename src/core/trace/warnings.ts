import type { TraceEvent } from "./events.ts";

/** What deserves a look but changes no verdict: a server that writes other things than MCP on stdout. */
export function warningsOf(events: readonly TraceEvent[]): string[] {
  const first = new Map<string, { text: string; count: number }>();
  for (const event of events) {
    if (event.type !== "server.invalid_output") continue;
    const seen = first.get(event.server);
    if (seen === undefined) first.set(event.server, { text: event.text, count: 1 });
    else seen.count += 1;
  }
  return [...first].map(
    ([server, { text, count }]) =>
      `server "${server}" wrote ${count === 1 ? "a line" : `${count} lines`} on stdout that ${count === 1 ? "is" : "are"} not MCP, first ${JSON.stringify(text.slice(0, 80))}`,
  );
}
