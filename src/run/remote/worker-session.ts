import { scryptSync } from "node:crypto";
import { McpvalsError, serializeError } from "../../base/error.ts";
import type { TraceEvent } from "../../model/event.ts";
import type { Plan, Trial } from "../../model/plan.ts";
import type { RunEnvironment, TrialResult } from "../../model/result.ts";
import type { RateLimit } from "../../model/server.ts";
import type { SharedPause } from "../../process/adaptive-limit.ts";
import { pause } from "../../process/deadline.ts";
import type { RateSlot } from "../../servers/filters/filters.ts";
import { persist } from "../../store/postgres/database.ts";
import {
  type EndedTrial,
  type EventPart,
  type Lease,
  maxLostWorkers,
  eventsIn,
  type RemoteRuns,
  type SubmittedRun,
} from "../../store/postgres/runs.ts";
import { createRecorder } from "../../trace/recorder.ts";
import { createRedactor } from "../../trace/redact.ts";
import { changesSince } from "../resume.ts";
import type { TakenTrial, TrialSource } from "./trial-source.ts";

/** Times in milliseconds. */
const writeEveryMs = 1000;
const heartbeatEveryMs = 3000;
const emptyQueueMs = 200;
/** Trials whose end is not stored yet, from which on no other begins: the database does not keep up, or cannot be reached. */
const maxUnstored = 256;
/** In characters; a larger record is written in several parts. */
const maxPart = 4 * 1024 * 1024;

/** A number of places for trials, of which all sessions of a worker take theirs, in the order in which they ask. */
export class Places {
  readonly #count: number;
  #free: number;
  readonly #waiting: { readonly count: number; readonly take: () => void }[] = [];

  constructor(count: number) {
    this.#count = count;
    this.#free = count;
  }

  /** Takes one, or all. Returns how many. */
  async take(isAlone = false): Promise<number> {
    const count = isAlone ? this.#count : 1;
    await new Promise<void>((take) => {
      this.#waiting.push({ count, take });
      this.give(0);
    });
    return count;
  }

  give(count: number): void {
    this.#free += count;
    for (;;) {
      const [next] = this.#waiting;
      if (next === undefined || next.count > this.#free) return;
      this.#waiting.shift();
      this.#free -= next.count;
      next.take();
    }
  }
}

interface OpenTrial {
  readonly lease: Lease;
  readonly controller: AbortController;
  /** How many it has. */
  places: number;
  /** JSON lines that are not written yet. */
  pending: string[];
  part: number;
  bytes: number;
  isLost: boolean;
  /** Resolved when it waits for others. */
  readonly waits: PromiseWithResolvers<void>;
  /** It is to go back to the queue. */
  isGivenBack: boolean;
}

export interface SessionOptions {
  /** Name of this worker. */
  readonly worker: string;
  /** Absolute path of the folder that its bundle was unpacked to. */
  readonly folder: string;
  readonly concurrency: number;
  readonly places: Places;
  /** Once it aborts, no further trial begins. */
  readonly draining: AbortSignal;
  /** Once it aborts, running trials end, and are given back. */
  readonly ending: AbortSignal;
  readonly onOutage: (error: unknown) => void;
  readonly onNote: (note: string) => void;
}

/**
 * The part of a worker in one run: takes trials from the queue, writes what happens in them, and says that they still run. Everything is
 * written under the number of its lease, so that a worker that was thought dead cannot write any more.
 */
export class WorkerSession implements TrialSource, AsyncDisposable {
  readonly concurrency: number;
  readonly #runs: RemoteRuns;
  readonly #run: SubmittedRun;
  readonly #options: SessionOptions;
  readonly #trials: ReadonlyMap<string, Trial>;
  readonly #open = new Map<string, OpenTrial>();
  readonly #waiting: ((lease: Lease | undefined) => void)[] = [];
  readonly #unstored: EndedTrial[] = [];
  readonly #closed = new AbortController();
  /** Aborts when no further trial is to begin. */
  readonly #noMore = new AbortController();
  readonly #background: Promise<void>;
  /** Parts on their way: the end of a trial must not overtake them. */
  #writing: Promise<void> = Promise.resolve();
  #isTaking = false;
  #storing: Promise<void> | undefined;
  #givingBack: Promise<void> | undefined;
  #failure: unknown;
  /** How many trials it has taken. */
  taken = 0;
  /** How many trials it has run to their end that count: no other worker had taken them. */
  counted = 0;

  constructor(runs: RemoteRuns, run: SubmittedRun, options: SessionOptions) {
    this.#runs = runs;
    this.#run = run;
    this.#options = options;
    this.concurrency = options.concurrency;
    this.#trials = new Map(run.plan.trials.map((trial) => [trial.id, trial]));
    const end = (): void => {
      for (const { controller } of this.#open.values()) controller.abort(stopped());
    };
    options.ending.addEventListener("abort", end, { once: true, signal: this.#closed.signal });
    options.draining.addEventListener("abort", () => this.#noMore.abort(), { signal: this.#closed.signal });
    if (options.draining.aborted) this.#noMore.abort();
    this.#background = this.#keepAlive();
  }

  accept({
    plan,
    environment: { mcpvals, judge, prices },
  }: {
    readonly plan: Plan;
    readonly environment: RunEnvironment;
  }): void {
    const { folder, head, plan: submitted } = this.#run;
    const texts = [JSON.stringify(folder), JSON.stringify(this.#options.folder)].map((text) =>
      text.slice(1, -1),
    );
    const [theirs = "", ours = ""] = texts;
    const moved = JSON.parse(JSON.stringify(submitted).replaceAll(theirs, () => ours)) as Plan;
    // What a machine's own variables say of servers and agents may differ.
    const { judge: _, prices: __, ...same } = head.environment;
    const now = { ...same, mcpvals, ...(judge && { judge }), ...(prices !== undefined && { prices }) };
    const changes = changesSince(
      { plan: moved, environment: head.environment },
      { plan: { ...plan, ...decidedByCoordinator(moved) }, environment: now },
    );
    if (changes.length > 0)
      throw new McpvalsError(
        "worker/refused",
        `the files of the run ${head.id} say something else here: ${changes.join("; ")}`,
      );
  }

  pauseOf(key: string): SharedPause {
    const { id } = this.#run.head;
    // The key may have a secret, which nobody must be able to guess from this name.
    const name = `pause ${scryptSync(key, id, 16).toString("hex")}`;
    return {
      leftMs: (signal) => this.#untilAnswered(() => this.#runs.pauseLeft(id, name), signal),
      begin: (ms) => this.#inBackground(() => this.#runs.pause(id, name, ms)),
    };
  }

  reserve(
    server: string,
    { requests, perMs }: RateLimit,
    count: number,
    validMs: number,
  ): Promise<readonly RateSlot[]> {
    const name = `rate ${server} ${requests}/${perMs}`;
    return this.#untilAnswered(async () => {
      const asked = performance.now();
      const waits = await this.#runs.reserve(this.#run.head.id, name, { requests, perMs, count, validMs });
      const answered = performance.now();
      // When in between the database looked at its clock is not known.
      return waits.map((ms) => ({ from: answered + ms, until: asked + ms + validMs }));
    });
  }

  /** Rejects with the reason of a signal, or of the end of this worker. */
  async #untilAnswered<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const either = AbortSignal.any([this.#options.ending, ...(signal === undefined ? [] : [signal])]);
    try {
      return await this.#runs.persist(work, { signal: either, onOutage: this.#options.onOutage });
    } catch (error) {
      either.throwIfAborted();
      throw error;
    }
  }

  async next(): Promise<TakenTrial | undefined> {
    const { places: all } = this.#options;
    for (;;) {
      const places = await all.take();
      const lease = this.#mayTake ? await this.#take() : undefined;
      if (lease === undefined) {
        all.give(places);
        if (!this.#mayTake || !(await this.#waitForMore())) return undefined;
        continue;
      }
      this.taken += 1;
      const controller = new AbortController();
      const open: OpenTrial = {
        lease,
        controller,
        places,
        pending: [],
        part: 0,
        bytes: 0,
        isLost: false,
        waits: Promise.withResolvers(),
        isGivenBack: false,
      };
      this.#open.set(lease.trial, open);
      const trial = this.#trials.get(lease.trial);
      if (trial === undefined || lease.lostWorkers >= maxLostWorkers) this.#endUnrun(lease);
      else if (lease.lostWorkers === 0 || (await this.#beginAlone(open)))
        return { trial, signal: controller.signal, waits: open.waits.promise };
    }
  }

  /** A trial in which a worker has ended runs alone, so that no other trial is lost with it again. Returns whether it has begun. */
  async #beginAlone(open: OpenTrial): Promise<boolean> {
    const { places } = this.#options;
    const { lease } = open;
    const run = this.#run.head.id;
    places.give(open.places);
    open.places = await places.take(true);
    let isOurs = false;
    try {
      isOurs = !open.isLost && (await this.#persist(() => this.#runs.begin(run, lease)));
    } catch (error) {
      this.#failure ??= error;
    }
    if (isOurs && this.#mayTake) return true;
    this.#open.delete(lease.trial);
    places.give(open.places);
    if (isOurs) this.#inBackground(() => this.#runs.release(run, [lease]));
    return false;
  }

  async eventsOf(
    trials: readonly string[],
    { id }: Trial,
    signal: AbortSignal,
  ): Promise<readonly (readonly TraceEvent[])[]> {
    const run = this.#run.head.id;
    const open = this.#open.get(id);
    // One of them may have to run on this worker, alone.
    if (open !== undefined) {
      this.#options.places.give(open.places);
      open.places = 0;
      open.waits.resolve();
    }
    // One that went back to the queue may need what only one trial may have at once, which this one has.
    const isLimited = Object.keys(this.#run.limits).length > 0;
    for (;;) {
      if (!(await this.#untilAnswered(() => this.#runs.isWorkedOn(run, trials), signal))) {
        if (isLimited || !(await this.#untilAnswered(() => this.#runs.areToEnd(run, trials), signal))) break;
        if (!this.#mayTake && open !== undefined) {
          // There may be no other worker that takes it.
          open.isGivenBack = true;
          throw stopped();
        }
      }
      await pause(emptyQueueMs, signal);
    }
    const records = await this.#untilAnswered(() => this.#runs.events(run, trials), signal);
    return [...records.values()].map(eventsIn);
  }

  append(event: TraceEvent, json: string): void {
    const open = this.#open.get(event.trial);
    if (open === undefined) return;
    open.pending.push(json);
  }

  ended({ id, error }: Pick<TrialResult, "id" | "error">): void {
    const open = this.#open.get(id);
    if (open === undefined) return;
    this.#open.delete(id);
    this.#options.places.give(open.places);
    if (open.isLost) return;
    const { lease } = open;
    if (error?.kind === "interrupted" && (open.isGivenBack || this.#options.ending.aborted)) {
      this.#inBackground(() => this.#runs.release(this.#run.head.id, [lease]));
      return;
    }
    const parts = this.#partsOf(open);
    this.#unstored.push({ lease, parts, bytes: open.bytes, isInterrupted: error?.kind === "interrupted" });
    this.#storing ??= this.#store();
  }

  /** Waits until everything is stored. Rejects with what kept a trial from it. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#noMore.abort();
    while (this.#storing !== undefined) await this.#storing;
    await this.#givingBack;
    this.#closed.abort();
    await this.#background;
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** Whether it runs no trial. */
  get isIdle(): boolean {
    return this.#open.size === 0;
  }

  get #mayTake(): boolean {
    return !this.#noMore.signal.aborted && this.#failure === undefined;
  }

  /** A lease for one of those that wait: they are taken together. */
  async #take(): Promise<Lease | undefined> {
    const taken = new Promise<Lease | undefined>((give) => this.#waiting.push(give));
    if (!this.#isTaking) {
      this.#isTaking = true;
      // The others that wait for a trial ask within the same turn.
      setImmediate(() => void this.#takeSome());
    }
    return taken;
  }

  async #takeSome(): Promise<void> {
    while (this.#waiting.length > 0) {
      let leases: readonly Lease[] = [];
      try {
        while (this.#unstored.length > maxUnstored && this.#storing !== undefined) await this.#storing;
        const { head, limits } = this.#run;
        const count = this.#waiting.length;
        leases = await this.#persist(() => this.#runs.take(head.id, this.#options.worker, { count, limits }));
      } catch (error) {
        this.#failure ??= error;
      }
      for (const lease of leases) this.#waiting.shift()?.(lease);
      if (leases.length > 0) continue;
      for (const give of this.#waiting.splice(0)) give(undefined);
    }
    this.#isTaking = false;
  }

  /** Waits for the queue to have trials; false: there will be none. What runs here may yet come back to it from another worker. */
  async #waitForMore(): Promise<boolean> {
    try {
      const isOpen = await this.#persist(() => this.#runs.hasQueued(this.#run.head.id));
      if (!isOpen && this.#open.size === 0) return false;
      await pause(emptyQueueMs, this.#noMore.signal);
      return true;
    } catch (error) {
      if (!this.#noMore.signal.aborted) this.#failure ??= error;
      return false;
    }
  }

  /** Stores the ends of trials, all that there are at once. */
  async #store(): Promise<void> {
    while (this.#unstored.length > 0) {
      const some = this.#unstored.slice(0, maxUnstored);
      try {
        await this.#writing;
        // After a part that could not be written the record has a gap.
        if (this.#failure === undefined)
          this.counted += await this.#persist(() => this.#runs.end(this.#run.head.id, some));
      } catch (error) {
        // They go back to the queue when nobody says any more that they run.
        this.#failure ??= error;
      }
      this.#unstored.splice(0, some.length);
    }
    this.#storing = undefined;
  }

  async #keepAlive(): Promise<void> {
    const { signal } = this.#closed;
    let beat = performance.now();
    while (!signal.aborted) {
      await pause(writeEveryMs, signal).catch(() => undefined);
      if (signal.aborted) return;
      this.#writing = this.#writeOpen();
      await this.#writing;
      if (performance.now() - beat < heartbeatEveryMs) continue;
      beat = performance.now();
      await this.#beat();
    }
  }

  async #writeOpen(): Promise<void> {
    const parts = [...this.#open.values()].flatMap((open) => this.#partsOf(open));
    try {
      this.#lose(await this.#persist(() => this.#runs.write(this.#run.head.id, parts)));
    } catch (error) {
      this.#failure ??= error;
    }
  }

  async #beat(): Promise<void> {
    const leases = [
      ...[...this.#open.values()].map(({ lease }) => lease),
      ...this.#unstored.map(({ lease }) => lease),
    ];
    await this.#quietly(async () => {
      const { lost, state } = await this.#runs.heartbeat(this.#run.head.id, leases);
      this.#lose(lost);
      if (state !== "running") this.#noMore.abort();
      if (state === "cancelled")
        for (const { controller } of this.#open.values()) controller.abort(stopped());
    });
  }

  #lose(trials: readonly string[]): void {
    for (const id of trials) {
      const open = this.#open.get(id);
      if (open === undefined) continue;
      open.isLost = true;
      this.#options.onNote(`the trial ${id} was given to another worker`);
      open.controller.abort(
        new McpvalsError(
          "worker/lease-lost",
          "another worker has this trial now, since nothing was heard of this one",
        ),
      );
    }
  }

  /** What is not written yet. Events of one trial are in order, since a part is taken only when the one before it is on its way. */
  #partsOf(open: OpenTrial): readonly EventPart[] {
    if (open.pending.length === 0 || open.isLost) return [];
    const parts: EventPart[] = [];
    let lines: string[] = [];
    let length = 0;
    const add = (): void => {
      const text = `${lines.join("\n")}\n`;
      parts.push({ lease: open.lease, part: open.part++, lines: text });
      open.bytes += text.length;
      lines = [];
      length = 0;
    };
    for (const line of open.pending) {
      lines.push(line);
      length += line.length;
      if (length > maxPart) add();
    }
    if (lines.length > 0) add();
    open.pending = [];
    return parts;
  }

  /** A trial that is an error without being run. */
  #endUnrun(lease: Lease): void {
    const error = new McpvalsError(
      "worker/lost",
      `${lease.lostWorkers} workers ended while they ran this trial, so it is not tried again`,
      { hint: "Look at what it does to the machine: memory, and programs that it starts." },
    );
    const record = createRecorder(lease.trial, {
      redact: createRedactor([]),
      now: Date.now,
      events: [],
      onEvent: (event, json) => this.append(event, json),
      onBroken: (cause) => (this.#failure ??= cause),
    });
    record({ type: "trial.finished", outcome: "error", durationMs: 0, error: serializeError(error) });
    this.ended({ id: lease.trial });
  }

  #persist<T>(work: () => Promise<T>): Promise<T> {
    return persist(work, { signal: this.#options.ending, onOutage: this.#options.onOutage });
  }

  #inBackground(work: () => Promise<void>): void {
    const before = this.#givingBack;
    this.#givingBack = (async () => {
      await before;
      await this.#quietly(() => this.#persist(work));
    })();
  }

  async #quietly(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.#options.onOutage(error);
    }
  }
}

/** What the coordinator decides at the end, and workers do not look at. */
function decidedByCoordinator({ baseline, maxWarnings, thresholds, until }: Plan): Partial<Plan> {
  return {
    ...(baseline && { baseline }),
    ...(maxWarnings !== undefined && { maxWarnings }),
    ...(thresholds && { thresholds }),
    ...(until && { until }),
  };
}

function stopped(): McpvalsError {
  return new McpvalsError("run/interrupted", "the run was interrupted");
}
