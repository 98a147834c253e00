import { modernVersion } from "../../servers/messages/json-rpc.ts";
import type { Prober } from "../prober.ts";
import { legacyVersion } from "../raw-client.ts";

/** Versions of MCP that clients ask for, and one that does not exist. */
const versions = [legacyVersion, "2025-06-18", "2025-03-26", "2024-11-05", modernVersion, "1999-01-01"];

/** Begins a session in each version, each with a server that was just started. */
export async function probeHandshake(prober: Prober): Promise<void> {
  for (const version of versions) {
    const isAnswered = await prober.probe("initialize", async () => {
      const host = await prober.start();
      const client = prober.open(host);
      const answer = await client.connect(version, { exactly: true });
      if (answer.kind !== "error" && version !== modernVersion) prober.hello(answer);
      const stopped = prober.stop(host);
      if (prober.check.runsOnce === true) await stopped;
      return answer.kind !== "none";
    });
    // A server that does not answer would have every other version wait as long.
    if (isAnswered !== true) return;
  }
}
