import { createServer } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { createRecord } from "../servers/support.ts";
import { addressHost, openGateway, type Opened, typesIn } from "./support.ts";

/** Opens a server with an address that answers every request; with sessions, where it is told how they are named. */
async function openServer(session?: string): Promise<Opened> {
  const server = createServer((request, response) => {
    request.resume();
    request.on("end", () => {
      const named = session === undefined ? {} : { "mcp-session-id": session };
      response.writeHead(200, { "content-type": "application/json", ...named });
      response.end(request.method === "DELETE" ? "" : '{"jsonrpc":"2.0","id":1,"result":{}}');
    });
  }).listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  return openGateway(await addressHost(`http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`));
}

async function post(
  { endpoint }: Opened,
  method: string,
  headers: Record<string, string> = {},
): Promise<void> {
  const response = await fetch(endpoint.url, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method }),
  });
  await response.text();
}

describe("agents that reach a server with an address", () => {
  it("are one client where a server has no sessions, from the handshake on", async () => {
    const opened = await openServer();
    await post(opened, "initialize");
    await post(opened, "tools/list");
    expect(opened.record.of("gateway.connected")).toHaveLength(1);
    expect(new Set(opened.record.of("mcp.message").map(({ client }) => client))).toEqual(new Set(["1"]));
  });

  it("disconnect with the end of their session, and are a new client afterwards", async () => {
    const opened = await openServer("s1");
    const named = { "mcp-session-id": "s1" };
    await post(opened, "initialize");
    await post(opened, "tools/list", named);
    expect(typesIn(opened.record).filter((type) => type.startsWith("gateway."))).toEqual([
      "gateway.connected",
    ]);
    await (await fetch(opened.endpoint.url, { method: "DELETE", headers: named })).text();
    expect(opened.record.of("gateway.disconnected")).toMatchObject([{ client: "1" }]);
    await post(opened, "tools/list", named);
    expect(opened.record.of("gateway.connected").map(({ client }) => client)).toEqual(["1", "2"]);
  });

  it("are recorded in each trial with the server, as reused from the second on", async () => {
    const { host, record } = await openServer();
    const later = createRecord();
    host.watch(record.emit)();
    host.watch(later.emit);
    expect([...record.events, ...later.events].map((event) => "reused" in event)).toEqual([false, true]);
  });
});
