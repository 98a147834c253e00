import { expect, it } from "vitest";
import { parseGoDuration } from "./duration.ts";

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
