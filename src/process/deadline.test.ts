import { getEventListeners } from "node:events";
import { setImmediate } from "node:timers/promises";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { abortAfter, Clocks, settlesWithin, untilAborted, withDeadline } from "./deadline.ts";

const never = new Promise<never>(() => undefined);

/** Timers of this file only: the process has those of vitest too, which come and go. */
function fakeTimers(): void {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
}

const onTimeout = (): Error => new Error("too late");
const start = (): Promise<never> => Promise.reject(new Error("started all the same"));

describe("abortAfter", () => {
  it("aborts with the given reason when the time is up", async () => {
    using deadline = abortAfter(5, () => "too late");
    await expect(untilAborted(never, deadline.signal)).rejects.toBe("too late");
  });

  it("follows its parent, also one that has aborted before", () => {
    const parent = new AbortController();
    using early = abortAfter(60_000, () => "too late", parent.signal);
    parent.abort("parent");
    using late = abortAfter(60_000, () => "too late", parent.signal);
    expect([early.signal.reason, late.signal.reason]).toEqual(["parent", "parent"]);
  });

  it("leaves neither a timer nor a listener behind", () => {
    fakeTimers();
    const parent = new AbortController();
    const disposed = abortAfter(60_000, () => "too late", parent.signal);
    expect(vi.getTimerCount()).toBe(1);
    disposed[Symbol.dispose]();
    expect([vi.getTimerCount(), getEventListeners(parent.signal, "abort")]).toEqual([0, []]);
    expect(disposed.signal.aborted).toBe(false);

    const aborted = new AbortController();
    abortAfter(60_000, () => "too late", aborted.signal);
    aborted.abort();
    expect([vi.getTimerCount(), getEventListeners(aborted.signal, "abort")]).toEqual([0, []]);
  });

  it("waits forever when the time is longer than a timer can be", async () => {
    using deadline = abortAfter(2 ** 40, () => "too late");
    using endless = abortAfter(Number.POSITIVE_INFINITY, () => "too late");
    await setImmediate();
    expect([deadline.signal.aborted, endless.signal.aborted]).toEqual([false, false]);
  });
});

describe("withDeadline", () => {
  it("gives the result of the work, and clears its timer", async () => {
    fakeTimers();
    await expect(withDeadline(() => Promise.resolve(5), { ms: 60_000, onTimeout })).resolves.toBe(5);
    await expect(
      withDeadline(() => Promise.reject(new Error("broken")), { ms: 60_000, onTimeout }),
    ).rejects.toThrow("broken");
    expect(vi.getTimerCount()).toBe(0);
  });

  it("ends on time even when the work ignores its signal", async () => {
    let seen: AbortSignal | undefined;
    const work = (signal: AbortSignal): Promise<never> => {
      seen = signal;
      return never;
    };
    await expect(withDeadline(work, { ms: 5, onTimeout })).rejects.toThrow("too late");
    expect(seen?.aborted).toBe(true);
  });

  it("ends when its signal aborts, and does not start when it has aborted", async () => {
    const controller = new AbortController();
    const waiting = withDeadline(() => never, { ms: 60_000, signal: controller.signal, onTimeout });
    controller.abort(new Error("interrupted"));
    await expect(waiting).rejects.toThrow("interrupted");
    await expect(withDeadline(start, { ms: 60_000, signal: controller.signal, onTimeout })).rejects.toThrow(
      "interrupted",
    );
  });
});

describe("settlesWithin", () => {
  it("tells settled work from pending work", async () => {
    fakeTimers();
    expect(await settlesWithin(Promise.resolve(), 60_000)).toBe(true);
    expect(await settlesWithin(Promise.reject(new Error("broken")), 60_000)).toBe(true);
    const late = settlesWithin(never, 5);
    await vi.advanceTimersByTimeAsync(5);
    await vi.runAllTimersAsync();
    expect(await late).toBe(false);
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe("Clocks", () => {
  it("stand still together while something is held", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "setImmediate", "performance"] });
    onTestFinished(() => void vi.useRealTimers());
    const clocks = new Clocks();
    const { signal } = new AbortController();
    using first = clocks.start(100, () => "too late", signal);
    await vi.advanceTimersByTimeAsync(60);
    const { promise, resolve } = Promise.withResolvers<void>();
    const holding = clocks.hold(promise);
    using second = clocks.start(100, () => "too late", signal);
    await vi.advanceTimersByTimeAsync(1000);
    expect([first.elapsedMs(), second.elapsedMs()]).toEqual([60, 0]);
    resolve();
    await holding;
    await vi.advanceTimersByTimeAsync(50);
    expect([first.signal.reason, second.signal.aborted, second.elapsedMs()]).toEqual(["too late", false, 50]);
    await vi.advanceTimersByTimeAsync(51);
    expect(second.signal.reason).toBe("too late");
  });

  it("leave no timer, and follow their parent", () => {
    fakeTimers();
    const clocks = new Clocks();
    const parent = new AbortController();
    const clock = clocks.start(60_000, () => "too late", parent.signal);
    parent.abort("stop");
    expect(clock.signal.reason).toBe("stop");
    clock[Symbol.dispose]();
    expect(vi.getTimerCount()).toBe(0);
  });
});
