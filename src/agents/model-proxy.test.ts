import { describe, expect, it } from "vitest";
import { createUsageReader } from "./model-proxy.ts";

/** Writes events as each API streams them. */
function events(...data: readonly object[]): string {
  return data.map((each) => `event: x\ndata: ${JSON.stringify(each)}\n\n`).join("");
}

const streamed = "text/event-stream; charset=utf-8";
const plain = "application/json";

const anthropicUsage = {
  input_tokens: 80,
  cache_creation_input_tokens: 15,
  cache_read_input_tokens: 5,
};
const responsesUsage = {
  input_tokens: 100,
  input_tokens_details: { cached_tokens: 20 },
  output_tokens: 7,
  output_tokens_details: { reasoning_tokens: 3 },
};
const chatUsage = {
  prompt_tokens: 100,
  completion_tokens: 7,
  total_tokens: 107,
  prompt_tokens_details: { cached_tokens: 20 },
};
const geminiUsage = {
  promptTokenCount: 100,
  candidatesTokenCount: 4,
  thoughtsTokenCount: 3,
  cachedContentTokenCount: 20,
};

const anthropic = { inputTokens: 100, outputTokens: 7, cacheReadTokens: 5, cacheWriteTokens: 15 };
const others = { inputTokens: 100, outputTokens: 7, cacheReadTokens: 20 };

describe("createUsageReader", () => {
  it.each<[string, string, string, object]>([
    [
      "Anthropic",
      plain,
      JSON.stringify({ type: "message", usage: { ...anthropicUsage, output_tokens: 7 } }),
      anthropic,
    ],
    [
      "Anthropic",
      streamed,
      events(
        {
          type: "message_start",
          message: { role: "assistant", usage: { ...anthropicUsage, output_tokens: 1 } },
        },
        { type: "content_block_delta", delta: { type: "text_delta", text: 'the "usage" of words' } },
        { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 7 } },
        { type: "message_stop" },
      ),
      anthropic,
    ],
    ["OpenAI Responses", plain, JSON.stringify({ object: "response", usage: responsesUsage }), others],
    [
      "OpenAI Responses",
      streamed,
      events(
        { type: "response.created", response: { usage: null } },
        { type: "response.completed", response: { status: "completed", usage: responsesUsage } },
      ),
      others,
    ],
    ["OpenAI Chat", plain, JSON.stringify({ object: "chat.completion", usage: chatUsage }), others],
    [
      "OpenAI Chat",
      streamed,
      `${events({ choices: [{ delta: { content: "hi" } }], usage: null }, { choices: [], usage: chatUsage })}data: [DONE]\n\n`,
      others,
    ],
    ["Gemini", plain, JSON.stringify({ candidates: [], usageMetadata: geminiUsage }), others],
    [
      "Gemini",
      plain,
      JSON.stringify([{ usageMetadata: { promptTokenCount: 1 } }, { usageMetadata: geminiUsage }]),
      others,
    ],
    [
      "Gemini",
      streamed,
      events({ usageMetadata: { promptTokenCount: 100 } }, { usageMetadata: geminiUsage }),
      others,
    ],
    ["nobody", plain, JSON.stringify({ choices: [] }), {}],
    ["nobody", plain, "<html>", {}],
    ["nobody", streamed, "data: {broken usage\n\n: comment\n\n", {}],
  ])("reads %s as %s, however it is cut", (_, type, body, told) => {
    for (const size of [1, 7, body.length]) {
      const reader = createUsageReader(type);
      const bytes = Buffer.from(body);
      for (let at = 0; at < bytes.length; at += size) reader.push(bytes.subarray(at, at + size));
      expect(reader.finish()).toEqual(told);
    }
  });

  it("makes nothing of a body that is too long", () => {
    const reader = createUsageReader(plain);
    const space = Buffer.alloc(1024 * 1024, " ");
    for (let n = 0; n < 33; n += 1) reader.push(space);
    reader.push(Buffer.from(JSON.stringify({ usage: chatUsage })));
    expect(reader.finish()).toEqual({});
  });
});
