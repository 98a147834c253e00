import type { CheckKind } from "../core/formats/model.ts";
import { Prober, type ProberOptions } from "./prober.ts";
import { probeCalls } from "./probes/calls.ts";
import { probeDefinitions } from "./probes/definitions.ts";
import { probeHandshake } from "./probes/handshake.ts";
import { probeRequests } from "./probes/requests.ts";
import { probeShutdown } from "./probes/shutdown.ts";
import { probeStability } from "./probes/stability.ts";

const probes: Readonly<Record<CheckKind, (prober: Prober) => Promise<void>>> = {
  handshake: probeHandshake,
  requests: probeRequests,
  shutdown: probeShutdown,
  definitions: probeDefinitions,
  calls: probeCalls,
  stability: probeStability,
};

/**
 * Runs one part of a check. What the server does wrong is on record and judged later. Throws the signal's reason, and McpvalsError
 * for what is not the server's fault, such as a command that cannot be started.
 */
export async function probeServer(options: ProberOptions): Promise<void> {
  await using prober = new Prober(options);
  await probes[options.check.kind](prober);
}
