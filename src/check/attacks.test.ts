import { expect, it } from "vitest";
import type { Json, JsonObject } from "../base/json.ts";
import { actionSchemas, attacksOn } from "./attacks.ts";

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

it("a tool has a schema for each action and each alternative", () => {
  const of = (name: string): JsonObject => ({
    type: "object",
    properties: { [name]: text },
    required: [name],
  });
  const chosen = (inputSchema: Json): readonly Json[] =>
    actionSchemas(inputSchema as JsonObject).map(
      ({ properties, required }) => ({ properties, required }) as Json,
    );
  const properties = { mode: { enum: ["a", "b"] }, note: text };
  expect(chosen({ properties, required: ["note"] } as unknown as Json)).toEqual([
    { properties: { ...properties, mode: { const: "a" } }, required: ["note", "mode"] },
    { properties: { ...properties, mode: { const: "b" } }, required: ["note", "mode"] },
  ]);
  const union = { oneOf: [{ $ref: "#/$defs/a" }, of("b"), { type: "null" }] };
  const $defs = { a: of("a") };
  expect(chosen({ $defs, properties: { job: union } } as unknown as Json)).toEqual(
    ["a", "b"].map((name) => ({ properties: { job: of(name) }, required: ["job"] })),
  );
  const list = { type: "array", items: union };
  expect(chosen({ $defs, properties: { jobs: list } } as unknown as Json)).toEqual(
    ["a", "b"].map((name) => ({ properties: { jobs: { ...list, items: of(name) } }, required: ["jobs"] })),
  );
  expect(chosen({ properties: { note: text }, anyOf: [of("a"), of("b")] } as unknown as Json)).toEqual(
    ["a", "b"].map((name) => ({ properties: { note: text, [name]: text }, required: [name] })),
  );
  const single = {
    properties: { either: { anyOf: [of("a"), { type: "null" }] }, level: { enum: ["low", "high"] } },
  };
  expect(actionSchemas(single as unknown as JsonObject)).toEqual([single]);
});
