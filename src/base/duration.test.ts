import { expect, it } from "vitest";
import { formatDuration, formatElapsed } from "./duration.ts";

it.each([
  [0.3, "<1 ms"],
  [999.4, "999 ms"],
  [999.6, "1.0 s"],
  [59_949, "59.9 s"],
  [59_960, "1 min 0 s"],
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
