import type { Prober } from "../prober.ts";

/** Begins a session. */
export async function probeHandshake(prober: Prober): Promise<void> {
  await prober.probe("handshake", () => prober.connect());
}
