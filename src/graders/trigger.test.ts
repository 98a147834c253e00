import { expect, it } from "vitest";
import { AgentTrial, gradeBy, settingIssues } from "../../test/support/grading.ts";

const talk = new AgentTrial((trial) => trial.say("No need."));
const failed = new AgentTrial((trial) => trial.fail("get"));
const both = new AgentTrial((trial) => {
  trial.use("list");
  trial.use("get");
});
const lost = new AgentTrial((trial) => trial.reject("fetch"));
/** A trial whose agent was given the skills `triage` and `review`, and loads those that are named. */
const withSkills = (...loaded: readonly string[]): AgentTrial =>
  new AgentTrial((trial) => {
    trial.emit({
      type: "skills.copied",
      folder: ".claude/skills",
      skills: ["triage", "review"],
      tool: "Skill",
    });
    for (const skill of loaded) trial.report("Skill", { source: "skill", args: { skill }, callId: skill });
    trial.say("Done.");
  });
const get = { server: "k8s", tool: "get" };
const no = { mode: "negative" };
const triage = { skill: "triage" };

it.each([
  [failed, { server: "k8s" }, 1, "k8s.get was called"],
  [failed, { server: "k8s", ...no }, 0, "k8s.get was called"],
  [both, get, 1, "k8s.get was called"],
  [both, { tool: "get", ...no }, 0, "k8s.get was called"],
  [both, { tool: "k8s.get", ...no }, 0, "k8s.get was called"],
  [talk, { tool: "k8s.get", ...no }, 1, "k8s.get was not called"],
  // A slip in the name proves nothing.
  [
    both,
    { tool: "gte", ...no },
    0,
    'gte was not called; no server offers a tool of this name, did you mean "get"?',
  ],
  [both, { tool: "gte" }, 0, 'gte was not called; no server offers a tool of this name, did you mean "get"?'],
  [talk, get, 0, "k8s.get was not called"],
  [talk, { ...get, ...no }, 1, "k8s.get was not called"],
  [failed, { tool: "list", ...no }, 1, "list was not called"],
  // A call of a tool that no server offers leads to no server.
  [lost, { server: "k8s" }, 0, "k8s was not called"],
  [withSkills("triage"), triage, 1, "used: triage"],
  [withSkills("review"), triage, 0, "missing: triage"],
  [withSkills("triage"), { ...triage, ...no }, 0, "loaded, which is forbidden: triage"],
  [withSkills(), { ...triage, ...no }, 1, "not loaded: triage"],
] as const)("%#: %j", async (trial, config, score, reason) => {
  expect(await gradeBy("trigger", config, trial)).toMatchObject({
    verdict: score === 1 ? "pass" : "fail",
    score,
    reason: expect.stringContaining(reason),
  });
});

it("says nothing of what an agent could not be led to", async () => {
  for (const [trial, config, reason] of [
    [talk, { tool: "search", ...no }, "no server offers search"],
    [talk, { server: "docs", ...no }, "docs offers no tool"],
    [withSkills(), { skill: "deploy", ...no }, "the agent was not given the skill deploy"],
    [talk, { skill: "deploy", ...no }, "the agent was given no skills"],
  ] as const)
    expect(await gradeBy("trigger", config, trial)).toMatchObject({ verdict: "skip", score: null, reason });
});

it("refuses settings that name nothing, or a skill and a server", () => {
  const error = "must have a skill, or a server or tool, and not both";
  for (const settings of [{}, { skill: "a", server: "b" }, { skill: "a", tool: "b" }])
    expect(settingIssues("trigger", settings)).toEqual([error]);
});
