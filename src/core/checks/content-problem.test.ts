import { expect, it } from "vitest";
import type { Json } from "../formats/model.ts";
import { contentProblem, resultProblem } from "./result-text.ts";

const text = { type: "text", text: "hi" };

it.each<[Json[]]>([
  [[]],
  [[text, { ...text, annotations: { audience: ["user"] }, new: 1 }]],
  [[{ type: "image", data: "", mimeType: "image/png" }]],
  [[{ type: "audio", data: "", mimeType: "audio/wav" }]],
  [[{ type: "resource_link", uri: "file:///a", name: "a" }]],
  [[{ type: "resource", resource: { uri: "file:///a", text: "" } }]],
  [[{ type: "resource", resource: { uri: "file:///a", blob: "" } }]],
])("takes the content %j", (content) => {
  expect(contentProblem({ content, isError: true })).toBeUndefined();
});

it("leaves a result without content to others", () => {
  expect(contentProblem({ structuredContent: {} })).toBeUndefined();
});

it.each<[Json, string]>([
  ["hi", "content is not a list"],
  [null, "content is not a list"],
  [[text, "hi"], "content[1] is not an object"],
  [[{ text: "hi" }], "content[0] has no type"],
  [[{ type: "video" }], 'content[0] has a type that MCP does not know: "video"'],
  [[{ type: "toString" }], 'content[0] has a type that MCP does not know: "toString"'],
  [[{ type: "text" }], "content[0] is of type text but has no text"],
  [[{ type: "text", text: 5 }], "content[0] is of type text but has no text"],
  [[{ type: "image", data: "" }], "content[0] is of type image but has no mimeType"],
  [[{ type: "resource" }], "content[0] is of type resource but has no resource"],
  [[{ type: "resource", resource: { text: "" } }], "content[0] has a resource without uri"],
  [
    [{ type: "resource", resource: { uri: "file:///a" } }],
    "content[0] has a resource with neither text nor blob",
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
