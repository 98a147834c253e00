import {
  SSEClientTransport,
  StreamableHTTPClientTransport,
  type Transport,
} from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { expect, it } from "vitest";
import type { ServerHost } from "../../src/servers/connections/host.ts";
import { addressHost, everythingMain, openGateway, programHost, transportTo } from "./support.ts";
import { listenEverything } from "./listen.ts";
import { tour } from "./tour.ts";

/** Both ways through the gateway show what the direct one does; on `isRecorded`, nothing is lost on them. */
async function compare(
  direct: Transport,
  openHost: () => Promise<ServerHost>,
  isRecorded = true,
): Promise<void> {
  const through = (["http", "bridge"] as const).map(async (way) => {
    const { endpoint, record, losses } = await openGateway(await openHost());
    return { seen: await tour(transportTo(endpoint, way)), record, losses };
  });
  const [expected, others] = await Promise.all([tour(direct), Promise.all(through)]);
  for (const { seen, record, losses } of others) {
    expect(seen).toEqual(expected);
    if (!isRecorded) continue;
    expect(losses).toEqual([]);
    expect(unanswered(record.of("mcp.message"))).toEqual(["trigger-long-running-operation"]);
  }
}

// At the same time, since the server waits for timers most of the time.
it("an agent of the reference server gets the same with and without the gateway", async () => {
  const [shttp, sse] = await Promise.all([
    listenEverything("streamableHttp").then((origin) => `${origin}/mcp`),
    listenEverything("sse").then((origin) => `${origin}/sse`),
  ]);
  const args = [everythingMain];
  const program = new StdioClientTransport({ command: process.execPath, args, stderr: "ignore" });
  await Promise.all([
    compare(program, () => programHost(args)),
    compare(new StreamableHTTPClientTransport(new URL(shttp)), () => addressHost(shttp)),
    compare(new SSEClientTransport(new URL(sse)), () => addressHost(sse, "sse"), false),
  ]);
}, 90_000);

/** Tools whose call has no answer on record. */
function unanswered(messages: readonly { direction: string; message: unknown }[]): unknown[] {
  const open = new Map<unknown, unknown>();
  for (const { direction, message } of messages) {
    const { id, method, params } = message as { id?: unknown; method?: string; params?: { name?: unknown } };
    if (direction === "client-to-server" && method === "tools/call") open.set(id, params?.name);
    else if (direction === "server-to-client" && method === undefined) open.delete(id);
  }
  return [...open.values()];
}
