import { expect, it } from "vitest";
import type { Json } from "../../core/formats/model.ts";
import { checkRows } from "./evidence.ts";

function rowsOf(expected: Json, actual: Json, message = "differs"): string[] {
  const check = { name: "result", passed: false, expected, actual, message };
  return checkRows(check, message).flatMap((row) => row.pieces.map((piece) => `${row.label} ${piece.text}`));
}

it("shows single values side by side", () => {
  expect(rowsOf("sunny", "it rains")).toEqual(['expected "sunny"', 'actual "it rains"']);
});

it("does not repeat what the reason states, but is not fooled by parts of words", () => {
  expect(rowsOf(6, 5, "the number found is 5, expected 6")).toEqual([]);
  expect(rowsOf(6, 5, "the number found is 15, expected 6.5")).toEqual(["expected 6", "actual 5"]);
});

it("does not quote our own words, as it does data", () => {
  const rows = (name: string, expected: Json, actual: Json): string[] =>
    checkRows({ name, passed: false, expected, actual, message: "" }, "told").flatMap(({ label, pieces }) =>
      pieces.map(({ text }) => `${label} ${text}`),
    );
  expect(rows("exists", "a file", "nothing")).toEqual(["expected a file", "actual nothing"]);
  expect(rows("call", "a result", "it broke")).toEqual(["expected a result", 'actual "it broke"']);
  expect(rows("body equals", "a file", "nothing")).toEqual(['expected "a file"', 'actual "nothing"']);
});

it("diffs objects in the order of the expected keys, without those nobody asked about", () => {
  expect(rowsOf({ a: 1, b: { c: 2 } }, { z: 0, b: { d: 1, c: 3 }, a: 1 })).toEqual([
    "diff - expected  + actual",
    "diff   {",
    'diff     "a": 1,',
    'diff     "b": {',
    'diff -     "c": 2',
    'diff +     "c": 3',
    "diff     }",
    "diff   }",
  ]);
});

it("keeps every key where exactly this value was expected", () => {
  expect(rowsOf({ $equals: { a: 1 } }, { a: 1, b: 2 })).toEqual([
    "diff - expected  + actual",
    "diff   {",
    'diff -   "a": 1',
    'diff +   "a": 1,',
    'diff +   "b": 2',
    "diff   }",
  ]);
});

it("diffs text of several lines", () => {
  expect(rowsOf("one\ntwo\nthree", "one\n2\nthree")).toEqual([
    "diff - expected  + actual",
    "diff   one",
    "diff - two",
    "diff + 2",
    "diff   three",
  ]);
});

it("shortens large values and long diffs", () => {
  const long = Array.from({ length: 100 }, (_, index) => index);
  const rows = rowsOf(long, []);
  expect(rows).toHaveLength(2);
  expect(rowsOf("x", "y".repeat(1000))[1]).toMatch(/… \(402 more characters\)$/u);
  const diff = rowsOf(
    long,
    long.map((value) => value + 1000),
  );
  expect(diff).toHaveLength(26);
  expect(diff.at(-1)).toBe("diff   … 178 more lines");
});
