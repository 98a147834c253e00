import { describe, expect, it } from "vitest";
import type { JudgeSpec } from "../../src/core/formats/model.ts";
import { askJudge } from "../../src/graders/ask-judge.ts";
import { scoreForm, yesOrNoForm } from "../../src/graders/verdict-form.ts";
import { startFakeProvider } from "../support/fake-provider.ts";

const prompt = { system: "Judge.", user: "Was it well done?" };

function ask<V>(url: string, form: Parameters<typeof askJudge<V>>[0]["form"]): Promise<V> {
  const spec: JudgeSpec = {
    model: "openai/gpt-4o",
    api: "chat",
    baseURL: url,
    apiKey: "k",
    passThreshold: 0.8,
  };
  const options = { env: {}, emit: () => 0, signal: new AbortController().signal, modelMs: 10_000 };
  return askJudge({ prompt, form }, spec, options);
}

// docs/guide.md, "Models and keys": an answer that says a thing twice is no verdict.
describe("a judge's answer that says a thing twice is no verdict", () => {
  it.each([
    '{"score":0,"score":1,"reason":"x"}',
    '{"score":1,"reason":"bad","score":0,"reason":"good"}',
    '{"score":0,"\\u0073core":1,"reason":"x"}',
    '```json\n{"score":0,"score":1,"reason":"x"}\n```',
    '{"score":1,"reason":"x","details":{"ok":false,"ok":true}}',
  ])("as a score: %s", async (text) => {
    await using provider = await startFakeProvider([{ text }]);
    await expect(ask(provider.url, scoreForm)).rejects.toMatchObject({
      code: "judge/no-verdict",
      message: expect.stringMatching(/twice in one answer/) as string,
    });
  });

  it("as yes or no", async () => {
    await using provider = await startFakeProvider([
      { text: '{"passed":false,"reason":"no","passed":true}' },
    ]);
    await expect(ask(provider.url, yesOrNoForm)).rejects.toMatchObject({
      code: "judge/no-verdict",
      message: 'openai/gpt-4o gave "passed" twice in one answer',
    });
  });
});
