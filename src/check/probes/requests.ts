import type { Prober } from "../prober.ts";

/** Sends requests that every server has to withstand. */
export async function probeRequests(prober: Prober): Promise<void> {
  const session = await prober.probe("handshake", () => prober.connect());
  if (session === undefined) return;
  const { client } = session;
  await prober.probe("unknown-method", () => client.request("mcpvals/no-such-method"));
}
