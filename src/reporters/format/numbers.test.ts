import { expect, it } from "vitest";
import { countOf, formatDuration, formatElapsed, formatInteger, formatScore } from "./text.ts";

it.each([
  [0, "0 ms"],
  [0.3, "<1 ms"],
  [41.4, "41 ms"],
  [999.4, "999 ms"],
  [999.6, "1.0 s"],
  [2001, "2.0 s"],
  [59_949, "59.9 s"],
  [59_960, "1 min 0 s"],
  [192_000, "3 min 12 s"],
  [3_599_700, "1 h 0 min"],
  [3_720_000, "1 h 2 min"],
  [-5, "0 ms"],
  [Number.NaN, "0 ms"],
])("%d ms is %j", (ms, expected) => {
  expect(formatDuration(ms)).toBe(expected);
});

it("counts a growing time in tenths of a second", () => {
  expect([0, 99, 450, 999, 1049, 61_000].map(formatElapsed)).toEqual([
    "0.0 s",
    "0.0 s",
    "0.4 s",
    "0.9 s",
    "1.0 s",
    "1 min 1 s",
  ]);
});

it("parts thousands", () => {
  expect([0, 999, 1000, 1_234_567].map(formatInteger)).toEqual(["0", "999", "1,000", "1,234,567"]);
});

it("agrees in number", () => {
  expect([countOf(1, "trial"), countOf(0, "trial"), countOf(12_000, "trial")]).toEqual([
    "1 trial",
    "0 trials",
    "12,000 trials",
  ]);
});

it("never shows a score as perfect that is not", () => {
  expect([0, 0.999, 1, 0.29, 2 / 3].map(formatScore)).toEqual(["0.00", "0.99", "1.00", "0.29", "0.67"]);
});
