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

describe("a stream that contradicts itself is no answer", () => {
  type WireEvent = Readonly<Record<string, unknown>>;
  const headers = { "content-type": "text/event-stream" };
  const claude: ModelSpec = { model: "anthropic/claude-sonnet-4-5" };
  const openai: ModelSpec = { model: "openai/gpt-5" };
  const usage = { input_tokens: 1, output_tokens: 1 };
  const begun = {
    type: "message_start",
    message: { id: "msg_1", type: "message", role: "assistant", model: "m", content: [], usage },
  };
  const opened = (index = 0) => ({
    type: "content_block_start",
    index,
    content_block: { type: "text", text: "" },
  });
  const said = (text: string, index = 0) => ({
    type: "content_block_delta",
    index,
    delta: { type: "text_delta", text },
  });
  const closed = (index = 0) => ({ type: "content_block_stop", index });
  const over = [
    { type: "message_delta", delta: { stop_reason: "end_turn", stop_sequence: null }, usage },
    { type: "message_stop" },
  ];

  const part = { type: "output_text", text: "It is 42.", annotations: [] };
  const item = { type: "message", id: "msg_1", role: "assistant", status: "completed", content: [part] };
  const response = { id: "resp_1", created_at: 1, model: "m", status: "completed", output: [item], usage };
  const place = { item_id: "msg_1", output_index: 0, content_index: 0 };
  const created = { type: "response.created", response: { ...response, status: "in_progress", output: [] } };
  const added = { type: "response.output_item.added", output_index: 0, item: { ...item, content: [] } };
  const delta = (text: string) => ({ type: "response.output_text.delta", ...place, delta: text });
  const textDone = { type: "response.output_text.done", ...place, text: part.text };
  const partDone = { type: "response.content_part.done", ...place, part };
  const itemDone = { type: "response.output_item.done", output_index: 0, item };
  const completed = { type: "response.completed", response };
  const whole = [created, added, delta("It is"), delta(" 42."), textDone, partDone, itemDone, completed];
  const call = { type: "function_call", id: "fc_1", call_id: "call_1", name: "add", status: "completed" };
  const calls = (pieces: string, finished: string) => [
    created,
    { type: "response.output_item.added", output_index: 0, item: { ...call, arguments: "" } },
    { type: "response.function_call_arguments.delta", item_id: "fc_1", output_index: 0, delta: pieces },
    { type: "response.output_item.done", output_index: 0, item: { ...call, arguments: finished } },
    completed,
  ];
  const differs = "the pieces of one of its parts are not what the finished part has";

  test.each<[string, ModelSpec, readonly WireEvent[], string]>([
    [
      "a second message",
      claude,
      [begun, opened(), said("5"), closed(), begun, ...over],
      "more than one answer",
    ],
    ["words of a block that never began", claude, [begun, said("5"), ...over], "a part that never began"],
    ["an end of a block that never began", claude, [begun, closed(), ...over], "that never began"],
    [
      "words after the end of their block",
      claude,
      [begun, opened(), closed(), said("5"), ...over],
      "that never began",
    ],
    ["a block that begins twice", claude, [begun, opened(), opened(), closed(), ...over], "begins twice"],
    ["a block without an end", claude, [begun, opened(), said("5"), ...over], "before one of its parts does"],
    [
      "completed, with the status failed",
      openai,
      [...whole.slice(0, -1), { ...completed, response: { ...response, status: "failed" } }],
      'it ends as response.completed, with the status "failed"',
    ],
    [
      "completed, with the status incomplete",
      openai,
      [...whole.slice(0, -1), { ...completed, response: { ...response, status: "incomplete" } }],
      'with the status "incomplete"',
    ],
    ...[textDone, partDone, itemDone].map((done): [string, ModelSpec, readonly WireEvent[], string] => [
      `pieces before another ${done.type}`,
      openai,
      [created, added, delta("It is 4"), done, completed],
      differs,
    ]),
    ["no pieces before a finished text", openai, [created, added, itemDone, completed], differs],
    ["pieces of arguments before others", openai, calls('{"a":1}', '{"a":2}'), differs],
    ["words of an item that never began", openai, [created, delta("It is 42."), completed], "never began"],
  ])("%s", async (_what, spec, events, message) => {
    await using fake = await startFakeProvider(() => ({ raw: events.map(eventText).join(""), headers }));
    await expect(ask(urlOf(fake.url, spec), { stream: true, spec })).rejects.toMatchObject({
      code: "model/invalid-response",
      message: expect.stringContaining(message) as string,
    });
  });

  test.each<[string, ModelSpec, readonly WireEvent[]]>([
    [
      "blocks beside one another",
      claude,
      [begun, opened(), opened(1), said("It is 42."), closed(1), closed(), ...over],
    ],
    ["a text with all of its ends", openai, whole],
    ["arguments that are as their pieces", openai, calls('{"a":1}', '{"a":1}')],
  ])("%s are an answer", async (_what, spec, events) => {
    await using fake = await startFakeProvider(() => ({ raw: events.map(eventText).join(""), headers }));
    const { answer } = await ask(urlOf(fake.url, spec), { stream: true, spec });
    expect(JSON.stringify(answer.content)).toMatch(/It is 42\.|\{\\"a\\":1\}/);
  });
});
