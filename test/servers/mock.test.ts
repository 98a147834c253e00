import { type JSONRPCMessage, SUPPORTED_PROTOCOL_VERSIONS } from "@modelcontextprotocol/client";
import { afterAll, expect, it, onTestFinished, vi } from "vitest";
import type { JsonObject } from "../../src/base/json.ts";
import { legacyVersions } from "../../src/model/mcp-versions.ts";
import type { MockDefinition, MockResponse, MockServerSpec } from "../../src/model/server.ts";
import { SchemaValidator } from "../../src/graders/schema-validator.ts";
import type { ServerHost } from "../../src/servers/connections/host.ts";
import { openMockHost } from "../../src/servers/mock/mock-host.ts";
import { openSession, type ServerSession } from "../../src/servers/client/session.ts";
import { type WireMessage, wireMessage } from "../../src/servers/messages/json-rpc.ts";
import { watchLeftovers } from "../support/leftovers.ts";
import { callOptions, createRecord, type Record } from "./support.ts";

const emptyMock: MockDefinition = { tools: {}, resources: [], prompts: [], state: {} };

function mockSpec(mock: Partial<MockDefinition>, changes: Partial<MockServerSpec> = {}): MockServerSpec {
  const base = { transport: "mock", startupTimeoutMs: 5000, maxMessageBytes: 1_000_000 } as const;
  return { ...base, mock: { ...emptyMock, ...mock }, ...changes };
}

const validator = new SchemaValidator();
afterAll(() => validator[Symbol.asyncDispose]());

const tool = (...responses: MockResponse[]): MockDefinition["tools"][string] => ({
  inputSchema: { type: "object" },
  responses,
});
const says = (value: string): MockResponse => ({ return: value });
const text = (value: string): JsonObject => ({ content: [{ type: "text", text: value }] });
const latencyMs = expect.any(Number) as unknown;

function open(spec: MockServerSpec): ServerHost {
  const host = openMockHost("m", spec, {
    validateSchema: (schema, value) => validator.validate(schema, value),
  });
  onTestFinished(() => host.stop());
  return host;
}

async function start(
  mock: Partial<MockDefinition>,
  changes: Partial<MockServerSpec> = {},
): Promise<{
  host: ServerHost;
  session: ServerSession;
  record: Record;
}> {
  const spec = mockSpec(mock, changes);
  const host = open(spec);
  const record = createRecord();
  host.watch(record.emit);
  const { signal } = new AbortController();
  const session = await openSession(host, spec, { emit: record.emit, signal, version: "9.9.9" });
  onTestFinished(() => session.stop());
  return { host, session, record };
}

/** A client elsewhere: what it is told, as text. */
function outside(host: ServerHost) {
  const told: WireMessage[] = [];
  let closed = 0;
  const channel = host.open({
    onMessage: (wire) => void told.push(wire),
    onClosed: () => void (closed += 1),
  });
  const ask = (id: number, method: string, params: JsonObject = {}): Promise<void> =>
    channel.send(wireMessage({ jsonrpc: "2.0", id, method, params }));
  const texts = (count: number): Promise<string[]> =>
    vi.waitFor(() => {
      expect(told).toHaveLength(count);
      return told.map((wire) => wire.text);
    });
  return { channel, told, ask, texts, closed: () => closed };
}

it("knows the versions that the SDK knows", () => {
  expect(legacyVersions).toEqual(SUPPORTED_PROTOCOL_VERSIONS);
});

it.each(["legacy", "modern"] as const)("is a server to our client in the %s era", async (protocol) => {
  const greet = {
    description: "says hello",
    inputSchema: { type: "object" },
    outputSchema: { type: "object" },
  };
  const [first, second] = [
    { uri: "mock:a", name: "a", description: "the first", mimeType: "text/plain" },
    { uri: "mock:b", name: "b" },
  ];
  const city = { name: "city", required: true, description: "where" };
  const ask = { name: "ask", description: "asks", arguments: [city, { name: "why", required: false }] };
  const messages = [
    { role: "user", text: "Weather in {city}{why}? {literal} {" },
    { role: "assistant", text: "Sunny in {city}" },
  ] as const;
  const mock = {
    instructions: "be nice",
    tools: { greet: { ...greet, responses: [{ ...says("hello") }] } },
    resources: [first, second].map((each, index) => ({ ...each, text: "AB".charAt(index) })),
    prompts: [{ ...ask, messages }],
  };
  const { host, session, record } = await start(mock, { protocol });
  expect(session.tools).toEqual([{ name: "greet", ...greet }]);
  expect(session.abilities).toEqual({ tools: true, resources: true, prompts: true });
  expect(record.of("server.started")).toEqual([
    { type: "server.started", server: "m", transport: "mock", target: "written answers" },
  ]);
  const protocolVersion = protocol === "modern" ? "2026-07-28" : "2025-11-25";
  expect(record.of("server.ready")).toMatchObject([
    { name: "m", version: "mock", protocolVersion, tools: 1 },
  ]);
  const options = callOptions();
  const notFound = {
    code: protocol === "modern" ? -32602 : -32002,
    message: "Resource not found: mock:c",
    data: { uri: "mock:c" },
  };
  const prompt = {
    description: "asks",
    messages: [
      { role: "user", content: { type: "text", text: "Weather in {why}? {literal} {" } },
      { role: "assistant", content: { type: "text", text: "Sunny in {why}" } },
    ],
  };
  for (const [outcome, expected] of [
    [await session.callTool("greet", {}, options), { result: text("hello") }],
    [await session.list("resources", options), { result: { resources: [first, second] } }],
    [await session.list("resourceTemplates", options), { result: { resourceTemplates: [] } }],
    [await session.list("prompts", options), { result: { prompts: [ask] } }],
    [
      await session.readResource("mock:a", options),
      { result: { contents: [{ uri: "mock:a", mimeType: "text/plain", text: "A" }] } },
    ],
    [await session.readResource("mock:c", options), { kind: "error", ...notFound }],
    [await session.getPrompt("ask", { city: "{why}" }, options), { result: prompt }],
    [
      await session.getPrompt("ask", {}, options),
      { kind: "error", code: -32602, message: "Missing argument: city" },
    ],
    [await session.getPrompt("none", {}, options), { kind: "error", message: "Unknown prompt: none" }],
  ] as const)
    expect(outcome).toMatchObject(expected);
  await session.stop();
  await host.stop();
  expect(record.events.at(-1)).toMatchObject({ type: "server.stopped", server: "m", by: "disconnect" });
});

it("answers as MCP says what clients outside ask, each in its era", async () => {
  const host = open(mockSpec({ tools: { greet: tool({ ...says("hello") }) } }));
  const { ask, texts, channel } = outside(host);
  const modern = { _meta: { "io.modelcontextprotocol/protocolVersion": "2026-07-28" } };
  await ask(1, "initialize", { protocolVersion: "2024-11-05" });
  await ask(2, "initialize", { protocolVersion: "1999-01-01" });
  await channel.send(wireMessage({ jsonrpc: "2.0", method: "notifications/initialized" }));
  await channel.send(wireMessage({ jsonrpc: "2.0", id: 7, result: {} }));
  await ask(3, "server/discover");
  await ask(4, "server/discover", modern);
  await ask(5, "tools/list", modern);
  await ask(6, "ping", { _meta: { "io.modelcontextprotocol/protocolVersion": "2027-01-01" } });
  await ask(8, "completion/complete");
  const answers = (await texts(7)).map((answer) => JSON.parse(answer) as JSONRPCMessage);
  const info = { name: "m", version: "mock" };
  const capabilities = { logging: {}, tools: {} };
  const server = { "io.modelcontextprotocol/serverInfo": info };
  const kept = { resultType: "complete", ttlMs: 0, cacheScope: "private", _meta: server };
  const answer = (id: number, rest: object): object => ({ jsonrpc: "2.0", id, ...rest });
  expect(answers).toEqual([
    answer(1, { result: { protocolVersion: "2024-11-05", capabilities, serverInfo: info } }),
    answer(2, { result: { protocolVersion: "2025-11-25", capabilities, serverInfo: info } }),
    answer(3, { error: { code: -32601, message: "Method not found: server/discover" } }),
    answer(4, { result: { ...kept, supportedVersions: ["2026-07-28"], capabilities } }),
    answer(5, { result: { ...kept, tools: [{ name: "greet", inputSchema: { type: "object" } }] } }),
    answer(6, {
      error: {
        code: -32022,
        message: "Unsupported protocol version: 2027-01-01",
        data: { supported: ["2026-07-28"], requested: "2027-01-01" },
      },
    }),
    answer(8, { error: { code: -32601, message: "Method not found: completion/complete" } }),
  ]);
});

it("answers with the first response that fits", async () => {
  const { session } = await start({
    tools: {
      search: tool(
        { match: { q: "a", n: [1, { b: null }] }, ...says("exact") },
        { match: { q: "a" }, matchRegex: { q: "b" }, ...says("never") },
        { matchRegex: { q: "(?i)^rome$" }, ...says("pattern") },
        { matchRegex: { n: "^4\\d$" }, ...says("pattern of a number") },
        {
          matchSchema: { required: ["deep"], properties: { deep: { type: "integer" } } },
          ...says("schema"),
        },
        { ...says("anything") },
      ),
    },
  });
  for (const [args, said] of [
    [{ n: [1, { b: null }], q: "a" }, "exact"],
    [{ n: [1, { b: null }], q: "a", more: 1 }, "anything"],
    [{ q: "ROME" }, "pattern"],
    [{ n: 42 }, "pattern of a number"],
    [{ deep: 5 }, "schema"],
    [{ deep: "5" }, "anything"],
  ] as const)
    expect(await session.callTool("search", args, callOptions())).toMatchObject({ result: text(said) });
});

it("has nothing that every object has: neither tools nor arguments", async () => {
  const argument = { name: "constructor", required: true };
  const prompt = { name: "p", arguments: [argument], messages: [{ role: "user", text: "{constructor}" }] };
  const { session } = await start({ tools: { a: tool() }, prompts: [prompt as never] });
  expect(await session.callTool("constructor", {}, callOptions())).toMatchObject({
    result: { ...text("Unknown tool: constructor"), isError: true },
  });
  expect(await session.getPrompt("p", {}, callOptions())).toMatchObject({
    kind: "error",
    message: expect.stringContaining("Missing argument: constructor") as unknown,
  });
});

it("makes a call that nothing fits an error of the tool, which says what would fit", async () => {
  const { session } = await start({
    state: { open: false },
    tools: {
      search: tool(
        { match: { q: "a" }, ...says("x") },
        { matchRegex: { q: "^z" }, ...says("x") },
        { matchSchema: { required: ["n"] }, ...says("x") },
        { matchRegex: { q: "^b" }, when: { open: true }, ...says("x") },
      ),
    },
  });
  const lines = [
    'No answer of the mock\'s tool "search" fits this call:',
    '- response 1: arguments at /q is "b", expected "a"',
    '- response 2: argument q is "b", expected /^z/',
    "- response 3: arguments do not satisfy its schema: the value must have required property 'n'",
    "- response 4: state open is false, expected true",
  ];
  expect(await session.callTool("search", { q: "b" }, callOptions())).toEqual({
    kind: "result",
    result: { ...text(lines.join("\n")), isError: true },
    latencyMs,
  });
  expect(await session.callTool("other", {}, callOptions())).toEqual({
    kind: "result",
    result: { ...text("Unknown tool: other"), isError: true },
    latencyMs,
  });
});

it("gives each kind of answer", async () => {
  const whole = { content: [{ type: "text", text: "x", annotations: {} }], isError: true, more: 1 };
  const { session, record } = await start({
    tools: {
      object: tool({ return: { a: 1 } }),
      list: tool({ return: [1, 2] }),
      whole: tool({ return: whole }),
      fail: tool({ error: "it broke" }),
      refuse: tool({ protocolError: { code: -32001, message: "no" } }),
      silent: tool({ silence: true }),
      garbled: tool({ malformed: "<html>{id}</html>" }),
      shapeless: tool({ malformed: '{"jsonrpc":"2.0", "id":{id},"result":5}' }),
    },
  });
  const call = (name: string, timeoutMs = 5000): Promise<unknown> =>
    session.callTool(name, {}, callOptions({ timeoutMs }));
  for (const [name, result] of [
    ["object", { ...text('{"a":1}'), structuredContent: { a: 1 } }],
    ["list", text("[1,2]")],
    ["whole", whole],
    ["fail", { ...text("it broke"), isError: true }],
  ] as const)
    expect(await call(name)).toEqual({ kind: "result", result, latencyMs });
  expect(await call("refuse")).toEqual({ kind: "error", code: -32001, message: "no", latencyMs });
  expect(await call("shapeless")).toMatchObject({ kind: "error", unusable: true });
  expect(await call("silent", 30)).toMatchObject({ kind: "timeout" });
  expect(record.of("server.invalid_output")).toEqual([]);
  expect(await call("garbled", 30)).toMatchObject({ kind: "timeout" });
  const [invalid, ...others] = record.of("server.invalid_output");
  expect([invalid?.text, others]).toEqual([expect.stringMatching(/^<html>\d+<\/html>$/), []]);
  const raw = record.of("mcp.message").flatMap((event) => event.raw ?? []);
  expect(raw).toEqual([expect.stringMatching(/^\{"jsonrpc":"2.0", "id":\d+,"result":5\}$/)]);
});

it("has one state for all who talk to it, changed by one call after the other", async () => {
  const step = (from: number): MockResponse => ({
    when: { n: from },
    set: { n: from + 1, last: { from } },
    // Looking at a schema takes a while, in which no other call may look at the state.
    matchSchema: { type: "object" },
    ...says(`${from}`),
  });
  const mock = { state: { n: 0 }, tools: { count: tool(step(0), step(1), step(2), step(3)) } };
  const { host, session } = await start(mock);
  const { ask, texts } = outside(host);
  const [first, second] = [0, 1].map(() => session.callTool("count", {}, callOptions()));
  await ask(1, "tools/call", { name: "count" });
  await ask(2, "tools/call", { name: "count" });
  const results = await Promise.all([first, second]);
  const all = [...results.map((outcome) => JSON.stringify(outcome)), ...(await texts(2))];
  const numbers = all.map((answer) => /"text":"(\d)"/.exec(answer)?.[1]);
  expect(numbers.toSorted()).toEqual(["0", "1", "2", "3"]);
  const fresh = await start(mock);
  expect(await fresh.session.callTool("count", {}, callOptions())).toMatchObject({ result: text("0") });
});

it("takes its time, answers others meanwhile, and forgets who has left or taken back what was asked", async () => {
  const { host, session } = await start({
    tools: {
      slow: tool({ latency: 60_000, ...says("late") }),
      brief: tool({ latency: 40, ...says("soon") }),
      quick: tool({ ...says("now") }),
    },
  });
  const nothingIsLeft = watchLeftovers();
  expect(await session.callTool("slow", {}, callOptions({ timeoutMs: 20 }))).toMatchObject({
    kind: "timeout",
  });
  const brief = await session.callTool("brief", {}, callOptions());
  expect(brief).toMatchObject({ result: text("soon") });
  expect(brief.latencyMs).toBeGreaterThanOrEqual(39);
  const { ask, texts, channel, told } = outside(host);
  await ask(1, "tools/call", { name: "slow" });
  await ask(2, "tools/call", { name: "slow" });
  await channel.send(
    wireMessage({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 2 } }),
  );
  await ask(3, "tools/call", { name: "quick" });
  expect((await texts(1))[0]).toContain('"id":3');
  await channel.close();
  await expect(ask(4, "ping")).rejects.toThrow("has closed");
  await nothingIsLeft();
  expect(told).toHaveLength(1);
});

it("ends all exchanges when it is stopped, and says so once", async () => {
  const host = open(mockSpec({ tools: { slow: tool({ latency: 60_000, ...says("late") }) } }));
  const record = createRecord();
  host.watch(record.emit);
  const { ask, closed, channel } = outside(host);
  await ask(1, "tools/call", { name: "slow" });
  await host.stop();
  await host.stop();
  await channel.close();
  expect(closed()).toBe(1);
  expect(record.events.map(({ type }) => type)).toEqual(["server.started", "server.stopped"]);
  const late = outside(host);
  await vi.waitFor(() => expect(late.closed()).toBe(1));
  await expect(late.ask(1, "ping")).rejects.toThrow();
});

it("refuses a pattern that is none before anybody talks to it", () => {
  const broken = tool({ matchRegex: { q: "(" }, ...says("x") });
  expect(() => open(mockSpec({ tools: { broken } }))).toThrow(
    expect.objectContaining({ code: "task/pattern" }),
  );
});

it("says that it does not know when a schema of its own cannot be used", async () => {
  const broken = tool({ matchSchema: { type: "no such type" }, ...says("x") }, { ...says("y") });
  const { session } = await start({ tools: { broken } });
  expect(await session.callTool("broken", {}, callOptions())).toMatchObject({
    kind: "error",
    code: -32603,
    message: expect.stringMatching(/^a matchSchema of the mock: /) as unknown,
  });
});
