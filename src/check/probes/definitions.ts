import { asObject, type JsonObject } from "../../core/formats/json.ts";
import { type Prober, resultOrEnd } from "../prober.ts";

/** Lists everything once. */
export async function probeDefinitions(prober: Prober): Promise<void> {
  await prober.probe("list", async () => {
    const host = await prober.start();
    const client = prober.open(host);
    const { capabilities } = resultOrEnd(await client.connect());
    await prober.listAll(client, asObject(capabilities) as JsonObject);
  });
}
