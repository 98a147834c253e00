import { expect, it } from "vitest";
import type { TrialResult } from "../model/result.ts";
import { ratesByTask } from "./rate-text.ts";
import { varietyOf } from "./text.ts";

it.each([
  [0, "0 % (0 to 1)"],
  [1, "<1 % (<1 to 2)"],
  [299, ">99 % (98 to >99)"],
  [300, "100 % (99 to 100)"],
])("of 300 trials %d that passed are %s: only all is 100 %%, and only nothing 0 %%", (passed, expected) => {
  const trials = Array.from({ length: 300 }, (_, index) => ({
    task: "a",
    form: "workflow",
    agent: "x",
    attempt: index + 1,
    verdict: index < passed ? "pass" : "fail",
  })) as unknown as readonly TrialResult[];
  expect(ratesByTask(trials, varietyOf(trials)).map(({ cells: [rate] }) => rate)).toEqual([expected]);
});
