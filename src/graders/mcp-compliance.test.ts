import { afterAll, expect, it } from "vitest";
import { AgentTrial, gradeBy, settingIssues } from "../../test/support/grading.ts";
import { textResult, type TrialEvents } from "../../test/support/trial-events.ts";
import { SchemaValidator } from "./schema-validator.ts";
import type { JsonObject } from "../base/json.ts";
import type { KindContext } from "./grader.ts";

const issue: JsonObject = {
  type: "object",
  properties: { number: { type: "integer", minimum: 1 }, state: { enum: ["open", "closed"] } },
  required: ["number"],
};

/** A trial of an agent with a server `tracker`, whose tools `get`, `search` and `close` take the number of an issue. */
function played(play: (trial: AgentTrial) => void): TrialEvents {
  return new AgentTrial((trial) => {
    const tools = ["get", "search", "close"].map((name) => ({ name, inputSchema: issue }));
    trial.server("tracker", tools);
    play(trial);
    trial.say("Done.");
  });
}

const on = { server: "tracker" };
const use = (trial: AgentTrial, tool: string, args: JsonObject): unknown =>
  trial.call(tool, args, textResult("x"), on);
const fail = (trial: AgentTrial, tool: string, args: JsonObject): unknown =>
  trial.call(tool, args, { ...textResult("no"), isError: true }, on);

const validator = new SchemaValidator();
afterAll(() => validator[Symbol.asyncDispose]());

async function compliance(settings: JsonObject, trial: TrialEvents) {
  return await gradeBy("mcp_compliance", settings, trial, {
    validateSchema: validator.validate.bind(validator),
  });
}

it("is the mean of selection, parameters and recovery, by their weights", async () => {
  const trial = played((agent) => {
    fail(agent, "get", {});
    use(agent, "get", { number: 1 });
    use(agent, "search", { number: 1 });
    use(agent, "close", { number: 1 });
    fail(agent, "close", { number: 2 });
  });
  const settings = { ...on, expect_tools_used: ["get", "search"] };
  const reason =
    "selection 0.8: precision 0.67, recall 1, besides: tracker.close; parameters 0.8: 1 of 5 calls are invalid: tracker.get (missing key: the arguments must have required property 'number'); recovery 0.5: 1 of 2 errors were followed by a successful call, not after those of tracker.close";
  const finding = await compliance(settings, trial);
  expect(finding).toMatchObject({ verdict: "fail", reason: `score 0.7, at least 0.8 wanted; ${reason}` });
  expect(finding.score).toBeCloseTo(0.7);
  expect(await compliance({ ...settings, threshold: 0.7 }, trial)).toMatchObject({ verdict: "pass", reason });
  const weights = { selection: 0, parameters: 1, recovery: 0 };
  expect(await compliance({ ...settings, weights }, trial)).toMatchObject({ verdict: "pass", score: 0.8 });
  expect(await compliance({ ...settings, threshold: 0, max_tool_errors: 1 }, trial)).toMatchObject({
    verdict: "fail",
    reason: `2 failed calls, at most 1 allowed; ${reason}`,
  });
});

it("fails where an expected tool was not used with success, whatever the score is", async () => {
  const settings = { ...on, expect_tools_used: ["get", "search"], threshold: 0 };
  const trial = played((agent) => {
    use(agent, "get", { number: 1 });
    fail(agent, "search", { number: 1 });
  });
  const finding = await compliance(settings, trial);
  expect(finding.verdict).toBe("fail");
  expect(finding.reason).toContain("not used with success: search; selection 0.67: precision 1, recall 0.5;");
  expect(await compliance(settings, new AgentTrial())).toMatchObject({ verdict: "fail", score: 0 });
});

it.each<[JsonObject, string]>([
  [{ number: 1, colour: "red" }, 'unknown key: "colour" is not an argument of the tool'],
  [{}, "missing key: the arguments must have required property 'number'"],
  [{ number: "1" }, 'wrong type: /number must be integer, is "1"'],
  [{ number: 0 }, "invalid value: /number must be >= 1, is 0"],
])("names the cause for %j", async (args, cause) => {
  const trial = played((agent) => use(agent, "get", args));
  expect(await compliance(on, trial)).toMatchObject({
    verdict: "fail",
    score: 0,
    reason: expect.stringContaining(
      `parameters 0: 1 of 1 calls are invalid: tracker.get (${cause})`,
    ) as string,
  });
});

it("counts calls of tools that do not exist as invalid", async () => {
  const trial = played((agent) => {
    use(agent, "get", { number: 1 });
    fail(agent, "gat", {});
    agent.reject("git");
  });
  const { score, reason } = await compliance({}, trial);
  expect(score).toBeCloseTo(1 / 3);
  expect(reason).toContain(
    "parameters 0.33: 2 of 3 calls are invalid: tracker.gat (unknown tool: no server offers it), git (unknown tool: no server offers it)",
  );
});

it("judges no call against a schema that cannot be used", async () => {
  const trial = new AgentTrial((agent) => {
    agent.server("odd", [{ name: "get", inputSchema: { type: "nothing" } }]);
    agent.call("get", {}, textResult("x"), { server: "odd" });
  });
  const finding = await compliance({ server: "odd" }, trial);
  expect(finding).toMatchObject({ verdict: "skip", reason: "no part with a weight has anything to judge" });
});

it("says nothing of an agent that called nothing and had to call nothing", async () => {
  const idle = { verdict: "skip", reason: "the agent said nothing and called nothing" };
  expect(await compliance({}, new AgentTrial())).toMatchObject(idle);
  const quiet = { verdict: "skip", reason: "the agent called no tool of a server" };
  expect(
    await compliance(
      {},
      played(() => undefined),
    ),
  ).toMatchObject(quiet);
});

it("asks a judge about a rubric, whose score is a part too", async () => {
  const trial = played((agent) => use(agent, "get", { number: 1 }));
  const finding = await gradeBy(
    "mcp_compliance",
    { rubric: "Is every number of the answer from a tool?" },
    trial,
    {
      askJudge: async ({ form }) => {
        const reading = form.read({ score: 0.5, reason: "One is not." });
        if ("problem" in reading) throw new Error(reading.problem);
        return { verdict: reading.verdict, model: "test/judge", prompt: "hash", question: "hash" };
      },
    },
  );
  expect(finding).toMatchObject({
    verdict: "fail",
    score: 0.75,
    judge: { model: "test/judge", votes: [0.5] },
  });
  expect(finding.reason).toContain("parameters 1: all 1 calls are valid; rubric 0.5: score 0.5");
});

it("allows as many failed calls as it says, and looks at the calls of its server alone", async () => {
  const trial = played((agent) => {
    fail(agent, "get", { number: 1 });
    use(agent, "get", { number: 1 });
    agent.fail("delete");
  });
  const settings = { ...on, expect_tools_used: ["get"], max_tool_errors: 1 };
  expect(await compliance(settings, trial)).toMatchObject({
    verdict: "pass",
    score: 1,
    reason: expect.stringContaining("precision 1, recall 1;"),
  });
  expect(await compliance({ max_tool_errors: 1 }, trial)).toMatchObject({
    verdict: "fail",
    reason: expect.stringContaining("2 failed calls, at most 1 allowed"),
  });
});

it("judges a named rubric by its own threshold, and asks nobody about an agent that did nothing", async () => {
  let asked = 0;
  const askJudge: KindContext["askJudge"] = async ({ form }) => {
    asked += 1;
    const reading = form.read({ score: 1, reason: "so it is" });
    if ("problem" in reading) throw new Error(reading.problem);
    return { verdict: reading.verdict, model: "test/judge", prompt: "hash", question: "hash" };
  };
  const settings = { rubric: "tool_selection" };
  const trial = played((agent) => use(agent, "get", { number: 1 }));
  const finding = await gradeBy("mcp_compliance", settings, trial, { askJudge });
  expect(finding).toMatchObject({ verdict: "pass", judge: { threshold: 1, votes: [1] } });
  expect(await gradeBy("mcp_compliance", settings, new AgentTrial(), { askJudge })).toMatchObject({
    verdict: "skip",
  });
  expect(asked).toBe(1);
});

it("refuses settings that cannot be", () => {
  // Without a rubric, the weight of the rubric weighs nothing.
  const weights = { selection: 0, parameters: 0, recovery: 0 };
  expect(settingIssues("mcp_compliance", { weights })).toEqual([
    "must have a weight above 0 of a part that it scores",
  ]);
  expect(settingIssues("mcp_compliance", { threshold: 2 })).toHaveLength(1);
  expect(settingIssues("mcp_compliance", { max_tool_errors: -1 })).toHaveLength(1);
});
