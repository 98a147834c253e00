import { describe, expect, onTestFinished, test } from "vitest";
import type { AgentDriver, ClientSideContext } from "../../src/agents/driver.ts";
import { createModelAgent } from "../../src/agents/model.ts";
import { createWrittenAgent } from "../../src/agents/scripted.ts";
import type { JsonObject } from "../../src/base/json.ts";
import type { ModelAgentSpec } from "../../src/model/agent.ts";
import type { EventBody } from "../../src/model/event.ts";
import type { ClientSide, ServerSession } from "../../src/servers/client/session.ts";
import { eventsOf, type RecordedContext, recordedContext } from "../support/agent-context.ts";
import { type FakeProvider, type FakeScript, startFakeProvider } from "../support/fake-provider.ts";
import { anyTool, startEverything, stubSession, textResult } from "../support/sessions.ts";

const noAnswers: ClientSideContext = { emit: () => 0, workspace: "", elicitation: [] };
const options = { env: {}, modelMs: 100_000, retry: { baseDelayMs: 0, maxRetries: 0 } };

function model(provider: FakeProvider, changes: Partial<ModelAgentSpec> = {}): AgentDriver {
  return createModelAgent(
    {
      type: "model",
      name: "fake",
      model: "anthropic/claude-sonnet-4-5",
      baseURL: provider.url,
      apiKey: "test-key",
      maxSteps: 5,
      ...changes,
    },
    options,
  );
}

async function provide(script: FakeScript): Promise<FakeProvider> {
  const provider = await startFakeProvider(script);
  onTestFinished(() => provider.close());
  return provider;
}

interface Played {
  readonly context: RecordedContext;
  readonly messages: readonly EventBody[];
  readonly session: ServerSession;
  readonly run: () => Promise<void>;
}

/** Starts the reference server with what the agent answers, and has the agent act on it. */
async function everythingFor(
  agent: AgentDriver,
  answers: Partial<ClientSideContext> = {},
  signal?: AbortSignal,
): Promise<Played> {
  const messages: EventBody[] = [];
  const side = agent.clientSide?.({ ...noAnswers, ...answers }) ?? {};
  const session = await startEverything((event) => messages.push(event), side);
  onTestFinished(() => session.stop());
  const context = recordedContext({
    users: ["go"],
    sessions: [session],
    ...(signal === undefined ? {} : { signal }),
  });
  return { context, messages, session, run: () => agent.run(context) };
}

function methodsOf(messages: readonly EventBody[]): string[] {
  return eventsOf(messages, "mcp.message").flatMap(({ message }) => {
    const { method } = message as { method?: string };
    return method === undefined ? [] : [method];
  });
}

async function askUser(side: ClientSide | undefined, message: string, server = "s"): Promise<unknown> {
  return side?.elicitation?.({ message, requestedSchema: { type: "object" } }, { server });
}

describe("the user's answers", () => {
  const elicitation = [
    { message: "your NAME", action: "accept" as const, content: { name: "Ada" } },
    { server: "bank", action: "cancel" as const },
    { message: "sure", action: "accept" as const },
  ];

  test("are the first that fit, and no without one", async () => {
    const agent = createWrittenAgent({ type: "scripted", name: "s", plan: {} });
    const side = agent.clientSide?.({ ...noAnswers, elicitation });
    expect(await askUser(side, "What is your name?")).toEqual({ action: "accept", content: { name: "Ada" } });
    expect(await askUser(side, "Pay?", "bank")).toEqual({ action: "cancel" });
    expect(await askUser(side, "Are you SURE?")).toEqual({ action: "accept", content: {} });
    expect(await askUser(side, "Pay?")).toEqual({ action: "decline" });
  });

  test("and what is not there is not declared, but the user of a model", async () => {
    const provider = await provide([]);
    const [scripted, oracle] = [
      createWrittenAgent({ type: "scripted", name: "s", plan: {} }),
      createWrittenAgent({ type: "oracle", name: "o" }),
    ];
    expect([scripted, oracle].map((agent) => agent.clientSide?.(noAnswers))).toEqual([{}, {}]);
    const side = model(provider).clientSide?.(noAnswers);
    expect(Object.keys(side ?? {}).toSorted()).toEqual(["elicitation", "sampling"]);
    expect(await askUser(side, "Sure?")).toEqual({ action: "decline" });
    const at = { ...noAnswers, workspace: "/tmp/with space" };
    expect(scripted.clientSide?.(at)).toEqual({
      roots: [{ uri: "file:///tmp/with%20space", name: "workspace" }],
    });
  });
});

describe("a model's sampling", () => {
  const ask = { tool: "trigger-sampling-request", args: { prompt: "Say hi.", maxTokens: 77 } };

  test("is answered by the agent's model, in a conversation of its own", async () => {
    const provider = await provide([ask, { text: "hi from the model" }, { text: "done" }]);
    const { context, messages, run } = await everythingFor(model(provider));
    await run();
    const [, sampled, last] = provider.requests;
    expect(sampled).toMatchObject({
      users: ["Resource trigger-sampling-request context: Say hi."],
      system: "You are a helpful test server.",
      tools: [],
      body: { max_tokens: 77, temperature: 0.7 },
    });
    expect(last?.newResults[0]?.text).toContain("hi from the model");
    expect(eventsOf(context.events, "model.called").map(({ purpose }) => purpose)).toEqual([
      "agent",
      "agent",
      "agent",
    ]);
    const answers = eventsOf(messages, "mcp.message").map(({ message }) => message);
    expect(answers).toContainEqual(
      expect.objectContaining({
        result: {
          role: "assistant",
          content: { type: "text", text: "hi from the model" },
          model: "claude-sonnet-4-5",
          stopReason: "endTurn",
        },
      }),
    );
  });

  test("is refused while the agent does not act", async () => {
    const provider = await provide([]);
    const { session, messages } = await everythingFor(model(provider));
    const { signal } = new AbortController();
    const outcome = await session.callTool("trigger-sampling-request", ask.args, { timeoutMs: 5000, signal });
    expect(JSON.stringify(outcome)).toContain("the agent does not act now");
    const errors = eventsOf(messages, "mcp.message").flatMap(({ message }) => {
      const { error } = message as { error?: { code: number } };
      return error === undefined ? [] : [error.code];
    });
    expect(errors).toContain(-1);
  });

  test("ends the trial when the model cannot be asked, whatever the server makes of it", async () => {
    const provider = await provide([ask, { status: 401, message: "bad key" }, { text: "it failed" }]);
    const { run } = await everythingFor(model(provider));
    await expect(run()).rejects.toMatchObject({ code: "model/rejected" });
  });

  test("is refused when servers have asked a thousand times in one trial", async () => {
    const provider = await provide(async ({ users }) => {
      if (!users.includes("go")) return { text: "yes" };
      const messages = [{ role: "user", content: { type: "text", text: "Well?" } }];
      const ask = async (signal: AbortSignal): Promise<unknown> =>
        side?.sampling?.({ messages }, signal).catch((error: unknown) => error);
      for (let asked = 1; asked < 1000; asked += 1) await ask(AbortSignal.abort());
      answers.push(await ask(new AbortController().signal), await ask(new AbortController().signal));
      return { text: "done" };
    });
    const answers: unknown[] = [];
    const agent = model(provider);
    const side = agent.clientSide?.(noAnswers);
    await agent.run(recordedContext({ users: ["go"] }));
    expect(answers).toMatchObject([
      { content: { text: "yes" } },
      { code: -1, message: "the model may be asked 1000 times in one trial" },
    ]);
  });

  test("sends images and limits on, and refuses tools", async () => {
    const { signal } = new AbortController();
    const user = (...content: object[]): object => ({ role: "user", content });
    const request = {
      messages: [
        user(
          { type: "text", text: "What is this?" },
          { type: "image", data: "iVBORw0KGgo=", mimeType: "image/png" },
          { type: "audio", data: "AAAA", mimeType: "audio/wav" },
        ),
        { role: "assistant", content: { type: "text", text: "Hm." } },
        user({ type: "text", text: "Well?" }),
      ],
      maxTokens: 500,
      stopSequences: ["END"],
    } as unknown as JsonObject;
    const answers: unknown[] = [];
    const provider = await provide(async ({ users }) => {
      if (!users.includes("go")) return { text: "cut", finish: "length" };
      answers.push(await side?.sampling?.(request, signal));
      const withTools = side?.sampling?.({ ...request, tools: [{}] }, signal);
      answers.push(await withTools?.catch((error: unknown) => error));
      return { text: "done" };
    });
    const agent = model(provider, { maxOutputTokens: 100 });
    const side = agent.clientSide?.(noAnswers);
    await agent.run(recordedContext({ users: ["go"] }));
    expect(answers[0]).toEqual({
      role: "assistant",
      content: { type: "text", text: "cut" },
      model: "claude-sonnet-4-5",
      stopReason: "maxTokens",
    });
    expect(answers[1]).toMatchObject({
      code: -32_602,
      message: expect.stringContaining("sampling.tools") as string,
    });
    const sampled = provider.requests.find(({ users }) => !users.includes("go"));
    expect(sampled?.body).toMatchObject({ max_tokens: 100, stop_sequences: ["END"] });
    expect(JSON.stringify(sampled?.body)).toContain('"data":"iVBORw0KGgo="');
    expect(JSON.stringify(sampled?.body)).toContain("[audio audio/wav 3 bytes]");
    expect(sampled?.assistants).toEqual(["Hm."]);
  });
});

describe("resources and prompts", () => {
  test("of a real server can be listed and read", async () => {
    const uri = "demo://resource/static/document/features.md";
    const provider = await provide([
      {
        tools: [
          { tool: "list_mcp_resources", args: {} },
          { tool: "read_mcp_resource", args: { server: "everything", uri } },
          { tool: "list_mcp_prompts", args: { server: "everything" } },
          {
            tool: "get_mcp_prompt",
            args: { server: "everything", name: "args-prompt", arguments: { city: "Rome", state: "Lazio" } },
          },
        ],
      },
      { text: "done" },
    ]);
    const { messages, run } = await everythingFor(model(provider));
    await run();
    const [listed, read, prompts, prompt] = provider.requests[1]?.newResults ?? [];
    expect(JSON.parse(listed?.text ?? "")).toMatchObject({
      resources: expect.arrayContaining([expect.objectContaining({ server: "everything", uri })]) as unknown,
      resourceTemplates: expect.arrayContaining([]) as unknown,
    });
    expect(read?.text).toContain("Tools");
    expect(JSON.parse(prompts?.text ?? "")).toMatchObject({
      prompts: expect.arrayContaining([expect.objectContaining({ name: "args-prompt" })]) as unknown,
    });
    expect(prompt?.text).toBe("user: What's weather in Rome, Lazio?");
    expect(methodsOf(messages)).toEqual(expect.arrayContaining(["resources/read", "prompts/get"]));
  });

  test("are not offered where there are none, or when they are not wanted", async () => {
    const provider = await provide([{ text: "one" }, { text: "two" }, { text: "three" }]);
    const plain = stubSession({ name: "p", tools: [anyTool("echo")], call: () => textResult("") });
    const readable = stubSession({
      name: "r",
      tools: [],
      call: () => textResult(""),
      read: () => textResult(""),
    });
    await model(provider).run(recordedContext({ users: ["go"], sessions: [plain] }));
    await model(provider).run(recordedContext({ users: ["go"], sessions: [plain, readable] }));
    await model(provider, { resources: false }).run(recordedContext({ users: ["go"], sessions: [readable] }));
    expect(provider.requests.map(({ tools }) => tools)).toEqual([
      ["echo"],
      ["echo", "list_mcp_resources", "read_mcp_resource"],
      [],
    ]);
  });

  test("a server's tool keeps its name; what is wrong is told and on record; images are passed", async () => {
    const provider = await provide([
      {
        tools: [
          { tool: "read_mcp_resource", args: {} },
          { tool: "read_mcp_resource_2", args: { server: "r", uri: "a://image" } },
          { tool: "read_mcp_resource_2", args: { server: "q", uri: "a://image" } },
          { tool: "read_mcp_resource_2", args: { server: "r", uri: "a://none" } },
          { tool: "list_mcp_resources", args: {} },
        ],
      },
      { text: "done" },
    ]);
    const session = stubSession({
      name: "r",
      tools: [anyTool("read_mcp_resource")],
      call: () => textResult("the server's own"),
      read: (uri) =>
        uri === "a://none"
          ? { kind: "error", code: -32_002, message: "no such resource", latencyMs: 1 }
          : {
              kind: "result",
              result: { contents: [{ uri, blob: "iVBORw0KGgo=", mimeType: "image/png" }] },
              latencyMs: 1,
            },
    });
    const context = recordedContext({ users: ["go"], sessions: [session] });
    await model(provider).run(context);
    const results = provider.requests[1]?.newResults ?? [];
    expect(results.map(({ text, isError, images }) => [text, isError, images])).toEqual([
      ["the server's own", false, 0],
      [expect.any(String), false, 1],
      ['Error: no such server: "q"; there are: r', true, 0],
      ["MCP error -32002: no such resource", true, 0],
      [expect.stringContaining("r: no method resources"), true, 0],
    ]);
    expect(eventsOf(context.events, "tool.rejected")).toEqual([
      {
        type: "tool.rejected",
        tool: "read_mcp_resource",
        args: { server: "q", uri: "a://image" },
        reason: 'no such server: "q"; there are: r',
        known: true,
      },
    ]);
  });
});

test("a model's calls ask for progress, which is on record", async () => {
  const provider = await provide([
    { tool: "trigger-long-running-operation", args: { duration: 0.2, steps: 2 } },
    { text: "done" },
  ]);
  const { messages, run } = await everythingFor(model(provider));
  await run();
  expect(methodsOf(messages).filter((method) => method === "notifications/progress")).toHaveLength(2);
  expect(provider.requests[1]?.newResults[0]?.text).toContain("completed");
});
