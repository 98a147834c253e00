import { expect, it } from "vitest";
import { wilson } from "./intervals.ts";

// Newcombe (1998), Statistics in Medicine 17, Table I, method 3.
it.each([
  [81, 263, 0.2553, 0.3662],
  [15, 148, 0.0624, 0.1605],
  [0, 20, 0, 0.1611],
  [1, 29, 0.0061, 0.1718],
])("%d of %d: %d to %d", (successes, total, low, high) => {
  const found = wilson(successes, total);
  expect(found?.value).toBe(successes / total);
  expect(found?.low).toBeCloseTo(low, 4);
  expect(found?.high).toBeCloseTo(high, 4);
});

it("is 1 at most, and nothing of nothing", () => {
  expect(wilson(20, 20)).toMatchObject({ value: 1, high: 1 });
  expect(wilson(0, 0)).toBeUndefined();
});
