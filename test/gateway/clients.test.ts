import { describe, expect, it, onTestFinished } from "vitest";
import { startHttpFixture } from "../fixtures/servers/http-server.ts";
import { addressHost, openGateway, type Opened, typesIn } from "./support.ts";

/** Opens a server with an address; with sessions or without. */
async function openServer(hasSessions: boolean): Promise<Opened> {
  const server = await startHttpFixture(({ response, message }) => {
    if (hasSessions || message.method === undefined) return false;
    response.writeHead(200, { "content-type": "application/json" });
    response.end(`{"jsonrpc":"2.0","id":${message.id},"result":{}}`);
    return true;
  });
  onTestFinished(() => server.close());
  return openGateway(await addressHost(server.url));
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
    const opened = await openServer(false);
    await post(opened, "initialize");
    await post(opened, "tools/list");
    expect(opened.record.of("gateway.connected")).toHaveLength(1);
    expect(new Set(opened.record.of("mcp.message").map(({ client }) => client))).toEqual(new Set(["1"]));
  });

  it("disconnect with the end of their session, and are a new client afterwards", async () => {
    const opened = await openServer(true);
    const named = { "mcp-session-id": "session-1" };
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
});
