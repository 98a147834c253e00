import { describe, expect, it } from "vitest";
import { exactNumber } from "../../../extensions/sql/database.ts";
import { sameValue } from "../../../extensions/sql/expectations.ts";
import type { Json } from "../../../src/base/json.ts";

describe("exactNumber", () => {
  it.each<[string, number | string]>([
    ["0", 0],
    ["-0.00", -0],
    ["007", 7],
    ["12.50", 12.5],
    ["1e3", 1000],
    ["1.5E-7", 1.5e-7],
    ["-120", -120],
    ["9007199254740991", 9007199254740991],
    ["9007199254740992", 9007199254740992],
    ["9007199254740993", "9007199254740993"],
    ["0.1", 0.1],
    ["0.10000000000000000001", "0.10000000000000000001"],
    ["1e400", "1e400"],
    ["NaN", "NaN"],
    ["-Infinity", "-Infinity"],
  ])("%s", (text, value) => {
    expect(exactNumber(text)).toBe(value);
  });
});

describe("sameValue", () => {
  it.each<[Json, Json]>([
    [null, null],
    [1, 1],
    [true, 1],
    [false, 0],
    ["a", "a"],
    ["2024-01-31 12:00", "2024-01-31T12:00:00.000"],
    ["2024-01-31T12:00:00Z", "2024-01-31 14:00:00+02"],
    ["2024-01-31T12:00:00.1Z", "2024-01-31T12:00:00.100+00:00"],
    [{ a: 1, b: [null] }, '{ "b": [null], "a": 1.0 }'],
    [
      [1, { a: "x" }],
      [1, { a: "x" }],
    ],
  ])("%j is %j", (expected, found) => {
    expect(sameValue(expected, found)).toBe(true);
  });

  it.each<[Json, Json]>([
    [null, 0],
    [0, null],
    ["", null],
    [1, "1"],
    ["1", 1],
    [1, true],
    [true, 2],
    [true, "1"],
    ["a", "A"],
    ["2024-01-31", "2024-01-31T00:00:00"],
    ["2024-01-31T12:00:00Z", "2024-01-31T12:00:00"],
    ["2024-01-31T12:00:00.1Z", "2024-01-31T12:00:00.11Z"],
    ["2024-99-31T12:00:00Z", "2024-99-31 12:00:00Z"],
    [{ a: 1 }, '{"a": 1, "b": 2}'],
    [{ a: true }, { a: 1 }],
    [{ a: null }, { b: null }],
    [
      [1, 2],
      [2, 1],
    ],
    [[], "[1]"],
    [{}, "no JSON"],
  ])("%j is not %j", (expected, found) => {
    expect(sameValue(expected, found)).toBe(false);
  });
});
