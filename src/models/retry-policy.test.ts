import { expect, test } from "vitest";
import { askedDelay, defaultRetryPolicy, retryDelay } from "./retrying-model.ts";

const now = (): number => Date.parse("2026-11-21T12:00:00Z");

test.each<[Record<string, string> | undefined, number | undefined]>([
  [undefined, undefined],
  [{}, undefined],
  [{ "retry-after": "2" }, 2000],
  [{ "retry-after": "0" }, 0],
  [{ "retry-after": "1.5" }, 1500],
  [{ "retry-after-ms": "250", "retry-after": "9" }, 250],
  [{ "retry-after-ms": "soon", "retry-after": "9" }, 9000],
  [{ "retry-after": "Sat, 21 Nov 2026 12:00:30 GMT" }, 30_000],
  [{ "retry-after": "Sat, 21 Nov 2026 11:00:00 GMT" }, 0],
  [{ "retry-after": "tomorrow" }, undefined],
  [{ "retry-after": "-5" }, undefined],
  [{ "retry-after": "" }, undefined],
])("%j asks for a wait of %s ms", (headers, expected) => {
  expect(askedDelay(headers, now)).toBe(expected);
});

test("without being asked the longest wait doubles up to its limit, and chance takes a part of it", () => {
  const longest = [1, 2, 3, 4, 20].map((attempt) =>
    retryDelay(defaultRetryPolicy, attempt, { asked: undefined, random: () => 1 }),
  );
  expect(longest).toEqual([500, 1000, 2000, 4000, 30_000]);
  expect(retryDelay(defaultRetryPolicy, 3, { asked: undefined, random: () => 0.25 })).toBe(500);
  expect(retryDelay(defaultRetryPolicy, 3, { asked: undefined, random: () => 0 })).toBe(0);
});

test("what the provider asks for is followed exactly", () => {
  expect(retryDelay(defaultRetryPolicy, 1, { asked: 7000, random: () => 0.5 })).toBe(7000);
});
