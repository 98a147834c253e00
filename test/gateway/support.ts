import { Client, StreamableHTTPClientTransport, type Transport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import type { McpvalsError } from "../../src/core/errors/error.ts";
import type { HttpServerSpec } from "../../src/core/formats/model.ts";
import type { Filter } from "../../src/servers/filters/filter-chain.ts";
import type { Gateway, GatewayEndpoint } from "../../src/servers/gateway/endpoint.ts";
import { createGateway } from "../../src/servers/gateway/gateway.ts";
import type { ServerHost } from "../../src/servers/connections/host.ts";
import { openHttpHost } from "../../src/servers/http/http-host.ts";
import { openStdioHost } from "../../src/servers/stdio/stdio-host.ts";
import { builtMain, root } from "../support/cli.ts";
import { createRecord, httpSpec, type Record, stdioSpec } from "../servers/support.ts";

export interface Opened {
  readonly gateway: Gateway;
  readonly endpoint: GatewayEndpoint;
  readonly record: Record;
  readonly host: ServerHost;
  /** How the server was lost. */
  readonly losses: McpvalsError[];
}

/** Opens a host's server to an agent; everything ends with the test. */
export async function openGateway(
  host: ServerHost,
  { filters = [] }: { filters?: readonly Filter[] } = {},
): Promise<Opened> {
  const gateway = createGateway({ main: builtMain });
  onTestFinished(async () => {
    await gateway.close();
    await host.stop();
  });
  const record = createRecord();
  const losses: McpvalsError[] = [];
  const endpoint = await gateway.open({
    host,
    emit: record.emit,
    filters: () => filters,
    onLost: (error) => losses.push(error),
  });
  return { gateway, endpoint, record, host, losses };
}

/** A program as a host. */
export function programHost(args: string[]): Promise<ServerHost> {
  return openStdioHost("s", stdioSpec(process.execPath, args));
}

/** A server with an address as a host. */
export async function addressHost(
  url: string,
  transport: "shttp" | "sse" = "shttp",
  changes: Partial<HttpServerSpec> = {},
): Promise<ServerHost> {
  return openHttpHost("s", httpSpec(url, { transport, ...changes }));
}

export type Way = "http" | "bridge";

/** What an agent would use to reach the server. */
export function transportTo(endpoint: GatewayEndpoint, way: Way): Transport {
  if (way === "http") return new StreamableHTTPClientTransport(new URL(endpoint.url));
  const { command, args, env } = endpoint.bridge;
  return new StdioClientTransport({ command, args: [...args], env: { ...env }, stderr: "inherit" });
}

export type ClientOptions = NonNullable<ConstructorParameters<typeof Client>[1]>;

/** Connects a client of the SDK, which is closed with the test. */
export async function connectClient(transport: Transport, options?: ClientOptions): Promise<Client> {
  const client = new Client({ name: "agent", version: "1.0.0" }, options);
  onTestFinished(() => client.close());
  await client.connect(transport);
  return client;
}

export const everythingMain: string = join(
  root,
  "node_modules/@modelcontextprotocol/server-everything/dist/index.js",
);

/** The events of a record as short words. */
export function typesIn(record: Record): string[] {
  return record.events.map(({ type }) => type);
}
