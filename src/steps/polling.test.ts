import { describe, expect, it } from "vitest";
import { Polling } from "./polling.ts";

type Given = ConstructorParameters<typeof Polling>[0];

/** Plays attempts that end at these times, passing or not; gives the waits and the last check's message. */
function play(step: Given, attempts: readonly (readonly [at: number, passed: boolean])[]): unknown[] {
  const polling = new Polling(step, 0);
  return attempts.map(([at, passed]) => {
    const { next, check } = polling.after(passed, at);
    return check === undefined ? next : [next, check.passed, check.message];
  });
}

describe("polling", () => {
  it("ends with the first attempt where nothing else is asked for", () => {
    expect(play({}, [[5, true]])).toEqual([undefined]);
    expect(play({}, [[5, false]])).toEqual([undefined]);
  });

  it("retry: tries again until the time is up, the last time at its very end", () => {
    const retry = { forMs: 250, everyMs: 100 };
    expect(
      play({ retry }, [
        [10, false],
        [120, false],
        [220, false],
        [251, false],
      ]),
    ).toEqual([100, 100, 30, undefined]);
    expect(
      play({ retry }, [
        [10, false],
        [120, true],
      ]),
    ).toEqual([100, undefined]);
  });

  it("retries: tries again at once, so many times", () => {
    expect(
      play({ retries: 2 }, [
        [1, false],
        [2, false],
        [3, false],
      ]),
    ).toEqual([0, 0, undefined]);
  });

  it("stableFor: looks again until it was true for long enough", () => {
    expect(
      play({ stableForMs: 1500 }, [
        [10, true],
        [1010, true],
        [1510, true],
      ]),
    ).toEqual([1000, 500, [undefined, true, "stayed true for 1500 ms"]]);
  });

  it("stableFor: fails as soon as it is not true any more", () => {
    expect(
      play({ stableForMs: 1500 }, [
        [10, true],
        [1010, false],
      ]),
    ).toEqual([1000, [undefined, false, "stayed true for 1000 ms of 1500 ms only"]]);
    expect(play({ stableForMs: 1500 }, [[10, false]])).toEqual([undefined]);
  });

  it("stableFor with retry: begins anew while there is time, at the pace of retry", () => {
    const retry = { forMs: 1000, everyMs: 100 };
    expect(
      play({ stableForMs: 200, retry }, [
        [10, true],
        [110, false],
        [210, true],
        [310, true],
        [410, true],
      ]),
    ).toEqual([100, 100, 100, 100, [undefined, true, "stayed true for 200 ms"]]);
  });
});
