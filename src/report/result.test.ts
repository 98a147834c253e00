import { describe, expect, it } from "vitest";
import { portableTask } from "../../test/report/step-runs.ts";
import { textResult, toolTestTask, TrialEvents, workflowTask } from "../../test/support/trial-events.ts";
import type { Task } from "../model/task.ts";
import type { EventBody } from "../model/event.ts";
import type { TrialResult } from "../model/result.ts";
import { notRun, nullAgentWarning, trialResult, ungradedTrial, unusedServersWarning } from "./result.ts";
import type { Grade } from "../model/grade.ts";

const pass: Grade = { grader: "a", verdict: "pass", score: 1, reason: "good", evidence: [1] };
const fail: Grade = { grader: "b", verdict: "fail", score: 0.5, reason: "bad", evidence: [2] };
const skip: Grade = { grader: "a", verdict: "skip", score: null, reason: "nothing", evidence: [] };
const error = { code: "server/exited", kind: "environment", message: "gone" } as const;
const usage = { inputTokens: 10, outputTokens: 2, requests: 1 };
const called = { type: "model.called", model: "m", durationMs: 1, finishReason: "stop", usage } as const;
const identity = {
  id: "t1",
  task: "suite/test",
  form: "tool-test",
  suite: "suite",
  tool: "add",
  agent: null,
} as const;

/** The result of a completed trial with these events. */
function resultOf(
  events: readonly EventBody[],
  task: Task = workflowTask(),
  grades: Grade[] = [pass],
): TrialResult {
  const trial = new TrialEvents().begin(task.name, "agent");
  for (const event of events) trial.emit(event);
  trial.end();
  return trialResult(trial.trajectory(task), grades);
}

describe("a trial's result", () => {
  it("has the tags, labels and difficulty of its task, if it has any", () => {
    const about = { tags: ["http"], labels: { team: "red" }, difficulty: "easy" } as const;
    expect(resultOf([], portableTask("t", ["v"], about))).toMatchObject({ form: "task", ...about });
    const keys = Object.keys(resultOf([], portableTask("t", ["v"])));
    for (const key of Object.keys(about)) expect(keys).not.toContain(key);
  });

  it.each<[Grade[], "any" | undefined, true | undefined]>([
    [[pass], undefined, true],
    [[pass], "any", undefined],
    [[pass, fail], undefined, undefined],
  ])(
    "says with the grades %j and in: %s whether only a tool's result has the state: %s",
    (grades, where, expected) => {
      const state = { contains: "42", ...(where === undefined ? {} : { in: where }) };
      const task = workflowTask({ turns: [{ user: "Go.", expectedState: state }] });
      const trial = new TrialEvents().server("calc", [{ name: "add" }]);
      trial.turn("Go.", () => {
        trial.call("add", {}, textResult("The sum is 42."));
        trial.say("I do not know.");
      });
      trial.end();
      expect(trialResult(trial.trajectory(task), grades).byToolResult).toBe(expected);
    },
  );

  it("warns of declared graders that judged nothing in a trial that passes", () => {
    const task = workflowTask({
      graders: [{ type: "text", name: "own", config: {}, weight: 1, required: true, dir: "" }],
    });
    const idle: Grade = { ...skip, grader: "own" };
    const warning = 'the grader "own" judged nothing: nothing';
    expect(resultOf([], task, [pass, idle, skip]).warnings).toEqual([warning]);
    expect(resultOf([], task, [pass, { ...idle, required: false }]).warnings).toBeUndefined();
    expect(resultOf([], task, [fail, idle]).warnings).toBeUndefined();
  });

  it("counts the tools that a check called, each once", () => {
    const calls = ["a", "a", "b", "c"].map(
      (tool) => ({ tool, args: {}, expects: "result", why: "" }) as const,
    );
    const task: Task = { ...workflowTask(), form: "check", check: { kind: "calls", disable: [], calls } };
    const made = [0, 1, 2].map((call): EventBody => ({
      type: "probe.started",
      server: "s",
      probe: "call",
      call,
    }));
    expect(resultOf(made, task).toolsCalled).toBe(2);
  });

  it("counts no server as unused that did not start", () => {
    const task = { ...workflowTask(), servers: ["calc", "other"] };
    const { tools } = resultOf([{ type: "server.failed", server: "calc", error }], task);
    expect(tools?.serversUnused).toEqual(["other"]);
  });

  it.each([
    ["null", [pass], [nullAgentWarning]],
    ["null", [fail], undefined],
    ["oracle", [pass], undefined],
  ])("warns of a pass of the agent that does nothing: %s", (kind, grades, warnings) => {
    const started: EventBody = { type: "agent.started", agent: kind, kind };
    expect(resultOf([started], workflowTask(), grades).warnings).toEqual(warnings);
  });

  const graders = (type: string): Partial<Task> => ({
    graders: [{ type, name: type, config: {}, weight: 1, required: true, dir: "" }],
  });
  type Play = (trial: TrialEvents) => unknown;
  const says: Play = (trial) => trial.say("It is 3.");
  const calls: Play = (trial) => trial.call("add", {}, textResult("3"));
  const reads: Play = (trial) => trial.answer(trial.send("resources/read", { uri: "a:b" }), { contents: [] });
  it.each<[string, string, Partial<Task>, Play, Grade, boolean]>([
    ["a pass without a call", "scripted", {}, says, pass, true],
    ["graders of the answer", "model", graders("text"), says, pass, true],
    ["a failure", "model", {}, says, fail, false],
    ["no server", "model", { servers: [] }, says, pass, false],
    ["the task's own solution", "oracle", {}, says, pass, false],
    ["a grader of calls", "model", graders("tool_routing"), says, pass, false],
    ["a call", "model", {}, calls, pass, false],
    ["a resource that was read", "model", {}, reads, pass, false],
  ])("warns of a pass without a call to a server: %s", (_, kind, parts, play, grade, warns) => {
    const trial = new TrialEvents().begin("workflow", "agent").server("calc", [{ name: "add" }]);
    trial.emit({ type: "agent.started", agent: "agent", kind });
    trial.turn("Add 1 and 2.", () => void play(trial)).end();
    const { warnings = [] } = trialResult(trial.trajectory(workflowTask(parts)), [grade]);
    expect(warnings.includes(unusedServersWarning)).toBe(warns);
  });

  const params = { clientInfo: { name: "codex-mcp-client", version: "0.1" } };
  const message = { jsonrpc: "2.0", id: 1, method: "initialize", params };
  const sent = { type: "mcp.message", server: "calc", direction: "client-to-server", message } as const;
  const adapter = { program: "adapter 1" };
  it.each<[string, { program?: string }, EventBody[], TrialResult["ran"]]>([
    [
      "acp",
      adapter,
      [{ program: "it 2" }, { model: "a" }, { model: "b" }, { model: "a" }].map((told) => ({
        type: "agent.reported",
        ...told,
      })),
      { programs: ["adapter 1", "it 2"], models: ["a", "b"] },
    ],
    ["command", adapter, [], { programs: ["adapter 1"], models: null }],
    ["command", {}, [sent, { ...sent, client: "1" }], { programs: ["codex-mcp-client 0.1"], models: null }],
    ["command", {}, [sent], { programs: null, models: null }],
    ["model", adapter, [], undefined],
  ])("has the programs and models that an agent of type %s reports: %j %j", (kind, program, events, ran) => {
    const started: EventBody = { type: "agent.started", agent: "agent", kind, model: "wanted", ...program };
    expect(resultOf([started, ...events]).ran).toEqual(ran);
  });

  it("has the tokens of its judge apart, those of graders too", () => {
    const judged = { ...called, purpose: "judge" } as const;
    const result = resultOf([judged, judged]);
    expect(result.judgeUsage).toEqual({ inputTokens: 20, outputTokens: 4, requests: 2 });
    expect(result.usage).toBeUndefined();
  });

  it("has its duration to the microsecond, and its mocks in order", () => {
    const mock = { type: "server.started", transport: "mock", target: "mock" } as const;
    const finished = { type: "trial.finished", outcome: "completed", durationMs: 12.345_678_9 } as const;
    const trial = new TrialEvents();
    for (const server of ["b", "a", "b"]) trial.emit({ ...mock, server });
    trial.emit({ ...mock, server: "real", transport: "stdio" });
    trial.emit(finished);
    const result = trialResult(trial.trajectory(workflowTask()), [pass]);
    expect(result).toMatchObject({ durationMs: 12.346, mocks: ["a", "b"] });
  });

  it("has the events and the grades of its trial", () => {
    const trial = new TrialEvents("t7").begin("workflow", "agent");
    trial.emit({ ...called, purpose: "agent" });
    trial.emit({ type: "server.invalid_output", server: "calc", text: "hello" });
    trial.wait(38).end();
    expect(trialResult(trial.trajectory(workflowTask()), [pass, fail])).toEqual({
      id: "t7",
      task: "workflow",
      form: "workflow",
      agent: "agent",
      attempt: 1,
      verdict: "fail",
      score: 0.75,
      durationMs: 40,
      grades: [pass, fail],
      usage,
      tools: { toolCalls: 0, mcpToolCalls: 0, serversUsed: [], serversUnused: ["calc"], servers: {} },
      warnings: [expect.stringMatching(/^server "calc" wrote a line/)],
    });
  });

  it("has no more than it needs", () => {
    const result = resultOf([], toolTestTask());
    expect(result).toEqual({
      ...identity,
      attempt: 1,
      verdict: "pass",
      score: 1,
      durationMs: 0,
      grades: [pass],
    });
    const empty = resultOf([], toolTestTask(), [skip]);
    expect(empty).toMatchObject({ verdict: "skip", score: null, grades: [skip] });
    expect(empty).not.toHaveProperty("error");
  });

  const interrupted = { code: "run/interrupted", kind: "interrupted" } as const;
  it.each([
    ["error", error, { verdict: "error", error }],
    ["timeout", error, { verdict: "timeout", error }],
    ["interrupted", { ...interrupted, message: "Ctrl-C" }, { verdict: "skip", error: { message: "Ctrl-C" } }],
    [
      "completed",
      undefined,
      {
        verdict: "skip",
        error: { ...interrupted, message: "the run was interrupted before this trial was graded" },
      },
    ],
    [
      undefined,
      undefined,
      {
        verdict: "skip",
        durationMs: 0,
        error: { ...interrupted, message: "the trial was cut off before it ended" },
      },
    ],
  ] as const)(
    "without grades, of a trial that ended as %s, is not a pass and says why",
    (outcome, why, expected) => {
      const trial = new TrialEvents().begin("suite/test").server("calc");
      if (outcome !== undefined) trial.end(outcome, why);
      const result = trialResult(trial.trajectory(toolTestTask()), undefined);
      expect(result).toMatchObject({ ...expected, score: null, grades: [] });
    },
  );

  it("of a trial that never started says why", () => {
    const trial = { id: "t1", task: "suite/test", agent: null, attempt: 2, lane: "main" };
    const reason = notRun({ interrupted: false, usedUp: undefined });
    const result = ungradedTrial(trial, toolTestTask(), { verdict: "skip", error: reason, durationMs: 0 });
    const row = { ...identity, attempt: 2, verdict: "skip", score: null, durationMs: 0, grades: [] };
    const message = "not run, because an earlier trial did not pass";
    expect(result).toEqual({ ...row, error: { code: "run/bailed", kind: "interrupted", message } });
    expect(notRun({ interrupted: true, usedUp: "the budget is used up" })).toMatchObject({
      code: "run/interrupted",
    });
  });
});
