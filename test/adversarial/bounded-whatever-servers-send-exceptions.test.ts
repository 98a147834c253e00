import { describe, expect, it } from "vitest";
import type { Task } from "../../src/core/formats/model.ts";
import { replayRun } from "../../src/core/report/replay.ts";
import type { RunResult, TrialResult } from "../../src/core/report/result.ts";
import type { Plan } from "../../src/core/plan/plan.ts";
import type { EventBody, TraceEvent } from "../../src/core/trace/events.ts";
import { createRecorder } from "../../src/core/trace/recorder.ts";
import { createRedactor, type Redact } from "../../src/core/trace/redact.ts";
import { runTrials, type TrialsContext } from "../../src/run/run-trials.ts";
import type { TrialServices } from "../../src/run/trial-state.ts";
import { reportUncaught } from "../../src/process/uncaught.ts";

// Claim: an error that nobody expected ends one trial, and neither the run nor a report. docs/security.md.

const names = ["first", "second", "third"];
const task = (name: string): Task => ({
  name,
  form: "workflow",
  servers: [],
  expectTools: [],
  turns: [],
  verify: [],
  parallel: false,
});
const plan: Plan = {
  schema: "mcpvals.plan/1",
  name: "p",
  agents: [],
  tasks: names.map(task),
  trials: names.map((name) => ({ id: name, task: name, agent: "a", attempt: 1 })),
  concurrency: 1,
};
const passed = [{ grader: "g", verdict: "pass", score: 1, reason: "", evidence: [] }] as const;

interface Broken {
  readonly results: readonly TrialResult[];
  readonly ended: readonly string[];
  /** The same results, computed from the events alone. */
  readonly replayed: readonly TrialResult[];
}

/** Runs three trials whose agent acts as told, with the given parts broken. */
async function runBroken(
  act: (trial: { readonly name: string; readonly emit: (event: EventBody) => number }) => Promise<void>,
  changes: Partial<TrialsContext> = {},
): Promise<Broken> {
  const events: TraceEvent[] = [];
  const ended: string[] = [];
  const agent = {
    reach: "sessions" as const,
    prepare: () => Promise.resolve(),
    run: ({ task: name, emit }: { task: string; emit: (event: EventBody) => number }) => act({ name, emit }),
  };
  const services = {
    limits: { trialMs: 10_000, callMs: 1000, modelMs: 1000 },
    createAgent: () => agent,
    createJudge: () => undefined,
    missing: () => [],
  } as unknown as TrialServices;
  const results = await runTrials(plan, {
    services,
    redact: createRedactor([]),
    bail: false,
    signal: new AbortController().signal,
    grade: () => Promise.resolve(passed),
    onTrialStart: () => Promise.resolve(),
    onEvent: (event) => events.push(event),
    settle: () => Promise.resolve(),
    onTrialEnd: async ({ id }) => void ended.push(id),
    ...changes,
  });
  const run = { id: "r", startedAt: "", environment: {} as RunResult["environment"], plan, events };
  return { results, ended, replayed: replayRun(run).result.trials };
}

/** What is expected when the second trial breaks. */
function expectOnlySecond({ results, ended, replayed }: Broken, message: string | RegExp): void {
  expect(results.map(({ verdict }) => verdict)).toEqual(["pass", "error", "pass"]);
  expect(results[1]?.error).toMatchObject({
    code: "internal/unexpected",
    message: expect.stringMatching(message) as string,
    detail: expect.stringMatching(/^\w*Error: .*\n {4}at /s) as string,
  });
  expect(ended).toEqual(names);
  expect(replayed.map(({ verdict }) => verdict)).toEqual(["pass", "error", "pass"]);
  expect(replayed[1]?.error).toEqual(results[1]?.error);
}

const nothing = (): Promise<void> => Promise.resolve();

function breaking(): never {
  throw new TypeError("nobody expected this");
}

describe("an error that nobody expected makes one trial an error", () => {
  it("in its agent", async () => {
    expectOnlySecond(
      await runBroken(async ({ name }) => {
        if (name === "second") breaking();
      }),
      "nobody expected this",
    );
  });

  it.each(["grade", "settle", "onTrialStart"] as const)("in what is done with it: %s", async (place) => {
    const changes = {
      grade: (trajectory: { trial: { id: string } }) =>
        trajectory.trial.id === "second" ? breaking() : Promise.resolve(passed),
      settle: (result: TrialResult) =>
        result.id === "second" && result.verdict === "pass" ? breaking() : nothing(),
      onTrialStart: (trial: { id: string }) => (trial.id === "second" ? breaking() : nothing()),
    };
    const broken = await runBroken(nothing, { [place]: changes[place] });
    expectOnlySecond(broken, "nobody expected this");
  });

  it("in what records it, also where nobody could catch it", async () => {
    const onEvent: TrialsContext["onEvent"] = (event) => {
      if (event.trial === "second" && event.type === "agent.message") breaking();
    };
    const events: TraceEvent[] = [];
    const broken = await runBroken(
      async ({ emit }) => {
        await new Promise<void>((resolve) => {
          setImmediate(() => {
            emit({ type: "agent.message", turn: 0, text: "hello" });
            resolve();
          });
        });
      },
      {
        onEvent: (event, json) => {
          onEvent(event, json);
          events.push(event);
        },
      },
    );
    expect(broken.results.map(({ verdict }) => verdict)).toEqual(["pass", "error", "pass"]);
    expect(broken.results[1]?.error?.message).toBe("nobody expected this");
  });

  it("in what removes secrets, and nothing of it is shown then", async () => {
    const remove = <T>(value: T): T => (JSON.stringify(value).includes("hunter") ? breaking() : value);
    const redact: Redact = Object.assign(<T>(value: T): T => remove(value), {
      fromOutside: remove,
      isClean: (json: string) => !json.includes("hunter"),
      add: () => undefined,
    });
    const { results } = await runBroken(
      async ({ name }) => {
        if (name === "second") throw new Error("hunter2");
      },
      { redact },
    );
    expect(results.map(({ verdict }) => verdict)).toEqual(["pass", "error", "pass"]);
    expect(JSON.stringify(results)).not.toContain("hunter2");
  });

  it("in a callback that nobody listens to", async () => {
    expectOnlySecond(
      await runBroken(async ({ name }) => {
        if (name === "second") expect(reportUncaught(new Error("in a timer"))).toBe(true);
      }),
      "in a timer",
    );
    expect(reportUncaught(new Error("after the run"))).toBe(false);
  });
});

describe("the record of a trial", () => {
  const message = (text: string): EventBody => ({ type: "agent.message", turn: 0, text });

  function recordOf(limit: number): {
    emit: (event: EventBody) => number;
    events: TraceEvent[];
    problems: unknown[];
  } {
    const events: TraceEvent[] = [];
    const problems: unknown[] = [];
    const emit = createRecorder("t", {
      redact: createRedactor([]),
      now: () => 0,
      sink: (event, json) => {
        expect(JSON.parse(json)).toEqual(event);
        events.push(event);
      },
      onBroken: (error) => problems.push(error),
      limit,
    });
    return { emit, events, problems };
  }

  it("is full once, and then only tells how the trial went, in short", () => {
    const { emit, events, problems } = recordOf(10_000);
    expect(emit(message("x".repeat(5000)))).toBe(1);
    expect(emit(message("x".repeat(5000)))).toBe(0);
    expect(emit(message("short"))).toBe(0);
    const step = { phase: "verify", step: "s", attempt: 1, outcome: "failed", durationMs: 1 } as const;
    emit({ type: "step.finished", ...step, checks: [], outputs: { long: "y".repeat(1_000_000) } });
    emit({ type: "trial.finished", outcome: "error", durationMs: 1 });
    expect(problems).toMatchObject([{ code: "trial/record-full" }]);
    expect(events.map(({ seq, type }) => `${seq} ${type}`)).toEqual([
      "1 agent.message",
      "2 step.finished",
      "3 trial.finished",
    ]);
    expect(events[1]).toMatchObject({
      outputs: { long: `${"y".repeat(1000)}… [999000 more characters were not recorded]` },
    });
  });

  it("counts text that is not Latin twice, and values by their number", () => {
    const limit = 300_000;
    expect(recordOf(limit).emit(message("a".repeat(200_000)))).toBe(1);
    expect(recordOf(limit).emit(message("語".repeat(200_000)))).toBe(0);
    const lists = { type: "mcp.message", server: "s", direction: "server-to-client" } as const;
    expect(recordOf(limit).emit({ ...lists, message: Array.from({ length: 10_000 }, () => []) })).toBe(0);
  });
});
