import { expect, it } from "vitest";
import { polling } from "./run-step.ts";

type Attempts = readonly (readonly [at: number, passed: boolean])[];

const retry = { forMs: 250, everyMs: 100 };
const stableForMs = 1500;

it.each<[string, Parameters<typeof polling>[0], Attempts, readonly unknown[]]>([
  ["alone ends with the first attempt that passes", {}, [[5, true]], [undefined]],
  ["alone ends with the first attempt that fails", {}, [[5, false]], [undefined]],
  [
    "retry tries again until the time is up, the last time at its very end",
    { retry },
    [
      [10, false],
      [120, false],
      [220, false],
      [251, false],
    ],
    [100, 100, 30, undefined],
  ],
  [
    "retry ends with the attempt that passes",
    { retry },
    [
      [10, false],
      [120, true],
    ],
    [100, undefined],
  ],
  [
    "retries tries again at once, so many times",
    { retries: 2 },
    [
      [1, false],
      [2, false],
      [3, false],
    ],
    [0, 0, undefined],
  ],
  [
    "stableFor checks again until it was true for long enough",
    { stableForMs },
    [
      [10, true],
      [1010, true],
      [1510, true],
    ],
    [1000, 500, [undefined, true, "stayed true for 1500 ms"]],
  ],
  [
    "stableFor fails as soon as it is not true any more",
    { stableForMs },
    [
      [10, true],
      [1010, false],
    ],
    [1000, [undefined, false, "stayed true for 1000 ms of 1500 ms only"]],
  ],
  ["stableFor says nothing of what was never true", { stableForMs }, [[10, false]], [undefined]],
  [
    "stableFor with retry begins again while there is time, at the pace of retry",
    { stableForMs: 200, retry: { forMs: 1000, everyMs: 100 } },
    [
      [10, true],
      [110, false],
      [210, true],
      [310, true],
      [410, true],
    ],
    [100, 100, 100, 100, [undefined, true, "stayed true for 200 ms"]],
  ],
])("polling: %s", (_, step, attempts, expected) => {
  const next = polling(step, 0);
  const decisions = attempts.map(([at, passed]) => {
    const { waitMs, check } = next(passed, at);
    return check === undefined ? waitMs : [waitMs, check.passed, check.message];
  });
  expect(decisions).toEqual(expected);
});
