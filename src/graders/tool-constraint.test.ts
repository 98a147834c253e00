import { describe, expect, it } from "vitest";
import { AgentTrial, gradeBy, settingIssues } from "../../test/support/grading.ts";
import type { JsonObject } from "../base/json.ts";
import { errorResult, textResult } from "../../test/support/trial-events.ts";

const filter = { filter: { state: "open", labels: ["bug", "ui"] }, limit: 20, query: "Is empty" };
let deleted = 0;
const busy = new AgentTrial((trial) => {
  trial.use("list", filter);
  trial.use("get", { name: "a" });
  trial.use("get", { name: "b" });
  deleted = trial.fail("delete", { name: "b" });
  trial.call("list", {}, textResult("x"), { server: "docs" });
  trial.report("shell", { args: { command: "git log" } });
  trial.report("Skill", { source: "skill", args: { skill: "triage" } });
  trial.report("fetch", { source: "unknown" });
  trial.reject("gat");
});

const calls = (config: JsonObject): JsonObject => ({ expect_tools: [config] });

it.each<[JsonObject, string, string]>([
  [{ tool: "get" }, "pass", "2 calls of get"],
  [{ tool: "k8s.get" }, "pass", "2 calls of k8s.get"],
  [
    { tool: "ge" },
    "fail",
    'no successful call of ge; no server offers a tool of this name, did you mean "get"?',
  ],
  [{ tool: "/GE.*/" }, "fail", "no successful call of /GE.*/"],
  [{ tool: "/(?i)GE.*/" }, "pass", "2 calls of /(?i)GE.*/"],
  [{ tool: "/e/" }, "fail", "no successful call of /e/"],
  [{ tool: "/l|get|t/" }, "pass", "2 calls of /l|get|t/"],
  [{ tool: "/l|t/" }, "fail", "no successful call of /l|t/"],
  [{ tool_pattern: "g.t" }, "pass", "2 calls of /g.t/"],
  [{ tool: "list", source: "mcp:docs" }, "pass", "1 call of list of docs"],
  [{ tool: "get", source: "mcp:docs" }, "fail", "no successful call of get of docs"],
  [{ source: "builtin" }, "pass", "1 call of any tool of builtin"],
  [{ tool: "fetch", source: "builtin" }, "fail", "no successful call of fetch of builtin"],
  [{ source: "skill", skill_pattern: "^TRI" }, "pass", "1 call of any tool of skill (skill /^TRI/i)"],
  [{ command_pattern: "git (log|diff)" }, "pass", "1 call of any tool (command /git (log|diff)/i)"],
  [{ command_pattern: "rm" }, "fail", "no successful call of any tool (command /rm/i)"],
  [{ tool: "delete" }, "fail", "no successful call of delete; it failed: no such thing"],
  [{ tool: "delete", success: false }, "pass", "1 call of delete that fails"],
  [{ tool: "get", success: false }, "fail", "no call of get that fails"],
  [{ tool: "get", min: 3 }, "fail", "2 calls with success of get, at least 3 expected"],
  [{ tool: "get", max: 1 }, "fail", "2 calls of get, at most 1 allowed"],
  [{ tool: "delete", min: 0, max: 0 }, "fail", "1 call of delete, at most 0 allowed"],
  [{ tool: "list", args: { limit: 20 } }, "pass", "1 call of list (limit = 20)"],
  [{ tool: "list", args: { "filter.state": "open" } }, "pass", '1 call of list (filter.state = "open")'],
  [{ args: { "filter.labels.1": { equals: "ui" } } }, "pass", '1 call of any tool (filter.labels.1 = "ui")'],
  [
    { args: { filter: { state: "open" } } },
    "fail",
    'no successful call of any tool (filter = {"state":"open"})',
  ],
  [{ args: { query: { contains: "empty" } } }, "pass", '1 call of any tool (query contains "empty")'],
  [
    { args: { query: { contains: "Empty" } } },
    "fail",
    'no successful call of any tool (query contains "Empty")',
  ],
  [{ args: { limit: { regex: "^2" } } }, "pass", "1 call of any tool (limit matches /^2/)"],
  [
    { args: { limit: { range: { gt: 19, lte: 20 } } } },
    "pass",
    '1 call of any tool (limit in {"gt":19,"lte":20})',
  ],
  [{ args: { query: { range: { gt: 19 } } } }, "fail", 'no successful call of any tool (query in {"gt":19})'],
  [{ args: { limit: { range: { lt: 20 } } } }, "fail", 'no successful call of any tool (limit in {"lt":20})'],
])("expects %j: %s", async (config, verdict, reason) => {
  const finding = await gradeBy("tool_constraint", calls(config), busy);
  expect(finding).toMatchObject({ verdict, score: verdict === "pass" ? 1 : 0 });
  expect(finding.reason.startsWith(reason)).toBe(true);
});

it.each<[JsonObject, string, string]>([
  [{ tool: "delete" }, "fail", "1 call of delete, which is rejected"],
  [{ tool: "delete", success: true }, "pass", "no call of delete that succeeds"],
  [{ tool: "/dele.*/", source: "mcp:docs" }, "pass", "no call of /dele.*/ of docs"],
  [{ tool: "fetch", source: "builtin" }, "fail", "1 call of fetch of builtin, which is rejected"],
  [{ tool: "gat" }, "fail", "1 call of gat, which is rejected"],
  [
    { tool: "delet" },
    "fail",
    'no call of delet; no server offers a tool of this name, did you mean "delete"?',
  ],
  [
    { tool: "/k8s\\.delet.*/" },
    "fail",
    "no call of /k8s\\.delet.*/; no server offers a tool of this name, since a pattern is compared with the name without its server",
  ],
])("rejects %j: %s", async (config, verdict, reason) => {
  expect(await gradeBy("tool_constraint", { reject_tools: [config] }, busy)).toMatchObject({
    verdict,
    reason,
  });
});

it("gives a part of the score for entries that hold, and cites the calls that break the others", async () => {
  const config = { expect_tools: [{ tool: "get" }], reject_tools: [{ tool: "delete" }, { tool: "other" }] };
  expect(await gradeBy("tool_constraint", config, busy)).toMatchObject({
    verdict: "fail",
    score: 2 / 3,
    evidence: [deleted],
  });
});

describe("a json_schema", () => {
  const config = calls({ tool: "get", args: { name: { json_schema: { type: "string" } } } });

  it("is what the argument has to fit", async () => {
    const asked: unknown[] = [];
    const status = (value: unknown) => (value === "b" ? "valid" : "invalid");
    const finding = await gradeBy("tool_constraint", config, busy, {
      validateSchema: async (schema, value) => {
        asked.push([schema, value]);
        return status(value) === "valid" ? { status: "valid" } : { status: "invalid", errors: [] };
      },
    });
    expect(finding).toMatchObject({ verdict: "pass", reason: "1 call of get (name fits its json_schema)" });
    expect(asked).toEqual([
      [{ type: "string" }, "a"],
      [{ type: "string" }, "b"],
    ]);
  });

  it("that cannot be used is an error of the grader", async () => {
    const unusable = { status: "unusable", reason: "it is not a schema" } as const;
    await expect(
      gradeBy("tool_constraint", config, busy, { validateSchema: async () => unusable }),
    ).rejects.toThrow("the json_schema of a matcher cannot be used: it is not a schema");
  });
});

it.each<[JsonObject, string, string, number]>([
  [{ required_tools: ["get"], max_calls: 9 }, "pass", "get was used; 9 calls", 1],
  [{ required_tools: ["delete"] }, "fail", "delete was not used with success (it failed: no such thing)", 0],
  [{ forbidden_tools: ["delete"] }, "fail", "delete was used", 0],
  [{ forbidden_tools: ["dlete"] }, "fail", "dlete was not used; no server offers a tool of this name", 0],
  [{ min_calls: 7 }, "pass", "7 calls (k8s.list, k8s.get, docs.list, shell, Skill and 1 more)", 1],
  [{ min_calls: 8 }, "fail", "7 calls", 0],
  [{ max_calls: 8, required_tools: ["get"] }, "fail", "9 calls", 0.5],
  [
    { expect: [{ tool: "get", args: { name: "c" } }], min_calls: 1 },
    "fail",
    "no successful call of get",
    0.5,
  ],
])("tool_calls with %j: %s", async (config, verdict, reason, score) => {
  const finding = await gradeBy("tool_calls", config, busy);
  expect(finding).toMatchObject({ verdict, score });
  expect(finding.reason.startsWith(reason)).toBe(true);
});

it.each([
  ["tool_constraint", { reject_tools: [{ tool: "get" }] }],
  ["tool_calls", { max_calls: 0 }],
])("%s says nothing of an agent that did nothing", async (type, config) => {
  const nothing = { verdict: "skip", reason: "the agent said nothing and called nothing" };
  expect(await gradeBy(type, config, new AgentTrial())).toMatchObject(nothing);
});

it("a call whose answer an injected fault took away shows nothing, and an agent's report of a server's tool neither", async () => {
  const trial = new AgentTrial((agent) => {
    const request = agent.request("get", {});
    const { server, id } = request;
    agent.emit({ type: "fault.injected", server, fault: "error", method: "tools/call", tool: "get", id });
    agent.answer(request, errorResult("injected"));
    agent.report("list", { source: "unknown" });
  });
  for (const tool of ["get", "list"]) {
    expect(await gradeBy("tool_constraint", calls({ tool }), trial)).toMatchObject({ verdict: "fail" });
    expect(await gradeBy("tool_calls", { required_tools: [tool] }, trial)).toMatchObject({ verdict: "fail" });
  }
  expect(await gradeBy("tool_calls", { min_calls: 1 }, trial)).toMatchObject({ verdict: "fail" });
});

it.each<[string, JsonObject, string]>([
  ["tool_constraint", {}, "must have an entry in expect_tools or reject_tools"],
  ["tool_constraint", calls({ min: 2 }), "must have tool, tool_pattern, source, args or a pattern"],
  ["tool_constraint", calls({ tool: "get_.*" }), 'is not a name of a tool; write a pattern as "/get_.*/"'],
  ["tool_constraint", calls({ tool: "/(/" }), "is not a valid RE2 pattern"],
  ["tool_constraint", calls({ tool: "a", tool_pattern: "b" }), "must not have both tool and tool_pattern"],
  ["tool_constraint", calls({ tool: "a", max: 0 }), "has a max below min, which is 1 unless given"],
  ["tool_constraint", calls({ tool: "a", source: "buildin" }), "must be mcp:SERVER, builtin or skill"],
  ["tool_constraint", calls({ tool: "a", args: { b: { regex: "(" } } }), "is not a valid RE2 pattern"],
  ["tool_constraint", calls({ tool: "a", args: { b: { range: {} } } }), "must have gte, lte, gt or lt"],
  ...[
    { gte: 5, lte: 1 },
    { gt: 1, lt: 1 },
    { gt: 1, lte: 1 },
    { gte: 1, lt: 1 },
  ].map((range): [string, JsonObject, string] => [
    "tool_constraint",
    calls({ tool: "a", args: { b: { range } } }),
    "has no number inside its bounds",
  ]),
  [
    "tool_constraint",
    calls({ tool: "a", args: { b: { equals: 1, contains: "1" } } }),
    "must have exactly one of equals, contains, regex, range, json_schema",
  ],
  ["tool_calls", { min_calls: 0 }, "must have a tool, a number of calls or an entry in expect"],
  ["tool_calls", { min_calls: 3, max_calls: 2 }, "has a max_calls below min_calls"],
])("%s refuses %j", (type, config, message) => {
  expect(settingIssues(type, config).join("\n")).toContain(message);
});
