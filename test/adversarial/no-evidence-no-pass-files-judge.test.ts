import { describe, expect, it } from "vitest";
import type { JudgeSpec } from "../../src/core/formats/model.ts";
import { askJudge, scoreForm, yesOrNoForm } from "../../src/graders/judge.ts";
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

// docs/guide.md, "The judge": an answer that says a thing twice is no verdict.
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

/** A body of the chat API with a verdict that passes. */
function envelope(choice: string, more = "", text = '{"score":1,"reason":"fine"}'): string {
  const message = `{"role":"assistant","content":${JSON.stringify(text)}}`;
  const first = `{"index":0,"message":${message},"finish_reason":"stop"}`;
  const choices = choice === "" ? first : choice.replaceAll("@message", message).replaceAll("@first", first);
  return `{"id":"c","object":"chat.completion","created":1,"model":"m",${more}"choices":[${choices}]}`;
}

// docs/guide.md, "The judge".
describe("a judge's answer that could be read in two ways is no verdict", () => {
  it.each([
    ["none of them", "", "", undefined],
    ["an error of null", "", '"error":null,', undefined],
    [
      "a key twice",
      '{"index":0,"message":{"content":"{}","content":"{}"}}',
      "",
      /has the key "content" twice/,
    ],
    ["an error beside it", "", '"error":{"message":"overloaded"},', /has an error: .*overloaded/],
    ["two choices", "@first,@first", "", /more than one answer/],
  ])("an envelope with %s", async (_, choice, more, message) => {
    await using provider = await startFakeProvider([{ raw: envelope(choice, more) }]);
    const asked = ask(provider.url, scoreForm);
    if (message === undefined) await expect(asked).resolves.toMatchObject({ score: 1 });
    else
      await expect(asked).rejects.toMatchObject({
        code: "model/invalid-response",
        message: expect.stringMatching(message) as string,
      });
  });

  it.each([
    ['"error"', 'did not end its answer: finish reason "error"'],
    ['"length"', "was cut off at its output limit"],
    ['"content_filter"', "refused to judge"],
    ['"tool_calls"', 'did not end its answer: finish reason "tool_calls"'],
    ["null", "did not end its answer: no finish reason"],
  ])("a finish reason of %s", async (reason, message) => {
    const choice = `{"index":0,"message":@message,"finish_reason":${reason}}`;
    await using provider = await startFakeProvider([{ raw: envelope(choice) }]);
    await expect(ask(provider.url, scoreForm)).rejects.toMatchObject({
      code: "judge/no-verdict",
      message: `openai/gpt-4o ${message}`,
    });
  });

  it.each([
    ['{"score":1,"reason":"x","passed":false}', scoreForm, '"passed"'],
    ['{"score":1,"Score":0,"reason":"x"}', scoreForm, '"Score"'],
    ['{"Passed":false,"passed":true,"reason":"x"}', yesOrNoForm, '"Passed"'],
    ['{"passed":true,"reason":"x","score":0}', yesOrNoForm, '"score"'],
  ])("a verdict with another key: %s", async (text, form, key) => {
    await using provider = await startFakeProvider([{ text }]);
    await expect(ask<unknown>(provider.url, form)).rejects.toMatchObject({
      code: "judge/no-verdict",
      message: `openai/gpt-4o gave ${key}, which is no part of a verdict`,
    });
  });
});
