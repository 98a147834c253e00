import type { CheckKind } from "../core/formats/model.ts";
import { modernVersion } from "../servers/messages/json-rpc.ts";
import { Prober, type ProberOptions } from "./prober.ts";
import { probeCalls } from "./probes/calls.ts";
import { probeConformance } from "./probes/conformance.ts";
import { probeRequests } from "./probes/requests.ts";
import { legacyVersion } from "./raw-client.ts";

const probes: Readonly<Record<CheckKind, (prober: Prober) => Promise<void>>> = {
  handshake: probeHandshake,
  requests: probeRequests,
  shutdown: probeShutdown,
  definitions: probeDefinitions,
  calls: probeCalls,
  stability: probeStability,
  conformance: probeConformance,
};

/**
 * Runs one part of a check. What the server does wrong is on record and judged later. Throws the signal's reason, and McpvalsError
 * for what is not the server's fault, such as a command that cannot be started.
 */
export async function probeServer(options: ProberOptions): Promise<void> {
  await using prober = new Prober(options);
  await probes[options.check.kind](prober);
}

/** Versions of MCP that clients ask for, and one that does not exist. */
const versions = [legacyVersion, "2025-06-18", "2025-03-26", "2024-11-05", modernVersion, "1999-01-01"];

/** Begins a session in each version, each with a server that was just started. */
async function probeHandshake(prober: Prober): Promise<void> {
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

/** Begins a session, and ends it by closing stdin, as a client does. */
async function probeShutdown(prober: Prober): Promise<void> {
  const session = await prober.probe("handshake", () => prober.connect());
  if (session !== undefined) await prober.probe("shutdown", () => prober.stop(session.host));
}

/** Lists everything once. Then starts a program a second time while it runs, as several windows of a client do. */
async function probeDefinitions(prober: Prober): Promise<void> {
  const session = await prober.probe("list", async () => {
    const { host, client, capabilities } = await prober.connect();
    await prober.listAll(client, capabilities);
    return { host, client };
  });
  if (session?.host.transport === "stdio" && !session.client.isLost)
    await prober.probe("second-start", () => prober.connect());
}

/** Lists everything twice in one session. */
async function probeStability(prober: Prober): Promise<void> {
  const session = await prober.probe("first-listing", async () => {
    const opened = await prober.connect();
    await prober.listAll(opened.client, opened.capabilities);
    return opened;
  });
  if (session !== undefined)
    await prober.probe("second-listing", () => prober.listAll(session.client, session.capabilities));
}
