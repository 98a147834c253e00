import { isJsonObject } from "../formats/json.ts";
import type { EventOf, TraceEvent } from "./events.ts";

/**
 * Servers that did not end in order: that gave no answer to the last ping, or an error; with an exit code when their stdin was closed, which can be a crash; or by themselves,
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
  return [...new Set([...told, ...unansweredPings(events)])];
}

/** JSON-RPC 2.0, section 5.1. */
const methodNotFound = -32601;

/** We ask for a sign of life when a trial ends. A server that knows no ping gives one, too. */
function unansweredPings(events: readonly TraceEvent[]): string[] {
  const open = new Map<string, string>();
  const failed: string[] = [];
  for (const event of events) {
    if (event.type !== "mcp.message" || event.client !== undefined || !isJsonObject(event.message)) continue;
    const { server, direction, message } = event;
    const { id, method, error } = message;
    const key = JSON.stringify([server, id ?? null]);
    if (direction === "client-to-server") {
      if (method === "ping") open.set(key, server);
    } else if (method === undefined && open.delete(key) && isJsonObject(error)) {
      const { code, message: said } = error;
      if (code !== methodNotFound)
        failed.push(
          `server "${server}" ${oddPing} with an error: ${typeof said === "string" ? said : JSON.stringify(error)}`,
        );
    }
  }
  const gone = new Set(
    events.flatMap((event) => (event.type === "server.exited" && !event.expected ? [event.server] : [])),
  );
  const silent = [...open.values()]
    .filter((server) => !gone.has(server))
    .map((server) => `server "${server}" ${noPing}`);
  return [...failed, ...silent];
}

const oddPing = "answered the ping at the end of the trial";
const noPing = "did not answer the ping at the end of the trial: it may hang since its last answer";

function howOf({ exitCode, signal }: EventOf<"server.exited">): string {
  return signal ?? `exit code ${exitCode}`;
}
