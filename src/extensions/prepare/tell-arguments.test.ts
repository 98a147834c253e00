import { describe, expect, it } from "vitest";
import type { JsonObject } from "../../core/formats/model.ts";
import { tellArguments } from "./check-uses.ts";

const count = {
  type: "object",
  properties: { path: {}, where: {}, equals: {}, atLeast: {} },
  required: ["path"],
  anyOf: [{ required: ["equals"] }, { required: ["atLeast"] }],
};
const query = {
  type: "object",
  properties: { sql: {}, file: {}, connection: {}, url: {} },
  allOf: [
    { oneOf: [{ required: ["sql"] }, { required: ["file"] }] },
    { not: { required: ["connection", "url"] } },
  ],
};

function told(problems: readonly string[], params: JsonObject, args: JsonObject = {}): string[] {
  return tellArguments(problems, { called: "x.do", params, args }).map(
    ({ message, hint }) => `${message} | ${hint}`,
  );
}

const takes = "It takes path, where, equals, atLeast. It needs path.";

describe("what a validator says of arguments", () => {
  it("becomes a sentence about a name that is missing or that there is not", () => {
    const problems = [
      "the arguments must have required property 'path'",
      'the arguments must NOT have additional properties ("equal")',
    ];
    expect(told(problems, count)).toEqual([
      `x.do needs path | ${takes}`,
      'x.do has no argument "equal" | Did you mean "equals"? Known arguments: path, where, equals, atLeast.',
    ]);
  });

  it("is told once where one of several is needed", () => {
    const problems = [
      "the arguments must have required property 'equals'",
      "the arguments must have required property 'atLeast'",
      'the arguments must match a schema in anyOf, is {"where":{}}',
      "the arguments must have required property 'path'",
    ];
    expect(told(problems, count, { where: {} })).toEqual([
      `x.do needs path | ${takes}`,
      `x.do needs equals or atLeast | ${takes}`,
    ]);
  });

  it("is told once where the validator stopped among many alternatives", () => {
    const problems = ["the arguments must have required property 'equals'"];
    expect(told(problems, count, { path: "x" })).toEqual([`x.do needs equals or atLeast | ${takes}`]);
  });

  it("is told once where only one of several may be given", () => {
    const names = "It takes sql, file, connection, url.";
    const both = ['the arguments must match exactly one schema in oneOf, is {"sql":"x","file":"y"}'];
    expect(told(both, query, { sql: "x", file: "y" })).toEqual([
      `x.do takes only one of sql, file | ${names}`,
    ]);
    const places = ['the arguments must NOT be valid, is {"sql":"x"}'];
    expect(told(places, query, { sql: "x", connection: "a", url: "b" })).toEqual([
      `x.do takes only one of connection, url | ${names}`,
    ]);
  });

  it("stays as it is where it is about values, with the path as it would be written", () => {
    const problems = [
      '/cells/0/row must be integer, is "one"',
      "/list/2 must have required property 'n'",
      "/ratio must be > 0, is 0",
      'the arguments must match a schema in anyOf, is {"a":1}',
    ];
    expect(told(problems, {})).toEqual(
      [
        'x.do: cells[0].row must be integer, is "one"',
        "x.do: list[2] must have required property 'n'",
        "x.do: ratio must be > 0, is 0",
        'x.do: the arguments must match a schema in anyOf, is {"a":1}',
      ].map((message) => `${message} | Its manifest says which arguments it takes.`),
    );
  });
});
