import { describe, expect, it, onTestFinished, vi } from "vitest";
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

async function addressOfFixture(transport: "shttp" | "sse"): Promise<ServerHost> {
  const server = await startHttpBridge([]);
  onTestFinished(() => server.close());
  return addressHost(server[transport], transport);
}

describe.each([
  ["http", "a program", () => programHost([fixtureServer])],
  ["bridge", "a program", () => programHost([fixtureServer])],
  ["http", "an address", () => addressOfFixture("shttp")],
  ["bridge", "an address", () => addressOfFixture("shttp")],
  ["http", "an address of the older transport", () => addressOfFixture("sse")],
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

it.each([
  ["http", "server/message-too-large", { name: "echo", arguments: { message: "x".repeat(30_000) } }],
  ["bridge", "server/message-too-large", { name: "echo", arguments: { message: "x".repeat(30_000) } }],
  ["http", "server/protocol-error", { name: "nested", arguments: { levels: 500 } }],
  ["bridge", "server/protocol-error", { name: "nested", arguments: { levels: 500 } }],
] as const)(
  "over %s an answer beyond a limit fails the call, and the server is lost: %s",
  async (way, code, call) => {
    const server = await startHttpBridge([]);
    const host = await addressHost(server.shttp, "shttp", { maxMessageBytes: 20_000 });
    const { endpoint, losses, gateway } = await openGateway(host);
    const client = await connectClient(transportTo(endpoint, way));
    await expect(client.callTool(call)).rejects.toThrow();
    await vi.waitFor(() => expect(losses[0]?.code).toBe(code));
    await gateway.close();
    await server.close();
  },
);
