import { Client, StreamableHTTPClientTransport, type Transport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { createInterface } from "node:readline";
import { onTestFinished } from "vitest";
import type { McpvalsError } from "../../src/base/error.ts";
import type { HttpServerSpec } from "../../src/model/server.ts";
import { localBinPath } from "../../src/process/environment.ts";
import { spawnProcess } from "../../src/process/spawn.ts";
import type { Filter } from "../../src/servers/filters/filter-chain.ts";
import type { GatewayEndpoint } from "../../src/servers/gateway/endpoint.ts";
import { createGateway, type Gateway } from "../../src/servers/gateway/gateway.ts";
import type { ServerHost } from "../../src/servers/connections/host.ts";
import { openHttpHost } from "../../src/servers/http/http-host.ts";
import { openStdioHost } from "../../src/servers/stdio/stdio-host.ts";
import { builtMain } from "../support/cli.ts";
import { everythingServer } from "../support/programs.ts";
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

/** The events of a record as short words. */
export function typesIn(record: Record): string[] {
  return record.events.map(({ type }) => type);
}

/** Starts a fixture program that serves HTTP and prints its port; gives its URL. */
export async function listenProgram(program: string): Promise<string> {
  const child = spawn(process.execPath, [program, "http"], { stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(() => void child.kill());
  const [port] = (await once(child.stdout, "data")) as [Buffer];
  return `http://127.0.0.1:${port.toString().trim()}/mcp`;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

/** Starts the reference server on a free loopback port, and gives its origin when it listens. */
export async function listenEverything(transport: "streamableHttp" | "sse"): Promise<string> {
  const port = await freePort();
  const env = { PATH: localBinPath(process.cwd(), process.env["PATH"]), PORT: String(port) };
  const command = process.execPath;
  const server = await spawnProcess({
    command,
    args: [everythingServer, transport],
    env,
    cwd: process.cwd(),
  });
  onTestFinished(async () => {
    await server.stop({ stdinMs: 0 });
  });
  server.stdout.resume();
  const lines = createInterface(server.stderr);
  for await (const line of lines) if (line.includes(`port ${port}`)) break;
  server.stderr.resume();
  return `http://127.0.0.1:${port}`;
}
