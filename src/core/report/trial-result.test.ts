import { describe, expect, it } from "vitest";
import { portableTask } from "../../../test/reporters/step-runs.ts";
import { toolTestTask, TrialEvents, workflowTask } from "../../../test/support/trial-events.ts";
import type { Grade } from "../grade/grader.ts";
import { gradesOf, notRun, nullAgentWarning, skippedTrial, trialResult } from "./trial-result.ts";

const pass: Grade = { grader: "a", verdict: "pass", score: 1, reason: "good", evidence: [1] };
const fail: Grade = { grader: "b", verdict: "fail", score: 0.5, reason: "bad", evidence: [2] };
const error = { code: "server/exited", kind: "environment", message: "gone" } as const;

describe("a trial's result", () => {
  it("has what a task says of itself, where it says something", () => {
    const said = portableTask("t", ["v"], { tags: ["http"], labels: { team: "red" }, difficulty: "easy" });
    const silent = portableTask("t", ["v"]);
    const result = trialResult(new TrialEvents().begin("t").trajectory(said), undefined);
    expect(result).toMatchObject({
      form: "task",
      tags: ["http"],
      labels: { team: "red" },
      difficulty: "easy",
    });
    const keys = Object.keys(trialResult(new TrialEvents().begin("t").trajectory(silent), undefined));
    expect(keys).not.toContain("tags");
    expect(keys).not.toContain("labels");
    expect(keys).not.toContain("difficulty");
  });

  it("counts no server as unused that did not start", () => {
    const trial = new TrialEvents().begin("workflow", "agent");
    trial.emit({ type: "server.failed", server: "calc", error });
    trial.end();
    const task = { ...workflowTask(), servers: ["calc", "other"] };
    expect(trialResult(trial.trajectory(task), [pass]).tools?.serversUnused).toEqual(["other"]);
  });

  it.each([
    ["null", [nullAgentWarning]],
    ["oracle", undefined],
  ])("warns of a pass of the agent that does nothing: %s", (kind, warnings) => {
    const trial = new TrialEvents().begin("task", kind);
    trial.emit({ type: "agent.started", agent: kind, kind });
    trial.end();
    expect(trialResult(trial.trajectory(workflowTask()), [pass]).warnings).toEqual(warnings);
  });

  it("has what really ran, by what a program and its model told", () => {
    const ranOf = (kind: string, ...told: readonly { program?: string; model?: string }[]): unknown => {
      const trial = new TrialEvents().begin("workflow", "agent");
      trial.emit({ type: "agent.started", agent: "agent", kind, model: "wanted", program: "adapter 1" });
      for (const each of told) trial.emit({ type: "agent.told", ...each });
      trial.end();
      return trialResult(trial.trajectory(workflowTask()), [pass]).ran;
    };
    expect(ranOf("acp", { program: "it 2" }, { model: "a" }, { model: "b" }, { model: "a" })).toEqual({
      programs: ["adapter 1", "it 2"],
      models: ["a", "b"],
    });
    expect(ranOf("command")).toEqual({ programs: ["adapter 1"], models: null });
    expect(ranOf("model")).toBeUndefined();
  });

  it("has the name by which a program connects to servers", () => {
    const trial = new TrialEvents().begin("workflow", "agent");
    trial.emit({ type: "agent.started", agent: "agent", kind: "command" });
    const params = { clientInfo: { name: "codex-mcp-client", version: "0.1" } };
    const message = { jsonrpc: "2.0", id: 1, method: "initialize", params };
    const sent = { type: "mcp.message", server: "calc", direction: "client-to-server", message } as const;
    trial.emit(sent);
    trial.emit({ ...sent, client: "1" });
    trial.end();
    const { ran } = trialResult(trial.trajectory(workflowTask()), [pass]);
    expect(ran).toEqual({ programs: ["codex-mcp-client 0.1"], models: null });
  });

  it("has the tokens of its judge apart, those of graders too", () => {
    const trial = new TrialEvents().begin("workflow", "agent");
    const usage = { inputTokens: 10, outputTokens: 2, requests: 1 };
    const called = {
      type: "model.called",
      purpose: "judge",
      model: "m",
      durationMs: 1,
      finishReason: "stop",
    } as const;
    trial.emit({ ...called, usage });
    trial.end();
    const trajectory = trial.trajectory(workflowTask());
    trial.emit({ ...called, usage });
    const result = trialResult({ ...trajectory, events: trial.trajectory(workflowTask()).events }, [pass]);
    expect(result.judgeUsage).toEqual({ inputTokens: 20, outputTokens: 4, requests: 2 });
    expect(result.usage).toBeUndefined();
  });

  it("has its duration to the microsecond", () => {
    const trial = new TrialEvents().begin("workflow");
    trial.emit({ type: "trial.finished", outcome: "completed", durationMs: 12.345_678_9 });
    expect(trialResult(trial.trajectory(workflowTask()), [pass]).durationMs).toBe(12.346);
  });

  it("joins how it went and what its graders say", () => {
    const trial = new TrialEvents("t7").begin("workflow", "agent");
    const usage = { inputTokens: 10, outputTokens: 2, requests: 1 };
    trial.emit({
      type: "model.called",
      purpose: "agent",
      model: "m",
      durationMs: 1,
      finishReason: "stop",
      usage,
    });
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
      warnings: [
        'server "calc" wrote a line on stdout that is not MCP, first "hello"; logs belong on stderr, other clients may break on them',
      ],
    });
  });

  it("has no more than it needs", () => {
    const trial = new TrialEvents().begin("suite/test");
    trial.end();
    expect(trialResult(trial.trajectory(toolTestTask()), [pass])).toEqual({
      id: "t1",
      task: "suite/test",
      form: "tool-test",
      suite: "suite",
      agent: null,
      attempt: 1,
      verdict: "pass",
      score: 1,
      durationMs: 0,
      grades: [pass],
    });
  });

  it.each(["error", "timeout"] as const)(
    "of a trial that ended as %s is not judged, and says why",
    (outcome) => {
      const trial = new TrialEvents().begin("suite/test");
      trial.end(outcome, error);
      expect(trialResult(trial.trajectory(toolTestTask()), undefined)).toMatchObject({
        verdict: outcome,
        score: null,
        grades: [],
        error,
      });
    },
  );

  it("of a trial that was interrupted or killed is a skip, and says so", () => {
    const interrupted = new TrialEvents().begin("suite/test");
    interrupted.end("interrupted", { code: "run/interrupted", kind: "interrupted", message: "Ctrl-C" });
    expect(trialResult(interrupted.trajectory(toolTestTask()), undefined)).toMatchObject({
      verdict: "skip",
      error: { message: "Ctrl-C" },
    });
    const killed = new TrialEvents().begin("suite/test").server("calc");
    expect(trialResult(killed.trajectory(toolTestTask()), undefined)).toMatchObject({
      verdict: "skip",
      durationMs: 0,
      error: {
        code: "run/interrupted",
        kind: "interrupted",
        message: "the trial was cut off before it ended",
      },
    });
  });

  it("of a trial that was not graded any more is a skip too, never a pass", () => {
    const trial = new TrialEvents().begin("suite/test");
    trial.end();
    expect(trialResult(trial.trajectory(toolTestTask()), undefined)).toMatchObject({
      verdict: "skip",
      score: null,
      error: { code: "run/interrupted", message: "the run was interrupted before this trial was graded" },
    });
  });

  it("with nothing to look at is a skip without an error", () => {
    const trial = new TrialEvents().begin("suite/test");
    trial.end();
    const skip: Grade = { grader: "a", verdict: "skip", score: null, reason: "nothing", evidence: [] };
    const result = trialResult(trial.trajectory(toolTestTask()), [skip]);
    expect(result).toMatchObject({ verdict: "skip", score: null, grades: [skip] });
    expect(result).not.toHaveProperty("error");
  });
});

describe("the result of a trial that never started", () => {
  it("says why", () => {
    const trial = { id: "t1", task: "suite/test", agent: null, attempt: 2, lane: "main" };
    expect(skippedTrial(trial, toolTestTask(), notRun({ interrupted: false }))).toEqual({
      id: "t1",
      task: "suite/test",
      form: "tool-test",
      suite: "suite",
      agent: null,
      attempt: 2,
      verdict: "skip",
      score: null,
      durationMs: 0,
      grades: [],
      error: {
        code: "run/bailed",
        kind: "interrupted",
        message: "not run, because an earlier trial did not pass",
      },
    });
    expect(notRun({ interrupted: true })).toMatchObject({ code: "run/interrupted" });
  });
});

describe("grades", () => {
  it("are read back from the events; none is another thing than an empty list", () => {
    const trial = new TrialEvents();
    expect(gradesOf(trial.events)).toBeUndefined();
    trial.emit({ type: "trial.graded", verdict: "pass", score: 1, grades: [] });
    expect(gradesOf(trial.events)).toEqual([]);
    trial.emit({ type: "trial.graded", verdict: "pass", score: 1, grades: [pass] });
    expect(gradesOf(trial.events)).toEqual([pass]);
  });
});
