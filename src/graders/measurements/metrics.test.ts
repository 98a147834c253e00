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

/** A trial that has some of everything that can be measured. */
function everything(): { readonly trial: AgentTrial; readonly again: number; readonly said: number } {
  let [again, said] = [0, 0];
  const busy = new AgentTrial((each) => {
    each.list([{ name: "create_note" }], { server: "docs" });
    each.use("list", { all: "yes" });
    again = each.use("list", { all: "yes" });
    each.fail("get", { name: "a" });
    each.fail("get", { name: "a" });
    each.use("delete", { name: "b" });
    each.fail("delete", { name: "b" });
    each.use("delete", { name: "b" });
    each.reject("fetch");
    each.reject("open");
    said = each.say("I created the note.");
    each.emit({
      type: "calls.invalid",
      calls: [again - 2, again, again + 2].map((seq) => ({ seq, causes: ["wrong type"] })),
    });
  });
  return { trial: busy, again, said };
}

it.each([
  ["unknownTools", 2],
  ["invalidCalls", 3],
  ["invalidCallRate", 3 / 9],
  ["redundantCalls", 1],
  ["redundantCallRate", 1 / 9],
  ["errors", 3],
  ["errorRecoveryRate", 1 / 3],
  ["identicalRetries", 2],
  ["unsupportedClaims", 1],
  ["ignoredErrors", 1],
] as const)("%s is measured as %d, and its limits may be reached", async (name, value) => {
  const { trial: busy } = everything();
  const verdictOf = async (limit: object): Promise<string> =>
    (await gradeBy("metric", { name, ...limit }, busy)).verdict;
  expect(await verdictOf({ min: value, max: value })).toBe("pass");
  expect(await verdictOf({ min: value + 0.001 })).toBe("fail");
  expect(await verdictOf({ max: value - 0.001 })).toBe("fail");
});

it("tells the tokens of all definitions from those of tools that were not called", async () => {
  const { trial: busy } = everything();
  const tokensOf = async (name: string): Promise<number> => {
    const { reason } = await gradeBy("metric", { name, max: 0 }, busy);
    return Number(/: (\d+), at most 0 allowed$/.exec(reason)?.[1]);
  };
  const cost = Math.ceil(JSON.stringify({ inputSchema: { type: "object" }, name: "create_note" }).length / 4);
  expect(await tokensOf("unusedDefinitionTokens")).toBe(cost);
  expect(await tokensOf("definitionTokens")).toBeGreaterThan(2 * cost);
});

it("cites the events that show what was measured", async () => {
  const { trial: busy, again, said } = everything();
  const evidenceOf = async (name: string): Promise<readonly number[]> =>
    (await gradeBy("metric", { name, max: 0 }, busy)).evidence;
  expect(await evidenceOf("redundantCalls")).toEqual([again]);
  expect(await evidenceOf("unsupportedClaims")).toEqual([said]);
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

it.each(["unknownTools", "invalidCalls", "redundantCalls", "errors", "identicalRetries", "ignoredErrors"])(
  "a highest value of %s is not evidence without a call, and a lowest one is missed",
  async (name) => {
    const talk = new AgentTrial((each) => each.say("Hello."));
    expect(await gradeBy("metric", { name, max: 0 }, talk)).toMatchObject({
      verdict: "skip",
      reason: expect.stringContaining("the agent called no tool of a server"),
    });
    expect(await gradeBy("metric", { name, min: 1 }, talk)).toMatchObject({ verdict: "fail", score: 0 });
  },
);

it("tokens of definitions and claims are measured without a call", async () => {
  const talk = new AgentTrial((each) => each.say("Hello."));
  for (const name of ["definitionTokens", "unusedDefinitionTokens", "unsupportedClaims"])
    expect(await gradeBy("metric", { name, max: 1e6 }, talk)).toMatchObject({ verdict: "pass" });
});

it("refuses settings without a limit, and names that are none", () => {
  const vacuous = "must have a max or min that a value could miss: none is below 0, and no share above 1";
  for (const settings of [{}, { min: 0 }, { name: "invalidCallRate", max: 1 }])
    expect(settingIssues("metric", { name: "errors", ...settings })).toEqual([vacuous]);
  expect(settingIssues("metric", { name: "errors", min: 2, max: 1 })).toEqual(["has a min above its max"]);
  expect(settingIssues("metric", { name: "speed", max: 1 })).toHaveLength(1);
});
