import { once } from "node:events";
import { connect } from "node:net";
import { spawn } from "node:child_process";
import { request } from "node:http";
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

describe("the gateway", () => {
  it("answers 404 to requests without the secret", async () => {
    const { endpoint, record, gateway, host } = await openGateway(await programHost([fixtureServer]));
    const url = new URL(endpoint.url);
    expect(url.hostname).toBe("127.0.0.1");
    expect(url.pathname).toMatch(/^\/[\w-]{32}\/mcp$/);
    const other = await gateway.open({ host, emit: record.emit, filters: () => [] });
    expect(other.url).not.toBe(endpoint.url);
    for (const path of [
      "/",
      "/mcp",
      `/${"A".repeat(32)}/mcp`,
      `${url.pathname}/`,
      `${url.pathname}x`,
      url.pathname.replace("mcp", "bridge"),
    ]) {
      const response = await fetch(new URL(path, url), { method: "POST", body: ping });
      expect([response.status, await response.text()]).toEqual([404, ""]);
    }
    expect(record.events).toEqual([]);
  });

  it("refuses foreign hosts and origins", async () => {
    const { endpoint, record } = await openGateway(await programHost([fixtureServer]));
    expect(await statusOf(endpoint.url, { host: "evil.example" })).toBe(403);
    expect(await statusOf(endpoint.url, { host: "127.0.0.1.evil.example:80" })).toBe(403);
    expect(await statusOf(endpoint.url, { origin: "https://evil.example" })).toBe(403);
    expect(await statusOf(endpoint.url, { origin: "null" })).toBe(403);
    expect(record.events).toEqual([]);
    expect(await statusOf(endpoint.url, { host: "localhost", origin: "http://localhost:5173" })).toBe(200);
  });

  it("refuses foreign hosts and origins of bridges too, and other upgrades", async () => {
    const { endpoint, record } = await openGateway(await programHost([fixtureServer]));
    const bridge = endpoint.bridge.env["MCPVALS_BRIDGE_URL"] ?? "";
    const upgrade = { connection: "Upgrade", upgrade: "mcpvals-bridge" };
    expect(await statusOf(bridge, { ...upgrade, host: "evil.example" })).toBe(404);
    expect(await statusOf(bridge, { ...upgrade, origin: "https://evil.example" })).toBe(404);
    expect(await statusOf(endpoint.url, upgrade)).toBe(404);
    expect(record.events).toEqual([]);
  });

  it("answers a client that offers HTTP/2", async () => {
    const { endpoint } = await openGateway(await programHost([fixtureServer]));
    const h2c = {
      connection: "Upgrade, HTTP2-Settings",
      upgrade: "h2c",
      "http2-settings": "AAMAAABkAAQAAP__",
    };
    expect(await statusOf(endpoint.url, h2c)).toBe(200);
  });

  it("answers invalid messages, sessions and methods as servers over HTTP do", async () => {
    const { endpoint } = await openGateway(await programHost([fixtureServer]));
    const post = (body: string, headers: Record<string, string> = {}): Promise<Response> =>
      fetch(endpoint.url, {
        method: "POST",
        body,
        headers: { "content-type": "application/json", ...headers },
      });
    expect((await post("{")).status).toBe(400);
    expect((await post(ping, { "mcp-session-id": "none" })).status).toBe(404);
    expect((await fetch(endpoint.url, { headers: { "mcp-session-id": "none" } })).status).toBe(404);
    expect((await fetch(endpoint.url)).status).toBe(405);
    expect((await fetch(endpoint.url, { method: "PUT", body: ping })).status).toBe(405);
    expect((await post(`{"jsonrpc":"2.0","method":"notifications/x"}`)).status).toBe(202);
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

  it.each(["http", "bridge"] as const)("keeps two clients with the same ids apart over %s", async (way) => {
    const { endpoint, record } = await openGateway(await programHost([fixtureServer]));
    const clients = await Promise.all([0, 1].map(() => connectClient(transportTo(endpoint, way))));
    await Promise.all(
      clients.flatMap((client, owner) =>
        Array.from({ length: 50 }, async (_, index) => {
          const message = `${owner}-${index}`;
          const result = await client.callTool({ name: "echo", arguments: { message } });
          expect(result.content).toEqual([{ type: "text", text: message }]);
        }),
      ),
    );
    for (const client of ["1", "2"]) {
      const mine = record.of("mcp.message").filter((event) => event.client === client);
      const calls = new Map<unknown, unknown>();
      for (const { direction, message } of mine) {
        const { id, params, result } = message as {
          id?: unknown;
          params?: { arguments?: { message: string } };
          result?: { content?: [{ text: string }] };
        };
        if (direction === "client-to-server") calls.set(id, params?.arguments?.message);
        else if (result?.content !== undefined) expect(calls.get(id)).toBe(result.content[0].text);
      }
      expect(mine.filter(({ direction }) => direction === "server-to-client")).toHaveLength(51);
    }
  });

  it("tells clients without sessions apart by the ids of their pending requests", async () => {
    const { endpoint, record } = await openGateway(await programHost([fixtureServer]));
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

  it.each(["http", "bridge"] as const)(
    "survives a client that disconnects in a call over %s",
    async (way) => {
      const { endpoint, record } = await openGateway(await programHost([fixtureServer]));
      const client = await connectClient(transportTo(endpoint, way));
      const calling = client
        .callTool({ name: "slow", arguments: { ms: 60_000 } })
        .catch((error: unknown) => error);
      await vi.waitFor(() => expect(JSON.stringify(record.events)).toContain("slow"));
      await client.close();
      expect(await calling).toBeInstanceOf(Error);
      const again = await connectClient(transportTo(endpoint, way));
      const result = await again.callTool({ name: "echo", arguments: { message: "on" } });
      expect(result.content).toEqual([{ type: "text", text: "on" }]);
      if (way === "bridge") expect(typesIn(record)).toContain("gateway.disconnected");
      expect(record.of("gateway.connected").map(({ client: name }) => name)).toEqual(["1", "2"]);
    },
  );

  it.each(["http", "bridge"] as const)(
    "tells a client over %s at once that the server died in a call",
    async (way) => {
      const { endpoint, host, record } = await openGateway(await programHost([fixtureServer]));
      const client = await connectClient(transportTo(endpoint, way));
      const crash = client.callTool({ name: "crash", arguments: { code: 7 } });
      await expect(crash).rejects.toThrow(way === "http" ? "has ended the exchange" : "Connection closed");
      expect(host.lost.aborted).toBe(true);
      expect(typesIn(record).at(-1)).toBe("gateway.disconnected");
      await expect(client.callTool({ name: "echo", arguments: {} })).rejects.toThrow();
    },
  );

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

  it.each(["http", "bridge"] as const)(
    "closing an endpoint cuts its calls over %s and no others",
    async (way) => {
      const { endpoint, record, gateway, host } = await openGateway(await programHost([fixtureServer]));
      const other = await gateway.open({ host, emit: () => 0, filters: () => [] });
      const [cut, kept] = await Promise.all([
        connectClient(transportTo(endpoint, way)),
        connectClient(transportTo(other, way)),
      ]);
      const calling = cut
        .callTool({ name: "slow", arguments: { ms: 60_000 } })
        .catch((error: unknown) => error);
      const going = kept.callTool({ name: "slow", arguments: { ms: 300 } });
      await vi.waitFor(() => expect(JSON.stringify(record.events)).toContain("slow"));
      await endpoint.close();
      expect(await calling).toBeInstanceOf(Error);
      expect((await going).content).toEqual([{ type: "text", text: "at last" }]);
      const count = record.events.length;
      expect(typesIn(record).at(-1)).toBe("gateway.disconnected");
      await expect(cut.callTool({ name: "echo", arguments: {} })).rejects.toThrow();
      expect((await fetch(endpoint.url, { method: "POST", body: ping })).status).toBe(404);
      expect(record.events).toHaveLength(count);
    },
  );

  it("leaves no socket and no process", async () => {
    const warm = await openGateway(await programHost([fixtureServer]));
    const warmClient = await connectClient(transportTo(warm.endpoint, "http"));
    await warmClient.close();
    await warm.gateway.close();
    await warm.host.stop();
    const nothingIsLeft = watchLeftovers();
    const { endpoint, gateway, host } = await openGateway(await programHost([fixtureServer]));
    const clients = await Promise.all([
      connectClient(transportTo(endpoint, "http")),
      connectClient(transportTo(endpoint, "bridge")),
    ]);
    const calls = clients.map((client) =>
      client.callTool({ name: "slow", arguments: { ms: 60_000 } }).catch((error: unknown) => error),
    );
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
    const { endpoint, gateway } = await openGateway(await programHost([fixtureServer]));
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
    const { endpoint } = await openGateway(await programHost([fixtureServer]));
    const { command, args, env } = endpoint.bridge;
    const child = spawn(command, args, { env: { ...env }, stdio: ["pipe", "pipe", "inherit"] });
    let stdout = "";
    child.stdout.on("data", (chunk) => (stdout += String(chunk)));
    child.stdin.end(`not json\n\n${ping}`);
    const [code] = (await once(child, "close")) as [unknown];
    expect([code, stdout]).toEqual([0, `{"jsonrpc":"2.0","id":1,"result":{}}\n`]);
  });
});
