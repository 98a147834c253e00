import type { ToolEvent } from "./tool-events.ts";

/** What an agent did with tools in one trial, in numbers. */
export interface ToolDigest {
  /** Uses of tools of any kind. */
  readonly toolCalls: number;
  /** Calls of servers' tools on record, whatever came of them. */
  readonly mcpToolCalls: number;
  /** Names of the servers that were called, in the order of the task. */
  readonly serversUsed: readonly string[];
  /** Names of those that the trial had and the agent never called. */
  readonly serversUnused: readonly string[];
  readonly servers: Readonly<Record<string, ServerDigest>>;
}

/** The calls of one server. Times in milliseconds, of the calls that were answered. */
export interface ServerDigest {
  readonly calls: number;
  readonly errors: number;
  readonly distinctTools: number;
  readonly p50Ms?: number;
  readonly p95Ms?: number;
}

/** Counts the uses of tools of one trial; `servers` are the names of all that the trial had. */
export function toolDigest(events: readonly ToolEvent[], servers: readonly string[]): ToolDigest {
  const recorded = events.filter((event) => event.server !== undefined && event.unrecorded === undefined);
  const byServer = Map.groupBy(recorded, (event) => event.server ?? "");
  const used = [...new Set([...servers, ...byServer.keys()])].filter((name) => byServer.has(name));
  return {
    toolCalls: events.length,
    mcpToolCalls: recorded.length,
    serversUsed: used,
    serversUnused: servers.filter((name) => !byServer.has(name)),
    servers: Object.fromEntries(used.map((name) => [name, serverDigest(byServer.get(name) ?? [])])),
  };
}

function serverDigest(events: readonly ToolEvent[]): ServerDigest {
  const times = events.flatMap(({ durationMs }) => durationMs ?? []).toSorted((a, b) => a - b);
  const p50Ms = quantile(times, 0.5);
  const p95Ms = quantile(times, 0.95);
  return {
    calls: events.length,
    errors: events.filter(({ isError }) => isError).length,
    distinctTools: new Set(events.map(({ serverTool }) => serverTool)).size,
    ...(p50Ms === undefined ? {} : { p50Ms }),
    ...(p95Ms === undefined ? {} : { p95Ms }),
  };
}

/**
 * A quantile of sorted numbers, interpolated linearly between the two nearest ones (Hyndman and Fan 1996, definition 7), to
 * the microsecond; undefined when there are none.
 */
function quantile(sorted: readonly number[], share: number): number | undefined {
  const place = (sorted.length - 1) * share;
  const low = sorted[Math.floor(place)];
  const high = sorted[Math.ceil(place)];
  if (low === undefined || high === undefined) return undefined;
  return Math.round((low + (high - low) * (place - Math.floor(place))) * 1000) / 1000;
}
