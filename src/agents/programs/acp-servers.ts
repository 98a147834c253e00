import type { McpServer } from "@agentclientprotocol/sdk";
import type { AcpAgentSpec } from "../../core/formats/model.ts";
import type { GatewayEndpoint } from "../../servers/gateway/endpoint.ts";

export interface AcpConnect {
  readonly connect: AcpAgentSpec["connect"];
  /** What the agent says of itself. */
  readonly canHttp: boolean;
}

/** Tells an agent where the servers are: by their address if it can or has to, else by a command that it starts. */
export function acpServers(
  endpoints: readonly GatewayEndpoint[],
  { connect, canHttp }: AcpConnect,
): McpServer[] {
  const overHttp = connect === undefined ? canHttp : connect === "http";
  return endpoints.map(({ server: name, url, bridge }) =>
    overHttp
      ? { type: "http", name, url, headers: [] }
      : {
          name,
          command: bridge.command,
          args: [...bridge.args],
          env: Object.entries(bridge.env).map(([variable, value]) => ({ name: variable, value })),
        },
  );
}
