import { describe, expect, it, vi } from "vitest";
import type { Filter, FilterDecision } from "../../src/servers/filters/filter-chain.ts";
import { requestOf, type WireMessage, wireMessage } from "../../src/servers/messages/json-rpc.ts";
import type { ServerHost } from "../../src/servers/connections/host.ts";
import { fixtureServer } from "../process/support.ts";
import { startHttpBridge } from "../fixtures/servers/http-bridge.ts";
import { addressHost, connectClient, openGateway, programHost, transportTo, type Way } from "./support.ts";

/** Does something to calls of one tool. */
function onTool(tool: string, act: (wire: WireMessage, id: string | number) => FilterDecision): Filter {
  return {
    fromClient(wire) {
      const request = requestOf(wire.message);
      return request?.params["name"] === tool ? act(wire, request.id) : { kind: "pass", wire };
    },
  };
}

const said = (text: string): object => ({ content: [{ type: "text", text }] });
const rewritten = (wire: WireMessage, from: string, to: string): WireMessage => ({
  message: JSON.parse(wire.text.replaceAll(from, to)) as WireMessage["message"],
  text: wire.text.replaceAll(from, to),
});

const filters: Filter[] = [
  onTool("no-content", (_wire, id) => ({
    kind: "answer",
    wire: wireMessage({
      jsonrpc: "2.0",
      id,
      result: said("answered by a filter") as Record<string, unknown>,
    }),
  })),
  onTool("slow", () => ({ kind: "drop" })),
  onTool("crash", () => ({ kind: "disconnect" })),
  {
    fromClient: (wire) => ({ kind: "pass", wire: rewritten(wire, "outward", "OUTWARD") }),
    fromServer: (wire) => ({ kind: "pass", wire: rewritten(wire, "OUTWARD", "inward") }),
  },
];

async function addressOfFixture(): Promise<ServerHost> {
  const server = await startHttpBridge([]);
  const host = await addressHost(server.shttp);
  return { ...bound(host), stop: () => host.stop().then(() => server.close()) };
}

/** A host with its methods bound, so that it can be spread. */
function bound(host: ServerHost): ServerHost {
  return {
    name: host.name,
    transport: host.transport,
    lost: host.lost,
    address: host.address,
    watch: (emit) => host.watch(emit),
    connect: (emit, options) => host.connect(emit, options),
    open: (listener) => host.open(listener),
    stop: () => host.stop(),
  };
}

describe.each([
  ["http", "a program", () => programHost([fixtureServer])],
  ["bridge", "a program", () => programHost([fixtureServer])],
  ["http", "an address", addressOfFixture],
  ["bridge", "an address", addressOfFixture],
] satisfies [Way, string, () => Promise<ServerHost>][])("filters between %s and %s", (way, _to, open) => {
  it("change, answer and drop messages; the record is of the agent's side", async () => {
    const { endpoint, record } = await openGateway(await open(), { filters });
    const client = await connectClient(transportTo(endpoint, way));
    expect(await client.callTool({ name: "echo", arguments: { message: "outward" } })).toEqual(
      said("inward"),
    );
    expect(await client.callTool({ name: "no-content", arguments: {} })).toEqual(
      said("answered by a filter"),
    );
    const dropped = client.callTool({ name: "slow", arguments: { ms: 0 } }, { timeout: 300 });
    await expect(dropped).rejects.toThrow("timed out");
    expect(await client.callTool({ name: "echo", arguments: { message: "on" } })).toEqual(said("on"));
    const messages = record.of("mcp.message").map(({ message }) => JSON.stringify(message));
    expect(messages.filter((text) => /"(outward|inward|answered by a filter)"/.test(text))).toHaveLength(3);
    expect(messages.join()).not.toContain("OUTWARD");
  });

  it("cut the connection", async () => {
    const { endpoint, losses } = await openGateway(await open(), { filters });
    const client = await connectClient(transportTo(endpoint, way));
    await expect(client.callTool({ name: "crash", arguments: {} })).rejects.toThrow();
    expect(losses).toEqual([]);
    const again = await connectClient(transportTo(endpoint, way));
    expect(await again.callTool({ name: "echo", arguments: { message: "back" } })).toEqual(said("back"));
  });
});

describe("what a server must not send", () => {
  it.each(["http", "bridge"] as const)(
    "too much at once over %s: the call fails and it is told",
    async (way) => {
      const server = await startHttpBridge([]);
      const host = await addressHost(server.shttp, "shttp", { maxMessageBytes: 20_000 });
      const { endpoint, losses, gateway } = await openGateway(host);
      const client = await connectClient(transportTo(endpoint, way));
      const message = "x".repeat(30_000);
      await expect(client.callTool({ name: "echo", arguments: { message } })).rejects.toThrow();
      await vi.waitFor(() => expect(losses[0]?.code).toBe("server/message-too-large"));
      await gateway.close();
      await server.close();
    },
  );

  it.each(["http", "bridge"] as const)(
    "too many levels over %s: the call fails and it is told",
    async (way) => {
      const server = await startHttpBridge([]);
      const { endpoint, losses, gateway } = await openGateway(await addressHost(server.shttp));
      const client = await connectClient(transportTo(endpoint, way));
      await expect(client.callTool({ name: "nested", arguments: { levels: 500 } })).rejects.toThrow();
      await vi.waitFor(() => expect(losses[0]?.code).toBe("server/protocol-error"));
      await gateway.close();
      await server.close();
    },
  );
});

describe("what an agent must not send", () => {
  it("too many levels: it gets an error, and the server gets nothing", async () => {
    const { endpoint, record } = await openGateway(await programHost([fixtureServer]));
    const deep = "[".repeat(500) + "]".repeat(500);
    const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"message":${deep}}}}`;
    const response = await fetch(endpoint.url, { method: "POST", body });
    expect(await response.json()).toEqual({
      jsonrpc: "2.0",
      id: 1,
      error: { code: -32600, message: "mcpvals passes on no message nested more than 400 levels deep" },
    });
    expect(record.of("mcp.message")).toMatchObject([
      { direction: "client-to-server" },
      { direction: "server-to-client" },
    ]);
  });
});
