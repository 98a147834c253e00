import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { JsonObject } from "../base/json.ts";
import { nameTools, toolOutput, type ToolRef } from "./offered-tools.ts";

describe("nameTools", () => {
  const ref = (server: string, tool: string): ToolRef => ({ server, tool });
  const long = "x".repeat(80);

  it.each<[string, ToolRef[], string[]]>([
    ["that only one server has", [ref("a", "get-sum")], ["get-sum"]],
    ["of two servers", [ref("a", "search"), ref("b", "search")], ["a__search", "b__search"]],
    ["with illegal characters", [ref("my server", "do it!")], ["my_server__do_it_"]],
    ["with letters that are not ASCII", [ref("1st", "größe")], ["_1st__gr__e"]],
    ["that begins with a digit", [ref("a", "1st")], ["a__1st"]],
    ["that is empty", [ref("a", "")], ["a__"]],
    [
      "that is too long",
      [ref("a", `${long}1`), ref("a", `${long}2`)],
      [`a__${"x".repeat(53)}_#`, `a__${"x".repeat(53)}_#`],
    ],
    [
      "that collides with others",
      [ref("a", "x.y"), ref("a", "x y"), ref("b", "c__t"), ref("c", "t"), ref("d", "t")],
      ["a__x_y_#", "a__x_y_#", "c__t", "c__t_#", "d__t"],
    ],
  ])("names a tool %s", (_, refs, expected) => {
    const names = [...nameTools(refs).keys()];
    expect(names.map((name) => name.replace(/_[a-z0-9]{7}$/, "_#")).toSorted()).toEqual(expected);
    expect(new Set(names).size).toBe(refs.length);
  });

  const legal = /^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$/;
  const word = fc.oneof(
    fc.constantFrom("a", "b", "a__b", "search", "__proto__", "constructor", "x.y", "x y", "é", ""),
    fc.string({ unit: "binary", maxLength: 100 }),
  );
  const refs = fc.array(fc.record({ server: word, tool: word }), { maxLength: 12 });

  it("gives every tool exactly one legal name, its own if possible, whatever the order", () => {
    fc.assert(
      fc.property(refs, (tools) => {
        const names = nameTools(tools);
        const keys = (list: Iterable<ToolRef>): Set<string> =>
          new Set([...list].map(({ server, tool }) => JSON.stringify([server, tool])));
        expect(keys(names.values())).toEqual(keys(tools));
        expect(names.size).toBe(keys(tools).size);
        for (const name of names.keys()) expect(name).toMatch(legal);
        expect(new Map(nameTools(tools.toReversed()))).toEqual(new Map(names));
        for (const { server, tool } of tools) {
          const isShared = tools.some((other) => other.tool === tool && other.server !== server);
          if (!isShared && legal.test(tool)) expect(names.get(tool)).toEqual({ server, tool });
        }
      }),
      { numRuns: 1000 },
    );
  });
});

describe("toolOutput", () => {
  const png = { type: "image", data: "iVBORw0KGgo=", mimeType: "image/png" };
  const text = (value: string): JsonObject => ({ type: "text", text: value });
  const file = { type: "file", mediaType: "image/png", data: { type: "data", data: "iVBORw0KGgo=" } };
  const structuredContent = { a: [1] };
  const resources = [
    { type: "resource", resource: { uri: "demo://1", text: "inside" } },
    { type: "resource", resource: { uri: "demo://2", mimeType: "application/gzip", blob: "AAAA" } },
    { type: "resource_link", name: "Third", uri: "demo://3", mimeType: "text/plain" },
    { type: "audio", data: "AAAAAAAA", mimeType: "audio/wav" },
  ];
  const described =
    "inside\n[resource demo://2 application/gzip 3 bytes]\n" +
    "[resource link Third demo://3 text/plain]\n[audio audio/wav 6 bytes]";
  const refusedImages = [
    { type: "image", data: "PHN2Zz4=", mimeType: "image/svg+xml" },
    { type: "image", data: "not base64!", mimeType: "image/png" },
  ];

  it.each<[string, JsonObject, string | object]>([
    ["joins texts", { content: [text("a"), text("b")] }, "a\nb"],
    ["has structured content instead of a missing text", { content: [], structuredContent }, '{"a":[1]}'],
    ["does not repeat structured content", { content: [text("one")], structuredContent }, "one"],
    ["says so when it is empty", { content: [] }, "(empty result)"],
    ["says so for an invalid result", {}, "(empty result)"],
    [
      "has images after the text",
      { content: [png, text("see")] },
      { type: "content", value: [text("see"), file] },
    ],
    // Gemini needs a text to see the call answered.
    [
      "has a text beside an image",
      { content: [png] },
      { type: "content", value: [text("(an image)"), file] },
    ],
    [
      "has a text beside images",
      { content: [png, png] },
      { type: "content", value: [text("(2 images)"), file, file] },
    ],
    [
      "describes images that providers refuse",
      { content: refusedImages },
      "[image image/svg+xml 6 bytes]\n[image image/png 8 bytes]",
    ],
    ["describes resources, links and sound", { content: resources }, described],
    [
      "is an error for a failure, with its images described",
      { isError: true, content: [text("no such file"), png] },
      { type: "error-text", value: "no such file\n[image image/png 9 bytes]" },
    ],
  ])("%s", (_, result, expected) => {
    const output = toolOutput({ kind: "result", result, latencyMs: 1 }, { images: true });
    expect(output).toEqual(typeof expected === "string" ? { type: "text", value: expected } : expected);
  });

  it("describes images where tool results cannot carry them", () => {
    const result = { content: [png] };
    const output = toolOutput({ kind: "result", result, latencyMs: 1 }, { images: false });
    expect(output).toEqual({ type: "text", value: "[image image/png 9 bytes]" });
  });
});
