import { describe, expect, test } from "vitest";
import type { JudgeSpec } from "../../src/model/eval.ts";
import type { Task } from "../../src/model/task.ts";
import type { EventBody } from "../../src/model/event.ts";
import { buildTrajectory, type Trajectory } from "../../src/trace/trajectory.ts";
import { createJudge, type JudgeOptions } from "../../src/graders/judge/judge.ts";
import { judgeName, judgeOf, llmJudge } from "../../src/graders/judge/llm-judge.ts";
import { type FakeProvider, type FakeReply, startFakeProvider } from "../support/fake-provider.ts";
import { gradeContext } from "../support/trial-events.ts";
import type { Grade } from "../../src/model/grade.ts";

const task: Task = {
  name: "add",
  form: "workflow",
  servers: ["s"],
  turns: [{ user: "Add 2 and 3", expectedState: "5" }],
  expectTools: ["get-sum"],
  verify: [],
  parallel: false,
};

function trajectoryOf(toolText: string, changes: Partial<Task> = {}): Trajectory {
  const request = {
    jsonrpc: "2.0",
    id: 1,
    method: "tools/call",
    params: { name: "get-sum", arguments: { a: 2, b: 3 } },
  };
  const response = { jsonrpc: "2.0", id: 1, result: { content: [{ type: "text", text: toolText }] } };
  const bodies: EventBody[] = [
    { type: "turn.started", turn: 0, user: "Add 2 and 3" },
    { type: "agent.message", turn: 0, text: "Let me see." },
    { type: "mcp.message", server: "s", direction: "client-to-server", message: request },
    { type: "mcp.message", server: "s", direction: "server-to-client", message: response },
    { type: "agent.message", turn: 0, text: "It is 5." },
    { type: "turn.finished", turn: 0, reason: "done" },
  ];
  const events = bodies.map((body, index) => ({ seq: index + 1, at: index, trial: "t1", ...body }));
  return buildTrajectory({ id: "t1", task: "add", agent: "a", attempt: 1 }, { ...task, ...changes }, events);
}

async function gradeBy(spec: JudgeSpec, options: JudgeOptions, trajectory: Trajectory): Promise<Grade> {
  const context = { ...gradeContext(), dir: "", askJudge: createJudge(spec, options) };
  return { grader: judgeName, ...(await llmJudge.grade(spec, trajectory, context)) };
}

interface Judging {
  readonly spec?: Partial<JudgeSpec>;
  readonly options?: Partial<JudgeOptions>;
  readonly trajectory?: Trajectory;
}

async function judge(
  provider: Pick<FakeProvider, "url">,
  judging: Judging = {},
): Promise<Grade & { events: EventBody[] }> {
  const events: EventBody[] = [];
  const spec: JudgeSpec = {
    model: "anthropic/claude-sonnet-4-5",
    baseURL: provider.url,
    apiKey: "test-key",
    passThreshold: 0.8,
    ...judging.spec,
  };
  const options = {
    env: {},
    emit: (event: EventBody) => events.push(event),
    signal: new AbortController().signal,
    modelMs: 10_000,
    retry: { baseDelayMs: 0 },
    ...judging.options,
  };
  const grade = await gradeBy(spec, options, judging.trajectory ?? trajectoryOf("The sum is 5."));
  return { ...grade, events };
}

const verdict = (score: unknown): string => JSON.stringify({ score, reason: "It added the numbers." });

describe("verdicts", () => {
  test.each<[string, Partial<JudgeSpec>]>([
    ["Anthropic", {}],
    ["Anthropic, a model that needs a tool for JSON", { model: "anthropic/claude-3-haiku-20240307" }],
    ["OpenAI Responses", { model: "openai/gpt-5" }],
    ["OpenAI chat", { model: "openai/gpt-4o", api: "chat" }],
    ["Google", { model: "google/gemini-2.5-flash" }],
    ["Azure", { model: "azure/prod" }],
    ["Bedrock", { model: "bedrock/anthropic.claude-sonnet-4-5-20250929-v1:0" }],
    ["Bedrock, a model that needs a tool for JSON", { model: "bedrock/amazon.nova-lite-v1:0" }],
  ])("over %s", async (_wire, spec) => {
    await using provider = await startFakeProvider([{ text: verdict(0.9), usage: { input: 20, output: 4 } }]);
    const { events, ...grade } = await judge(provider, { spec });
    expect(grade).toEqual({
      grader: "llm-judge",
      verdict: "pass",
      score: 0.9,
      reason: "It added the numbers.",
      evidence: [3, 5],
      judge: {
        model: spec.model ?? "anthropic/claude-sonnet-4-5",
        prompt: expect.stringMatching(/^sha256:[0-9a-f]{64}$/) as string,
        question: expect.stringMatching(/^sha256:[0-9a-f]{64}$/) as string,
        threshold: 0.8,
        votes: [0.9],
      },
    });
    expect(events).toMatchObject([
      {
        type: "model.called",
        purpose: "judge",
        model: spec.model ?? "anthropic/claude-sonnet-4-5",
        usage: { inputTokens: 20, outputTokens: 4, requests: 1 },
      },
    ]);
  });

  test("may have further members", async () => {
    const text = JSON.stringify({ score: 1, reason: "It added.", confidence: 0.7, analysis: ["a", "b"] });
    await using provider = await startFakeProvider([{ text }]);
    expect(await judge(provider)).toMatchObject({ verdict: "pass", score: 1 });
  });

  test("an OpenAI-compatible server is sent the schema", async () => {
    await using provider = await startFakeProvider([{ text: verdict(1) }]);
    const spec = { model: "qwen3", baseURL: `${provider.url}/v1`, apiKey: "" };
    expect(await judge(provider, { spec })).toMatchObject({ verdict: "pass", score: 1 });
    expect(provider.requests[0]?.body).toMatchObject({
      response_format: { type: "json_schema", json_schema: { schema: { required: ["score", "reason"] } } },
    });
  });

  test.each<[number, Grade["verdict"]]>([
    [1, "pass"],
    [0.8, "pass"],
    [0.79, "fail"],
    [0, "fail"],
  ])("a score of %f with a threshold of 0.8 is %s", async (score, expected) => {
    await using provider = await startFakeProvider([{ text: verdict(score) }]);
    expect(await judge(provider)).toMatchObject({ verdict: expected, score });
  });

  test.each([["a fence", `\`\`\`json\n${verdict(0.9)}\n\`\`\``]])(
    "JSON with %s is taken",
    async (_what, text) => {
      await using provider = await startFakeProvider([{ text }]);
      expect(await judge(provider)).toMatchObject({ verdict: "pass", score: 0.9 });
    },
  );

  test("throttling is retried and recorded as the judge's", async () => {
    await using provider = await startFakeProvider([
      { status: 429, headers: { "retry-after": "0" } },
      { text: verdict(1) },
    ]);
    const { events, ...grade } = await judge(provider);
    expect(grade).toMatchObject({ verdict: "pass", score: 1 });
    expect(events.map((event) => event.type)).toEqual(["model.retried", "model.called"]);
    expect(events[0]).toMatchObject({ purpose: "judge", status: 429, delayMs: 0 });
  });
});

describe("no verdict is an error without a score", () => {
  test.each<[string, FakeReply, RegExp]>([
    ["prose", { text: "I would say it went well, 9 out of 10." }, /not a verdict/],
    ["nothing", { text: "" }, /gave no verdict|empty answer/],
    ["half a verdict", { text: '{"score": 1, "rea', finish: "length" }, /was cut off/],
    ["a verdict that is a refusal", { text: verdict(1), finish: "refusal" }, /refused to judge/],
    ["a list", { text: `[${verdict(1)}]` }, /not a verdict/],
    ["a score over 1", { text: verdict(8) }, /gave the score 8; it has to be from 0 to 1/],
    ["a negative score", { text: verdict(-0.1) }, /gave the score -0.1; it has to be from 0 to 1/],
    ["no score", { text: '{"reason": "fine"}' }, /gave no score; it has to be from 0 to 1/],
    ["no reason", { text: '{"score": 1}' }, /without a reason/],
    ["two scores", { text: '{"score": 0, "reason": "bad", "score": 1}' }, /gave "score" twice in one answer/],
    [
      "more than a verdict",
      { text: '{"score": 1, "reason": "fine", "passed": false}' },
      /gave "passed" beside its verdict/,
    ],
  ])("%s", async (_what, reply, message) => {
    await using provider = await startFakeProvider([reply]);
    const { events: _events, ...grade } = await judge(provider);
    expect(grade).toMatchObject({
      grader: "llm-judge",
      verdict: "error",
      score: null,
      reason: expect.stringMatching(message) as string,
      evidence: [3, 5],
      error: { code: "judge/no-verdict", kind: "environment" },
    });
  });

  test.each<[string, FakeReply, string]>([
    ["a rejected key", { status: 401 }, "model/rejected"],
    ["server errors", { status: 500 }, "model/unreachable"],
    ["dropped connections", { drop: true }, "model/unreachable"],
    ["HTML", { raw: "<html>" }, "model/invalid-response"],
  ])("%s keeps the model's own code", async (_what, reply, code) => {
    await using provider = await startFakeProvider(() => reply);
    const grade = await judge(provider);
    expect(grade).toMatchObject({ verdict: "error", score: null, error: { code } });
    expect(grade.reason).toBe(grade.error?.message);
  });

  test("a judge that never answers", async () => {
    await using provider = await startFakeProvider(() => ({ hang: true }));
    const grade = await judge(provider, { options: { modelMs: 50, retry: { maxRetries: 0 } } });
    expect(grade).toMatchObject({ verdict: "error", score: null, error: { code: "model/unreachable" } });
  });

  test.each<[Partial<JudgeSpec>, string]>([
    [{ model: "anthropic/m", apiKey: "" }, "model/no-key"],
    [{ model: "nobody/m", apiKey: "k" }, "model/unknown-provider"],
  ])("%j", async (changes, code) => {
    const spec: JudgeSpec = { model: "", passThreshold: 0.5, ...changes };
    const options = { env: {}, emit: () => 0, signal: new AbortController().signal, modelMs: 1000 };
    const grade = await gradeBy(spec, options, trajectoryOf("5"));
    expect(grade).toMatchObject({ verdict: "error", score: null, error: { code } });
  });

  test("a task without user turns is skipped, and the judge not asked", async () => {
    await using provider = await startFakeProvider([]);
    expect(await judge(provider, { trajectory: trajectoryOf("5", { turns: [] }) })).toMatchObject({
      verdict: "skip",
      score: null,
    });
    expect(provider.requests).toEqual([]);
  });
});

// That nothing gets out of the marks is tested with the prompt.
test("the marks around what is judged contain a nonce that is new each time", async () => {
  await using provider = await startFakeProvider(() => ({ text: verdict(0.1) }));
  await judge(provider, { options: { nonce: () => "0123456789" } });
  await judge(provider);
  await judge(provider);
  const [known, ...random] = provider.requests;
  expect(known?.users[0]?.split("0123456789")).toHaveLength(3);
  expect(known?.system).toContain('"END-JUDGED-TEXT 0123456789"');
  const nonces = random.map(({ users }) => /BEGIN-JUDGED-TEXT ([0-9a-f-]{36})\n/.exec(users[0] ?? "")?.[1]);
  expect(nonces).toEqual([expect.any(String), expect.any(String)]);
  expect(nonces[0]).not.toBe(nonces[1]);
});

test("aborting during the request throws the reason at once", async () => {
  await using provider = await startFakeProvider([{ hang: true }]);
  const controller = new AbortController();
  const reason = new Error("interrupted");
  const judging = judge(provider, { options: { signal: controller.signal } });
  await provider.received(1);
  controller.abort(reason);
  await expect(judging).rejects.toBe(reason);
});

test("a grader's own model is of the eval's server unless it names its provider", () => {
  const spec = { model: "qwen3", baseURL: "http://127.0.0.1:1/v1", apiKey: "k", passThreshold: 0.5 };
  expect(judgeOf(spec, "other")).toEqual({ ...spec, model: "other" });
  expect(judgeOf(spec, "openai/gpt-5")).toEqual({ model: "openai/gpt-5", passThreshold: 1 });
});
