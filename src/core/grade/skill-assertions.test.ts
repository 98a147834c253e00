import { expect, it } from "vitest";
import type { EventBody, TraceEvent } from "../trace/events.ts";
import { skillsLoaded, skillsNotLoaded } from "./assertions.ts";

function events(...bodies: readonly EventBody[]): readonly TraceEvent[] {
  return bodies.map((body, index) => ({ trial: "t", seq: index + 1, at: 0, ...body }));
}

const copied: EventBody = {
  type: "skills.copied",
  folder: ".claude/skills",
  skills: ["farewell", "greeting"],
  tool: "Skill",
};

function use(name: string, args: object, status: "completed" | "failed" = "completed"): EventBody {
  const callId = JSON.stringify([name, args]);
  return { type: "agent.tool", turn: 0, callId, name, source: "builtin", status, args: { ...args } };
}

const greeted = events(copied, use("Skill", { command: "greeting" }), use("Read", { file: "farewell" }));

it.each([
  [[{ skill: "greeting" }], true, "greeting", [2]],
  [[{ pattern: "^.*greet" }], true, "/^.*greet/", [2]],
  [[{}], true, "any skill", [2]],
  [
    [{ skill: "greeting" }, { skill: "farewell" }],
    false,
    "the agent did not load farewell; it was given farewell, greeting",
    [],
  ],
  [[{ skill: "greet" }], false, "the agent did not load greet; it was given farewell, greeting", []],
])("skillsLoaded %j", (wanted, holds, reason, seqs) => {
  expect(skillsLoaded(wanted, greeted)).toEqual({ holds, reason, seqs });
});

it.each([
  [[{ skill: "farewell" }], true, "the agent did not load farewell", []],
  [[{ skill: "farewell" }, { pattern: "ting" }], false, "the agent loaded farewell, /ting/", [2]],
])("skillsNotLoaded %j", (unwanted, holds, reason, seqs) => {
  expect(skillsNotLoaded(unwanted, greeted)).toEqual({ holds, reason, seqs });
});

it("a load that failed is none, and not nothing either", () => {
  const failed = events(copied, use("Skill", { command: "greeting" }, "failed"));
  expect(skillsLoaded([{ skill: "greeting" }], failed).holds).toBe(false);
  expect(skillsNotLoaded([{ skill: "greeting" }], failed).holds).toBe(false);
});

it("neither holds for an agent that was given no skills", () => {
  for (const judge of [skillsLoaded, skillsNotLoaded]) {
    expect(judge([{ skill: "a" }], events())).toMatchObject({
      holds: false,
      reason: "the agent was given no skills",
    });
  }
});

it("an agent without a tool for it loads a skill by using its files", () => {
  const read = use("shell", { command: ["cat", "/tmp/w/.agents/skills/greeting/SKILL.md"] });
  const told = events({ type: "skills.copied", folder: ".agents/skills", skills: ["greeting", "x"] }, read);
  expect(skillsLoaded([{ skill: "greeting" }], told)).toEqual({ holds: true, reason: "greeting", seqs: [2] });
  expect(skillsNotLoaded([{ skill: "x" }], told).holds).toBe(true);
});
