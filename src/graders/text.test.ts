import { describe, expect, it } from "vitest";
import { AgentTrial, gradeBy, settingIssues } from "../../test/support/grading.ts";
import { TrialEvents } from "../../test/support/trial-events.ts";

const talk = new AgentTrial((trial) => {
  trial.say("Let me look.");
  trial.say("There are 4 Notes.");
});

it.each([
  [{ contains: ["4 notes"] }, 1],
  [{ contains: ["look"] }, 0],
  [{ contains: ["look"], in: "all" }, 1],
  [{ contains_cs: ["4 notes"] }, 0],
  [{ contains_cs: ["4 Notes"] }, 1],
  [{ not_contains: ["NOTES"] }, 0],
  [{ not_contains_cs: ["NOTES"] }, 1],
  [{ contains_any: ["five", "4"] }, 1],
  [{ contains_any: ["five", "six"] }, 0],
  [{ regex_match: ["\\d+ Notes"] }, 1],
  [{ regex_match: ["^\\d"] }, 0],
  [{ regex_not_match: ["(?i)error"] }, 1],
  [{ contains: ["4"], not_contains: ["notes"] }, 0.5],
] as const)("%j: %d", async (config, score) => {
  expect(await gradeBy("text", config, talk)).toMatchObject({
    verdict: score === 1 ? "pass" : "fail",
    score,
    evidence: "in" in config ? [expect.any(Number), expect.any(Number)] : [expect.any(Number)],
  });
});

it("says what is missing", async () => {
  const { reason } = await gradeBy(
    "text",
    { contains: ["five"], contains_any: ["a1", "b1"], regex_match: ["x"] },
    talk,
  );
  expect(reason).toBe(
    'the answer does not contain "five"; the answer does not contain any of "a1", "b1"; the answer does not contain /x/',
  );
});

it("says where the case of letters counts", async () => {
  const { reason } = await gradeBy("text", { contains_cs: ["4 notes"], not_contains_cs: ["Notes"] }, talk);
  expect(reason).toBe(
    'the answer does not contain "4 notes" in this case; the answer contains "Notes" in this case',
  );
});

describe("of an agent that gave no answer", () => {
  const silent = [
    ["the agent said nothing and called nothing", new AgentTrial()],
    ["the agent said nothing and called nothing", new AgentTrial((each) => each.say(" "))],
    ["the agent gave no answer", new AgentTrial((each) => each.use("list"))],
  ] as const;

  it("that it avoids a text is no evidence", async () => {
    for (const [reason, trial] of silent)
      expect(await gradeBy("text", { not_contains: ["a"], regex_not_match: ["b"] }, trial)).toMatchObject({
        verdict: "skip",
        score: null,
        reason,
      });
  });

  it.each([
    [{ contains: ["4"] }, '"4"'],
    [{ contains_cs: ["4"] }, '"4" in this case'],
    [{ contains_any: ["4", "5"] }, 'any of "4", "5"'],
    [{ regex_match: [".*"] }, "/.*/"],
    [{ contains: ["4"], not_contains: ["error"] }, '"4"'],
  ] as const)("%j fails", async (config, what) => {
    for (const [nothing, trial] of silent)
      expect(await gradeBy("text", config, trial)).toMatchObject({
        verdict: "fail",
        score: 0,
        reason: `${nothing}: the answer does not contain ${what}`,
        evidence: [expect.any(Number)],
      });
  });

  it("what it said in an earlier turn is no answer in its last", async () => {
    const trial = new AgentTrial((each) => each.say("There are 4 notes."));
    trial.turn("And tags?", () => trial.use("list"));
    expect(await gradeBy("text", { contains: ["4"] }, trial)).toMatchObject({
      verdict: "fail",
      reason: 'the agent gave no answer: the answer does not contain "4"',
    });
    expect(await gradeBy("text", { contains: ["4"], in: "all" }, trial)).toMatchObject({ verdict: "pass" });
    const thanked = new AgentTrial((each) => each.say("There are 4 notes."));
    thanked.emit({ type: "turn.started", turn: 1, user: "Thanks.", by: "user-script" });
    expect(await gradeBy("text", { contains: ["4"] }, thanked)).toMatchObject({ verdict: "pass" });
  });

  it("no agent is nothing to judge", async () => {
    expect(await gradeBy("text", { contains: ["4"] }, new TrialEvents())).toMatchObject({
      verdict: "skip",
      reason: "no agent took part",
    });
  });
});

it("refuses settings that look for nothing, and patterns that are none", () => {
  expect(settingIssues("text", {})).toEqual(["must have a text or a pattern to look for"]);
  expect(settingIssues("text", { in: "all" })).toEqual(["must have a text or a pattern to look for"]);
  expect(settingIssues("text", { regex_match: ["("] })).toEqual([expect.stringContaining("RE2")]);
});
