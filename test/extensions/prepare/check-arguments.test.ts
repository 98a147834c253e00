import { afterAll, expect, it } from "vitest";
import type { JsonObject } from "../../../src/core/formats/model.ts";
import { checkArguments } from "../../../src/extensions/prepare/check-uses.ts";
import { SchemaValidator } from "../../../src/graders/schema-validator.ts";

const validator = new SchemaValidator();
afterAll(() => validator[Symbol.asyncDispose]());

const params: JsonObject = {
  type: "object",
  properties: {
    path: { type: "string" },
    rows: { type: "integer", minimum: 1, default: 1 },
    filter: {
      type: "object",
      properties: { column: { type: "string" }, limit: { $ref: "#/$defs/limit" } },
      required: ["column"],
      additionalProperties: false,
    },
    list: {
      type: "array",
      items: { type: "object", properties: { n: { type: "integer" } }, required: ["n"] },
    },
  },
  required: ["path", "rows"],
  additionalProperties: false,
  $defs: { limit: { type: "integer", maximum: 10 } },
};

const check = (args: JsonObject, schema = params): Promise<readonly string[]> =>
  checkArguments(schema, args, (each, value) => validator.validate(each, value));

it("takes arguments that fit, defaults filled in", async () => {
  expect(await check({ path: "a.csv" })).toEqual([]);
  expect(await check({ path: "{workspace}/a.csv" })).toEqual([]);
});

it("says everything that is wrong with arguments that have no templates", async () => {
  expect(await check({ path: 1, row: 2, filter: { column: "a", limit: 11 } })).toEqual([
    'the arguments must NOT have additional properties ("row")',
    "/path must be string, is 1",
    "/filter/limit must be <= 10, is 11",
  ]);
  expect(await check({})).toEqual(["the arguments must have required property 'path'"]);
});

it("beside templates says what does not depend on them", async () => {
  expect(
    await check({ row: "{random.id}", rows: 0, list: [{ n: "{x}" }, { n: "1" }, { m: "{x}" }] }),
  ).toEqual([
    "the arguments must have required property 'path'",
    'the arguments must NOT have additional properties ("row")',
    "/rows must be >= 1, is 0",
    '/list/1/n must be integer, is "1"',
    "/list/2 must have required property 'n'",
  ]);
});

it("checks the parts inside an object with a template by themselves, references included", async () => {
  const inside = { path: "{workspace}", filter: { column: "{x}", limit: 11, more: 1 } };
  expect(await check(inside)).toEqual([
    '/filter must NOT have additional properties ("more")',
    "/filter/limit must be <= 10, is 11",
  ]);
  expect(await check({ path: { at: "{workspace}" } })).toEqual(["/path must be string"]);
});

it("takes escaped braces for what they write", async () => {
  const schema = { type: "object", properties: { a: { const: "{env.X}" } } };
  expect(await check({ a: "{{env.X}}" }, schema)).toEqual([]);
  expect(await check({ a: "{env.X}" }, schema)).toEqual([]);
  expect(await check({ a: "env.X" }, schema)).toEqual([
    '/a must be equal to constant ("{env.X}"), is "env.X"',
  ]);
});

it("leaves alternatives to the trial where they depend on a template", async () => {
  const schema = { type: "object", oneOf: [{ properties: { a: { const: 1 } } }, { required: ["b"] }] };
  expect(await check({ a: "{x}" }, schema)).toEqual([]);
  expect(await check({ a: 2 }, schema)).toHaveLength(3);
});

it("heeds alternatives that are about names only, beside templates too", async () => {
  const schema = {
    type: "object",
    allOf: [
      { anyOf: [{ required: ["a"] }, { required: ["b"] }] },
      { not: { required: ["b", "c"] } },
      { properties: { c: { const: 1 } } },
    ],
  };
  const seen = async (args: JsonObject): Promise<unknown> => [
    await check(args, schema),
    await check({ ...args, x: "{x}" }, schema),
  ];
  const needed = expect.arrayContaining([
    expect.stringMatching(/^the arguments must match a schema in anyOf(?:, is \{\})?$/),
  ]);
  expect(await seen({})).toEqual([needed, needed]);
  const both = [expect.stringMatching(/^the arguments must NOT be valid(?:, is \{"b":1,"c":1\})?$/)];
  expect(await seen({ b: 1, c: 1 })).toEqual([both, both]);
  expect(await seen({ a: "{x}", c: 1 })).toEqual([[], []]);
});

it("says so when the schema itself is broken", async () => {
  expect(await check({}, { type: "objekt" })).toEqual([
    expect.stringMatching(/^its JSON Schema cannot be used: /),
  ]);
});
