import { expect, it } from "vitest";
import { AgentTrial } from "../../test/support/grading.ts";
import { textResult, workflowTask } from "../../test/support/trial-events.ts";
import type { JsonObject } from "../base/json.ts";
import { measure } from "../graders/measurements/measure.ts";
import { MeasurementCounter, RoutingCounter } from "./counters.ts";
import type { Grade } from "../model/grade.ts";

/** What a run of trials gives, each with where it should lead, and what its agent calls. */
function routing(
  trials: readonly (readonly [expected: string, calls: readonly string[], verdict?: Grade["verdict"]])[],
): ReturnType<RoutingCounter["result"]> {
  const counter = new RoutingCounter();
  for (const [tool, calls, verdict = "pass"] of trials) {
    const config: JsonObject = { expect: tool === "none" ? "none" : { tool } };
    const graders = [{ type: "tool_routing", name: "route", weight: 1, required: true, config, dir: "/" }];
    const trial = new AgentTrial((each) => {
      for (const call of calls) each.use(call);
      each.say("Done.");
    });
    const grade: Grade = { grader: "route", verdict, score: 1, reason: "", evidence: [] };
    counter.add(trial.trajectory(workflowTask({ graders })), { grades: [grade] });
  }
  return counter.result();
}

it("counts expected and called tools, with precision, recall and near misses", () => {
  const found = routing([
    ["get", ["get"]],
    ["get", ["get", "list"]],
    ["get", ["list", "get"]],
    ["get", []],
    ["list", ["list"]],
    ["none", []],
    ["none", ["get"]],
    ["none", ["delete"], "error"],
  ]);
  expect(found).toMatchObject({
    nearMisses: 1,
    tools: {
      correct: { value: 4 / 7, trials: 7 },
      matrix: [
        { expected: "k8s.get", called: "k8s.get", trials: 2 },
        { expected: "k8s.get", called: "k8s.list", trials: 1 },
        { expected: "k8s.get", called: "none", trials: 1 },
        { expected: "k8s.list", called: "k8s.list", trials: 1 },
        { expected: "none", called: "none", trials: 1 },
        { expected: "none", called: "k8s.get", trials: 1 },
      ],
      precision: {
        "k8s.get": { value: 2 / 3, trials: 3 },
        "k8s.list": { value: 1 / 2, trials: 2 },
        none: { value: 1 / 2, trials: 2 },
      },
      recall: {
        "k8s.get": { value: 1 / 2, trials: 4 },
        "k8s.list": { value: 1, trials: 1 },
        none: { value: 1 / 2, trials: 2 },
      },
    },
    servers: { correct: { value: 5 / 7, trials: 7 } },
  });
  expect(found?.tools?.recall["k8s.get"]?.low).toBeCloseTo(0.15, 2);
});

it("tells tools of the same name of two servers apart, and knows the server of a tool that only one has", () => {
  const counter = new RoutingCounter();
  const count = (expected: JsonObject, called: string, server: string): void => {
    const config = { expect: expected };
    const graders = [{ type: "tool_routing", name: "route", weight: 1, required: true, config, dir: "/" }];
    const trial = new AgentTrial((each) => {
      each.list([{ name: "get" }, { name: "search" }], { server: "docs" });
      each.call(called, {}, textResult("x"), { server });
    });
    const grade: Grade = { grader: "route", verdict: "pass", score: 1, reason: "", evidence: [] };
    counter.add(trial.trajectory(workflowTask({ graders })), { grades: [grade] });
  };
  count({ tool: "get" }, "get", "docs");
  count({ tool: "get" }, "list", "k8s");
  count({ tool: "search" }, "list", "k8s");
  count({ server: "docs" }, "list", "k8s");
  expect(counter.result()).toMatchObject({
    tools: {
      matrix: [
        { expected: "docs.get", called: "docs.get", trials: 1 },
        { expected: "get", called: "k8s.list", trials: 1 },
        { expected: "docs.search", called: "k8s.list", trials: 1 },
      ],
    },
    servers: {
      matrix: [
        { expected: "docs", called: "docs", trials: 1 },
        { expected: "docs", called: "k8s", trials: 2 },
      ],
    },
  });
});

it("counts what prompts triggered, with those that should trigger nothing", () => {
  const counter = new RoutingCounter();
  const tests = [
    [{ skill: "triage" }, "pass"],
    [{ skill: "triage" }, "fail"],
    [{ skill: "triage", mode: "negative" }, "pass"],
    [{ skill: "triage", mode: "negative" }, "fail"],
    [{ server: "k8s", tool: "get" }, "pass"],
    // It fails because of the name, which is not a tool's.
    [{ tool: "gte", mode: "negative" }, "fail"],
    [{ server: "k8s" }, "error"],
  ] as const;
  for (const [target, verdict] of tests) {
    const config = { mode: "positive", ...target };
    const graders = [{ type: "trigger", name: "t", weight: 1, required: true, config, dir: "/" }];
    const grade: Grade = { grader: "t", verdict, score: 1, reason: "", evidence: [] };
    counter.add(new AgentTrial((each) => each.use("get")).trajectory(workflowTask({ graders })), {
      grades: [grade],
    });
  }
  const found = counter.result();
  expect(found).toMatchObject({
    nearMisses: 0,
    tools: {
      matrix: [
        { expected: "k8s.get", called: "k8s.get", trials: 1 },
        { expected: "none", called: "none", trials: 1 },
      ],
    },
    skills: {
      correct: { value: 1 / 2, trials: 4 },
      matrix: [
        { expected: "triage", called: "triage", trials: 1 },
        { expected: "triage", called: "none", trials: 1 },
        { expected: "none", called: "none", trials: 1 },
        { expected: "none", called: "triage", trials: 1 },
      ],
      precision: { triage: { value: 1 / 2 } },
      recall: { triage: { value: 1 / 2 } },
    },
  });
  expect(found?.servers).toBeUndefined();
});

it("adds up what trials measured", () => {
  const counter = new MeasurementCounter([]);
  expect(counter.result()).toBeUndefined();
  const count = (verdict: "pass" | "fail", requests: number, play: (trial: AgentTrial) => void): number => {
    const trajectory = new AgentTrial(play).trajectory(workflowTask());
    counter.add({ ...trajectory, usage: { inputTokens: 1, outputTokens: 1, requests } }, { verdict });
    return measure(trajectory)?.row.definitionTokens ?? 0;
  };
  const invalid = (trial: AgentTrial, ...causes: readonly string[]): unknown =>
    trial.emit({ type: "calls.invalid", calls: [{ seq: 1, causes }] });
  const tokens = [
    count("pass", 2, (trial) => {
      trial.use("list");
      trial.fail("get");
      trial.say("It is there.");
      invalid(trial, "wrong type");
    }),
    count("fail", 5, (trial) => {
      trial.use("get");
      trial.list([{ name: "create_note" }], { server: "docs" });
      trial.say("I created the note.");
      invalid(trial, "wrong type", "missing key");
    }),
  ];
  const [first = 0, second = 0] = tokens;
  const ofDelete = Math.ceil(JSON.stringify({ inputSchema: { type: "object" }, name: "delete" }).length / 4);
  expect(counter.result()).toMatchObject({
    trials: 2,
    calls: 3,
    errors: 1,
    invalidCalls: 2,
    invalidCauses: { "wrong type": 2, "missing key": 1 },
    unsupportedClaims: 1,
    ignoredErrors: 1,
    definitions: {
      tokens: second,
      unused: second - first + ofDelete,
      perPassedTrial: 2 * first + 5 * second,
    },
  });
});

it("has no tokens that models read where no agent has a model", () => {
  const trajectory = new AgentTrial((trial) => trial.use("get")).trajectory(workflowTask());
  const ofAgent = (type: string): object => {
    const counter = new MeasurementCounter([{ name: trajectory.trial.agent ?? "", type }]);
    counter.add(trajectory, { verdict: "pass" });
    return counter.result()?.definitions ?? {};
  };
  expect(ofAgent("scripted")).not.toHaveProperty("perPassedTrial");
  expect(ofAgent("model")).toHaveProperty("perPassedTrial", measure(trajectory)?.row.definitionTokens);
});

it("has nothing of trials without a verdict", () => {
  expect(routing([["get", ["get"], "skip"]])).toBeUndefined();
  expect(routing([])).toBeUndefined();
});
