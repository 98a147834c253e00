import * as fc from "fast-check";
import { expect, it } from "vitest";
import { maxDurationMs, parseByteSize, parseDuration, parseGoDuration } from "./duration.ts";

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

it.each([
  ["300ms", 300],
  ["1.5h", 5_400_000],
  ["1h30m", 5_400_000],
  ["1h30m10.5s", 5_410_500],
  ["1500µs", 1.5],
  ["1500us", 1.5],
  ["1500μs", 1.5],
  ["2000000ns", 2],
  [".5s", 500],
  ["+5m", 300_000],
])("%s is %d ms", (text, milliseconds) => {
  expect(parseGoDuration(text)).toBeCloseTo(milliseconds, 9);
});

it.each(["", "30", "0s", "-5s", "5 m", "5 minutes", "1d", "s", "1h 30m", "1e3s", "600h", "."])(
  "%j is no duration",
  (text) => {
    expect(parseGoDuration(text)).toBeUndefined();
  },
);

it.each<[unknown, number]>([
  [1, 1],
  [1.9, 1],
  ["512MB", 512 * 1024 ** 2],
  ["512 MiB", 512 * 1024 ** 2],
  ["1.5g", 1.5 * 1024 ** 3],
  ["64k", 65_536],
  [" 10 ", 10],
  ["10B", 10],
])("%j is %d bytes", (value, bytes) => {
  expect(parseByteSize(value)).toBe(bytes);
});

it.each([
  0,
  -1,
  Number.NaN,
  Number.POSITIVE_INFINITY,
  "",
  "MB",
  "1TB",
  "-1MB",
  "0",
  "1e3",
  "1,5MB",
  null,
  {},
])("%j is none", (value) => {
  expect(parseByteSize(value)).toBeUndefined();
});
