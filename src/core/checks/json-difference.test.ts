import { expect, it } from "vitest";
import type { Json } from "../formats/model.ts";
import { jsonDifference, type MatchMode } from "./json-difference.ts";

function told(actual: Json, expected: Json, mode: MatchMode = "contain"): readonly unknown[] | undefined {
  const found = jsonDifference(actual, expected, mode);
  return found && [found.pointer, found.depth, found.tell("it")];
}

it("is the first place that is not as expected, and how deep it lies", () => {
  expect(told({ a: [1, { b: 2 }] }, { a: [1, { b: 3 }] })).toEqual(["/a/1/b", 3, "it is 2, expected 3"]);
  expect(told({ a: { b: 1 } }, { a: { c: 1 } })).toEqual(["/a/c", 1.5, "it is missing"]);
  expect(told([1, 2, 3], [1])).toEqual(["", 0, "it has 3 entries, expected 1"]);
  expect(told({ a: 1, b: 2 }, { a: 1 }, "equal")).toEqual(["/b", 1, "it is not expected"]);
  expect(told({ a: 1, b: 2 }, { a: 1 })).toBeUndefined();
});

it("is written as a JSON pointer, and in few words", () => {
  expect(told({ "a/b": { "~": 1 } }, { "a/b": { "~": 2 } })?.[0]).toBe("/a~1b/~0");
  expect(told("x".repeat(100), null)?.[2]).toBe(`it is "${"x".repeat(79)}…, expected null`);
});
