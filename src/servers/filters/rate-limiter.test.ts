import * as fc from "fast-check";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { RateLimiter } from "./rate-limit.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const never = new AbortController().signal;

it("lets the limit pass at once, and the others in order when there is room", async () => {
  const limiter = new RateLimiter({ requests: 2, perMs: 100 });
  const passed: string[] = [];
  const note = (name: string) => () => void passed.push(`${name} ${performance.now() - start}`);
  const start = performance.now();
  expect(limiter.pass(never)).toBeUndefined();
  await vi.advanceTimersByTimeAsync(30);
  expect(limiter.pass(never)).toBeUndefined();
  for (const name of ["a", "b", "c"]) void limiter.pass(never)?.then(note(name));
  await vi.advanceTimersByTimeAsync(1000);
  expect(passed).toEqual(["a 100", "b 130", "c 200"]);
  expect(vi.getTimerCount()).toBe(0);
  expect(limiter.pass(never)).toBeUndefined();
});

it("forgets aborted requests, and keeps no timer when none waits", async () => {
  const limiter = new RateLimiter({ requests: 1, perMs: 100 });
  expect(limiter.pass(never)).toBeUndefined();
  const [first, second] = [new AbortController(), new AbortController()];
  const waiting = [first, second].map(({ signal }) => limiter.pass(signal));
  const reason = new Error("no longer");
  first.abort(reason);
  await expect(waiting[0]).rejects.toBe(reason);
  expect(vi.getTimerCount()).toBe(1);
  second.abort(reason);
  await expect(waiting[1]).rejects.toBe(reason);
  expect(vi.getTimerCount()).toBe(0);
  expect(() => limiter.pass(second.signal)).toThrow(reason);
  await vi.advanceTimersByTimeAsync(100);
  expect(limiter.pass(never)).toBeUndefined();
});

it("never exceeds the limit in any span, keeps the order, and holds no request longer than needed", async () => {
  const cases = fc.record({
    requests: fc.integer({ min: 1, max: 5 }),
    perMs: fc.integer({ min: 1, max: 50 }),
    gaps: fc.array(fc.nat(30), { maxLength: 40 }),
  });
  await fc.assert(
    fc.asyncProperty(cases, async ({ requests, perMs, gaps }) => {
      const limiter = new RateLimiter({ requests, perMs });
      const passed: { index: number; at: number }[] = [];
      const came: number[] = [];
      for (const [index, gap] of gaps.entries()) {
        await vi.advanceTimersByTimeAsync(gap);
        came.push(performance.now());
        const passing = limiter.pass(never);
        const note = (): void => void passed.push({ index, at: performance.now() });
        if (passing === undefined) note();
        else void passing.then(note);
      }
      await vi.advanceTimersByTimeAsync(gaps.length * perMs + 1);
      expect(passed.map(({ index }) => index)).toEqual(gaps.map((_, index) => index));
      for (const [index, { at }] of passed.entries()) {
        const before = passed[index - requests];
        const soonest = Math.max(came[index] ?? 0, before === undefined ? 0 : before.at + perMs);
        expect(Math.abs(at - soonest)).toBeLessThanOrEqual(1);
        if (before !== undefined) expect(at - before.at).toBeGreaterThanOrEqual(perMs);
      }
      expect(vi.getTimerCount()).toBe(0);
    }),
    { numRuns: 50 },
  );
});
