import { expect, it } from "vitest";
import { AgentTrial, gradeBy, settingIssues } from "../../../test/support/grading.ts";

const trial = new AgentTrial((each) => {
  each.fail("get", { name: "a" });
  each.fail("get", { name: "b" });
  each.use("list");
  each.use("list");
  each.fail("delete");
  each.use("get", { name: "c" });
});

it.each([
  [{ name: "redundantCalls", max: 1 }, "pass", 1, "redundant calls: 1, at most 1 allowed"],
  [{ name: "redundantCalls", max: 0 }, "fail", 0, "redundant calls: 1, at most 0 allowed"],
  [
    { name: "redundantCallRate", max: 0.1 },
    "fail",
    0,
    "share of calls that are redundant: 0.167, at most 0.1 allowed",
  ],
  [{ name: "errors", min: 4, max: 5 }, "fail", 0.5, "failed calls of tools that exist: 3, at least 4 wanted"],
  [
    { name: "errorRecoveryRate", min: 0.6 },
    "pass",
    1,
    "share of failed calls after which a call of the same tool succeeded: 0.667, at least 0.6 wanted",
  ],
] as const)("%j: %s", async (config, verdict, score, reason) => {
  expect(await gradeBy("metric", config, trial)).toMatchObject({ verdict, score, reason });
});

it("says nothing where there is nothing to measure", async () => {
  const silent = { verdict: "skip", score: null };
  expect(await gradeBy("metric", { name: "errors", max: 0 }, new AgentTrial())).toMatchObject({
    ...silent,
    reason: "the agent said nothing and called nothing",
  });
  const fine = new AgentTrial((each) => each.use("list"));
  expect(await gradeBy("metric", { name: "errorRecoveryRate", min: 1 }, fine)).toMatchObject({
    ...silent,
    reason: expect.stringContaining("nothing to measure"),
  });
});

it("refuses settings without a limit, and names that are none", () => {
  expect(settingIssues("metric", { name: "errors" })).toEqual(["must have max or min"]);
  expect(settingIssues("metric", { name: "errors", min: 2, max: 1 })).toEqual(["has a min above its max"]);
  expect(settingIssues("metric", { name: "speed", max: 1 })).toHaveLength(1);
});
