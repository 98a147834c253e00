import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Trial } from "../core/plan/plan.ts";
import { schedule, type ScheduleOptions } from "./run-trials.ts";

function trials(...lanes: readonly (string | undefined)[]): Trial[] {
  return trialsOf(lanes);
}

function trialsOf(lanes: readonly (string | undefined)[]): Trial[] {
  return lanes.map((lane, index) => ({
    id: `t${index + 1}`,
    task: "task",
    agent: null,
    attempt: 1,
    ...(lane === undefined ? {} : { lane }),
  }));
}

/** A world in which trials end when the test says so. */
class Stage implements Pick<ScheduleOptions, "run"> {
  readonly started: string[] = [];
  readonly working = new Map<string, { readonly trial: Trial; readonly end: (error?: Error) => void }>();

  readonly run = (trial: Trial): Promise<void> => {
    this.started.push(trial.id);
    return new Promise((resolve, reject) => {
      const end = (error?: Error): void => {
        this.working.delete(trial.id);
        if (error === undefined) resolve();
        else reject(error);
      };
      this.working.set(trial.id, { trial, end });
    });
  };

  end(id: string, error?: Error): void {
    this.working.get(id)?.end(error);
  }
}

/** Lets everything happen that waits for nothing but its turn. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 3; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

const never = (): boolean => false;

function ids(list: readonly Trial[]): string[] {
  return list.map((trial) => trial.id);
}

describe("schedule", () => {
  it("runs in order, as many at once as allowed", async () => {
    const stage = new Stage();
    const done = schedule(trials(undefined, undefined, undefined), {
      concurrency: 2,
      run: stage.run,
      isStopped: never,
    });
    await settle();
    expect(stage.started).toEqual(["t1", "t2"]);
    stage.end("t2");
    await settle();
    expect(stage.started).toEqual(["t1", "t2", "t3"]);
    stage.end("t1");
    stage.end("t3");
    await done;
  });

  it("passes over a busy lane and comes back to it first", async () => {
    const stage = new Stage();
    const list = trials("a", "a", "b", "a", undefined);
    const done = schedule(list, { concurrency: 2, run: stage.run, isStopped: never });
    await settle();
    expect(stage.started).toEqual(["t1", "t3"]);
    stage.end("t1");
    await settle();
    expect(stage.started).toEqual(["t1", "t3", "t2"]);
    for (const id of ["t3", "t2", "t5", "t4"]) {
      stage.end(id);
      await settle();
    }
    expect(stage.started).toEqual(["t1", "t3", "t2", "t5", "t4"]);
    await done;
  });

  it("starts nothing more once it is stopped, and ends after the trials that started", async () => {
    const stage = new Stage();
    let stopped = false;
    const done = schedule(trials("a", "b", "a", "c"), {
      concurrency: 2,
      run: stage.run,
      isStopped: () => stopped,
    });
    await settle();
    stopped = true;
    stage.end("t1");
    await settle();
    expect(stage.started).toEqual(["t1", "t2"]);
    stage.end("t2");
    await done;
    expect(stage.started).toEqual(["t1", "t2"]);
  });

  it("wakes who waits for a lane when it is stopped", async () => {
    const stage = new Stage();
    let stopped = false;
    const done = schedule(trials("a", "a", "a"), {
      concurrency: 3,
      run: stage.run,
      isStopped: () => stopped,
    });
    await settle();
    stopped = true;
    stage.end("t1");
    await done;
    expect(stage.started).toEqual(["t1"]);
  });

  it("starts nothing when it is stopped from the beginning", async () => {
    const stage = new Stage();
    await schedule(trials("a", undefined), { concurrency: 2, run: stage.run, isStopped: () => true });
    expect(stage.started).toEqual([]);
  });

  it("starts nothing more when a trial throws, and throws once the others have ended", async () => {
    const stage = new Stage();
    let settled = false;
    const done = schedule(trials("a", "b", "c", "d"), {
      concurrency: 2,
      run: stage.run,
      isStopped: never,
    }).finally(() => {
      settled = true;
    });
    const thrown = expect(done).rejects.toThrow("broken");
    await settle();
    stage.end("t1", new Error("broken"));
    await settle();
    expect([settled, stage.started]).toEqual([false, ["t1", "t2"]]);
    stage.end("t2", new Error("broken too"));
    await thrown;
  });

  it("lets timers run between trials that wait for nothing", async () => {
    let turns = 0;
    let stopped = false;
    setTimeout(() => {
      stopped = true;
    }, 1);
    await schedule(trialsOf(Array.from({ length: 1_000_000 }, () => undefined)), {
      concurrency: 1,
      run: async () => {
        turns += 1;
      },
      isStopped: () => stopped,
    });
    expect(turns).toBeLessThan(1_000_000);
  });

  it("keeps its promises whatever the lanes, the limit and the order of endings", async () => {
    const lane = fc.constantFrom("a", "b", "c", undefined);
    const cases = fc.record({
      lanes: fc.array(lane, { maxLength: 12 }),
      concurrency: fc.integer({ min: 1, max: 5 }),
      endings: fc.infiniteStream(fc.nat(4)),
      stopAfter: fc.option(fc.nat(12)),
    });
    await fc.assert(
      fc.asyncProperty(cases, async ({ lanes, concurrency, endings, stopAfter }) => {
        const stage = new Stage();
        const list = trialsOf(lanes);
        let ended = 0;
        const isStopped = (): boolean => stopAfter !== null && ended >= stopAfter;
        const done = schedule(list, { concurrency, run: stage.run, isStopped });
        for (await settle(); stage.working.size > 0; await settle()) {
          const working = [...stage.working.values()];
          const busy = working.flatMap(({ trial }) => trial.lane ?? []);
          expect(working.length).toBeLessThanOrEqual(concurrency);
          expect(new Set(busy).size).toBe(busy.length);
          ended += 1;
          working[(endings.next().value ?? 0) % working.length]?.end();
        }
        await done;
        expect(stage.started.length === list.length || isStopped()).toBe(true);
        for (const name of new Set(lanes)) {
          const inLane = ids(list.filter((trial) => trial.lane === name));
          const started = stage.started.filter((id) => inLane.includes(id));
          expect(started).toEqual(inLane.slice(0, started.length));
        }
      }),
      { numRuns: 150 },
    );
  });
});
