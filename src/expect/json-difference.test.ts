import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Json } from "../base/json.ts";
import {
  containsJson,
  equalJson,
  jsonDifference,
  jsonDifferences,
  type MatchMode,
} from "./json-difference.ts";

function told(actual: Json, expected: Json, mode: MatchMode = "contain"): readonly unknown[] | undefined {
  const found = jsonDifference(actual, expected, mode);
  return found && [found.pointer, found.depth, found.messageFor("it")];
}

it("is the first place that is not as expected, and how deep it lies", () => {
  expect(told({ a: [1, { b: 2 }] }, { a: [1, { b: 3 }] })).toEqual(["/a/1/b", 3, "it is 2, expected 3"]);
  expect(told({ a: { b: 1 } }, { a: { c: 1 } })).toEqual(["/a/c", 1.5, "it is missing"]);
  expect(told([1, 2, 3], [1])).toEqual(["", 0, "it has 3 entries, expected 1"]);
  expect(told({ a: 1, b: 2 }, { a: 1 }, "equal")).toEqual(["/b", 1, "it is not expected"]);
  expect(told({ a: 1, b: 2 }, { a: 1 })).toBeUndefined();
});

it("has others after it, as many as are asked for", () => {
  const [actual, expected] = [
    { a: 1, b: [1, { c: 2 }], d: 1, e: [1] },
    { a: 2, b: [2, { c: 3 }], e: [] },
  ];
  const pointers = (limit: number): readonly string[] =>
    jsonDifferences(actual, expected, "equal", limit).map(({ pointer }) => pointer);
  expect(pointers(10)).toEqual(["/a", "/b/0", "/b/1/c", "/e", "/d"]);
  for (const limit of [1, 2, 3, 4]) expect(pointers(limit)).toEqual(pointers(10).slice(0, limit));
});

it("is written as a JSON pointer, and in few words", () => {
  expect(told({ "a/b": { "~": 1 } }, { "a/b": { "~": 2 } })?.[0]).toBe("/a~1b/~0");
  expect(told("x".repeat(100), null)?.[2]).toBe(`it is "${"x".repeat(79)}…, expected null`);
});

describe("equalJson", () => {
  it("is the equality of JSON texts with sorted keys", () => {
    const small = fc.jsonValue({ maxDepth: 1, stringUnit: fc.constantFrom("a") }) as fc.Arbitrary<Json>;
    fc.assert(
      fc.property(small, small, (a, b) => {
        expect(equalJson(a, b)).toBe(sorted(a) === sorted(b));
      }),
      { numRuns: 1000 },
    );
  });

  it.each<[Json, Json]>([
    [{}, []],
    [{}, null],
    [[], ""],
    [0, false],
    [1, "1"],
    [null, false],
    [{ a: 1 }, { a: 1, b: 1 }],
    [{ a: null }, {}],
    [{ a: null }, { b: null }],
    [
      [1, 2],
      [2, 1],
    ],
    [[1], [1, null]],
    [{ 0: "a" }, ["a"]],
    [{}, JSON.parse('{"__proto__":{}}') as Json],
    [{ constructor: 1 }, { toString: 1 }],
  ])("tells %j from %j", (a, b) => {
    expect([equalJson(a, b), equalJson(b, a)]).toEqual([false, false]);
  });

  it("knows keys that objects inherit from those that they have", () => {
    const own = JSON.parse('{"__proto__":1}') as Json;
    expect(equalJson(own, JSON.parse('{"__proto__":1}') as Json)).toBe(true);
    expect(equalJson(own, JSON.parse('{"__proto__":2}') as Json)).toBe(false);
  });
});

describe("containsJson", () => {
  it.each<[Json, Json, boolean]>([
    [{ a: 1, b: 2 }, { a: 1 }, true],
    [{ a: 1 }, { a: 1, b: 2 }, false],
    [{ a: { b: 1, c: 2 } }, { a: { c: 2 } }, true],
    [{ a: 1 }, {}, true],
    [[], {}, false],
    [{}, [], false],
    [null, {}, false],
    [[{ a: 1, b: 2 }], [{ a: 1 }], true],
    [[1, 2], [1], false],
    [[1, 2], [2, 1], false],
    ["abc", "b", false],
    [{ a: null }, { a: null }, true],
    [{}, { a: null }, false],
    [{}, { toString: {} }, false],
  ])("%j contains %j: %j", (actual, expected, holds) => {
    expect(containsJson(actual, expected)).toBe(holds);
  });
});

function sorted(value: Json): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(Object.is(value, -0) ? 0 : value);
  if (Array.isArray(value)) return `[${value.map(sorted).join(",")}]`;
  const members = Object.entries(value).map(([key, item]) => `${JSON.stringify(key)}:${sorted(item)}`);
  return `{${members.toSorted().join(",")}}`;
}
