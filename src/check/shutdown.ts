import { type EventOf, eventsOf } from "../model/event.ts";
import type { CheckView, RuleTable } from "./check-view.ts";
import type { Prober } from "./prober.ts";

/** How long a server, and then what it started, may take to end by itself, in milliseconds; longer than clients wait. */
const endMs = 5000;

/** Begins a session, and ends it by closing stdin, as a client does. */
export async function probeShutdown(prober: Prober): Promise<void> {
  const session = await prober.probe("handshake", () => prober.connect());
  if (session !== undefined)
    await prober.probe("shutdown", () => session.server.stop({ stdinMs: endMs, settleMs: endMs }));
}

/** Rules about the end of a server. */
export const shutdownRules = {
  "protocol/shutdown": {
    severity: "warning",
    title: "The server goes on when its stdin is closed",
    why: "It stays behind when a client ends without a signal, and holds memory, ports and files.",
    fix: "Exit when stdin ends.",
    bad: `a timer or an open connection keeps the process alive`,
    good: `for line in sys.stdin: …   (and then the program ends)`,
    source: "MCP 2025-11-25, lifecycle: shutdown; microsoft/azure-devops-mcp#1598",
    *find({ probes }) {
      for (const stopped of stopsOf(probes))
        if (stopped.by === "SIGTERM" || stopped.by === "SIGKILL")
          yield { message: `it had to be ended with ${stopped.by}`, evidence: [stopped.seq] };
    },
  },
  "protocol/leftover-processes": {
    severity: "warning",
    title: "Processes of the server go on when it has ended",
    why: "They stay behind after every session, and hold memory, ports and files.",
    fix: "End the processes that the server started before it exits, or have them end with its stdin.",
    bad: `spawn("worker", { detached: true })`,
    good: `process.stdin.on("end", () => worker.kill())`,
    source: "MCP 2025-11-25, lifecycle: shutdown; abhigyanpatwari/GitNexus#1546",
    *find({ probes }) {
      for (const { survivors = 0, by, seq } of stopsOf(probes))
        if (survivors > 0 && by === "stdin")
          yield {
            message: `${survivors} of its processes went on, and had to be ended`,
            evidence: [seq],
          };
    },
  },
} as const satisfies RuleTable;

function stopsOf(probes: CheckView["probes"]): readonly EventOf<"server.stopped">[] {
  return probes.flatMap(({ probe, events }) =>
    probe === "shutdown" ? eventsOf(events, "server.stopped") : [],
  );
}
