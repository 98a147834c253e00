import { expect, test } from "vitest";
import type { JsonObject } from "../core/formats/model.ts";
import { toolOutput } from "./offered-tools.ts";

const png = { type: "image", data: "iVBORw0KGgo=", mimeType: "image/png" };

function output(result: JsonObject, images = true): unknown {
  return toolOutput({ kind: "result", result, latencyMs: 1 }, { images });
}

test.each<[string, JsonObject, unknown]>([
  [
    "texts are joined",
    {
      content: [
        { type: "text", text: "a" },
        { type: "text", text: "b" },
      ],
    },
    { type: "text", value: "a\nb" },
  ],
  [
    "structured content stands in for a missing text",
    { content: [], structuredContent: { a: [1] } },
    { type: "text", value: '{"a":[1]}' },
  ],
  [
    "structured content is not repeated beside a text",
    { content: [{ type: "text", text: "one" }], structuredContent: { a: 1 } },
    { type: "text", value: "one" },
  ],
  ["nothing at all says so", { content: [] }, { type: "text", value: "(empty result)" }],
  ["a result that is no CallToolResult says so", {}, { type: "text", value: "(empty result)" }],
  [
    "an image follows the text",
    { content: [png, { type: "text", text: "see" }] },
    {
      type: "content",
      value: [
        { type: "text", text: "see" },
        { type: "file", mediaType: "image/png", data: { type: "data", data: "iVBORw0KGgo=" } },
      ],
    },
  ],
  [
    "an image alone gets a text, which Gemini needs to see the call answered",
    { content: [png] },
    {
      type: "content",
      value: [
        { type: "text", text: "(an image)" },
        { type: "file", mediaType: "image/png", data: { type: "data", data: "iVBORw0KGgo=" } },
      ],
    },
  ],
  [
    "images that providers refuse are described",
    {
      content: [
        { type: "image", data: "PHN2Zz4=", mimeType: "image/svg+xml" },
        { type: "image", data: "not base64!", mimeType: "image/png" },
      ],
    },
    { type: "text", value: "[image image/svg+xml 6 bytes]\n[image image/png 8 bytes]" },
  ],
  [
    "resources, links and sound",
    {
      content: [
        { type: "resource", resource: { uri: "demo://1", text: "inside" } },
        { type: "resource", resource: { uri: "demo://2", mimeType: "application/gzip", blob: "AAAA" } },
        { type: "resource_link", name: "Third", uri: "demo://3", mimeType: "text/plain" },
        { type: "audio", data: "AAAAAAAA", mimeType: "audio/wav" },
      ],
    },
    {
      type: "text",
      value: [
        "inside",
        "[resource demo://2 application/gzip 3 bytes]",
        "[resource link Third demo://3 text/plain]",
        "[audio audio/wav 6 bytes]",
      ].join("\n"),
    },
  ],
  [
    "a failure is told as an error, images described",
    { isError: true, content: [{ type: "text", text: "no such file" }, png] },
    { type: "error-text", value: "no such file\n[image image/png 9 bytes]" },
  ],
])("%s", (_what, result, expected) => {
  expect(output(result)).toEqual(expected);
});

test("images are described where tool results cannot carry them", () => {
  expect(output({ content: [png] }, false)).toEqual({ type: "text", value: "[image image/png 9 bytes]" });
});
