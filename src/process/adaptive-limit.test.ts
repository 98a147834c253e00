import { expect, test } from "vitest";
import { AdaptiveLimit } from "./adaptive-limit.ts";

/** Sends requests until one waits, at most 100; returns how many were sent. */
function fill(limit: AdaptiveLimit): number {
  for (let sent = 0; sent < 100; sent += 1) {
    const abort = new AbortController();
    const wait = limit.enter(abort.signal);
    if (wait === undefined) continue;
    wait.waiting.catch(() => undefined);
    abort.abort();
    return sent;
  }
  return 100;
}

test("there is no limit until a request is refused", () => {
  expect(fill(new AdaptiveLimit(4))).toBe(100);
});

test("a refusal cuts the limit by a fifth, once for all refusals of one episode", () => {
  const limit = new AdaptiveLimit(10);
  for (let sent = 0; sent < 3; sent += 1) limit.enter();
  expect(limit.refused()).toEqual({ from: 10, to: 8 });
  expect([limit.refused(), limit.refused()]).toEqual([undefined, undefined]);
  expect(fill(limit)).toBe(8);
});

test("the limit never falls below one request", () => {
  const limit = new AdaptiveLimit(1);
  limit.enter();
  expect(limit.refused()).toBeUndefined();
  limit.enter();
  limit.ended();
  expect(limit.enter()).toBeUndefined();
});

test("rounds of answers raise it again, until there is none", () => {
  const limit = new AdaptiveLimit(10);
  limit.enter();
  limit.refused();
  const changes: unknown[] = [];
  let answers = 0;
  while (changes.length < 2 && answers < 1000) {
    limit.enter();
    const change = limit.answered();
    if (change !== undefined) changes.push(change);
    answers += 1;
  }
  // 8, 8.4, 8.82 and 9.26 in rounds of 8, 8 and 8 answers; 9.72 and 10 in rounds of 9.
  expect([changes, answers]).toEqual([
    [
      { from: 8, to: 9 },
      { from: 9, to: 10 },
    ],
    42,
  ]);
  expect(fill(limit)).toBe(100);
});

test("what waits is sent in order as others end, and not after its signal aborted", async () => {
  const limit = new AdaptiveLimit(2);
  limit.enter();
  limit.enter();
  limit.refused();
  const sent: string[] = [];
  const abort = new AbortController();
  const waits = ["first", "second", "third"].map((name) => {
    const { waiting = Promise.resolve(), limit: most } =
      limit.enter(name === "second" ? abort.signal : undefined) ?? {};
    expect(most).toBe(1);
    return waiting.then(
      () => sent.push(name),
      (error: unknown) => sent.push(`not ${name}: ${String(error)}`),
    );
  });
  abort.abort("it ended");
  limit.ended();
  await waits[0];
  limit.ended();
  await Promise.all(waits);
  expect(sent).toEqual(["not second: it ended", "first", "third"]);
});

test("nothing is sent before the time that the provider asks for", async () => {
  const limit = new AdaptiveLimit(4);
  limit.enter();
  const refused = performance.now();
  limit.refused(60);
  const wait = limit.enter();
  expect(wait?.delayMs).toBeGreaterThan(0);
  await wait?.waiting;
  expect(performance.now() - refused).toBeGreaterThan(58);
});
