import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createModelAgent } from "../../src/agents/model.ts";
import { McpvalsError } from "../../src/base/error.ts";
import { withoutUndefined } from "../../src/base/json.ts";
import type { ModelAgentSpec } from "../../src/model/agent.ts";
import type { EventOf } from "../../src/model/event.ts";
import type { CallOutcome, ServerSession } from "../../src/servers/client/session.ts";
import { eventsOf, recordedContext, type RecordedContext } from "../support/agent-context.ts";
import { type FakeProvider, type FakeReply, startFakeProvider } from "../support/fake-provider.ts";
import { anyTool, startEverything, stubSession } from "../support/sessions.ts";

let everything: ServerSession;
beforeAll(async () => {
  everything = await startEverything();
});
afterAll(() => everything.stop());

/** What the model is given besides, for a server with resources and prompts. */
const ownTools = ["list_mcp_resources", "read_mcp_resource", "list_mcp_prompts", "get_mcp_prompt"];

const noWait = { baseDelayMs: 0 };

function spec(provider: Pick<FakeProvider, "url">, changes: Partial<ModelAgentSpec> = {}): ModelAgentSpec {
  return {
    type: "model",
    name: "fake",
    model: "anthropic/claude-sonnet-4-5",
    baseURL: provider.url,
    apiKey: "test-key",
    maxSteps: 5,
    ...changes,
  };
}

/** Runs an agent; returns its context, with the events. */
async function run(
  agentSpec: ModelAgentSpec,
  sessions: readonly ServerSession[] = [],
  users: readonly string[] = ["go"],
): Promise<RecordedContext> {
  const context = recordedContext({ users, sessions });
  await createModelAgent(agentSpec, { env: {}, modelMs: 10_000, retry: noWait }).run(context);
  return context;
}

interface WireCase {
  readonly name: string;
  readonly wire: string;
  /** Where requests go, and the header with the key. */
  readonly path: string;
  readonly key: readonly [header: string, value: string];
  /** Whether its tool results can carry images. */
  readonly images: boolean;
  readonly spec: (url: string) => Partial<ModelAgentSpec>;
}

const bearer = ["authorization", "Bearer test-key"] as const;

const wires: readonly WireCase[] = [
  {
    name: "anthropic",
    wire: "anthropic",
    path: "/v1/messages",
    key: ["x-api-key", "test-key"],
    images: true,
    spec: () => ({}),
  },
  {
    name: "openai-responses",
    wire: "openai-responses",
    path: "/v1/responses",
    key: bearer,
    images: true,
    spec: (baseURL) => ({ model: "openai/gpt-5", baseURL }),
  },
  {
    name: "openai-chat",
    wire: "openai-chat",
    path: "/v1/chat/completions",
    key: bearer,
    images: false,
    spec: (baseURL) => ({ model: "openai/gpt-4o", baseURL, api: "chat" }),
  },
  {
    name: "google",
    wire: "google",
    path: "/v1beta/models/gemini-2.5-flash:streamGenerateContent",
    key: ["x-goog-api-key", "test-key"],
    images: true,
    spec: (baseURL) => ({ model: "google/gemini-2.5-flash", baseURL }),
  },
  {
    name: "azure",
    wire: "openai-responses",
    path: "/openai/v1/responses",
    key: ["api-key", "test-key"],
    images: true,
    spec: (baseURL) => ({ model: "azure/my-deployment", baseURL }),
  },
  {
    name: "azure-chat",
    wire: "openai-chat",
    path: "/openai/v1/chat/completions",
    key: ["api-key", "test-key"],
    images: false,
    spec: (baseURL) => ({ model: "azure/my-deployment", baseURL, api: "chat" }),
  },
  {
    name: "bedrock",
    wire: "bedrock",
    path: "/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse",
    key: bearer,
    images: true,
    spec: (baseURL) => ({ model: "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", baseURL }),
  },
  {
    name: "vertex",
    wire: "google",
    path: "/v1/publishers/google/models/gemini-2.5-flash:streamGenerateContent",
    key: ["x-goog-api-key", "test-key"],
    images: true,
    spec: (url) => ({ model: "vertex/gemini-2.5-flash", baseURL: `${url}/v1/publishers/google` }),
  },
];

describe.each(wires)("over $name", ({ wire, path, key: [header, key], images, spec: specOf }) => {
  test("calls a real server's tools and carries the whole conversation into the next turn", async () => {
    await using provider = await startFakeProvider([
      {
        text: "I will add.",
        tool: "get-sum",
        args: { a: 2, b: 3 },
        usage: { input: 100, output: 7, cacheRead: 40 },
      },
      { text: "It is 5." },
      { tool: "echo", args: { message: "hello" } },
      { text: "It said hello." },
    ]);
    const model = spec(provider, specOf(provider.url));
    const context = await run(model, [everything], ["Add 2 and 3.", "Echo hello."]);

    expect(context.events.filter((event) => event.type !== "model.called")).toEqual([
      {
        type: "agent.started",
        agent: "fake",
        kind: "model",
        model: model.model,
        instructions: ["everything"],
      },
      { type: "turn.started", turn: 0, user: "Add 2 and 3." },
      { type: "agent.message", turn: 0, text: "I will add." },
      { type: "agent.message", turn: 0, text: "It is 5." },
      { type: "turn.finished", turn: 0, reason: "done" },
      { type: "turn.started", turn: 1, user: "Echo hello." },
      { type: "agent.message", turn: 1, text: "It said hello." },
      { type: "turn.finished", turn: 1, reason: "done" },
    ]);
    const calls = eventsOf(context.events, "model.called");
    const calledAs = { purpose: "agent", model: model.model };
    expect(calls).toMatchObject(
      ["tool-calls", "stop", "tool-calls", "stop"].map((finishReason) => ({ ...calledAs, finishReason })),
    );
    const usage = { inputTokens: 100, outputTokens: 7, cacheReadTokens: 40, requests: 1 };
    expect(calls[0]?.usage).toMatchObject(usage);
    expect(provider.requests.map((request) => request.wire)).toEqual([wire, wire, wire, wire]);
    for (const request of provider.requests)
      expect([request.path, request.headers[header]]).toEqual([path, key]);
    const last = provider.requests.at(-1);
    expect(last?.users).toEqual(["Add 2 and 3.", "Echo hello."]);
    expect(last?.assistants).toEqual(["I will add.", "It is 5."]);
    expect(last?.toolResults.map((result) => [result.tool, result.text])).toEqual([
      ["get-sum", "The sum of 2 and 3 is 5."],
      ["echo", "Echo: hello"],
    ]);
    expect(last?.tools).toContain("get-sum");
    expect(last?.tools).toHaveLength(everything.tools.length + ownTools.length);
    expect(last?.tools).toEqual(expect.arrayContaining(ownTools));
    expect(last?.system).toMatch(/^You are an assistant with tools\./);
    const [own, given] = last?.system.split("# Instructions of MCP servers") ?? [];
    expect(own).not.toMatch(/eval|test|judge|grade/i);
    expect(given).toContain("\n\n## everything\n\n");
    expect(given).toContain(everything.instructions?.trim());
  });

  test("makes several calls of one answer and tells failures and images", async () => {
    const tools = ["echo", "get-tiny-image"].map((tool) => ({ tool, args: {} }));
    await using provider = await startFakeProvider([{ tools }, { text: "done" }]);
    await run(spec(provider, specOf(provider.url)), [everything]);
    const [failed, image] = provider.requests[1]?.newResults ?? [];
    expect(failed?.text).toMatch(/Invalid arguments for tool echo/);
    expect(failed?.isError).toBe(wire === "anthropic");
    expect(image?.text).toMatch(/Here's the image you requested:/);
    expect(image?.images).toBe(images ? 1 : 0);
    expect(image?.text.includes("[image image/png")).toBe(!images);
    expect(JSON.stringify(provider.requests[1]?.body).includes("iVBORw0KGgo")).toBe(images);
  });
});

describe("instructions of servers", () => {
  const session = (name: string, instructions?: string): ServerSession =>
    stubSession({
      name,
      tools: [anyTool("echo")],
      call: () => ({ kind: "timeout", message: "late", latencyMs: 1 }),
      ...withoutUndefined({ instructions }),
    });
  const systemOf = async (system: string | undefined, sessions: readonly ServerSession[]) => {
    await using provider = await startFakeProvider([{ text: "done" }]);
    const { events } = await run(spec(provider, withoutUndefined({ system })), sessions);
    const [started] = eventsOf(events, "agent.started");
    return [provider.requests[0]?.system, started?.instructions];
  };

  test("end the system prompt, each with the name of its server", async () => {
    const sessions = [
      session("notes", " Look for a note first.\n"),
      session("mute", " "),
      session("disk", "Mind it."),
    ];
    const given =
      "# Instructions of MCP servers\n\nThe servers say this about the use of their tools and resources:\n\n" +
      "## notes\n\nLook for a note first.\n\n## disk\n\nMind it.";
    expect(await systemOf("Be brief.", sessions)).toEqual([`Be brief.\n\n${given}`, ["notes", "disk"]]);
    expect(await systemOf("", sessions)).toEqual([given, ["notes", "disk"]]);
  });

  test("leave the system prompt as it is where there are none", async () => {
    expect(await systemOf("Be brief.", [session("mute")])).toEqual(["Be brief.", undefined]);
  });
});

describe("tools", () => {
  const echo = (call: Parameters<typeof stubSession>[0]["call"]): ServerSession =>
    stubSession({ name: "s", tools: [anyTool("echo")], call });
  const unused = echo(() => {
    throw new Error("must not be called");
  });

  test("none at all: the model is just asked", async () => {
    await using provider = await startFakeProvider([{ text: "hello" }]);
    const { events } = await run(spec(provider));
    expect(provider.requests[0]?.body).not.toHaveProperty("tools");
    expect(eventsOf(events, "agent.message")).toEqual([{ type: "agent.message", turn: 0, text: "hello" }]);
  });

  test.each<[CallOutcome, string]>([
    [{ kind: "error", message: "no", code: -32602, latencyMs: 1 }, "MCP error -32602: no"],
    [{ kind: "timeout", message: "late", latencyMs: 5000 }, "late"],
  ])("that end with %j are reported to the model as errors", async (outcome, text) => {
    await using provider = await startFakeProvider([{ tool: "echo", args: {} }, { text: "done" }]);
    await run(spec(provider), [echo(() => outcome)]);
    expect(provider.requests[1]?.newResults).toEqual([{ tool: "echo", text, isError: true, images: 0 }]);
  });

  const chat = { model: "openai/gpt-4o", api: "chat" } as const;
  const notObject = "the arguments of this call are not a JSON object";
  const unusable = { known: true, server: "s" } as const;
  test.each<[string, FakeReply, Partial<ModelAgentSpec>, string, Partial<EventOf<"tool.rejected">>]>([
    ["that does not exist", { tool: "fly", args: {} }, {}, 'no tool called "fly"; the tools are: echo', {}],
    ["with half an object", { tool: "echo", rawArgs: '{"a":' }, chat, notObject, unusable],
    ["with a list", { tool: "echo", rawArgs: "[1]" }, chat, notObject, unusable],
    ["with a text", { tool: "echo", rawArgs: '"text"' }, chat, notObject, unusable],
    [
      "with a key twice",
      { tool: "echo", rawArgs: '{"a":{"b":1,"\\u0062":2}}' },
      chat,
      "the arguments of this call have the key",
      unusable,
    ],
    [
      "with a key twice, whole",
      { tool: "echo", rawArgs: '{"a":1,"a":2}' },
      { ...chat, stream: false },
      "the arguments of this call have the key",
      unusable,
    ],
    [
      "that was cut off",
      { tool: "echo", args: { m: 1 }, finish: "length" },
      {},
      "cut off (length)",
      { known: true },
    ],
  ])("are not called by a call %s, which the model is told", async (_, reply, changes, reason, known) => {
    await using provider = await startFakeProvider([reply, { text: "done" }]);
    const { events } = await run(spec(provider, changes), [unused]);
    const [rejected] = eventsOf(events, "tool.rejected");
    expect(rejected?.reason).toContain(reason);
    expect(withoutUndefined({ known: rejected?.known, server: rejected?.server })).toEqual(known);
    expect(provider.requests[1]?.newResults[0]?.text).toContain(reason);
  });
});

describe("limits and settings", () => {
  test("maxSteps ends a turn whose model still wants tools, and the next turn follows", async () => {
    await using provider = await startFakeProvider((request) =>
      request.users.length === 2 ? { text: "enough" } : { tool: "echo", args: { message: "again" } },
    );
    const { events } = await run(spec(provider, { maxSteps: 2 }), [everything], ["loop", "stop"]);
    const ends = eventsOf(events, "turn.finished").map(({ reason }) => reason);
    expect([ends, provider.requests.length]).toEqual([["max-steps", "done"], 3]);
    expect(provider.requests[2]?.toolResults).toHaveLength(2);
  });

  test("temperature and output limit are sent only when given, Anthropic's limit always", async () => {
    await using provider = await startFakeProvider(() => ({ text: "hi" }));
    await run(spec(provider));
    await run(spec(provider, { model: "openai/gpt-4o" }));
    await run(spec(provider, { temperature: 0.5, maxOutputTokens: 99, system: "Be brief." }));
    const [bare, openai, full] = provider.requests;
    expect(bare?.body).toMatchObject({ max_tokens: 8192 });
    expect(openai?.body).toMatchObject({ store: false });
    expect(full?.body).toMatchObject({ max_tokens: 99, temperature: 0.5 });
    expect(full?.system).toBe("Be brief.");
    for (const request of [bare, openai]) expect(request?.body).not.toHaveProperty("temperature");
    expect(openai?.body).not.toHaveProperty("max_output_tokens");
  });

  test.each(wires)(
    "effort is sent over $name, and Anthropic is asked to cache",
    async ({ wire, spec: specOf }) => {
      await using provider = await startFakeProvider(() => ({ text: "hi" }));
      await run(spec(provider, { ...specOf(provider.url), effort: "low" }));
      await run(spec(provider, specOf(provider.url)));
      const [asked, unasked] = provider.requests.map(({ body }) => JSON.stringify(body));
      expect(asked).toMatch(/"(?:effort|reasoning_effort|thinking\w*)":"?(?:low|\{|\d)/);
      expect(unasked).not.toMatch(/effort|thinking/);
      expect(unasked?.includes('"cache_control":{"type":"ephemeral"}')).toBe(wire === "anthropic");
    },
  );

  test("without a key, prepare says which variable is missing", async () => {
    const { apiKey: _, baseURL: __, ...keyless } = spec({ url: "" });
    const message = expect.stringContaining("ANTHROPIC_API_KEY") as string;
    const agent = createModelAgent(keyless, { env: {}, modelMs: 1000 });
    await expect(agent.prepare()).rejects.toMatchObject({ code: "model/no-key", message });
  });
});

describe("a conversation that is too long for the model", () => {
  test.each([
    ["OpenAI", 400, "Your input exceeds the context window of this model."],
    ["OpenAI Chat", 400, "This model's maximum context length is 8192 tokens, however you requested 9000"],
    ["Anthropic", 400, "prompt is too long: 203456 tokens > 200000 maximum"],
    [
      "Google",
      400,
      "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    ],
    ["llama.cpp", 400, "the request exceeds the available context size, try increasing it"],
  ])("in the words of %s ends the turn as the agent's failure", async (_who, status, message) => {
    await using provider = await startFakeProvider(() => ({ status, message }));
    const { events } = await run(spec(provider));
    expect(eventsOf(events, "turn.finished")).toMatchObject([{ reason: "context-overflow" }]);
    expect(provider.requests).toHaveLength(1);
  });
});

describe("endings", () => {
  test("a lost server ends the run with its own error, and the other calls", async () => {
    const lost = new McpvalsError("server/exited", "the server exited with code 1");
    let otherEnded = false;
    const session = stubSession({
      name: "s",
      tools: [anyTool("die"), anyTool("wait")],
      call(tool, _args, { signal }) {
        if (tool === "die") throw lost;
        return new Promise((_resolve, reject) => {
          signal.addEventListener("abort", () => {
            otherEnded = true;
            reject(signal.reason as Error);
          });
        });
      },
    });
    await using provider = await startFakeProvider([{ tools: [{ tool: "wait" }, { tool: "die" }] }]);
    await expect(run(spec(provider), [session])).rejects.toBe(lost);
    expect([otherEnded, provider.requests.length]).toEqual([true, 1]);
  });

  test("an event that cannot be recorded is not swallowed", async () => {
    await using provider = await startFakeProvider(() => ({ text: "hi" }));
    const full = new Error("disk full");
    const context = recordedContext({ users: ["go"] });
    const emit: typeof context.emit = (event) => {
      if (event.type === "model.called") throw full;
      return context.emit(event);
    };
    const agent = createModelAgent(spec(provider), { env: {}, modelMs: 1000 });
    await expect(agent.run({ ...context, emit })).rejects.toBe(full);
  });
});
