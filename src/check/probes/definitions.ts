import type { Prober } from "../prober.ts";

/** Lists everything once. */
export async function probeDefinitions(prober: Prober): Promise<void> {
  await prober.probe("list", async () => {
    const { client, capabilities } = await prober.connect();
    await prober.listAll(client, capabilities);
  });
}
