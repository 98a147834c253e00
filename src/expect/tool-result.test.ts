import { describe, expect, it } from "vitest";
import type { Json, JsonObject } from "../base/json.ts";
import { answerText, contentProblem, resultProblem, resultText, searchableText } from "./tool-result.ts";

const text = { type: "text", text: "plain" };
const image = { type: "image", data: "aGk=", mimeType: "image/png" };
const embedded = { type: "resource", resource: { uri: "file:///a", text: "embedded" } };
const blob = { type: "resource", resource: { uri: "file:///b", blob: "aGk=" } };

describe("resultText", () => {
  it.each<[string, JsonObject, string]>([
    ["joins all texts", { content: [text, image, embedded, blob, text] }, "plain\nembedded\nplain"],
    ["prefers text to structured content", { content: [text], structuredContent: { a: 1 } }, "plain"],
    ["takes structured content without text", { content: [image], structuredContent: { a: 1 } }, '{"a":1}'],
    ["takes the empty text for a text", { content: [{ type: "text", text: "" }], structuredContent: {} }, ""],
    ["is empty where there is neither", { content: [image], structuredContent: null }, ""],
    [
      "is empty for what is not a tool result",
      { content: "text", structuredContent: undefined } as never,
      "",
    ],
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

const textBlock = { type: "text", text: "hi" };

it.each<[Json[]]>([
  [[]],
  [[textBlock, { ...textBlock, annotations: { audience: ["user"] }, new: 1 }]],
  [[{ type: "image", data: "", mimeType: "image/png" }]],
  [[{ type: "audio", data: "", mimeType: "audio/wav" }]],
  [[{ type: "resource_link", uri: "file:///a", name: "a" }]],
  [[{ type: "resource", resource: { uri: "file:///a", text: "" } }]],
  [[{ type: "resource", resource: { uri: "file:///a", blob: "" } }]],
  [[{ type: "image", data: "aGk=", mimeType: "image/png" }]],
  [[{ type: "image", data: "aGk", mimeType: "image/png" }]],
  [[{ type: "image", data: "aGkh\r\naGkh", mimeType: "image/png" }]],
  [[{ type: "image", data: "aGkh[secret:TOKEN base64]aG", mimeType: "image/png" }]],
  [[{ ...textBlock, annotations: { priority: 1, lastModified: "2026-01-01T00:00:00Z" } }]],
])("takes the content %j", (content) => {
  expect(contentProblem({ content, isError: true })).toBeUndefined();
});

it("leaves a result without content to others", () => {
  expect(contentProblem({ structuredContent: {} })).toBeUndefined();
});

it.each<[Json, string]>([
  ["hi", "content is not a list"],
  [null, "content is not a list"],
  [[textBlock, "hi"], "content[1] is not an object"],
  [[{ text: "hi" }], "content[0] has no type"],
  [[{ type: "video" }], 'content[0] has an unknown type: "video"'],
  [[{ type: "text" }], "content[0] is of type text but has no text"],
  [[{ type: "image", data: "" }], "content[0] is of type image but has no mimeType"],
  [[{ type: "resource", resource: { text: "" } }], "content[0] has a resource without uri"],
  [
    [{ type: "resource", resource: { uri: "file:///a" } }],
    "content[0] has a resource with neither text nor blob",
  ],
  ...["not Base64!", "aGk-", "aGk==", "aGkha", "a=Gk"].map((data): [Json, string] => [
    [{ type: "image", data, mimeType: "image/png" }],
    "content[0] is of type image and has data that is not Base64",
  ]),
  [
    [{ type: "resource", resource: { uri: "file:///a", blob: "%" } }],
    "content[0] has a resource with a blob that is not Base64",
  ],
  [[{ ...textBlock, annotations: [] }], "content[0] has annotations that are not an object"],
  [
    [{ ...textBlock, annotations: { audience: ["model"] } }],
    'content[0] has an audience that is not a list of "user" and "assistant"',
  ],
  [
    [{ ...textBlock, annotations: { priority: 2 } }],
    "content[0] has a priority that is not a number from 0 to 1",
  ],
])("says what is wrong with the content %j", (content, problem) => {
  expect(contentProblem({ content })).toBe(problem);
});

it("does not take a text for isError", () => {
  expect(contentProblem({ content: [], isError: "false" })).toBe("isError is neither true nor false");
});

it.each(["IsError", "iserror", "is_error", "StructuredContent", "structured_content", "Content"])(
  "does not pass over %s",
  (key) => {
    expect(contentProblem({ content: [], [key]: true })).toContain(
      `it has the key "${key}", which only some readers`,
    );
    expect(contentProblem({ content: [], meta: {}, _meta: {}, extra: 1 })).toBeUndefined();
  },
);

it.each<[Json, string | undefined]>([
  [[], undefined],
  [
    [
      { uri: "a:b", text: "" },
      { uri: "a:c", blob: "", more: 1 },
    ],
    undefined,
  ],
  [[{}], "contents[0] has an entry without uri"],
  [[{ uri: "a:b" }], "contents[0] has an entry with neither text nor blob"],
  [[{ uri: "a:b", text: "" }, 5], "contents[1] is not an object"],
  ["x", "contents is not a list"],
])("says what is wrong with the contents of a resource: %j", (contents, problem) => {
  expect(resultProblem("resource", { contents })).toBe(problem);
});

it.each<[Json, string | undefined]>([
  [[], undefined],
  [
    [
      { role: "user", content: text },
      { role: "user", content: [text, text] },
    ],
    undefined,
  ],
  [[{}], "messages[0] is not an object"],
  [[{ role: "user", content: {} }], "messages[0] has no type"],
  [[{ role: "user", content: [text, {}] }], "messages[0] has no type"],
])("says what is wrong with the messages of a prompt: %j", (messages, problem) => {
  expect(resultProblem("prompt", { messages })).toBe(problem);
});
