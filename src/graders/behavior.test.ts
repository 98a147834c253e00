import { expect, it } from "vitest";
import { AgentTrial, gradeBy, settingIssues } from "../../test/support/grading.ts";

let failed = 0;
const busy = new AgentTrial((trial) => {
  trial.use("list", { all: true });
  trial.use("list", { all: true });
  failed = trial.fail("get", { name: "a" });
  trial.report("shell");
  trial.say("Done.");
});

it.each([
  [{ max_tool_calls: 4 }, "pass", "4 tool calls (k8s.list, k8s.get, shell), at most 4 allowed"],
  [{ max_tool_calls: 3 }, "fail", "4 tool calls (k8s.list, k8s.get, shell), at most 3 allowed"],
  [{ max_mcp_calls: 2 }, "fail", "3 MCP tool calls (k8s.list, k8s.get), at most 2 allowed"],
  [{ max_tool_errors: 0 }, "fail", "1 failed tool call (k8s.get), at most 0 allowed"],
  [{ max_duplicate_calls: 0 }, "fail", "1 repeated call (k8s.list), at most 0 allowed"],
  [{ max_duration_ms: 1200 }, "pass", "1200 ms, at most 1200 allowed"],
  [{ max_duration_ms: 1199 }, "fail", "1200 ms, at most 1199 allowed"],
  [{ required_tools: ["list"] }, "pass", "list was used"],
  [{ required_tools: ["k8s.list"] }, "pass", "k8s.list was used"],
  [{ required_tools: ["get"] }, "fail", "get was not used with success (it failed: no such thing)"],
  [{ forbidden_tools: ["get"] }, "fail", "get was used"],
  [{ required_mcp_servers: ["docs"] }, "fail", "docs was not used"],
  [{ forbidden_mcp_servers: ["docs"] }, "pass", "docs was not used"],
])("%j: %s", async (config, verdict, reason) => {
  const score = verdict === "pass" ? 1 : 0;
  expect(await gradeBy("behavior", config, busy)).toMatchObject({ verdict, score, reason });
});

it("gives a part of the score for limits that hold, and cites the calls that break the others", async () => {
  const grade = await gradeBy(
    "behavior",
    { max_tool_calls: 9, forbidden_tools: ["delete"], max_tool_errors: 0 },
    busy,
  );
  expect(grade).toMatchObject({ verdict: "fail", score: 2 / 3, evidence: [failed] });
});

/** An agent with two turns, each of which asks its model once, and a judge. */
const talking = new AgentTrial((trial) => {
  const usage = { inputTokens: 30, outputTokens: 4 };
  const called = { type: "model.called", model: "m", durationMs: 1, finishReason: "stop", usage } as const;
  trial.emit({ ...called, purpose: "agent" });
  trial.say("One moment.");
  trial.emit({ ...called, purpose: "agent" });
  trial.emit({ ...called, purpose: "judge" });
  trial.say("Done.");
});
talking.emit({ type: "phase.started", phase: "agent" });
talking.emit({ type: "phase.finished", phase: "agent", durationMs: 300 });

it.each([
  [{ max_tokens: 68 }, "pass", "68 tokens, at most 68 allowed"],
  [{ max_tokens: 67 }, "fail", "68 tokens, at most 67 allowed"],
  [{ max_iterations: 2 }, "pass", "2 answers of the model, at most 2 allowed"],
  [{ max_iterations: 1 }, "fail", "2 answers of the model, at most 1 allowed"],
  [{ max_duration_ms: 1499 }, "fail", "1500 ms, at most 1499 allowed"],
])("%j of an agent with a model: %s", async (config, verdict, reason) => {
  expect(await gradeBy("behavior", config, talking)).toMatchObject({ verdict, reason });
});

it("fails for tokens that nobody counted", async () => {
  const reason = "the number of tokens is not known, at most 10 allowed";
  expect(await gradeBy("behavior", { max_tokens: 10 }, busy)).toMatchObject({ verdict: "fail", reason });
});

it("fails an agent that did nothing for what it had to do, and says nothing of what it kept", async () => {
  expect(
    await gradeBy("behavior", { required_tools: ["get"], max_mcp_calls: 1 }, new AgentTrial()),
  ).toMatchObject({
    verdict: "fail",
    score: 0,
    reason: "the agent said nothing and called nothing: get was not used",
  });
  for (const config of [{ max_mcp_calls: 0 }, { forbidden_tools: ["get"] }])
    expect(await gradeBy("behavior", config, new AgentTrial())).toMatchObject({
      verdict: "skip",
      reason: "the agent said nothing and called nothing",
    });
  expect(
    await gradeBy("behavior", { max_mcp_calls: 0 }, new AgentTrial((trial) => trial.say("No need."))),
  ).toMatchObject({
    verdict: "pass",
  });
});

it("refuses settings that look at nothing", () => {
  expect(settingIssues("behavior", {})).toEqual(["must have a limit, or a tool or server to look for"]);
  expect(settingIssues("behavior", { max_mcp_calls: -1 })).toHaveLength(1);
  for (const type of ["behavior", "tool_calls"])
    expect(settingIssues(type, { required_tools: ["a", "b"], forbidden_tools: ["b"] })).toEqual([
      "must not have a tool in both required_tools and forbidden_tools",
    ]);
  const servers = { required_mcp_servers: ["k8s"], forbidden_mcp_servers: ["k8s"] };
  expect(settingIssues("behavior", servers)).toEqual([
    "must not have a server in both required_mcp_servers and forbidden_mcp_servers",
  ]);
});

it("limits of failed and repeated calls are no evidence without a call", async () => {
  const talk = new AgentTrial((each) => each.say("Hello."));
  const settings = { max_tool_errors: 0, max_duplicate_calls: 0 };
  expect(await gradeBy("behavior", settings, talk)).toMatchObject({
    verdict: "skip",
    reason: "nothing to check",
  });
  expect(await gradeBy("behavior", { ...settings, max_tool_calls: 0 }, talk)).toMatchObject({
    verdict: "pass",
    reason: "0 tool calls, at most 0 allowed",
  });
});

it.each([
  [{ q: "ab", page: 1 }, { page: 1, q: "ab" }, 1],
  [{ q: "ab" }, { q: "cb" }, 0],
  [{ n: 0.25 }, { n: 0.75 }, 0],
  [{ list: [1, 2] }, { list: [2, 1] }, 0],
])("calls with %j and %j: %i of them is a repeated one", async (first, second, repeated) => {
  const trial = new AgentTrial((each) => {
    each.use("list", first);
    each.use("list", second);
  });
  const told = `${repeated} repeated call${repeated === 1 ? " (k8s.list)" : "s"}`;
  expect(await gradeBy("behavior", { max_duplicate_calls: 1 }, trial)).toMatchObject({
    verdict: "pass",
    reason: `${told}, at most 1 allowed`,
  });
});
