import type { Prober } from "../prober.ts";

/** Lists everything twice in one session. */
export async function probeStability(prober: Prober): Promise<void> {
  const session = await prober.probe("first-listing", async () => {
    const opened = await prober.connect();
    await prober.listAll(opened.client, opened.capabilities);
    return opened;
  });
  if (session !== undefined)
    await prober.probe("second-listing", () => prober.listAll(session.client, session.capabilities));
}
