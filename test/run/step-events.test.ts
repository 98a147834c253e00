import { describe, expect, it } from "vitest";
import type { EventOf, TraceEvent } from "../../src/model/event.ts";
import { playTrial, taskFolder } from "../support/portable.ts";
import { taskOf } from "../support/task-file.ts";

interface Played {
  readonly events: readonly TraceEvent[];
  readonly started: readonly EventOf<"step.started">[];
  readonly finished: readonly EventOf<"step.finished">[];
  readonly trial: EventOf<"trial.finished">;
}

async function play(spec: object): Promise<Played> {
  using folder = taskFolder();
  const { events, finished: trial } = await playTrial(taskOf(spec, { dir: folder.path }));
  return {
    events,
    started: events.filter((event) => event.type === "step.started"),
    finished: events.filter((event) => event.type === "step.finished"),
    trial,
  };
}

/** The finished events of a trial by the names of their steps. */
function byStep({ finished }: Played): Readonly<Record<string, EventOf<"step.finished">>> {
  return Object.fromEntries(finished.map((event) => [event.step, event]));
}

const run = (id: string, line = "test -d .", parts: object = {}): object => ({
  command: { id, run: line, ...parts },
});

describe.concurrent("the events of steps", () => {
  const group = (id: string): object => ({
    group: {
      id,
      name: `group ${id}`,
      setup: [run(`${id}-before`)],
      steps: [
        { allOf: { id: `${id}-all`, steps: [run(`${id}-inner`, "test -d .", { name: `inner of ${id}` })] } },
      ],
      cleanup: [run(`${id}-after`)],
    },
  });

  it("say in which phase, in which step and by which name each ran, also inside groups", async () => {
    const { started, finished, trial } = await play({
      setup: [group("s")],
      verify: [run("first", "test -d .", { name: "the first" }), group("v")],
      cleanup: [group("c"), run("last")],
    });
    expect(trial.error).toBeUndefined();
    const inGroup = (phase: string, id: string): unknown[] => [
      [phase, id, undefined, `group ${id}`],
      ["setup", `${id}/${id}-before`, id, undefined],
      [phase, `${id}/${id}-all`, id, undefined],
      [phase, `${id}/${id}-all/${id}-inner`, `${id}/${id}-all`, `inner of ${id}`],
      ["cleanup", `${id}/${id}-after`, id, undefined],
    ];
    const placed = started.map(({ phase, step, parent, name }) => [phase, step, parent, name]);
    expect(placed).toEqual([
      ...inGroup("setup", "s"),
      ["verify", "first", undefined, "the first"],
      ...inGroup("verify", "v"),
      ["cleanup", "last", undefined, undefined],
      ...inGroup("cleanup", "c"),
    ]);
    const place = ({ phase, step, parent }: { phase: string; step: string; parent?: string }): unknown[] => [
      phase,
      step,
      parent,
    ];
    expect(finished.map(place).toSorted()).toEqual(started.map(place).toSorted());
  });

  it("give the outputs of those that have some", async () => {
    const played = await play({
      setup: [run("make", "echo 7", { outputs: { id: "n-{stdout}", code: "{exitCode}" } })],
      verify: [
        run("plain", "echo 8"),
        run("use", "echo {steps.make.outputs.id}", { outputs: { all: "{stdout}!" } }),
        { file: { id: "missing", path: "none", expect: { exists: false } } },
        run("broken", "echo 9; exit 1", { outputs: { said: "{stdout}" } }),
      ],
    });
    const outputs = played.finished.map(({ step, outputs: given }) => [step, given]);
    expect(Object.fromEntries(outputs)).toEqual({
      make: { id: "n-7", code: "0" },
      plain: undefined,
      use: { all: "n-7!" },
      missing: undefined,
      broken: { said: "9" },
    });
  });

  it("give the time that each took by itself, its phase and its trial no less", async () => {
    const played = await play({
      setup: [run("quick")],
      verify: [{ group: { id: "g", steps: [run("slow", "exec sleep 0.15")] } }],
    });
    const { quick, g, "g/slow": slow } = byStep(played);
    const verify = played.events.find(
      (event) => event.type === "phase.finished" && event.phase === "verify",
    ) as EventOf<"phase.finished"> | undefined;
    const times = [slow?.durationMs, g?.durationMs, verify?.durationMs, played.trial.durationMs];
    expect(times.every((time) => (time ?? 0) >= 140)).toBe(true);
    expect(times).toEqual(times.toSorted((a, b) => (a ?? 0) - (b ?? 0)));
    expect(quick?.durationMs).toBeGreaterThan(0);
  });
});

describe.concurrent("a failure that changes nothing", () => {
  it("is marked: those with continueOnError, and everything in cleanup", async () => {
    const soft = { continueOnError: true };
    const played = await play({
      setup: [run("s-soft", "exit 1", soft)],
      verify: [
        run("soft", "exit 1", soft),
        run("soft-passed", "test -d .", soft),
        run("soft-broken", "test -d .", { ...soft, workdir: "none" }),
        run("hard", "exit 1"),
        { group: { id: "g", steps: [run("inner", "test -d .")], cleanup: [run("g-cleanup", "exit 1")] } },
      ],
      cleanup: [
        run("c-failed", "exit 1"),
        run("c-broken", "test -d .", { workdir: "none" }),
        run("c-said-hard", "exit 1", { continueOnError: false }),
        run("c-passed"),
        run("c-skipped", "exit 1", { if: "false" }),
        { group: { id: "cg", steps: [run("c-inner", "exit 1")] } },
      ],
    });
    const found = played.finished.map(({ step, outcome, ignored }) => [
      step,
      ignored === true ? `${outcome} ignored` : outcome,
    ]);
    expect(Object.fromEntries(found)).toEqual({
      "s-soft": "failed ignored",
      soft: "failed ignored",
      "soft-passed": "passed",
      "soft-broken": "error ignored",
      hard: "failed",
      "g/inner": "passed",
      "g/g-cleanup": "failed ignored",
      g: "passed",
      "c-failed": "failed ignored",
      "c-broken": "error ignored",
      "c-said-hard": "failed ignored",
      "c-passed": "passed",
      "c-skipped": "skipped",
      "cg/c-inner": "failed ignored",
      cg: "passed",
    });
    expect(played.trial.outcome).toBe("completed");
  });
});
