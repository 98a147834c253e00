import { expect, it } from "vitest";
import { AgentTrial, gradeBy, settingIssues } from "../../test/support/grading.ts";

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

it("says nothing of an agent that said nothing", async () => {
  for (const trial of [new AgentTrial(), new AgentTrial((each) => each.say(" "))])
    expect(await gradeBy("text", { not_contains: ["a"] }, trial)).toMatchObject({
      verdict: "skip",
      score: null,
      reason: "the agent said nothing",
    });
});

it("refuses settings that look for nothing, and patterns that are none", () => {
  expect(settingIssues("text", {})).toEqual(["must have a text or a pattern to look for"]);
  expect(settingIssues("text", { in: "all" })).toEqual(["must have a text or a pattern to look for"]);
  expect(settingIssues("text", { regex_match: ["("] })).toEqual([expect.stringContaining("RE2")]);
});
