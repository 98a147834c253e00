import { once } from "node:events";
import { connect } from "node:net";
import { spawn } from "node:child_process";
import { request } from "node:http";
import type { Client } from "@modelcontextprotocol/client";
import { describe, expect, it, vi } from "vitest";
import { fixtureServer, livingProcesses } from "../process/support.ts";
import { watchLeftovers } from "../support/leftovers.ts";
import { startHttpFixture } from "../fixtures/servers/http-server.ts";
import { addressHost, connectClient, openGateway, programHost, transportTo, typesIn } from "./support.ts";

const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`;

/** The status of a POST with headers that `fetch` would not let us set. */
async function statusOf(url: string, headers: Record<string, string>): Promise<number | undefined> {
  const asking = request(url, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
  });
  asking.end(ping);
  const [response] = (await once(asking, "response")) as [{ statusCode?: number; resume(): void }];
  response.resume();
  return response.statusCode;
}

const open = async (): ReturnType<typeof openGateway> => openGateway(await programHost([fixtureServer]));
const echo = { name: "echo", arguments: { message: "on" } };
const hanging = (client: Client): Promise<unknown> =>
  client.callTool({ name: "slow", arguments: { ms: 60_000 } }).catch((error: unknown) => error);
const ways = ["http", "bridge"] as const;

describe("the gateway", () => {
  it("answers 404 to requests without the secret", async () => {
    const { endpoint, record, gateway, host } = await open();
    const url = new URL(endpoint.url);
    expect(url.hostname).toBe("127.0.0.1");
    expect(url.pathname).toMatch(/^\/[\w-]{32}\/mcp$/);
    const other = await gateway.open({ host, emit: record.emit, filters: () => [] });
    expect(other.url).not.toBe(endpoint.url);
    const { pathname } = url;
    const bridge = pathname.replace("mcp", "bridge");
    for (const path of ["/mcp", `/${"A".repeat(32)}/mcp`, `${pathname}/`, `${pathname}x`, bridge]) {
      const response = await fetch(new URL(path, url), { method: "POST", body: ping });
      expect([response.status, await response.text()]).toEqual([404, ""]);
    }
    expect(record.events).toEqual([]);
  });

  it("refuses foreign hosts and origins, also of bridges, and other upgrades", async () => {
    const { endpoint, record } = await open();
    const bridge = endpoint.bridge.env["MCPVALS_BRIDGE_URL"] ?? "";
    const upgrade = { connection: "Upgrade", upgrade: "mcpvals-bridge" };
    for (const [url, headers, status] of [
      [endpoint.url, { host: "evil.example" }, 403],
      [endpoint.url, { host: "127.0.0.1.evil.example:80" }, 403],
      [endpoint.url, { origin: "https://evil.example" }, 403],
      [endpoint.url, { origin: "null" }, 403],
      [bridge, { ...upgrade, host: "evil.example" }, 404],
      [bridge, { ...upgrade, origin: "https://evil.example" }, 404],
      [endpoint.url, upgrade, 404],
    ] as const)
      expect([headers, await statusOf(url, headers)]).toEqual([headers, status]);
    expect(record.events).toEqual([]);
  });

  it.each([
    ["from localhost", { host: "localhost", origin: "http://localhost:5173" }],
    [
      "that offers HTTP/2",
      { connection: "Upgrade, HTTP2-Settings", upgrade: "h2c", "http2-settings": "AAMAAABkAAQAAP__" },
    ],
  ])("answers a client %s", async (_, headers) => {
    expect(await statusOf((await open()).endpoint.url, headers)).toBe(200);
  });

  it("answers invalid messages, sessions and methods as servers over HTTP do", async () => {
    const { endpoint } = await open();
    const post = (body: string, headers: Record<string, string> = {}): Promise<Response> =>
      fetch(endpoint.url, {
        method: "POST",
        body,
        headers: { "content-type": "application/json", ...headers },
      });
    const none = { "mcp-session-id": "none" };
    const put = fetch(endpoint.url, { method: "PUT", body: ping });
    const note = `{"jsonrpc":"2.0","method":"notifications/x"}`;
    const asked = [
      post("{"),
      post(ping, none),
      fetch(endpoint.url, { headers: none }),
      fetch(endpoint.url),
      put,
      post(note),
    ];
    expect((await Promise.all(asked)).map(({ status }) => status)).toEqual([400, 404, 404, 405, 405, 202]);
    const batch = await post(`[${ping},{"jsonrpc":"2.0","id":"two","method":"nothing"}]`);
    expect(await batch.json()).toMatchObject([
      { id: 1, result: {} },
      { id: "two", error: { code: -32601 } },
    ]);
    const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}`;
    const session = (await post(initialize)).headers.get("mcp-session-id") ?? "";
    expect(session).toMatch(/^[\w-]{36}$/);
    expect((await post(ping, { "mcp-session-id": session })).status).toBe(200);
    const ended = await fetch(endpoint.url, { method: "DELETE", headers: { "mcp-session-id": session } });
    expect(ended.status).toBe(200);
    expect((await post(ping, { "mcp-session-id": session })).status).toBe(404);
  });

  it.each(ways)("keeps two clients with the same ids apart over %s", async (way) => {
    const { endpoint, record } = await open();
    const clients = await Promise.all([0, 1].map(() => connectClient(transportTo(endpoint, way))));
    const calls = clients.flatMap((client, owner) =>
      Array.from({ length: 50 }, async (_, index) => {
        const message = `${owner}-${index}`;
        const result = await client.callTool({ name: "echo", arguments: { message } });
        expect(result.content).toEqual([{ type: "text", text: message }]);
      }),
    );
    await Promise.all(calls);
    for (const client of ["1", "2"]) {
      const events = record.of("mcp.message").filter((event) => event.client === client);
      const texts = events.flatMap(
        ({ message }) => /"(?:text|message)":"(\d)-/.exec(JSON.stringify(message))?.[1] ?? [],
      );
      expect([texts.length, new Set(texts).size]).toEqual([100, 1]);
    }
  });

  it("tells clients without sessions apart by the ids of their pending requests", async () => {
    const { endpoint, record } = await open();
    const ask = async (message: string): Promise<unknown> => {
      const params = { name: "echo", arguments: { message } };
      const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params });
      const response = await fetch(endpoint.url, { method: "POST", body });
      return ((await response.json()) as { result: { content: [{ text: string }] } }).result.content[0].text;
    };
    const messages = Array.from({ length: 20 }, (_, index) => `message ${index}`);
    expect(await Promise.all(messages.map(ask))).toEqual(messages);
    expect(await ask("later")).toBe("later");
    expect(record.of("gateway.connected").length).toBeLessThanOrEqual(20);
  });

  it.each(ways)("survives a client that disconnects in a call over %s", async (way) => {
    const { endpoint, record } = await open();
    const client = await connectClient(transportTo(endpoint, way));
    const calling = hanging(client);
    await vi.waitFor(() => expect(JSON.stringify(record.events)).toContain("slow"));
    await client.close();
    expect(await calling).toBeInstanceOf(Error);
    const again = await connectClient(transportTo(endpoint, way));
    expect((await again.callTool(echo)).content).toEqual([{ type: "text", text: "on" }]);
    if (way === "bridge") expect(typesIn(record)).toContain("gateway.disconnected");
    expect(record.of("gateway.connected").map(({ client: name }) => name)).toEqual(["1", "2"]);
  });

  it.each(ways)("tells a client over %s at once that the server died in a call", async (way) => {
    const { endpoint, host, record } = await open();
    const client = await connectClient(transportTo(endpoint, way));
    const crash = client.callTool({ name: "crash", arguments: { code: 7 } });
    await expect(crash).rejects.toThrow(way === "http" ? "has ended the exchange" : "Connection closed");
    expect(host.lost.aborted).toBe(true);
    expect(typesIn(record).at(-1)).toBe("gateway.disconnected");
    await expect(client.callTool(echo)).rejects.toThrow();
  });

  it("reports at once that a server with an address is gone, to the client and to the trial", async () => {
    const server = await startHttpFixture();
    const { endpoint, losses, record } = await openGateway(await addressHost(server.url));
    const client = await connectClient(transportTo(endpoint, "http"));
    await server.close();
    await expect(client.callTool({ name: "echo", arguments: {} })).rejects.toThrow(
      /connection refused|closed by/,
    );
    expect(losses[0]?.code).toBe("server/unreachable");
    expect(record.of("http.response").at(-1)).toMatchObject({ client: "1", method: "POST", status: 502 });
  });

  it.each(ways)("closing an endpoint cuts its calls over %s and no others", async (way) => {
    const { endpoint, record, gateway, host } = await open();
    const other = await gateway.open({ host, emit: () => 0, filters: () => [] });
    const [cut, kept] = await Promise.all([
      connectClient(transportTo(endpoint, way)),
      connectClient(transportTo(other, way)),
    ]);
    const calling = hanging(cut);
    const going = kept.callTool({ name: "slow", arguments: { ms: 300 } });
    await vi.waitFor(() => expect(JSON.stringify(record.events)).toContain("slow"));
    await endpoint.close();
    expect(await calling).toBeInstanceOf(Error);
    expect((await going).content).toEqual([{ type: "text", text: "at last" }]);
    const count = record.events.length;
    expect(typesIn(record).at(-1)).toBe("gateway.disconnected");
    await expect(cut.callTool(echo)).rejects.toThrow();
    expect((await fetch(endpoint.url, { method: "POST", body: ping })).status).toBe(404);
    expect(record.events).toHaveLength(count);
  });

  it("leaves no socket and no process", async () => {
    const warm = await open();
    const warmClient = await connectClient(transportTo(warm.endpoint, "http"));
    await warmClient.close();
    await warm.gateway.close();
    await warm.host.stop();
    const nothingIsLeft = watchLeftovers();
    const { endpoint, gateway, host } = await open();
    const clients = await Promise.all([
      connectClient(transportTo(endpoint, "http")),
      connectClient(transportTo(endpoint, "bridge")),
    ]);
    const calls = clients.map(hanging);
    // Somebody who connects and says nothing.
    const idle = connect(Number(new URL(endpoint.url).port), "127.0.0.1");
    await once(idle, "connect");
    await gateway.close();
    for (const outcome of await Promise.all(calls)) expect(outcome).toBeInstanceOf(Error);
    await gateway.close();
    await host.stop();
    await Promise.all(clients.map((client) => client.close()));
    if (!idle.closed) await once(idle, "close");
    await expect(fetch(endpoint.url)).rejects.toThrow();
    await nothingIsLeft();
    if (process.platform === "linux") expect(await livingProcesses()).toEqual([]);
  });
});

describe("mcpvals bridge", () => {
  const run = async (
    { command, args }: { command: string; args: readonly string[] },
    env: Record<string, string>,
  ): Promise<{ code: unknown; stderr: string; stdout: string }> => {
    const child = spawn(command, args, { env, stdio: ["ignore", "pipe", "pipe"] });
    let [stdout, stderr] = ["", ""];
    child.stdout.on("data", (chunk) => (stdout += String(chunk)));
    child.stderr.on("data", (chunk) => (stderr += String(chunk)));
    const [code] = (await once(child, "close")) as [unknown];
    return { code, stderr, stdout };
  };

  it("says in one sentence why it cannot work", async () => {
    const { endpoint, gateway } = await open();
    const { bridge } = endpoint;
    const address = bridge.env["MCPVALS_BRIDGE_URL"] ?? "";
    expect(bridge.args.join(" ")).not.toContain(address);
    expect(await run(bridge, {})).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("Usage") as string,
    });
    expect(await run({ ...bridge, args: [...bridge.args, "--help"] }, {})).toMatchObject({
      code: 0,
      stderr: "",
    });
    await endpoint.close();
    expect(await run(bridge, { ...bridge.env })).toEqual({
      code: 3,
      stdout: "",
      stderr: "mcpvals bridge: the gateway refused (HTTP 404); the trial that it was for has ended\n",
    });
    await gateway.close();
    expect(await run({ ...bridge, args: [...bridge.args, address] }, {})).toEqual({
      code: 3,
      stdout: "",
      stderr: "mcpvals bridge: the gateway is gone (ECONNREFUSED); the run that it belongs to has ended\n",
    });
  });

  it("gives the answers to requests before the end of its input", async () => {
    const { endpoint } = await open();
    const { command, args, env } = endpoint.bridge;
    const child = spawn(command, args, { env: { ...env }, stdio: ["pipe", "pipe", "inherit"] });
    let stdout = "";
    child.stdout.on("data", (chunk) => (stdout += String(chunk)));
    child.stdin.end(`not json\n\n${ping}`);
    const [code] = (await once(child, "close")) as [unknown];
    expect([code, stdout]).toEqual([0, `{"jsonrpc":"2.0","id":1,"result":{}}\n`]);
  });
});
