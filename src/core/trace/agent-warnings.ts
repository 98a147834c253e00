import { matchAgentTools } from "./match-agent-tools.ts";
import type { Trajectory } from "./trajectory.ts";

/**
 * Where an agent's own log and the gateway's record differ, servers that did not start and were not needed, and faults
 * that were injected. The record is what counts; a difference means that one of the two has not seen everything.
 */
export function agentWarnings(trajectory: Pick<Trajectory, "calls" | "events">): string[] {
  return [
    ...mismatches(trajectory),
    ...unlistedTools(trajectory),
    ...missingServers(trajectory),
    ...unreachedServers(trajectory),
    ...idleRules(trajectory),
    ...injectedFaults(trajectory),
  ];
}

function mismatches(trajectory: Pick<Trajectory, "calls" | "events">): string[] {
  const { calls, unrecorded, others } = matchAgentTools(trajectory);
  const done = unrecorded.filter(({ status }) => status === "completed");
  const tells = calls.some(({ told }) => told !== undefined) || unrecorded.length + others.length > 0;
  const untold = tells ? calls.filter(({ told }) => told === undefined) : [];
  return [
    ...count(
      done.map(({ source, tool }) => `${source.slice("mcp:".length)}.${tool ?? "?"}`),
      (names) => `the agent tells of calls that never reached the gateway: ${names}; only the record counts`,
    ),
    ...count(
      untold.map(({ call }) => `${call.server ?? "?"}.${call.tool}`),
      (names) => `the agent's own log lacks calls that the gateway recorded: ${names}`,
    ),
  ];
}

/** A tool that is not listed is there for this agent only, if it is one at all. */
function unlistedTools({ calls }: Pick<Trajectory, "calls">): string[] {
  const answered = calls.filter(
    ({ step, server, declared, result }) =>
      step === undefined &&
      server !== null &&
      declared === undefined &&
      result !== undefined &&
      result["isError"] !== true,
  );
  return count(
    answered.map(({ server, tool }) => `${server ?? "?"}.${tool}`),
    (names) => `the agent called tools that their server does not list, and was answered: ${names}`,
  );
}

function missingServers({ events }: Pick<Trajectory, "events">): string[] {
  return events.flatMap((event) =>
    event.type === "server.failed"
      ? [`the trial went on without server "${event.server}", which did not start: ${event.error.message}`]
      : [],
  );
}

/** One of the same name in a program's own config may have been taken instead. That it reached none at all is an error. */
function unreachedServers({ events }: Pick<Trajectory, "events">): string[] {
  const reached = new Set(
    events.flatMap((event) => (event.type === "gateway.connected" ? [event.server] : [])),
  );
  if (reached.size === 0) return [];
  const ready = new Set(events.flatMap((event) => (event.type === "server.ready" ? [event.server] : [])));
  return [...ready]
    .filter((server) => !reached.has(server))
    .map((server) => `the agent never connected to server "${server}"`);
}

/** What is written to stand between an agent and a server, and did nothing; tools that the agent missed for its sake. */
function idleRules({ events }: Pick<Trajectory, "events">): string[] {
  const rejected = new Set(events.flatMap((event) => (event.type === "tool.rejected" ? [event.tool] : [])));
  const told = events.flatMap((event) => {
    if (event.type === "fault.unmet") {
      return [`the fault "${event.fault}" of ${event.server}.${event.tool ?? event.method} met no request`];
    }
    if (event.type !== "tools.hidden") return [];
    const { server, unmatched = [], tools } = event;
    return [
      ...unmatched.map((name) => `server "${server}": "${name}" under its \`tools\` fits none of its tools`),
      ...tools
        .filter((name) => rejected.has(name))
        .map((name) => `server "${server}" has the tool "${name}", which its \`tools\` hide from agents`),
    ];
  });
  return [...new Set(told)];
}

function injectedFaults({ events }: Pick<Trajectory, "events">): string[] {
  const faults = events.flatMap((event) =>
    event.type === "fault.injected"
      ? [`${event.fault} of ${event.server}.${event.tool ?? event.method}`]
      : [],
  );
  return count(faults, (names) => `injected on purpose: ${names}`);
}

/** A sentence about names with how often each occurs; none for no names. */
function count(names: readonly string[], say: (names: string) => string): string[] {
  if (names.length === 0) return [];
  const counts = Map.groupBy(names, (name) => name);
  const listed = [...counts].map(([name, all]) =>
    all.length === 1 ? name : `${name} (${all.length} times)`,
  );
  return [say(listed.join(", "))];
}
