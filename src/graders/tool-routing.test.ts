import { expect, it } from "vitest";
import { AgentTrial, gradeBy, settingIssues } from "../../test/support/grading.ts";

const direct = new AgentTrial((trial) => {
  trial.report("shell");
  trial.fail("get");
  trial.use("list");
});
const talk = new AgentTrial((trial) => trial.say("No need."));
const lost = new AgentTrial((trial) => trial.reject("fetch"));
const get = { server: "k8s", tool: "get" };
const list = { server: "k8s", tool: "list" };

it.each([
  [direct, { expect: get }, 1, "the first call was of k8s.get"],
  [direct, { expect: { tool: "get" } }, 1, "the first call was of k8s.get"],
  [direct, { expect: { tool: "k8s.get" } }, 1, "the first call was of k8s.get"],
  [direct, { expect: { tool: "k8s.list" } }, 0.5, "the expected k8s.list only later; expected: k8s.list"],
  [direct, { expect: { tool: "none.get" } }, 0, 'expected: none.get; did you mean "k8s.get"?'],
  [direct, { expect: { server: "k8s" } }, 1, "the first call was of k8s.get"],
  [
    direct,
    { expect: list },
    0.5,
    "the first call was of k8s.get, the expected k8s.list only later; expected: k8s.list",
  ],
  [direct, { expect: list, calls: "any" }, 1, "k8s.list was called"],
  [
    direct,
    { expect: { tool: "lst" } },
    0,
    'the first call was of k8s.get; expected: lst; did you mean "list"?',
  ],
  [direct, { expect: { server: "docs" } }, 0, "the first call was of k8s.get; expected: docs"],
  [direct, { expect: "none" }, 0, "the first call was of k8s.get; expected: none"],
  [talk, { expect: "none" }, 1, "no tool of a server was called"],
  [talk, { expect: get }, 0, "no tool of a server was called; expected: k8s.get"],
  [lost, { expect: get }, 0, "the first call was of fetch; expected: k8s.get"],
  [lost, { expect: "none" }, 0, "the first call was of fetch; expected: none"],
] as const)("%#: %j", async (trial, config, score, reason) => {
  expect(await gradeBy("tool_routing", config, trial)).toMatchObject({
    verdict: score === 1 ? "pass" : "fail",
    score,
    reason: expect.stringContaining(reason),
  });
});

it("of an agent that did nothing, says nothing when it should call nothing, and fails otherwise", async () => {
  const idle = new AgentTrial();
  expect(await gradeBy("tool_routing", { expect: "none" }, idle)).toMatchObject({ verdict: "skip" });
  expect(await gradeBy("tool_routing", { expect: get }, idle)).toMatchObject({ verdict: "fail", score: 0 });
});

it("refuses settings that expect nothing", () => {
  expect(settingIssues("tool_routing", {})).toHaveLength(1);
  expect(settingIssues("tool_routing", { expect: {} })).not.toEqual([]);
  expect(settingIssues("tool_routing", { expect: "nothing" })).not.toEqual([]);
});
