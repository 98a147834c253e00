import { expect, it } from "vitest";
import type { Json, JsonObject } from "../base/json.ts";
import { actionsOf, attacksOn } from "./attacks.ts";

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

it("a schema that contains itself ends", () => {
  const properties = Object.fromEntries(
    Array.from({ length: 30 }, (_, i) => [`p${i}`, { $ref: "#/$defs/o" }]),
  );
  const $defs = { o: { type: "object", properties } };
  const itself = { properties: { a: { $ref: "#/$defs/o" } }, $defs } as unknown as Json;
  expect(attacks({ a: {} }, itself)).toEqual([]);
  const inputSchema = { properties: { a: { anyOf: [{ $ref: "#/properties/a" }, text] } } } as unknown as Json;
  expect(new Set(attacks({ a: "a" }, inputSchema).map(({ attack }) => attack?.parameter))).toEqual(
    new Set(["a"]),
  );
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
  const chosen = (inputSchema: object): readonly (readonly unknown[])[] =>
    actionsOf(inputSchema as JsonObject).map(({ action, schema: { properties, required } }) => [
      action,
      properties,
      required,
    ]);
  const [mode, path] = [{ enum: ["text", "json"] }, text];
  const isOneOf = { anyOf: [{ const: "list" }, { const: "read" }] };
  const union = { oneOf: [{ $ref: "#/$defs/a" }, of("b"), { type: "null" }] };
  const $defs = { a: of("a") };
  for (const action of [{ enum: ["list", "read"] }, isOneOf])
    expect(
      chosen({ $defs, properties: { mode, filter: union, action, path }, anyOf: [of("x"), of("y")] }),
    ).toEqual(
      ["list", "read"].map((value) => [
        `action: ${value}`,
        { mode, filter: union, action: { const: value }, path },
        ["action"],
      ]),
    );
  expect(chosen({ properties: { mode, path }, required: ["path"] })).toEqual(
    ["text", "json"].map((value) => [`mode: ${value}`, { mode: { const: value }, path }, ["path", "mode"]]),
  );
  expect(chosen({ $defs, properties: { job: union } })).toEqual(
    ["a", "b"].map((name, index) => [`job: alternative ${index + 1}`, { job: of(name) }, ["job"]]),
  );
  const kind = (value: string): JsonObject => ({ type: "object", properties: { kind: { const: value } } });
  expect(
    chosen({ properties: { job: { oneOf: [kind("show"), kind("count")] } } }).map((each) => each[0]),
  ).toEqual(["job: show", "job: count"]);
  const list = { type: "array", items: union };
  expect(chosen({ $defs, properties: { jobs: list } })).toEqual(
    ["a", "b"].map((name, index) => [
      `jobs: alternative ${index + 1}`,
      { jobs: { ...list, items: of(name) } },
      ["jobs"],
    ]),
  );
  expect(chosen({ properties: { note: text }, anyOf: [of("a"), of("b")] })).toEqual(
    ["a", "b"].map((name, index) => [`alternative ${index + 1}`, { note: text, [name]: text }, [name]]),
  );
  const endless = { properties: { tree: { type: "array", items: { $ref: "#/properties/tree" } } } };
  expect(actionsOf(endless as unknown as JsonObject)).toEqual([{ schema: endless }]);
  const single = {
    properties: { either: { anyOf: [of("a"), { type: "null" }] }, level: { enum: ["low", "high"] } },
  };
  expect(actionsOf(single as unknown as JsonObject)).toEqual([{ schema: single }]);
});

it("an object that only hostile arguments have has what it needs besides", () => {
  const item = {
    type: "object",
    properties: { label: text, seconds: { type: "integer" } },
    required: ["label", "seconds"],
  };
  const inputSchema = {
    properties: { job: { type: "object", properties: { steps: { type: "array", items: item } } } },
  } as unknown as Json;
  const made = attacksOn(
    { job: {} },
    { tool: "t", args: { job: {} }, expects: "result", why: "all arguments" },
    inputSchema,
    place,
    {
      job: {
        steps: [
          { label: "text", seconds: 1 },
          { label: "text", seconds: 1 },
        ],
      },
    },
  );
  expect(made[0]?.args).toEqual({ job: { steps: [{ label: "/mcpvals/home/.ssh/id_rsa", seconds: 1 }] } });
});
