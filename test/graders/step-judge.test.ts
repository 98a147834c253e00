import { describe, expect, test } from "vitest";
import type { JudgeSpec } from "../../src/model/eval.ts";
import type { EventBody, JudgeAnswer, JudgeQuestion } from "../../src/model/event.ts";
import { createStepJudge } from "../../src/graders/judge/judge.ts";
import { type FakeProvider, startFakeProvider } from "../support/fake-provider.ts";

type Options = Partial<Parameters<typeof createStepJudge>[1]>;

interface Judging {
  readonly spec?: Partial<JudgeSpec>;
  readonly options?: Options;
  readonly signal?: AbortSignal;
}

const question: JudgeQuestion = {
  kind: "contains",
  reference: "five",
  prompt: "Add 2 and 3.",
  input: "The sum is 5.",
};

function judge(
  provider: Pick<FakeProvider, "url">,
  changes: Partial<JudgeQuestion> = {},
  { spec = {}, options = {}, signal = new AbortController().signal }: Judging = {},
): Promise<JudgeAnswer> {
  const ask = createStepJudge(
    {
      model: "anthropic/claude-sonnet-4-5",
      baseURL: provider.url,
      apiKey: "test-key",
      passThreshold: 0.8,
      ...spec,
    },
    { env: {}, emit: () => 0, modelMs: 10_000, retry: { baseDelayMs: 0 }, ...options },
  );
  return ask({ ...question, ...changes }, signal);
}

const yes = (passed: unknown): string => JSON.stringify({ passed, reason: "It says so." });
const score = (value: unknown): string => JSON.stringify({ score: value, reason: "It says so." });

describe("verdicts", () => {
  test("have the score of a rubric, or a yes or no, and are recorded as the judge's", async () => {
    await using provider = await startFakeProvider(
      [yes(true), yes(false), score(0.9)].map((text) => ({ text })),
    );
    const events: EventBody[] = [];
    const judging = { options: { emit: (event: EventBody) => events.push(event) } };
    const reason = "It says so.";
    expect(await judge(provider, {}, judging)).toMatchObject({ passed: true, score: 1, reason });
    expect(await judge(provider, { kind: "exact" }, judging)).toMatchObject({
      passed: false,
      score: 0,
      reason,
    });
    expect(await judge(provider, { kind: "rubric" }, judging)).toMatchObject({
      passed: true,
      score: 0.9,
      reason,
    });
    const called = { type: "model.called", purpose: "judge" };
    expect(events).toMatchObject([called, called, called]);
  });

  test.each<[number, boolean]>([
    [0.8, true],
    [0.79, false],
  ])("a rubric with a score of %f and a threshold of 0.8: %s", async (value, passed) => {
    await using provider = await startFakeProvider([{ text: score(value) }]);
    expect(await judge(provider, { kind: "rubric" })).toMatchObject({ passed, score: value });
  });

  test("a threshold is for rubrics alone", async () => {
    await using provider = await startFakeProvider([{ text: yes(true) }, { text: yes(false) }]);
    expect(await judge(provider, {}, { spec: { passThreshold: 1 } })).toMatchObject({ passed: true });
    expect(await judge(provider, {}, { spec: { passThreshold: 0 } })).toMatchObject({ passed: false });
  });

  test("a verdict in a fence is taken, and one without words told so", async () => {
    const text = `\`\`\`json\n${JSON.stringify({ passed: true, reason: " " })}\n\`\`\``;
    await using provider = await startFakeProvider([{ text }]);
    expect(await judge(provider)).toMatchObject({ passed: true, reason: "the judge gave no reason" });
  });

  test("name the judge: the same one for every text and reference, another for another rubric", async () => {
    const asked: readonly Partial<JudgeQuestion>[] = [
      {},
      { reference: "six", input: "It is 6." },
      { kind: "rubric" },
      { kind: "rubric", input: "It is 6." },
      { kind: "rubric", reference: "six" },
    ];
    await using provider = await startFakeProvider(
      asked.map(({ kind }) => ({ text: kind === "rubric" ? score(0.9) : yes(true) })),
    );
    const judges = [];
    for (const each of asked) judges.push((await judge(provider, each)).judge);
    const prompts = judges.map(({ prompt }) => prompt);
    const known = [...new Set(prompts)];
    expect(prompts.map((prompt) => known.indexOf(prompt))).toEqual([0, 0, 1, 1, 2]);
    expect(judges.slice(1, 3)).toMatchObject([
      { model: "anthropic/claude-sonnet-4-5", threshold: 1, votes: [1] },
      { threshold: 0.8, votes: [0.9] },
    ]);
  });
});

// What both judges have in common is in judge.test.ts.
describe("no verdict is an error", () => {
  test.each<[JudgeQuestion["kind"], string, RegExp]>([
    ["contains", "true", /not a verdict/],
    ["contains", yes("true"), /said neither yes nor no, but "true"/],
    ["exact", score(1), /said neither yes nor no, but nothing/],
    ["rubric", yes(true), /gave no score; it has to be from 0 to 1/],
  ])("%s: %s", async (kind, text, message) => {
    await using provider = await startFakeProvider([{ text }]);
    const error = { code: "judge/no-verdict", message: expect.stringMatching(message) as string };
    await expect(judge(provider, { kind })).rejects.toMatchObject(error);
  });

  test("what the model throws is thrown", async () => {
    await using provider = await startFakeProvider(() => ({ status: 401 }));
    await expect(judge(provider)).rejects.toMatchObject({ code: "model/rejected" });
  });

  test("a text that is too long is not judged in part, and nobody is asked", async () => {
    await using provider = await startFakeProvider([]);
    await expect(judge(provider, { input: "x".repeat(400_001) })).rejects.toMatchObject({
      code: "judge/no-verdict",
      message: expect.stringContaining("400001 characters") as string,
    });
    expect(provider.requests).toEqual([]);
  });
});

test("aborting during the request throws the reason at once", async () => {
  await using provider = await startFakeProvider([{ hang: true }]);
  const controller = new AbortController();
  const reason = new Error("interrupted");
  const judging = judge(provider, {}, { signal: controller.signal });
  await provider.received(1);
  controller.abort(reason);
  await expect(judging).rejects.toBe(reason);
  await expect(judge(provider, {}, { signal: controller.signal })).rejects.toBe(reason);
  expect(provider.requests).toHaveLength(1);
});
