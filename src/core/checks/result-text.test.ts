import { describe, expect, it } from "vitest";
import type { Json, JsonObject } from "../formats/model.ts";
import { answerText, resultText, searchableText } from "./result-text.ts";

const text = { type: "text", text: "plain" };
const image = { type: "image", data: "aGk=", mimeType: "image/png" };
const embedded = { type: "resource", resource: { uri: "file:///a", text: "embedded" } };
const blob = { type: "resource", resource: { uri: "file:///b", blob: "aGk=" } };

describe("resultText", () => {
  it.each<[string, JsonObject, string]>([
    [
      "joins texts and texts of embedded resources",
      { content: [text, image, embedded, blob, text] },
      "plain\nembedded\nplain",
    ],
    ["prefers text to structured content", { content: [text], structuredContent: { a: 1 } }, "plain"],
    [
      "takes structured content where there is no text",
      { content: [image], structuredContent: { a: 1 } },
      '{"a":1}',
    ],
    ["takes the empty text for a text", { content: [{ type: "text", text: "" }], structuredContent: {} }, ""],
    ["is empty where there is neither", { content: [image], structuredContent: null }, ""],
    ["is empty for what is no tool result", { content: "text", structuredContent: undefined } as never, ""],
    ["passes over blocks that are none", { content: [null, 1, "x", [], { text: 1 }, text] }, "plain"],
  ])("%s", (_, result, expected) => {
    expect(resultText(result)).toBe(expected);
  });

  it("does not break on values that cannot be written", () => {
    let deep: Json = 1;
    for (let level = 0; level < 100_000; level += 1) deep = [deep];
    expect(resultText({ structuredContent: deep })).toBe("[nested too deeply to write]");
  });
});

it("searches text and structured content", () => {
  expect(searchableText({ content: [text], structuredContent: { b: "c" } })).toBe('plain\n{"b":"c"}');
  expect(searchableText({ content: [text] })).toBe("plain\n");
});

describe("answerText", () => {
  it.each<[Parameters<typeof answerText>[0], JsonObject, string]>([
    ["tool", { content: [text], contents: [{ text: "no" }] }, "plain"],
    [
      "resource",
      {
        contents: [{ uri: "a:1", text: "one" }, { uri: "a:2", blob: "aGk=" }, 5, { uri: "a:3", text: "two" }],
      },
      "one\ntwo",
    ],
    ["resource", { contents: "one", content: [text] }, ""],
    [
      "prompt",
      {
        messages: [
          { role: "user", content: text },
          { role: "user", content: image },
          { role: "assistant", content: embedded },
          { role: "assistant", content: [text, 5] },
          { role: "user" },
          "no",
        ],
      },
      "plain\nembedded\nplain",
    ],
    ["prompt", {}, ""],
  ])("of a %s: %j", (kind, result, expected) => {
    expect(answerText(kind, result)).toBe(expected);
  });
});
