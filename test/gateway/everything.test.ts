import { StreamableHTTPClientTransport, SSEClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { describe, expect, it } from "vitest";
import type { ServerHost } from "../../src/servers/connections/host.ts";
import { addressHost, everythingMain, openGateway, programHost, transportTo } from "./support.ts";
import { listenEverything } from "./listen.ts";
import { tour } from "./tour.ts";

const ways = ["http", "bridge"] as const;

describe("an agent of the reference server gets the same with and without the gateway", () => {
  it("from a program", async () => {
    const direct = tour(
      new StdioClientTransport({ command: process.execPath, args: [everythingMain], stderr: "ignore" }),
    );
    await expectSame(direct, () => programHost([everythingMain]));
  }, 90_000);

  it("from an address", async () => {
    const url = `${await listenEverything("streamableHttp")}/mcp`;
    const direct = tour(new StreamableHTTPClientTransport(new URL(url)));
    await expectSame(direct, () => addressHost(url));
  }, 90_000);

  it("from an address of the older transport", async () => {
    const url = `${await listenEverything("sse")}/sse`;
    const direct = tour(new SSEClientTransport(new URL(url)));
    const through = ways.map(async (way) => {
      const { endpoint } = await openGateway(await addressHost(url, "sse"));
      return tour(transportTo(endpoint, way));
    });
    const [expected, ...others] = await Promise.all([direct, ...through]);
    for (const seen of others) expect(seen).toEqual(expected);
  }, 90_000);
});

/** Both ways through the gateway show what the direct one does, and nothing is lost on them. */
async function expectSame(direct: Promise<unknown>, openHost: () => Promise<ServerHost>): Promise<void> {
  const through = ways.map(async (way) => {
    const { endpoint, record, losses } = await openGateway(await openHost());
    const seen = await tour(transportTo(endpoint, way));
    return { seen, record, losses };
  });
  const [expected, others] = await Promise.all([direct, Promise.all(through)]);
  for (const { seen, record, losses } of others) {
    expect(seen).toEqual(expected);
    expect(losses).toEqual([]);
    expect(unanswered(record.of("mcp.message"))).toEqual(["trigger-long-running-operation"]);
  }
}

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
