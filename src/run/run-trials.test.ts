import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Trial } from "../model/plan.ts";
import { schedule } from "./run-trials.ts";

type Lanes = readonly (string | undefined)[];

function trialsOf(lanes: Lanes): Trial[] {
  return lanes.map((lane, index) => ({
    id: `t${index + 1}`,
    task: "task",
    agent: null,
    attempt: 1,
    ...(lane === undefined ? {} : { lane }),
  }));
}

/** Schedules trials of lanes that end when the test says so. */
class Stage {
  readonly started: string[] = [];
  readonly working = new Map<string, { readonly trial: Trial; readonly end: (error?: Error) => void }>();
  readonly done: Promise<void>;

  constructor(
    lanes: Lanes,
    concurrency: number,
    isStopped: () => boolean = () => false,
    limits?: Parameters<typeof schedule>[1]["limits"],
  ) {
    const run = async (trial: Trial): Promise<void> => {
      this.started.push(trial.id);
      const ended = Promise.withResolvers<void>();
      const end = (error?: Error): void => (error === undefined ? ended.resolve() : ended.reject(error));
      this.working.set(trial.id, { trial, end });
      await ended.promise.finally(() => this.working.delete(trial.id));
    };
    this.done = schedule(trialsOf(lanes), { concurrency, run, isStopped, ...(limits && { limits }) });
  }

  /** Ends a trial, if one is named, and lets everything happen that waits for nothing but its turn. */
  async end(id?: string, error?: Error): Promise<readonly string[]> {
    if (id !== undefined) this.working.get(id)?.end(error);
    for (let turn = 0; turn < 3; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    return this.started;
  }
}

describe("schedule", () => {
  it("runs in order, as many at once as allowed, and passes over a busy lane and comes back to it first", async () => {
    const stage = new Stage(["a", "a", "b", "a", undefined], 2);
    expect(await stage.end()).toEqual(["t1", "t3"]);
    expect(await stage.end("t1")).toEqual(["t1", "t3", "t2"]);
    for (const id of ["t3", "t2", "t5", "t4"]) await stage.end(id);
    expect(stage.started).toEqual(["t1", "t3", "t2", "t5", "t4"]);
    await stage.done;
  });

  it("starts nothing more once it is stopped, and ends after the trials that started", async () => {
    let stopped = false;
    const stage = new Stage(["a", "b", "a", "c"], 2, () => stopped);
    await stage.end();
    stopped = true;
    expect(await stage.end("t1")).toEqual(["t1", "t2"]);
    await stage.end("t2");
    await stage.done;
    expect(stage.started).toEqual(["t1", "t2"]);
  });

  it("wakes who waits for a lane when it is stopped", async () => {
    let stopped = false;
    const stage = new Stage(["a", "a", "a"], 3, () => stopped);
    await stage.end();
    stopped = true;
    await stage.end("t1");
    await stage.done;
    expect(stage.started).toEqual(["t1"]);
  });

  it("starts nothing more when a trial throws, and throws once the others have ended", async () => {
    const stage = new Stage(["a", "b", "c", "d"], 2);
    let settled = false;
    const thrown = expect(stage.done.finally(() => (settled = true))).rejects.toThrow("broken");
    await stage.end();
    expect([await stage.end("t1", new Error("broken")), settled]).toEqual([["t1", "t2"], false]);
    await stage.end("t2", new Error("broken too"));
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
        let ended = 0;
        const isStopped = (): boolean => stopAfter !== null && ended >= stopAfter;
        const stage = new Stage(lanes, concurrency, isStopped);
        for (await stage.end(); stage.working.size > 0; await stage.end()) {
          const working = [...stage.working.values()];
          const busy = working.flatMap(({ trial }) => trial.lane ?? []);
          expect(working.length).toBeLessThanOrEqual(concurrency);
          expect(new Set(busy).size).toBe(busy.length);
          ended += 1;
          working[(endings.next().value ?? 0) % working.length]?.end();
        }
        await stage.done;
        expect(stage.started.length === lanes.length || isStopped()).toBe(true);
        for (const name of new Set(lanes)) {
          const inLane = lanes.flatMap((lane, index) => (lane === name ? [`t${index + 1}`] : []));
          const started = stage.started.filter((id) => inLane.includes(id));
          expect(started).toEqual(inLane.slice(0, started.length));
        }
      }),
      { numRuns: 150 },
    );
  });
});

describe("a server with a limit", () => {
  /** Trials without a lane, unless one is given, that use these servers. */
  function stageOf(
    servers: readonly string[],
    most: Readonly<Record<string, number>>,
    { concurrency = 9, lanes = servers.map(() => undefined) }: { concurrency?: number; lanes?: Lanes } = {},
  ): Stage {
    const serversOf = ({ id }: Trial): string[] => [...(servers[Number(id.slice(1)) - 1] ?? "")];
    return new Stage(lanes, concurrency, () => false, { most, serversOf });
  }

  it("is used by so many trials at once, while others go on", async () => {
    const stage = stageOf(["a", "a", "a", "", "b", "a"], { a: 2, b: 1 });
    expect(await stage.end()).toEqual(["t1", "t2", "t4", "t5"]);
    expect(await stage.end("t4")).toHaveLength(4);
    expect(await stage.end("t2")).toEqual(["t1", "t2", "t4", "t5", "t3"]);
    for (const id of ["t1", "t3", "t5", "t6"]) await stage.end(id);
    await stage.done;
  });

  it("is kept for the trial that waits longest, also where that needs another server too", async () => {
    const stage = stageOf(["a", "b", "ab", "a", "b", "a"], { a: 1, b: 1 });
    await stage.end();
    expect(await stage.end("t1")).toEqual(["t1", "t2"]);
    expect(await stage.end("t2")).toEqual(["t1", "t2", "t3"]);
    expect(await stage.end("t3")).toEqual(["t1", "t2", "t3", "t4", "t5"]);
    for (const id of ["t4", "t5", "t6"]) await stage.end(id);
    await stage.done;
  });

  it("holds back the whole lane of a trial, whose order stays", async () => {
    const stage = stageOf(["a", "a", "b", "a"], { a: 1 }, { lanes: [undefined, "x", "x", undefined] });
    expect(await stage.end()).toEqual(["t1"]);
    expect(await stage.end("t1")).toEqual(["t1", "t2"]);
    expect(await stage.end("t2")).toEqual(["t1", "t2", "t3", "t4"]);
    for (const id of ["t3", "t4"]) await stage.end(id);
    await stage.done;
  });

  it("never has more, and every trial runs, whatever the servers, the limits and the order of endings", async () => {
    const cases = fc.record({
      trials: fc.array(
        fc.record({
          servers: fc.constantFrom("", "a", "b", "c", "ab", "bc", "abc"),
          lane: fc.constantFrom("x", "y", undefined, undefined),
        }),
        { maxLength: 12 },
      ),
      most: fc.record({ a: fc.integer({ min: 1, max: 3 }), b: fc.integer({ min: 1, max: 3 }) }),
      concurrency: fc.integer({ min: 1, max: 6 }),
      endings: fc.infiniteStream(fc.nat(5)),
    });
    await fc.assert(
      fc.asyncProperty(cases, async ({ trials, most, concurrency, endings }) => {
        const servers = trials.map((each) => each.servers.replaceAll("c", ""));
        const stage = stageOf(servers, most, { concurrency, lanes: trials.map(({ lane }) => lane) });
        for (await stage.end(); stage.working.size > 0; await stage.end()) {
          const working = [...stage.working.values()];
          const used = working.flatMap(({ trial: { id } }) => [...(servers[Number(id.slice(1)) - 1] ?? "")]);
          for (const [name, limit] of Object.entries(most))
            expect(used.filter((each) => each === name).length).toBeLessThanOrEqual(limit);
          working[(endings.next().value ?? 0) % working.length]?.end();
        }
        await stage.done;
        expect(stage.started).toHaveLength(trials.length);
      }),
      { numRuns: 150 },
    );
  });
});
