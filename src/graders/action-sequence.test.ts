import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { AgentTrial, gradeBy, settingIssues } from "../../test/support/grading.ts";
import type { JsonObject } from "../base/json.ts";

/** A trial that uses tools, each by a word; `!NAME` fails, `~NAME` is the agent's own. */
function played(words: string): AgentTrial {
  return new AgentTrial((trial) => {
    for (const word of words.split(" ").filter(Boolean))
      if (word.startsWith("!")) trial.fail(word.slice(1));
      else if (word.startsWith("~")) trial.report(word.slice(1));
      else trial.use(word, { id: word });
    trial.say("Done.");
  });
}

it.each<[string, string, readonly (string | JsonObject)[], string, number]>([
  ["exact_match", "a b c", ["a", "b", "c"], "pass", 1],
  ["exact_match", "a c b", ["a", "b", "c"], "fail", 2 / 3],
  ["exact_match", "a b c d", ["a", "b", "c"], "fail", 3 / 4],
  ["exact_match", "a b", ["a", "b", "c"], "fail", 2 / 3],
  ["exact_match", "a !b b", ["a", "b"], "fail", 2 / 3],
  ["exact_match", "a ~shell b", ["a", "b"], "pass", 1],
  ["exact_match", "a b", ["a", { tool: "x", optional: true }, "b"], "pass", 1],
  ["exact_match", "a x b", ["a", { tool: "x", optional: true }, "b"], "pass", 1],
  ["exact_match", "a b x", ["a", { tool: "x", optional: true }, "b"], "fail", 2 / 3],
  ["in_order_match", "a x b x c", ["a", "b", "c"], "pass", 1],
  ["in_order_match", "b a", ["a", "b"], "fail", 1 / 2],
  ["in_order_match", "c b a", ["a", "b", "c"], "fail", 1 / 3],
  ["in_order_match", "a", ["a", "a"], "fail", 1 / 2],
  ["in_order_match", "a !b", ["a", "b"], "fail", 1 / 2],
  ["in_order_match", "x a y", [{ tool: "x", optional: true }, { tool: "z", optional: true }, "a"], "pass", 1],
  ["in_order_match", "a b", [{ any_of: ["x", "a"] }, { any_of: ["a", { tool: "b" }] }], "pass", 1],
  ["in_order_match", "a ~shell b", ["a", "shell", "b"], "pass", 1],
  [
    "in_order_match",
    "a b",
    [
      { tool: "a", args: { id: "a" } },
      { tool: "b", args: { id: "x" } },
    ],
    "fail",
    1 / 2,
  ],
  ["in_order_match", "a b", [{ tool: "a", server: "k8s" }, { server: "docs" }], "fail", 1 / 2],
  ["in_order_match", "a b", ["/[ab]/", "k8s.b"], "pass", 1],
  ["in_order_match", "a", ["a", { tool: "x", optional: true }, "b"], "fail", 1 / 2],
  ["any_order_match", "b a x", ["b", "c", "a"], "fail", 2 / 3],
  // Optional actions never take the place of one that must be there.
  ["in_order_match", "b x y", [{ tool: "x", optional: true }, { tool: "y", optional: true }, "b"], "pass", 1],
  ["any_order_match", "c a b x", ["a", "b", "c"], "pass", 1],
  ["any_order_match", "a b", ["a", "b", "b"], "fail", 2 / 3],
  ["any_order_match", "a b", [{ any_of: ["a", "b"] }, "a"], "pass", 1],
  ["any_order_match", "a", [{ any_of: ["a", "b"], optional: true }, "a"], "pass", 1],
])("%s: %s as %j: %s", async (matching_mode, words, expected_actions, verdict, score) => {
  const config = { matching_mode, expected_actions };
  expect(await gradeBy("action_sequence", config, played(words))).toMatchObject({ verdict, score });
});

it("a wrong order never has the score 1", async () => {
  const names = ["a", "b", "c", "d"];
  for (const [from, to] of names.flatMap((_, left) => names.map((__, right) => [left, right] as const))) {
    if (from === to) continue;
    const wrong = names.with(from, names[to] ?? "").with(to, names[from] ?? "");
    for (const matching_mode of ["exact_match", "in_order_match"]) {
      const { verdict, score } = await gradeBy(
        "action_sequence",
        { matching_mode, expected_actions: names },
        played(wrong.join(" ")),
      );
      expect([verdict, score === null || score < 1]).toEqual(["fail", true]);
    }
  }
});

it("passes with the score 1 only for uses that are as expected, in the order of the mode", async () => {
  const name = fc.constantFrom("a", "b", "c");
  const action = fc.record({
    any_of: fc.uniqueArray(name, { minLength: 1, maxLength: 2 }),
    optional: fc.boolean(),
  });
  const actions = fc
    .array(action, { minLength: 1, maxLength: 4 })
    .filter((all) => all.some((each) => !each.optional));
  type Action = { readonly any_of: readonly string[]; readonly optional: boolean };
  const fits = (
    [first, ...others]: readonly Action[],
    [use, ...later]: readonly string[],
    mode: string,
  ): boolean => {
    if (first === undefined) return use === undefined || mode !== "exact_match";
    if (first.optional && fits(others, use === undefined ? [] : [use, ...later], mode)) return true;
    if (use === undefined) return false;
    if (first.any_of.includes(use) && fits(others, later, mode)) return true;
    return mode !== "exact_match" && fits([first, ...others], later, mode);
  };
  await fc.assert(
    fc.asyncProperty(actions, fc.array(name, { maxLength: 5 }), async (expected, uses) => {
      for (const matching_mode of ["exact_match", "in_order_match"]) {
        const config = { matching_mode, expected_actions: expected };
        const { verdict, score } = await gradeBy("action_sequence", config, played(uses.join(" ")));
        const isRight = fits(expected, uses, matching_mode);
        expect([matching_mode, verdict, score === 1]).toEqual([
          matching_mode,
          isRight ? "pass" : "fail",
          isRight,
        ]);
      }
    }),
    { numRuns: 300 },
  );
});

it("says what is missing and what was used instead, and cites the uses", async () => {
  const finding = await gradeBy("action_sequence", { expected_actions: ["a", "b"] }, played("b !c a"));
  expect(finding.reason).toBe("missing in this order: b; used: k8s.b, k8s.c (failed), k8s.a");
  expect(finding.evidence).toHaveLength(3);
  const exact = { matching_mode: "exact_match", expected_actions: ["a"] };
  expect((await gradeBy("action_sequence", exact, played("a b"))).reason).toBe(
    "not expected in this order: k8s.b; used: k8s.a, k8s.b",
  );
});

it("counts the agent's own tools where no source is ignored, and an ignored server's not", async () => {
  const config = { matching_mode: "exact_match", expected_actions: ["a"] };
  const shell = played("a ~shell");
  expect(await gradeBy("action_sequence", { ...config, ignore_sources: [] }, shell)).toMatchObject({
    score: 1 / 2,
  });
  const ignored = { ...config, ignore_sources: ["mcp:k8s", "builtin"] };
  expect(await gradeBy("action_sequence", ignored, played("a b"))).toMatchObject({ verdict: "pass" });
});

it("fails an agent that did nothing", async () => {
  const config = { expected_actions: ["a"], matching_mode: "any_order_match" };
  expect(await gradeBy("action_sequence", config, new AgentTrial())).toMatchObject({
    verdict: "fail",
    score: 0,
    reason: "missing: a; the agent said nothing and called nothing",
  });
});

it.each<[JsonObject, string]>([
  [{}, "expected array"],
  [{ expected_actions: [] }, "Too small"],
  [
    { expected_actions: [{ tool: "a", optional: true }] },
    "must have an expected action that is not optional",
  ],
  [{ expected_actions: ["a"], ignore_sources: ["own"] }, "must be mcp:SERVER, builtin or skill"],
  [{ expected_actions: ["a"], matching_mode: "exact" }, "Invalid option"],
])("refuses %j", (config, message) => {
  expect(settingIssues("action_sequence", config).join("\n")).toContain(message);
});

describe("skill_invocation", () => {
  /** Loads skills with the agent's tool; `!NAME` fails. */
  const loading = (words: string): AgentTrial =>
    new AgentTrial((trial) => {
      trial.emit({ type: "skills.copied", folder: ".claude/skills", skills: ["a", "b", "c"], tool: "Skill" });
      for (const [index, word] of words.split(" ").filter(Boolean).entries()) {
        const status = word.startsWith("!") ? "failed" : "completed";
        const args = { skill: word.replace("!", "") };
        trial.report("Skill", { callId: `load-${index}`, source: "skill", args, status });
      }
      trial.say("Done.");
    });

  it.each<[JsonObject, string, string, number]>([
    [{ required_skills: ["a", "b"] }, "b c a", "pass", 1],
    [{ required_skills: ["a", "b"], mode: "in_order" }, "b c a", "fail", 1 / 2],
    [{ required_skills: ["a", "b"], mode: "in_order" }, "a c b", "pass", 1],
    [{ required_skills: ["a", "b"], mode: "exact_match" }, "a c b", "fail", 2 / 3],
    [{ required_skills: ["a", "b"], mode: "exact_match" }, "b a", "fail", 1 / 2],
    [{ required_skills: ["a"], allow_extra: false }, "a c", "fail", 1 / 2],
    [{ required_skills: ["a"] }, "!a", "fail", 0],
    [{ required_skills: ["a"] }, "ab", "fail", 0],
    [{ forbidden_skills: ["a"] }, "ab", "pass", 1],
    [{ required_skills: ["a"], forbidden_skills: ["b"] }, "a !b", "fail", 0],
    [{ forbidden_skills: ["b"] }, "a", "pass", 1],
    [{ required_skills: ["a"] }, "", "fail", 0],
  ])("%j of %s: %s", async (config, words, verdict, score) => {
    expect(await gradeBy("skill_invocation", config, loading(words))).toMatchObject({ verdict, score });
  });

  it("is not evidence for an agent that was given no skills", async () => {
    const idle = played("list");
    expect(await gradeBy("skill_invocation", { forbidden_skills: ["a"] }, idle)).toMatchObject({
      verdict: "skip",
      reason: "the agent was given no skills",
    });
    expect(await gradeBy("skill_invocation", { required_skills: ["a"] }, idle)).toMatchObject({
      verdict: "fail",
      reason: "missing: a; none was used; the agent was given no skills",
    });
  });

  it("refuses settings without a skill", () => {
    expect(settingIssues("skill_invocation", {})).toEqual([
      "must have a skill in required_skills or forbidden_skills",
    ]);
    expect(
      settingIssues("skill_invocation", { required_skills: ["a"], forbidden_skills: ["b", "a"] }),
    ).toEqual(["must not have a skill in both required_skills and forbidden_skills"]);
  });
});
