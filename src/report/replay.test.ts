import { describe, expect, it } from "vitest";
import { check, textResult, toolTestTask, TrialEvents } from "../../test/support/trial-events.ts";
import type { Task } from "../model/task.ts";
import type { TraceEvent } from "../model/event.ts";
import type { Plan } from "../model/plan.ts";
import { readTrace } from "../trace/trajectory.ts";
import { collectEvidence } from "./evidence.ts";
import { replayRun } from "./replay.ts";
import type { RecordedRun } from "../model/result.ts";
import type { Grade } from "../model/grade.ts";

const startedAt = "2026-11-21T22:45:59.000Z";
const environment = { mcpvals: "0.1.0", node: "24.0.0", platform: "any", agents: [], servers: {} };

function plan(trials: number): Plan {
  const names = Array.from({ length: trials }, (_, index) => `suite/${index + 1}`);
  const tasks = names.map((name): Task => ({ ...toolTestTask({ result: 5 }), name }));
  return {
    schema: "mcpvals.plan/1",
    name: "sums",
    agents: [],
    tasks,
    trials: names.map((task, index) => ({ id: `t${index + 1}`, task, agent: null, attempt: 1 })),
    concurrency: 1,
  };
}

function grades(passed: boolean, evidence: readonly number[]): Grade[] {
  const verdict = passed ? "pass" : "fail";
  return [{ grader: "verify-steps", verdict, score: passed ? 1 : 0, reason: "", evidence }];
}

/** The events of a whole trial. */
function trial(id: string, passed = true): TrialEvents {
  const events = new TrialEvents(id).begin(`suite/${id.slice(1)}`).server("calc", [{ name: "add" }]);
  const step = events.step("call", { checks: [check("result", passed)] }, () =>
    events.call("add", {}, textResult("5")),
  );
  events.end();
  const verdict = passed ? "pass" : "fail";
  events.emit({ type: "trial.graded", verdict, score: passed ? 1 : 0, grades: grades(passed, [step]) });
  return events;
}

/** A trial as the interruption of its run leaves it. */
function interruptedTrial(id: string): readonly TraceEvent[] {
  const events = new TrialEvents(id).begin(`suite/${id.slice(1)}`);
  events.end("interrupted", {
    code: "run/interrupted",
    kind: "interrupted",
    message: "the run was interrupted",
  });
  return events.events;
}

function run(trials: number, events: readonly TraceEvent[], rest: Partial<RecordedRun> = {}): RecordedRun {
  return { id: "r1", startedAt, environment, plan: plan(trials), events, ...rest };
}

function verdicts(recorded: RecordedRun): unknown[] {
  const { verdict, trials } = replayRun(recorded).result;
  return [verdict, ...trials.map((row) => [row.verdict, row.error?.code])];
}

const ended = { durationMs: 41, interrupted: false };

describe("a run that came to its end", () => {
  it("is computed again, with the evidence of what did not pass", () => {
    const passed = trial("t1");
    const failed = trial("t2", false);
    const { result, evidence } = replayRun(run(2, [...failed.events, ...passed.events], ended));
    const row = {
      form: "tool-test",
      suite: "suite",
      tool: "add",
      agent: null,
      attempt: 1,
      durationMs: expect.any(Number),
    };
    const cited = failed.events.flatMap((event) => (event.type === "step.finished" ? [event.seq] : []));
    expect(result).toEqual({
      fingerprints: {
        "suite/1": expect.stringMatching(/^[0-9a-f]{16}$/) as string,
        "suite/2": expect.stringMatching(/^[0-9a-f]{16}$/) as string,
      },
      passRate: { value: 0.5, low: expect.any(Number) as number, high: expect.any(Number) as number },
      rates: expect.objectContaining({
        groups: [expect.objectContaining({ agent: null, passed: 1, scored: 2 })],
      }) as unknown,
      schema: "mcpvals.result/1",
      id: "r1",
      name: "sums",
      verdict: "fail",
      startedAt,
      durationMs: 41,
      summary: { total: 2, pass: 1, fail: 1, error: 0, timeout: 0, skip: 0 },
      trials: [
        { ...row, id: "t1", task: "suite/1", verdict: "pass", score: 1, grades: grades(true, cited) },
        { ...row, id: "t2", task: "suite/2", verdict: "fail", score: 0, grades: grades(false, cited) },
      ],
      coverage: {
        calc: {
          tools: { total: 1, unused: [] },
          parameters: { total: 0, unused: [] },
          errors: { total: 1, unused: ["add"] },
        },
      },
      environment,
    });
    expect([...evidence]).toEqual([["t2", collectEvidence(readTrace(failed.events), grades(false, cited))]]);
  });

  it("passes when all its trials did", () => {
    expect(verdicts(run(1, trial("t1").events, ended))).toEqual(["pass", ["pass", undefined]]);
  });

  it("was told to stop early where trials are missing", () => {
    expect(verdicts(run(2, trial("t1", false).events, ended))).toEqual([
      "fail",
      ["fail", undefined],
      ["skip", "run/bailed"],
    ]);
  });

  it("that was interrupted says so, whenever that was", () => {
    const interrupted = { durationMs: 41, interrupted: true };
    expect(verdicts(run(2, [...trial("t1").events, ...interruptedTrial("t2")], interrupted))).toEqual([
      "interrupted",
      ["pass", undefined],
      ["skip", "run/interrupted"],
    ]);
    expect(verdicts(run(2, trial("t1").events, interrupted))).toEqual([
      "interrupted",
      ["pass", undefined],
      ["skip", "run/interrupted"],
    ]);
    expect(verdicts(run(1, trial("t1").events, interrupted))).toEqual(["interrupted", ["pass", undefined]]);
  });
});

describe("a run that was cut off", () => {
  it("is interrupted, and keeps what was finished", () => {
    const half = trial("t2").events.slice(0, 5);
    const { result } = replayRun(run(3, [...trial("t1").events, ...half]));
    expect(result).toMatchObject({
      verdict: "interrupted",
      summary: { total: 3, pass: 1, skip: 2 },
      trials: [
        { verdict: "pass" },
        {
          verdict: "skip",
          error: { code: "run/interrupted", message: "the trial was cut off before it ended" },
        },
        { verdict: "skip", error: { message: "the run was interrupted before this trial started" } },
      ],
    });
  });

  it("between the end of a trial and its grades takes that for no pass", () => {
    expect(verdicts(run(1, trial("t1").events.slice(0, -1)))).toEqual([
      "interrupted",
      ["skip", "run/interrupted"],
    ]);
  });

  it("after everything was graded has lost nothing", () => {
    expect(verdicts(run(1, trial("t1").events))).toEqual(["pass", ["pass", undefined]]);
  });

  it("before it began has nothing", () => {
    expect(replayRun(run(1, [])).result).toMatchObject({
      verdict: "interrupted",
      durationMs: 0,
      trials: [{ verdict: "skip", error: { code: "run/interrupted" } }],
    });
  });

  it("took until its last event, never less than no time", () => {
    const event = (at: number): TraceEvent => ({
      seq: 1,
      at,
      trial: "t1",
      type: "agent.message",
      turn: 0,
      text: "",
    });
    const start = Date.parse(startedAt);
    expect(replayRun(run(1, [event(start + 250)])).result.durationMs).toBe(250);
    expect(replayRun(run(1, [event(start - 3)])).result.durationMs).toBe(0);
  });
});

it("refuses a plan that does not know its own tasks", () => {
  const broken = { ...plan(1), tasks: [] };
  expect(() => replayRun(run(1, [], { plan: broken }))).toThrow(
    "the plan has a trial of a task that it lacks: suite/1",
  );
});
