import { describe, expect, test } from "vitest";
import { startFakeProvider } from "../support/fake-provider.ts";

async function post(url: string, body: unknown, headers: Record<string, string>): Promise<[number, unknown]> {
  const response = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
  return [response.status, await response.json()];
}

const anthropic = { "x-api-key": "k", "anthropic-version": "2023-06-01" };
const hi = { role: "user", content: "hi" };
const limited = (...messages: object[]): object => ({ model: "m", max_tokens: 1, messages });
const messages = "/v1/messages";
const responses = "/v1/responses";
const unansweredCall = [
  hi,
  { role: "assistant", content: [{ type: "tool_use", id: "t1", name: "x", input: {} }] },
  { role: "user", content: "well?" },
];
const resultOfNoCall = {
  role: "user",
  content: [{ type: "tool_result", tool_use_id: "t1", content: "x" }],
};
const illegalTool = [{ name: "a b", input_schema: { type: "string" } }];
const stored = { model: "m", input: [hi, { type: "item_reference", id: "msg_1" }] };
const chat = { model: "m", messages: [hi, { role: "tool", tool_call_id: "c1", content: "x" }] };
const google = {
  contents: [{ role: "user", parts: [{ functionResponse: { name: "x", response: {} } }] }],
};

describe("the fake provider refuses what the real ones refuse", () => {
  test.each<[string, unknown, Record<string, string>, number, RegExp]>([
    [messages, limited(hi), { "anthropic-version": "x" }, 401, /x-api-key/],
    [messages, { model: "m", messages: [hi] }, anthropic, 400, /max_tokens/],
    [messages, limited(hi, hi), anthropic, 400, /do not alternate/],
    [messages, limited(resultOfNoCall), anthropic, 400, /refers to the call t1/],
    [messages, limited(...unansweredCall), anthropic, 400, /calls t1 are unanswered/],
    [
      messages,
      { ...limited(hi), tools: illegalTool },
      anthropic,
      400,
      /illegal tool name "a b"; .*not of type object/,
    ],
    [responses, { model: "m", input: [hi] }, {}, 401, /Authorization/],
    [responses, stored, { authorization: "Bearer k" }, 400, /item_reference/],
    ["/v1/chat/completions", chat, {}, 400, /refers to the call c1/],
    [
      "/v1beta/models/m:generateContent",
      google,
      { "x-goog-api-key": "k" },
      400,
      /1 functionResponse parts for 0 functionCall parts/,
    ],
  ])("%s: %j", async (path, body, headers, status, message) => {
    await using provider = await startFakeProvider([{ text: "never" }]);
    const [answered, error] = await post(`${provider.url}${path}`, body, headers);
    expect(answered).toBe(status);
    expect(JSON.stringify(error).replaceAll(String.raw`\"`, '"')).toMatch(message);
  });

  test("a wrong key, an unknown path, and a request beyond the script", async () => {
    await using provider = await startFakeProvider([{ text: "one" }], { key: "right" });
    const body = { model: "m", messages: [hi] };
    const url = `${provider.url}/v1/chat/completions`;
    expect((await post(url, body, { authorization: "Bearer wrong" }))[0]).toBe(401);
    expect((await post(`${provider.url}/v1/other`, body, {}))[0]).toBe(404);
    expect((await post(url, body, { authorization: "Bearer right" }))[0]).toBe(200);
    const [status, error] = await post(url, body, { authorization: "Bearer right" });
    expect(status).toBe(400);
    expect(error).toMatchObject({ error: { message: "fake provider: the script has no reply 2" } });
  });
});

test("a script can be a function of the request", async () => {
  await using provider = await startFakeProvider((request, index) => ({
    text: `${index}: ${request.users.at(-1)}`,
  }));
  const url = `${provider.url}/v1/chat/completions`;
  await post(url, { model: "m", messages: [hi] }, {});
  const [, answer] = await post(url, { model: "m", messages: [hi] }, {});
  expect(answer).toMatchObject({ choices: [{ message: { content: "1: hi" } }] });
  expect((await provider.received(2)).model).toBe("m");
});
