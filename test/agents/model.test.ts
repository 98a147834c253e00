import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createModelAgent } from "../../src/agents/model.ts";
import { McpvalsError } from "../../src/core/errors/error.ts";
import type { ModelAgentSpec, Task } from "../../src/core/formats/model.ts";
import { buildTrajectory } from "../../src/core/trace/trajectory.ts";
import type { Emit, TraceEvent } from "../../src/core/trace/events.ts";
import type { CallOutcome, ServerSession } from "../../src/servers/client/session.ts";
import { eventsOf, recordedContext } from "../support/agent-context.ts";
import { type FakeProvider, startFakeProvider } from "../support/fake-provider.ts";
import { anyTool, startEverything, stubSession, textResult } from "../support/sessions.ts";

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

interface WireCase {
  readonly wire: string;
  readonly passesImages: boolean;
  readonly marksErrors: boolean;
  readonly spec: (url: string) => Partial<ModelAgentSpec>;
}

const wires: readonly WireCase[] = [
  { wire: "anthropic", passesImages: true, marksErrors: true, spec: () => ({}) },
  {
    wire: "openai-responses",
    passesImages: true,
    marksErrors: false,
    spec: (baseURL) => ({ model: "openai/gpt-5", baseURL }),
  },
  {
    wire: "openai-chat",
    passesImages: false,
    marksErrors: false,
    spec: (baseURL) => ({ model: "openai/gpt-4o", baseURL, api: "chat" }),
  },
  {
    wire: "openai-chat",
    passesImages: false,
    marksErrors: false,
    spec: (url) => ({ model: "qwen3:8b", baseURL: `${url}/v1`, apiKey: "" }),
  },
  {
    wire: "google",
    passesImages: true,
    marksErrors: false,
    spec: (baseURL) => ({ model: "google/gemini-2.5-flash", baseURL }),
  },
  {
    wire: "google",
    passesImages: true,
    marksErrors: false,
    spec: (baseURL) => ({ model: "google/gemini-3-pro-preview", baseURL }),
  },
];

describe.each(wires)("over $wire", ({ wire, passesImages, marksErrors, spec: specOf }) => {
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
    const agent = createModelAgent(model, { env: {}, modelMs: 10_000, retry: noWait });
    const context = recordedContext({ users: ["Add 2 and 3.", "Echo hello."], sessions: [everything] });

    await agent.prepare();
    await agent.run(context);

    expect(context.events.filter((event) => event.type !== "model.called")).toEqual([
      { type: "agent.started", agent: "fake", kind: "model", model: model.model },
      { type: "turn.started", turn: 0, user: "Add 2 and 3." },
      { type: "agent.message", turn: 0, text: "I will add." },
      { type: "agent.message", turn: 0, text: "It is 5." },
      { type: "turn.finished", turn: 0, reason: "done" },
      { type: "turn.started", turn: 1, user: "Echo hello." },
      { type: "agent.message", turn: 1, text: "It said hello." },
      { type: "turn.finished", turn: 1, reason: "done" },
    ]);
    const calls = eventsOf(context.events, "model.called");
    expect(calls.map((call) => [call.purpose, call.model, call.finishReason])).toEqual([
      ["agent", model.model, "tool-calls"],
      ["agent", model.model, "stop"],
      ["agent", model.model, "tool-calls"],
      ["agent", model.model, "stop"],
    ]);
    expect(calls[0]?.usage).toMatchObject({
      inputTokens: 100,
      outputTokens: 7,
      cacheReadTokens: 40,
      requests: 1,
    });
    expect(provider.requests.map((request) => request.wire)).toEqual([wire, wire, wire, wire]);
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
    expect(last?.system).not.toMatch(/eval|test|judge|grade/i);
  });

  test("makes several calls of one answer and tells failures and images", async () => {
    await using provider = await startFakeProvider([
      {
        tools: [
          { tool: "echo", args: {} },
          { tool: "get-tiny-image", args: {} },
        ],
      },
      { text: "done" },
    ]);
    const agent = createModelAgent(spec(provider, specOf(provider.url)), { env: {}, modelMs: 10_000 });

    await agent.run(recordedContext({ users: ["go"], sessions: [everything] }));

    const [failed, image] = provider.requests[1]?.newResults ?? [];
    expect(failed?.text).toMatch(/Invalid arguments for tool echo/);
    expect(failed?.isError).toBe(marksErrors);
    expect(image?.text).toMatch(/Here's the image you requested:/);
    expect(image?.images).toBe(passesImages ? 1 : 0);
    expect(image?.text.includes("[image image/png")).toBe(!passesImages);
    expect(JSON.stringify(provider.requests[1]?.body).includes("iVBORw0KGgo")).toBe(passesImages);
  });

  test("tells a call of a tool that does not exist as an error and goes on", async () => {
    await using provider = await startFakeProvider([
      { tool: "launch_rockets", args: { count: 3 } },
      { text: "Sorry, I cannot." },
    ]);
    const agent = createModelAgent(spec(provider, specOf(provider.url)), { env: {}, modelMs: 10_000 });
    const context = recordedContext({
      users: ["go"],
      sessions: [stubSession({ name: "s", tools: [anyTool("echo")], call: () => textResult("unused") })],
    });

    await agent.run(context);

    const reason = 'there is no tool called "launch_rockets"; the tools are: echo';
    expect(eventsOf(context.events, "tool.rejected")).toEqual([
      { type: "tool.rejected", tool: "launch_rockets", args: { count: 3 }, reason },
    ]);
    expect(provider.requests[1]?.newResults[0]?.text).toContain(reason.split('"')[0]);
    expect(eventsOf(context.events, "agent.message").at(-1)?.text).toBe("Sorry, I cannot.");
  });
});

test("everything that happened can be read back from the events", async () => {
  await using provider = await startFakeProvider([
    {
      tools: [
        { tool: "get-sum", args: { a: 2, b: 3 } },
        { tool: "launch_rockets", args: {} },
        { tool: "echo", args: {} },
      ],
    },
    { text: "It is 5." },
  ]);
  const events: TraceEvent[] = [];
  const emit: Emit = (event) =>
    events.push({ ...event, seq: events.length + 1, at: events.length, trial: "t1" });
  await using session = await startEverything(emit);
  const context = { ...recordedContext({ users: ["Add 2 and 3."], sessions: [session] }), emit };

  await createModelAgent(spec(provider), { env: {}, modelMs: 10_000 }).run(context);

  const trial = { id: "t1", task: "task", agent: "fake", attempt: 1 };
  const task: Task = {
    name: "task",
    form: "workflow",
    servers: ["everything"],
    turns: context.turns,
    expectTools: [],
    verify: [],
    parallel: false,
  };
  const { turns, usage } = buildTrajectory(trial, task, events);
  const [turn] = turns;
  expect(turn?.messages.map((message) => message.text)).toEqual(["It is 5."]);
  expect(turn?.reason).toBe("done");
  expect(usage).toMatchObject({ requests: 2, inputTokens: 20, outputTokens: 10 });
  // In the order in which the model asked for them, although they are made at the same time.
  expect(turn?.calls).toMatchObject([
    {
      server: "everything",
      tool: "get-sum",
      args: { a: 2, b: 3 },
      result: { content: [{ type: "text", text: "The sum of 2 and 3 is 5." }] },
    },
    { server: null, tool: "launch_rockets", error: { kind: "rejected" } },
    { server: "everything", tool: "echo", args: {}, result: { isError: true } },
  ]);
});

describe("tools", () => {
  test("of one name on two servers go to the server that was meant", async () => {
    const received: string[] = [];
    const session = (name: string): ServerSession =>
      stubSession({
        name,
        tools: [anyTool("search"), anyTool(`only_${name}`)],
        call(tool, args) {
          received.push(`${name}.${tool} ${JSON.stringify(args)}`);
          return textResult(`${name} says hi`);
        },
      });
    await using provider = await startFakeProvider([
      {
        tools: [
          { tool: "web__search", args: { q: "a" } },
          { tool: "files__search", args: { q: "b" } },
          { tool: "only_web", args: {} },
        ],
      },
      { text: "done" },
    ]);

    await createModelAgent(spec(provider), { env: {}, modelMs: 10_000 }).run(
      recordedContext({ users: ["go"], sessions: [session("web"), session("files")] }),
    );

    expect(provider.requests[0]?.tools.toSorted()).toEqual([
      "files__search",
      "only_files",
      "only_web",
      "web__search",
    ]);
    expect(received.toSorted()).toEqual([
      'files.search {"q":"b"}',
      "web.only_web {}",
      'web.search {"q":"a"}',
    ]);
    expect(provider.requests[1]?.newResults.map((result) => result.text)).toEqual([
      "web says hi",
      "files says hi",
      "web says hi",
    ]);
  });

  test("none at all: the model is just asked", async () => {
    await using provider = await startFakeProvider([{ text: "hello" }]);
    const context = recordedContext({ users: ["hi"] });
    await createModelAgent(spec(provider), { env: {}, modelMs: 10_000 }).run(context);
    expect(provider.requests[0]?.body).not.toHaveProperty("tools");
    expect(eventsOf(context.events, "agent.message")).toEqual([
      { type: "agent.message", turn: 0, text: "hello" },
    ]);
  });

  test.each<[string, CallOutcome, string]>([
    [
      "a protocol error",
      { kind: "error", message: "no such thing", code: -32602, latencyMs: 1 },
      "MCP error -32602: no such thing",
    ],
    [
      "a timeout",
      { kind: "timeout", message: "not answered within 5 s", latencyMs: 5000 },
      "not answered within 5 s",
    ],
  ])("that end with %s are told to the model as errors", async (_what, outcome, told) => {
    await using provider = await startFakeProvider([{ tool: "echo", args: {} }, { text: "done" }]);
    const session = stubSession({ name: "s", tools: [anyTool("echo")], call: () => outcome });
    await createModelAgent(spec(provider), { env: {}, modelMs: 10_000 }).run(
      recordedContext({ users: ["go"], sessions: [session] }),
    );
    expect(provider.requests[1]?.newResults).toEqual([
      { tool: "echo", text: told, isError: true, images: 0 },
    ]);
  });

  test.each(['{"a":', "[1]", '"text"'])("called with the arguments %s are rejected", async (rawArgs) => {
    await using provider = await startFakeProvider([{ tool: "echo", rawArgs }, { text: "done" }]);
    const calls: string[] = [];
    const session = stubSession({
      name: "s",
      tools: [anyTool("echo")],
      call(tool) {
        calls.push(tool);
        return textResult("unused");
      },
    });
    const context = recordedContext({ users: ["go"], sessions: [session] });
    await createModelAgent(spec(provider, { model: "openai/gpt-4o", api: "chat" }), {
      env: {},
      modelMs: 10_000,
    }).run(context);
    expect(calls).toEqual([]);
    expect(eventsOf(context.events, "tool.rejected")).toMatchObject([
      { tool: "echo", reason: "the arguments of this call are not a JSON object" },
    ]);
    expect(provider.requests[1]?.newResults[0]?.text).toMatch(/not a JSON object/);
  });

  test("called in an answer that was cut off are not called", async () => {
    await using provider = await startFakeProvider([
      { tool: "echo", args: { message: "half" }, finish: "length" },
      { text: "done" },
    ]);
    const session = stubSession({
      name: "s",
      tools: [anyTool("echo")],
      call: () => {
        throw new Error("must not be called");
      },
    });
    const context = recordedContext({ users: ["go"], sessions: [session] });
    await createModelAgent(spec(provider), { env: {}, modelMs: 10_000 }).run(context);
    expect(eventsOf(context.events, "tool.rejected")).toMatchObject([
      {
        tool: "echo",
        args: { message: "half" },
        reason: expect.stringContaining("cut off (length)") as string,
      },
    ]);
  });
});

describe("limits and settings", () => {
  test("maxSteps ends a turn whose model still wants tools, and the next turn goes on", async () => {
    await using provider = await startFakeProvider((request) =>
      request.users.length === 2 ? { text: "enough" } : { tool: "echo", args: { message: "again" } },
    );
    const context = recordedContext({ users: ["loop", "stop"], sessions: [everything] });
    await createModelAgent(spec(provider, { maxSteps: 2 }), { env: {}, modelMs: 10_000 }).run(context);
    expect(eventsOf(context.events, "turn.finished")).toEqual([
      { type: "turn.finished", turn: 0, reason: "max-steps" },
      { type: "turn.finished", turn: 1, reason: "done" },
    ]);
    expect(provider.requests).toHaveLength(3);
    expect(provider.requests[2]?.toolResults).toHaveLength(2);
  });

  test("temperature and output limit are sent only when given, Anthropic's limit always", async () => {
    await using provider = await startFakeProvider(() => ({ text: "hi" }));
    const ask = (changes: Partial<ModelAgentSpec>): Promise<void> =>
      createModelAgent(spec(provider, changes), { env: {}, modelMs: 10_000 }).run(
        recordedContext({ users: ["hi"] }),
      );

    await ask({});
    await ask({ model: "openai/gpt-4o" });
    await ask({ temperature: 0.5, maxOutputTokens: 99, system: "Be brief." });

    const [bare, openai, full] = provider.requests;
    expect(bare?.body).toMatchObject({ max_tokens: 8192 });
    expect(bare?.body).not.toHaveProperty("temperature");
    expect(openai?.body).not.toHaveProperty("temperature");
    expect(openai?.body).not.toHaveProperty("max_output_tokens");
    expect(openai?.body).toMatchObject({ store: false });
    expect(full?.body).toMatchObject({ max_tokens: 99, temperature: 0.5 });
    expect(full?.system).toBe("Be brief.");
  });

  test("without a key, prepare says which variable is missing", async () => {
    const agent = createModelAgent(
      { type: "model", name: "m", model: "anthropic/claude-sonnet-4-5", maxSteps: 5 },
      { env: {}, modelMs: 1000 },
    );
    await expect(agent.prepare()).rejects.toMatchObject({
      code: "model/no-key",
      message: expect.stringContaining("ANTHROPIC_API_KEY") as string,
    });
  });
});

describe("endings", () => {
  test("a lost server ends the run with its own error", async () => {
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
    const context = recordedContext({ users: ["go"], sessions: [session] });

    await expect(createModelAgent(spec(provider), { env: {}, modelMs: 10_000 }).run(context)).rejects.toBe(
      lost,
    );

    expect(otherEnded).toBe(true);
    expect(provider.requests).toHaveLength(1);
    expect(eventsOf(context.events, "turn.finished")).toEqual([]);
  });

  test("aborting during a request to the model ends at once with the reason", async () => {
    const controller = new AbortController();
    // A reason that looks like a broken connection must not be mistaken for one.
    const reason = new McpvalsError("server/exited", "gone", {
      cause: Object.assign(new Error("reset"), { code: "ECONNRESET" }),
    });
    await using provider = await startFakeProvider([{ hang: true }]);
    const context = recordedContext({ users: ["go"], signal: controller.signal });
    const running = createModelAgent(spec(provider), { env: {}, modelMs: 60_000 }).run(context);
    await provider.received(1);
    controller.abort(reason);
    await expect(running).rejects.toBe(reason);
    expect(provider.requests).toHaveLength(1);
    expect(eventsOf(context.events, "model.retried")).toEqual([]);
  });

  test("aborting during a tool call ends with the reason", async () => {
    const controller = new AbortController();
    const session = stubSession({
      name: "s",
      tools: [anyTool("wait")],
      call: (_tool, _args, { signal }) => {
        controller.abort(new McpvalsError("trial/timeout", "too long"));
        return Promise.reject(signal.reason as Error);
      },
    });
    await using provider = await startFakeProvider([{ tool: "wait" }]);
    const context = recordedContext({ users: ["go"], sessions: [session], signal: controller.signal });
    await expect(
      createModelAgent(spec(provider), { env: {}, modelMs: 60_000 }).run(context),
    ).rejects.toMatchObject({ code: "trial/timeout" });
    expect(provider.requests).toHaveLength(1);
  });

  test("an event that cannot be recorded is not swallowed", async () => {
    await using provider = await startFakeProvider(() => ({ text: "hi" }));
    const full = new Error("disk full");
    const context = recordedContext({ users: ["go"] });
    const emit: typeof context.emit = (event) => {
      if (event.type === "model.called") throw full;
      return context.emit(event);
    };
    await expect(
      createModelAgent(spec(provider), { env: {}, modelMs: 1000 }).run({ ...context, emit }),
    ).rejects.toBe(full);
  });
});
