import type { Prober } from "../prober.ts";

/** Begins a session, and ends it by closing stdin, as a client does. */
export async function probeShutdown(prober: Prober): Promise<void> {
  const session = await prober.probe("handshake", () => prober.connect());
  if (session !== undefined) await prober.probe("shutdown", () => prober.stop(session.host));
}
