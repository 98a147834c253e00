import { asObject, type JsonObject } from "../../core/formats/json.ts";
import { type Prober, resultOrEnd } from "../prober.ts";

/** Lists everything twice in one session. */
export async function probeStability(prober: Prober): Promise<void> {
  const host = await prober.start();
  const client = prober.open(host);
  const capabilities = await prober.probe("first-listing", async () => {
    const hello = resultOrEnd(await client.connect());
    const offered = asObject(hello["capabilities"]) as JsonObject;
    await prober.listAll(client, offered);
    return offered;
  });
  if (capabilities !== undefined)
    await prober.probe("second-listing", () => prober.listAll(client, capabilities));
}
