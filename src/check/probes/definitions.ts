import type { Prober } from "../prober.ts";

/** Lists everything once. Then starts a program a second time while it runs, as several windows of a client do. */
export async function probeDefinitions(prober: Prober): Promise<void> {
  const session = await prober.probe("list", async () => {
    const { host, client, capabilities } = await prober.connect();
    await prober.listAll(client, capabilities);
    return { host, client };
  });
  if (session?.host.transport === "stdio" && !session.client.isLost)
    await prober.probe("second-start", () => prober.connect());
}
