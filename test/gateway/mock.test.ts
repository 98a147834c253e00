import { expect, it, onTestFinished } from "vitest";
import type { MockServerSpec } from "../../src/core/formats/model.ts";
import { createFilters } from "../../src/servers/filters/filters.ts";
import { createGateway } from "../../src/servers/gateway/gateway.ts";
import type { GatewayEndpoint } from "../../src/servers/gateway/endpoint.ts";
import { openMockHost } from "../../src/servers/mock/mock-host.ts";
import { createRecord, type Record } from "../servers/support.ts";
import { type ClientOptions, connectClient, transportTo, type Way } from "./support.ts";

const answering = (value: string) => ({
  inputSchema: { type: "object" },
  responses: [{ answer: { kind: "return", value } as const }],
});

const spec: MockServerSpec = {
  transport: "mock",
  startupTimeoutMs: 5000,
  maxMessageBytes: 1_000_000,
  tools: ["greet", "wordy", "garbled", "down"],
  faults: [
    { kind: "truncate", tool: "wordy", bytes: 4, probability: 1 },
    { kind: "error", tool: "down", code: -32099, message: "down on purpose", probability: 1 },
  ],
  mock: {
    tools: {
      greet: answering("hello"),
      wordy: answering("too many words"),
      down: answering("up"),
      garbled: {
        inputSchema: { type: "object" },
        responses: [{ answer: { kind: "malformed", text: "<{id}> is no JSON" } }],
      },
      hidden: answering("secret"),
    },
    resources: [],
    prompts: [],
    state: {},
  },
};

async function open(): Promise<{ endpoint: GatewayEndpoint; record: Record }> {
  const host = openMockHost("m", spec, { validateSchema: () => Promise.reject(new Error("no schema here")) });
  const gateway = createGateway();
  onTestFinished(async () => {
    await gateway.close();
    await host.stop();
  });
  const record = createRecord();
  const filters = createFilters(spec, { seed: "0" }).of;
  const onLost = (error: Error): void =>
    void record.emit({ type: "agent.output", stream: "stderr", text: error.message });
  return { endpoint: await gateway.open({ host, emit: record.emit, filters, onLost }), record };
}

const eras = { legacy: {}, modern: { versionNegotiation: { mode: { pin: "2026-07-28" } } } } satisfies {
  [era: string]: ClientOptions;
};

const cases = (["http", "bridge"] as const).flatMap((way) =>
  (["legacy", "modern"] as const).map((era): [Way, keyof typeof eras] => [way, era]),
);

it.each(cases)("gives an agent over %s in the %s era a mock behind filters", async (way, era) => {
  const { endpoint, record } = await open();
  const client = await connectClient(transportTo(endpoint, way), eras[era]);
  const call = (name: string): Promise<unknown> =>
    client.callTool({ name }).catch((error: unknown) => (error as Error).message);
  const { tools } = await client.listTools();
  expect(tools.map(({ name }) => name)).toEqual(["greet", "wordy", "down", "garbled"]);
  expect(await call("greet")).toMatchObject({ content: [{ type: "text", text: "hello" }] });
  expect(await call("wordy")).toMatchObject({ content: [{ type: "text", text: "too " }] });
  expect(await call("down")).toContain("down on purpose");
  expect(await call("hidden")).toContain("Unknown tool: hidden");
  // The SDK starts a bridge once only to look which era it speaks.
  const agent = record.of("gateway.connected").at(-1)?.client;
  const about = { server: "m", client: agent };
  expect(record.of("tools.hidden")).toEqual([{ type: "tools.hidden", ...about, tools: ["hidden"] }]);
  expect(record.of("tool.refused")).toMatchObject([{ ...about, tool: "hidden" }]);
  expect(record.of("fault.injected")).toMatchObject([
    { ...about, fault: "truncate", tool: "wordy" },
    { ...about, fault: "error", tool: "down" },
  ]);
  expect(record.of("agent.output")).toEqual([]);
});

it("passes an invalid message to the agent byte for byte", async () => {
  const { endpoint, record } = await open();
  const response = await fetch(endpoint.url, {
    method: "POST",
    headers: { "content-type": "application/json", accept: "application/json, text/event-stream" },
    body: '{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"garbled"}}',
  });
  expect(await response.text()).toContain('<"x"> is no JSON');
  expect(record.of("mcp.message").at(-1)).toMatchObject({
    direction: "server-to-client",
    message: { id: "x", error: { code: -32700 } },
    raw: '<"x"> is no JSON',
  });
});
