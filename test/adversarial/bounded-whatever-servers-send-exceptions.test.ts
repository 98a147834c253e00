import { describe, expect, it } from "vitest";
import type { Plan } from "../../src/model/plan.ts";
import { replayRun } from "../../src/report/replay.ts";
import type { RunResult, TrialResult } from "../../src/model/result.ts";
import type { EventBody, TraceEvent } from "../../src/model/event.ts";
import { createRecorder } from "../../src/trace/recorder.ts";
import { createRedactor, type Redact } from "../../src/trace/redact.ts";
import { reportUncaught } from "../../src/process/deadline.ts";
import { runTrials, type TrialsContext } from "../../src/run/run-trials.ts";
import type { TrialServices } from "../../src/run/trial-state.ts";
import { workflowTask } from "../support/trial-events.ts";

const names = ["first", "second", "third"];
const plan: Plan = {
  schema: "mcpvals.plan/1",
  name: "p",
  agents: [],
  tasks: names.map((name) => workflowTask({ name, servers: [], turns: [] })),
  trials: names.map((name) => ({ id: name, task: name, agent: "a", attempt: 1 })),
  concurrency: 1,
};
const passed = [{ grader: "g", verdict: "pass", score: 1, reason: "", evidence: [] }] as const;
const message = (text: string): EventBody => ({ type: "agent.message", turn: 0, text });

function breaking(): never {
  throw new TypeError("nobody expected this");
}

/** Does something for the trial `second` only. */
const inSecond =
  (act: () => void) =>
  async ({ id }: { readonly id: string }): Promise<void> => {
    if (id === "second") act();
  };

interface Broken {
  readonly results: readonly TrialResult[];
  readonly ended: readonly string[];
  /** The same results, computed from the events alone. */
  readonly replayed: readonly TrialResult[];
}

/** Runs three trials whose agent acts like this, with the given parts broken. */
async function runBroken(
  act: (trial: { readonly id: string; readonly emit: (event: EventBody) => number }) => Promise<void>,
  changes: Partial<TrialsContext> = {},
): Promise<Broken> {
  const events: TraceEvent[] = [];
  const ended: string[] = [];
  const agent = {
    reach: "sessions",
    prepare: () => Promise.resolve(),
    run: ({ task: id, emit }: { task: string; emit: (event: EventBody) => number }) => act({ id, emit }),
  };
  const services = {
    limits: { trialMs: 10_000, callMs: 1000, modelMs: 1000 },
    createAgent: () => agent,
    createJudge: () => undefined,
    missing: () => [],
    judgesWithoutKey: new Map(),
  } as unknown as TrialServices;
  const results = await runTrials(plan, {
    services,
    redact: createRedactor([]),
    bail: false,
    isDecided: () => false,
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

const verdictsOf = (results: readonly TrialResult[]): string =>
  results.map(({ verdict }) => verdict).join(" ");
const nothing = (): Promise<void> => Promise.resolve();

describe("an unexpected error makes one trial an error, and the run and its reports go on", () => {
  const settle = inSecond(breaking);
  it.each<[string, Parameters<typeof runBroken>, string]>([
    ["in its agent", [inSecond(breaking)], "nobody expected this"],
    [
      "when it is graded",
      [nothing, { grade: ({ trial }) => (trial.id === "second" ? breaking() : Promise.resolve(passed)) }],
      "nobody expected this",
    ],
    [
      "when its result is settled",
      [nothing, { settle: async (result) => (result.verdict === "pass" ? settle(result) : undefined) }],
      "nobody expected this",
    ],
    ["when it starts", [nothing, { onTrialStart: inSecond(breaking) }], "nobody expected this"],
    [
      "in a callback that nobody listens to",
      [inSecond(() => expect(reportUncaught(new Error("in a timer"))).toBe(true))],
      "in a timer",
    ],
  ])("%s", async (_, parts, reason) => {
    const { results, ended, replayed } = await runBroken(...parts);
    expect([verdictsOf(results), verdictsOf(replayed)]).toEqual(["pass error pass", "pass error pass"]);
    expect(results[1]?.error).toMatchObject({
      code: "internal/unexpected",
      message: reason,
      detail: expect.stringMatching(/^\w*Error: .*\n {4}at /s) as string,
    });
    expect(ended).toEqual(names);
    expect(replayed[1]?.error).toEqual(results[1]?.error);
    expect(reportUncaught(new Error("after the run"))).toBe(false);
  });

  it("in what records it, also where nobody could catch it", async () => {
    const emitLater = async ({ emit }: { emit: (event: EventBody) => number }): Promise<void> => {
      await new Promise<void>((resolve) => {
        setImmediate(() => {
          emit(message("hello"));
          resolve();
        });
      });
    };
    const { results } = await runBroken(emitLater, {
      onEvent: (event) => {
        if (event.trial === "second" && event.type === "agent.message") breaking();
      },
    });
    expect(verdictsOf(results)).toBe("pass error pass");
    expect(results[1]?.error?.message).toBe("nobody expected this");
  });

  it("in what removes secrets, and nothing of it is shown then", async () => {
    const remove = <T>(value: T): T => (JSON.stringify(value).includes("hunter") ? breaking() : value);
    const redact: Redact = Object.assign(<T>(value: T): T => remove(value), {
      fromOutside: remove,
      isClean: (json: string) => !json.includes("hunter"),
      add: () => undefined,
      valueOf: () => undefined,
    });
    const fail = (): never => {
      throw new Error("hunter2");
    };
    const { results } = await runBroken(inSecond(fail), { redact });
    expect(verdictsOf(results)).toBe("pass error pass");
    expect(JSON.stringify(results)).not.toContain("hunter2");
  });
});

describe("the record of a trial", () => {
  function recordOf(limit: number) {
    const events: TraceEvent[] = [];
    const problems: unknown[] = [];
    const emit = createRecorder("t", {
      redact: createRedactor([]),
      now: () => 0,
      events,
      onEvent: (event, json) => expect(JSON.parse(json)).toEqual(event),
      onBroken: (error) => problems.push(error),
      limit,
    });
    return { emit, events, problems };
  }

  it("is full once, and then only records how the trial went, in short", () => {
    const { emit, events, problems } = recordOf(10_000);
    const numbers = ["x".repeat(5000), "x".repeat(5000), "short"].map((text) => emit(message(text)));
    expect(numbers).toEqual([1, 0, 0]);
    const step = { phase: "verify", step: "s", attempt: 1, outcome: "failed", durationMs: 1 } as const;
    emit({ type: "step.finished", ...step, checks: [], outputs: { long: "y".repeat(1_000_000) } });
    emit({ type: "trial.finished", outcome: "error", durationMs: 1 });
    expect(problems).toMatchObject([{ code: "trial/record-full" }]);
    const long = `${"y".repeat(1000)}… [999000 more characters were not recorded]`;
    expect(events).toMatchObject([
      { seq: 1, type: "agent.message" },
      { seq: 2, type: "step.finished", outputs: { long } },
      { seq: 3, type: "trial.finished" },
    ]);
  });

  it("counts text that is not Latin twice, and values by their number", () => {
    const lists = Array.from({ length: 10_000 }, () => []);
    const direction = "server-to-client" as const;
    const events: EventBody[] = [
      message("a".repeat(200_000)),
      message("語".repeat(200_000)),
      { type: "mcp.message", server: "s", direction, message: lists },
    ];
    expect(events.map((event) => recordOf(300_000).emit(event))).toEqual([1, 0, 0]);
  });
});
