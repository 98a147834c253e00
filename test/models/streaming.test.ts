import { describe, expect, test } from "vitest";
import type { ModelSpec } from "../../src/model/agent.ts";
import type { EventBody } from "../../src/model/event.ts";
import { locateModel, type ModelAnswer, resolveModel } from "../../src/agents/models/resolve-model.ts";
import { createRetryingModel } from "../../src/agents/models/retrying-model.ts";
import { eventsOf } from "../support/agent-context.ts";
import { eventText, type FakeReply, type FakeScript, startFakeProvider } from "../support/fake-provider.ts";
import { keepIn } from "../support/records.ts";

const tool = {
  type: "function" as const,
  name: "add",
  inputSchema: { type: "object" as const, properties: {} },
};
const prompt = [{ role: "user" as const, content: [{ type: "text" as const, text: "hi" }] }];

interface Asked {
  readonly events: readonly EventBody[];
  readonly answer: ModelAnswer;
}

async function ask(url: string, { stream, spec }: { stream: boolean; spec: ModelSpec }): Promise<Asked> {
  const events: EventBody[] = [];
  const access = locateModel({ baseURL: url, apiKey: "key", ...spec }, {});
  const model = await createRetryingModel(await resolveModel(access), {
    access,
    purpose: "agent",
    emit: keepIn(events),
    stream,
    requestTimeoutMs: 60_000,
    retry: { sleep: async () => undefined, maxRetries: 2 },
  });
  return { events, answer: await model.doGenerate({ prompt, tools: [tool] }) };
}

const models: readonly ModelSpec[] = [
  { model: "anthropic/claude-sonnet-4-5" },
  { model: "openai/gpt-5" },
  { model: "openai/gpt-5", api: "chat" },
  { model: "openai-compatible/local" },
  { model: "google/gemini-2.5-flash" },
  { model: "azure/deployment" },
  { model: "azure/deployment", api: "chat" },
  { model: "vertex/gemini-2.5-flash" },
];

const urlOf = (url: string, { model }: ModelSpec): string =>
  model.startsWith("openai-compatible")
    ? `${url}/v1`
    : model.startsWith("vertex")
      ? `${url}/v1/publishers/google`
      : url;

describe.each(models)("a stream of $model $api", (spec) => {
  const replies: readonly FakeReply[] = [
    { text: "The sum is 5.", usage: { input: 20, output: 7, cacheRead: 4 } },
    { text: "I add them.", tool: "add", args: { a: 2, b: [3, { c: "x" }] } },
    {
      tools: [
        { tool: "add", args: {} },
        { tool: "add", args: { a: 1 } },
      ],
    },
    { text: "cut", finish: "length" },
    // The version of the package that Azure's depends on does not read a refusal without a stream.
    ...(spec.model.startsWith("azure") ? [] : [{ text: "no", finish: "refusal" } as const]),
  ];

  test("is the answer that comes without one, and says when it began", async () => {
    const script: FakeScript = (_, index) => replies[index % replies.length] ?? { text: "" };
    await using whole = await startFakeProvider(script);
    await using streamed = await startFakeProvider(script);
    for (const reply of replies) {
      const expected = await ask(urlOf(whole.url, spec), { stream: false, spec });
      const { answer, events } = await ask(urlOf(streamed.url, spec), { stream: true, spec });
      const place = JSON.stringify(reply);
      expect(comparable(answer), place).toEqual(comparable(expected.answer));
      const [called] = eventsOf(events, "model.called");
      const [other] = eventsOf(expected.events, "model.called");
      expect(called, place).toMatchObject({ usage: other?.usage, finishReason: other?.finishReason });
      expect(other).not.toHaveProperty("firstTokenMs");
      expect(called?.firstTokenMs, place).toBeGreaterThan(0);
      expect(called?.firstTokenMs, place).toBeLessThanOrEqual(called?.durationMs ?? 0);
    }
  });

  test.each<[string, FakeReply]>([
    ["ends without its end", { raw: "", headers: { "content-type": "text/event-stream" } }],
    ["is cut off", { drop: "body" }],
  ])("that %s is asked for again", async (_what, broken) => {
    await using fake = await startFakeProvider([broken, { text: "done" }]);
    const { answer, events } = await ask(urlOf(fake.url, spec), { stream: true, spec });
    expect(answer.content).toMatchObject([{ type: "text", text: "done" }]);
    expect(events.map(({ type }) => type)).toEqual(["model.retried", "model.called"]);
  });

  test("that is none is refused with the way out", async () => {
    await using fake = await startFakeProvider(() => ({ raw: '{"ok":true}' }));
    await expect(ask(urlOf(fake.url, spec), { stream: true, spec })).rejects.toMatchObject({
      code: "model/invalid-response",
      message: expect.stringContaining("stream: false") as string,
    });
  });
});

/** What is the same in both forms; ids of calls are made up by some packages. */
function comparable({ content, finishReason, usage }: ModelAnswer): unknown {
  const parts = content.map((part) =>
    part.type === "text"
      ? { text: part.text }
      : part.type === "tool-call"
        ? { tool: part.toolName, input: JSON.parse(part.input) as unknown }
        : part,
  );
  return { parts, finishReason, tokens: [usage.inputTokens.total, usage.outputTokens.total] };
}

describe("an event of a stream", () => {
  const chunk = { id: "1", object: "chat.completion.chunk", created: 1, model: "m" };
  const said = { ...chunk, choices: [{ index: 0, delta: { content: "5" }, finish_reason: "stop" }] };
  const chat: ModelSpec = { model: "openai-compatible/m" };
  const claude: ModelSpec = { model: "anthropic/claude-sonnet-4-5" };
  const message = { id: "msg_1", type: "message", role: "assistant", model: "m", content: [] };
  const begun = {
    type: "message_start",
    message: {
      ...message,
      stop_reason: null,
      stop_sequence: null,
      usage: { input_tokens: 1, output_tokens: 1 },
    },
  };
  const words = [
    { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
    { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "It is" } },
  ];
  const failed = (type: string) => ({ type: "error", error: { type, message: "it failed" } });

  test.each<[string, ModelSpec, string, object]>([
    [
      "with an error beside its choice is no answer",
      chat,
      eventText({ ...said, error: { message: "broken" } }),
      { code: "model/invalid-response", message: expect.stringContaining("it has an error") as string },
    ],
    [
      "with two choices is no answer",
      chat,
      eventText({ ...said, choices: [...said.choices, ...said.choices] }),
      { code: "model/invalid-response", message: expect.stringContaining("more than one answer") as string },
    ],
    [
      "with a key twice is no answer",
      chat,
      eventText(said).replace('"id":"1"', '"id":"1","choices":[]'),
      { code: "model/invalid-response", message: expect.stringContaining('"choices" twice') as string },
    ],
    ["that is not JSON is no answer", chat, "data: {oops\n\n", { code: "model/invalid-response" }],
    [
      "that says that the server is overloaded is tried again",
      claude,
      [begun, ...words, failed("overloaded_error")].map(eventText).join(""),
      {
        code: "model/unreachable",
        message: expect.stringContaining("after 3 attempts: it failed") as string,
      },
    ],
    [
      "that says that the request is wrong is not tried again",
      claude,
      [begun, ...words, failed("invalid_request_error")].map(eventText).join(""),
      { code: "model/rejected", message: expect.stringContaining("it failed") as string },
    ],
    [
      "that says that the conversation is too long is the agent's failure",
      chat,
      eventText({ error: { message: "too long", code: "context_length_exceeded" } }),
      { code: "model/context-overflow" },
    ],
  ])("%s", async (_what, spec, raw, error) => {
    const headers = { "content-type": "text/event-stream" };
    await using fake = await startFakeProvider(() => ({ raw, headers }));
    await expect(ask(urlOf(fake.url, spec), { stream: true, spec })).rejects.toMatchObject(error);
  });
});

describe("a stream that goes on after its end, or ends twice, is no answer", () => {
  const chunk = { id: "1", object: "chat.completion.chunk", created: 1, model: "m" };
  const part = (content: string, finish: string | null = null, index = 0) =>
    eventText({ ...chunk, choices: [{ index, delta: { content }, finish_reason: finish }] });
  test.each<[string, readonly string[], string]>([
    ["words after the end", [part("No."), part("", "stop"), part("It is 42.")], "goes on after its end"],
    [
      "words after [DONE]",
      [part("No.", "stop"), "data: [DONE]\n\n", part("It is 42.")],
      "goes on after its end",
    ],
    [
      "two ends",
      [part("It is 42."), part("", "content_filter"), part("", "stop")],
      "ends twice: content_filter, stop",
    ],
    [
      "another choice in a chunk of its own",
      [part("No."), part("It is 42.", null, 1), part("", "stop")],
      "more than one answer",
    ],
  ])("%s", async (_what, events, said) => {
    const headers = { "content-type": "text/event-stream" };
    await using fake = await startFakeProvider(() => ({ raw: events.join(""), headers }));
    const spec: ModelSpec = { model: "openai-compatible/m" };
    await expect(ask(urlOf(fake.url, spec), { stream: true, spec })).rejects.toMatchObject({
      code: "model/invalid-response",
      message: expect.stringContaining(said) as string,
    });
  });

  test("the same end again and the tokens after it are one", async () => {
    const usage = { prompt_tokens: -5, completion_tokens: 2, total_tokens: 3 };
    const raw = [
      part("5"),
      part("", "stop"),
      part("", "stop"),
      eventText({ ...chunk, choices: [], usage }),
    ].join("");
    await using fake = await startFakeProvider(() => ({
      raw,
      headers: { "content-type": "text/event-stream" },
    }));
    const spec: ModelSpec = { model: "openai-compatible/m" };
    const { events } = await ask(urlOf(fake.url, spec), { stream: true, spec });
    // A number below 0 is none.
    expect(eventsOf(events, "model.called")[0]?.usage).toMatchObject({
      inputTokens: 0,
      outputTokens: 2,
      requests: 1,
      isPartial: true,
    });
  });

  test("an answer whose form the package cannot read is invalid, and an error that cannot pass is not tried again", async () => {
    const headers = { "content-type": "text/event-stream" };
    const begun = {
      type: "message_start",
      message: { id: "1", type: "message", role: "assistant", content: [] },
    };
    const wrongKey = { error: { message: "no", type: "authentication_error", code: "invalid_api_key" } };
    for (const [spec, event, code] of [
      [{ model: "anthropic/claude-sonnet-4-5" }, begun, "model/invalid-response"],
      [{ model: "openai-compatible/m" }, wrongKey, "model/rejected"],
    ] as const) {
      await using fake = await startFakeProvider(() => ({ raw: eventText(event), headers }));
      await expect(ask(urlOf(fake.url, spec), { stream: true, spec })).rejects.toMatchObject({ code });
    }
  });
});
