import type { GatewayEndpoint } from "../gateway/endpoint.ts";
import type { ClientAdapter } from "./adapters.ts";
import type { Entries } from "./merge-servers.ts";

/** How a client's file tells of servers, by name. */
export function serverEntries(
  endpoints: readonly GatewayEndpoint[],
  adapter: Pick<ClientAdapter, "http" | "bridge">,
  connect: "http" | "bridge",
): Entries {
  return Object.fromEntries(
    endpoints.map(({ server, url, bridge }) => [
      server,
      connect === "http" ? adapter.http(url) : adapter.bridge(bridge),
    ]),
  );
}
