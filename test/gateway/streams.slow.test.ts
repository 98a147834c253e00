import { describe, expect, it, onTestFinished, vi } from "vitest";
import type { GatewayEndpoint } from "../../src/servers/gateway/endpoint.ts";
import { eventsOf } from "../../src/servers/http/event-stream.ts";
import { startAskingServer } from "../fixtures/servers/asking-server.ts";
import { fixtureServer } from "../process/support.ts";
import {
  addressHost,
  connectClient,
  listenProgram,
  openGateway,
  type Opened,
  programHost,
  transportTo,
} from "./support.ts";
import { askingServer, conformingServer } from "../support/programs.ts";

const accept = "application/json, text/event-stream";

interface Asked {
  readonly response: Response;
  /** The data of the next event. */
  next(): Promise<unknown>;
}

/** Sends one message without the SDK. */
async function ask(
  { url }: GatewayEndpoint,
  message: object,
  headers: Readonly<Record<string, string>> = {},
): Promise<Asked> {
  const controller = new AbortController();
  onTestFinished(() => controller.abort());
  const { signal } = controller;
  const isGet = Object.keys(message).length === 0;
  const response = await fetch(url, {
    method: isGet ? "GET" : "POST",
    headers: { accept, "content-type": "application/json", ...headers },
    ...(isGet ? {} : { body: JSON.stringify({ jsonrpc: "2.0", ...message }) }),
    signal,
  });
  const events = eventsOf({ body: response.body ?? new ReadableStream() }, { server: "s", limit: 1_000_000 });
  return {
    response,
    async next() {
      for (;;) {
        const { value, done } = await events.next();
        if (done === true) throw new Error("the stream has ended");
        if (value.data !== undefined) return JSON.parse(value.data);
      }
    },
  };
}

async function initialize(endpoint: GatewayEndpoint): Promise<Readonly<Record<string, string>>> {
  const params = {
    protocolVersion: "2025-11-25",
    capabilities: { sampling: {}, elicitation: {} },
    clientInfo: { name: "a", version: "1" },
  };
  const { response } = await ask(endpoint, { id: 0, method: "initialize", params });
  const session = { "mcp-session-id": response.headers.get("mcp-session-id") ?? "" };
  expect(await response.json()).toHaveProperty("result.protocolVersion");
  await ask(endpoint, { method: "notifications/initialized" }, session);
  return session;
}

const call = (id: number | string, name: string, args: object = {}): object => ({
  id,
  method: "tools/call",
  params: { name, arguments: args },
});

describe("a subscription of 2026-07-28", () => {
  const listen = (id: string): object => ({
    id,
    method: "subscriptions/listen",
    params: {
      notifications: { toolsListChanged: true },
      _meta: {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { name: "a", version: "1" },
      },
    },
  });
  const headers = { "mcp-protocol-version": "2026-07-28", "mcp-method": "subscriptions/listen" };

  it.each(["a program", "an address"])("has its own stream (%s)", async (kind) => {
    let opened: Opened;
    if (kind === "a program") opened = await openGateway(await programHost([askingServer, "both"]));
    else {
      const server = await startAskingServer("stateless");
      onTestFinished(() => server.close());
      opened = await openGateway(await addressHost(server.url));
    }
    const streams = await Promise.all(["A", "B"].map((id) => ask(opened.endpoint, listen(id), headers)));
    for (const [index, stream] of streams.entries())
      expect(await stream.next()).toMatchObject({
        method: "notifications/subscriptions/acknowledged",
        params: { _meta: { "io.modelcontextprotocol/subscriptionId": ["A", "B"][index] } },
      });
  });
});

describe("a request of a program to an agent over HTTP", () => {
  it("waits for a stream if the client does not accept events", async () => {
    const { endpoint, record } = await openGateway(await programHost([conformingServer]));
    const session = await initialize(endpoint);
    const asking = ask(endpoint, call(1, "test_sampling", { prompt: "p" }), {
      ...session,
      accept: "application/json",
    });
    await vi.waitFor(() => expect(JSON.stringify(record.events)).toContain("test_sampling"));
    const stream = await ask(endpoint, {}, session);
    const { id, method } = (await stream.next()) as { id: number; method: string };
    expect(method).toBe("sampling/createMessage");
    await ask(endpoint, { id, result: { role: "assistant", content: [], model: "m" } }, session);
    const { response } = await asking;
    expect(response.headers.get("content-type")).toBe("application/json");
  });

  it("is sent on the response of the latest request; change notifications go to the GET stream", async () => {
    const script = `require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
      const { id, method } = JSON.parse(line);
      if (id === undefined) return;
      const say = (message) => console.log(JSON.stringify({ jsonrpc: "2.0", ...message }));
      if (method === "ping") say({ method: "notifications/message", params: { level: "info", data: "x" } });
      if (method === "ping") say({ method: "notifications/tools/list_changed" });
      say({ id, result: { protocolVersion: "2025-11-25" } });
    })`;
    const { endpoint } = await openGateway(await programHost(["-e", script]));
    const session = await initialize(endpoint);
    const stream = await ask(endpoint, {}, session);
    const asked = await ask(endpoint, { id: 1, method: "ping" }, session);
    expect(await asked.next()).toMatchObject({ method: "notifications/message" });
    expect(await asked.next()).toMatchObject({ id: 1, result: {} });
    expect(await stream.next()).toMatchObject({ method: "notifications/tools/list_changed" });
  });

  it("is sent on one stream, which a later one replaces", async () => {
    const { endpoint } = await openGateway(await programHost([conformingServer]));
    const session = await initialize(endpoint);
    const first = await ask(endpoint, {}, session);
    const second = await ask(endpoint, {}, session);
    await expect(first.next()).rejects.toThrow("the stream has ended");
    const asking = ask(endpoint, call(1, "test_sampling", { prompt: "p" }), {
      ...session,
      accept: "application/json",
    });
    const { id } = (await second.next()) as { id: number };
    await ask(endpoint, { id, result: { role: "assistant", content: [], model: "m" } }, session);
    expect((await asking).response.status).toBe(200);
  });

  it("sends progress on the response of the request with its token", async () => {
    const { endpoint } = await openGateway(await programHost([conformingServer]));
    const session = await initialize(endpoint);
    const [first, second] = await Promise.all(
      ["one", "two"].map((progressToken, index) =>
        ask(
          endpoint,
          {
            id: index,
            method: "tools/call",
            params: { name: "test_tool_with_progress", _meta: { progressToken } },
          },
          session,
        ),
      ),
    );
    for (const [token, stream] of [["one", first] as const, ["two", second] as const])
      for (const progress of [0, 50, 100])
        expect(await stream?.next()).toMatchObject({ params: { progressToken: token, progress } });
  });
});

describe("an agent that aborts its request", () => {
  it("cancels it if it has no session", async () => {
    const { endpoint, record } = await openGateway(await programHost([fixtureServer]));
    const controller = new AbortController();
    const leaving = fetch(endpoint.url, {
      method: "POST",
      body: JSON.stringify({ jsonrpc: "2.0", ...call("mine", "slow", { ms: 60_000 }) }),
      signal: controller.signal,
    });
    await vi.waitFor(() => expect(JSON.stringify(record.events)).toContain("slow"));
    controller.abort();
    await expect(leaving).rejects.toThrow();
    await vi.waitFor(async () => {
      const { response } = await ask(endpoint, call("next", "cancelled"));
      expect(await response.text()).toContain("mine");
    });
    const sent = record.of("mcp.message").map(({ message }) => JSON.stringify(message));
    expect(sent.filter((text) => text.includes("notifications/cancelled"))).toEqual([]);
  });
});

describe("an agent with a session", () => {
  it("cancels nothing when a connection breaks", async () => {
    const { endpoint } = await openGateway(await programHost([fixtureServer]));
    const session = await initialize(endpoint);
    const controller = new AbortController();
    const leaving = fetch(endpoint.url, {
      method: "POST",
      body: JSON.stringify({ jsonrpc: "2.0", ...call("mine", "slow", { ms: 60_000 }) }),
      headers: { accept, "content-type": "application/json", ...session },
      signal: controller.signal,
    });
    await ask(endpoint, call("before", "cancelled"), session);
    controller.abort();
    await expect(leaving).rejects.toThrow();
    const counted = async (id: number): Promise<string> =>
      (await ask(endpoint, call(id, "cancelled"), session)).response.text();
    for (const id of [1, 2, 3]) expect(await counted(id)).not.toContain("mine");
  });
});

describe("a stream that the server closes before the response", () => {
  it.each(["http", "bridge"] as const)("is resumed for an agent over %s", async (way) => {
    const host = await addressHost(await listenProgram(conformingServer));
    const { endpoint, losses, record } = await openGateway(host);
    const client = await connectClient(transportTo(endpoint, way));
    expect(await client.callTool({ name: "test_reconnection", arguments: {} })).toEqual({
      content: [{ type: "text", text: "reconnected" }],
    });
    expect(losses).toEqual([]);
    if (way === "http")
      expect(record.of("http.response").filter(({ method }) => method === "GET").length).toBeGreaterThan(1);
  });
});
