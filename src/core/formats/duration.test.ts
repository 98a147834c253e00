import * as fc from "fast-check";
import { expect, it } from "vitest";
import { maxDurationMs, parseDuration } from "./duration.ts";

it.each([
  [1500, 1500],
  [0.5, 0.5],
  ["500ms", 500],
  ["2s", 2000],
  ["5m", 300_000],
  ["1h", 3_600_000],
  ["1.5 s", 1500],
  [" 2s ", 2000],
  ["2 minutes", 120_000],
  ["250", 250],
  [maxDurationMs, maxDurationMs],
])("reads %j as %d ms", (value, ms) => {
  expect(parseDuration(value)).toBe(ms);
});

it.each([
  0,
  -1,
  NaN,
  Infinity,
  maxDurationMs + 1,
  "",
  " ",
  "soon",
  "-2s",
  "0s",
  "25 days",
  "1h30m",
  "1e3",
  "2s".repeat(60),
  true,
  null,
  undefined,
  {},
])("refuses %j", (value) => {
  expect(parseDuration(value)).toBeUndefined();
});

it("never throws and gives only what a timer can wait", () => {
  fc.assert(
    fc.property(fc.anything(), (value) => {
      const ms = parseDuration(value);
      expect(ms === undefined || (ms > 0 && ms <= maxDurationMs)).toBe(true);
    }),
  );
});
