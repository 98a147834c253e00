import { afterAll, describe, expect, it } from "vitest";
import { goDurationPattern } from "../../src/base/duration.ts";
import type { JsonObject } from "../../src/base/json.ts";
import { checkArguments } from "../../src/extensions/check-uses.ts";
import { SchemaValidator } from "../../src/graders/schema-validator.ts";

const validator = new SchemaValidator();
afterAll(() => validator[Symbol.asyncDispose]());

async function messages(args: JsonObject, params: JsonObject): Promise<readonly string[]> {
  const call = { name: "x.do", params, args };
  const problems = await checkArguments(call, (schema, value) => validator.validate(schema, value));
  return problems.map(({ message }) => message);
}

const table: JsonObject = {
  type: "object",
  properties: {
    path: { type: "string" },
    rows: { type: "integer", minimum: 1, default: 1 },
    timeout: { type: "string", pattern: goDurationPattern },
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

describe("arguments of an operation", () => {
  it.each<[string, JsonObject, readonly string[]]>([
    ["valid ones, with a default", { path: "a.csv" }, []],
    ["valid ones, with a template", { path: "{workspace}/a.csv" }, []],
    ["a missing one", {}, ["x.do needs path"]],
    [
      "all problems of known values",
      { path: 1, row: 2, filter: { column: "a", limit: 11 }, list: [{ n: "one" }] },
      [
        'x.do has no argument "row"',
        "x.do: path must be string, is 1",
        "x.do: filter.limit must be <= 10, is 11",
        'x.do: list[0].n must be integer, is "one"',
      ],
    ],
    [
      "a duration",
      { path: "a", timeout: "soon" },
      ['x.do: timeout must be a duration, such as 90s or 1m30s, is "soon"'],
    ],
    [
      "beside templates, what does not depend on them",
      {
        row: "{random.id}",
        rows: 0,
        list: [{ n: "{item}" }, { n: "1" }, { m: "{steps.a.outputs.b | json}" }],
      },
      [
        "x.do needs path",
        'x.do has no argument "row"',
        "x.do: rows must be >= 1, is 0",
        'x.do: list[1].n must be integer, is "1"',
        "x.do: list[2] must have required property 'n'",
      ],
    ],
    [
      "known parts of an object with a template, references included",
      { path: "{workspace}", filter: { column: "{x}", limit: 11, more: 1 } },
      [
        'x.do: filter must NOT have additional properties ("more")',
        "x.do: filter.limit must be <= 10, is 11",
      ],
    ],
    ["the type of an object with a template", { path: { at: "{workspace}" } }, ["x.do: path must be string"]],
  ])("%s", async (_, args, expected) => {
    expect(await messages(args, table)).toEqual(expected);
  });

  it("are compared as they are after escaped braces were replaced", async () => {
    const schema = { type: "object", properties: { a: { const: "{env.X}" } } };
    expect(await messages({ a: "{{env.X}}" }, schema)).toEqual([]);
    expect(await messages({ a: "{env.X}" }, schema)).toEqual([]);
    expect(await messages({ a: "env.X" }, schema)).toEqual([
      'x.do: a must be equal to constant ("{env.X}"), is "env.X"',
    ]);
  });

  it("are left to the trial where alternatives depend on a template", async () => {
    const schema = { type: "object", oneOf: [{ properties: { a: { const: 1 } } }, { required: ["b"] }] };
    expect(await messages({ a: "{x}" }, schema)).toEqual([]);
    expect(await messages({ a: 2 }, schema)).toEqual([
      "x.do: a must be equal to constant (1), is 2",
      "x.do needs b",
      'x.do: the arguments must match exactly one schema in oneOf, is {"a":2}',
    ]);
  });

  it("may have any name that a pattern allows, also beside a template", async () => {
    const schema = { type: "object", patternProperties: { "^x-": {} }, additionalProperties: false };
    expect(await messages({ "x-a": 1, "x-b": "{x}" }, schema)).toEqual([]);
  });

  it("have a schema that cannot be used", async () => {
    expect(await messages({}, { type: "objekt" })).toEqual([
      expect.stringMatching(/^x\.do: its JSON Schema cannot be used: /),
    ]);
  });
});

describe("alternatives that are told apart by names", () => {
  const query = {
    type: "object",
    properties: { path: {}, sql: {}, file: {}, connection: {}, url: {}, a: {}, b: {} },
    required: ["path"],
    anyOf: [{ required: ["a"] }, { required: ["b"] }],
    allOf: [
      { oneOf: [{ required: ["sql"] }, { required: ["file"] }] },
      { not: { required: ["connection", "url"] } },
      { properties: { b: { const: 1 } } },
    ],
  };

  it.each<[JsonObject, readonly string[]]>([
    [{ path: "x", a: 1, sql: "x" }, []],
    [{ sql: "x" }, ["x.do needs path", "x.do needs a or b"]],
    [{ path: "x", a: 1 }, ["x.do needs sql or file"]],
    [{ path: "x", a: 1, sql: "x", file: "y" }, ["x.do takes only one of sql, file"]],
    [{ path: "x", a: 1, sql: "x", connection: "c", url: "u" }, ["x.do takes only one of connection, url"]],
  ])("%j is one sentence each, also beside a template", async (args, expected) => {
    expect((await messages(args, query)).toSorted()).toEqual(expected.toSorted());
    expect((await messages({ ...args, more: "{x}" }, query)).toSorted()).toEqual(expected.toSorted());
  });

  it("are named although the validator stopped before their own error", async () => {
    const names = ["a", "b", "c", "d", "e", "f"];
    const many = { type: "object", anyOf: names.map((name) => ({ required: [name] })) };
    expect(await messages({}, many)).toEqual(["x.do needs a, b, c, d, e or f"]);
  });
});

it("a problem has a hint about the arguments that there are", async () => {
  const hints = async (args: JsonObject, params: JsonObject): Promise<readonly string[]> =>
    (
      await checkArguments({ name: "x.do", params, args }, (schema, value) =>
        validator.validate(schema, value),
      )
    ).map(({ hint }) => hint);
  const params = { type: "object", properties: { path: {}, equals: {} }, required: ["path"] };
  expect(await hints({}, params)).toEqual(["It takes path, equals. It needs path."]);
  expect(await hints({ path: 1, equal: 1 }, { ...params, additionalProperties: false })).toEqual([
    'Did you mean "equals"? Known arguments: path, equals.',
  ]);
  expect(await hints({}, { type: "object", minProperties: 1 })).toEqual([
    "Its manifest lists its arguments.",
  ]);
});
