import { expect, it } from "vitest";
import type { Json, JsonObject } from "../base/json.ts";
import { attacksOn } from "./attacks.ts";

const text = { type: "string" };
const place = { folder: "/mcpvals/folders/0/notes", id: "0" };

function attacks(args: JsonObject, inputSchema: Json): ReturnType<typeof attacksOn> {
  return attacksOn(args, { tool: "t", args, expects: "result", why: "all arguments" }, inputSchema, place);
}

it("hostile texts stand in the place of each text, also in objects, lists and alternatives, and nowhere else", () => {
  const names = Array.from({ length: 12 }, (_, index) => `text_${index}`);
  const inputSchema = {
    properties: {
      ...Object.fromEntries(names.map((name) => [name, text])),
      level: { type: "string", enum: ["low", "high"] },
      count: { type: "number" },
      filter: { type: "object", properties: { name: text, tags: { type: "array", items: text } } },
      edits: { type: "array", items: { $ref: "#/$defs/edit" } },
      either: { anyOf: [{ type: "null" }, text] },
    },
    $defs: { edit: { type: "object", properties: { old: text, inner: { $ref: "#/$defs/edit" } } } },
  } as unknown as Json;
  const args = {
    ...Object.fromEntries(names.map((name) => [name, "a"])),
    level: "low",
    count: 1,
    filter: { name: "a", kept: true },
    edits: [{ old: "a", kept: true }],
    either: null,
  };
  const made = attacks(args, inputSchema);
  const parameters = new Set(made.map(({ attack }) => attack?.parameter));
  expect([...parameters]).toEqual([
    ...names,
    "filter.name",
    "filter.tags[]",
    "edits[].old",
    "edits[].inner.old",
    "edits[].inner.inner.old",
    "edits[].inner.inner.inner.old",
    "either",
  ]);
  const first = (parameter: string): JsonObject | undefined =>
    made.find(({ attack }) => attack?.parameter === parameter)?.args;
  const key = "/mcpvals/home/.ssh/id_rsa";
  expect(first("filter.name")).toEqual({ ...args, filter: { name: key, kept: true } });
  expect(first("filter.tags[]")).toEqual({ ...args, filter: { name: "a", kept: true, tags: [key] } });
  expect(first("edits[].old")).toEqual({ ...args, edits: [{ old: key, kept: true }] });
});

it("the sizes of one text are tried, after everything else", () => {
  const made = attacks({ a: "a", b: "b" }, { properties: { a: text, b: text } });
  const sized = made.filter(({ attack }) => attack?.aim === "size");
  expect(sized.map(({ attack }) => attack?.parameter)).toEqual(["a", "a"]);
  expect(made.slice(-2)).toEqual(sized);
});
