import { modernVersion } from "../../servers/messages/json-rpc.ts";
import type { Prober } from "../prober.ts";
import { legacyVersion } from "../raw-client.ts";

/** Versions of MCP that clients ask for, and one that does not exist. */
const versions = [legacyVersion, "2025-06-18", "2025-03-26", "2024-11-05", modernVersion, "1999-01-01"];

/** Begins a session in each version, each with a server that was just started. */
export async function probeHandshake(prober: Prober): Promise<void> {
  for (const version of versions) {
    const isOpen = await prober.probe("initialize", async () => {
      const host = await prober.start();
      const answer = await prober.open(host).connect(version, { exactly: true });
      await host.stop();
      return answer.kind === "result" || answer.kind === "error";
    });
    // A server that does not answer would have every other version wait as long.
    if (isOpen !== true) return;
  }
}
