import { setImmediate as nextTurn } from "node:timers/promises";
import { McpvalsError, messageOf } from "../../base/error.ts";
import { type Json, withoutUndefined } from "../../base/json.ts";
import type { TraceEvent } from "../../model/event.ts";
import type { Budget } from "../../model/eval.ts";
import { taskOf, type Trial } from "../../model/plan.ts";
import type { TrialResult } from "../../model/result.ts";
import { pause } from "../../process/deadline.ts";
import { Decisions } from "../../report/decisions.ts";
import { KeptEvidence } from "../../report/evidence.ts";
import { createMultiplexer, type NamedReporter, type ReporterFailure } from "../../report/reporter.ts";
import { RunReplay } from "../../report/replay.ts";
import { notRun, ungradedTrial } from "../../report/result.ts";
import type { RemoteRuns, Stop, SubmittedRun, TrialCounts } from "../../store/postgres/runs.ts";
import type { RunFolder } from "../../store/run-folder.ts";
import { readTrace, type Trajectory } from "../../trace/trajectory.ts";
import { Spending } from "../budget.ts";
import type { RunOutcome } from "../run.ts";
import { withTrials } from "../run.ts";
import { finishRun } from "../finish-run.ts";

/** How to follow a run. */
export interface FollowOptions {
  readonly reporters?: readonly NamedReporter[];
  readonly budget?: Budget | undefined;
  /** Of costs. */
  readonly currency?: string | undefined;
  /** Stop after the first trial that does not pass. */
  readonly bail?: boolean;
  /** Whether to wait for trials that have not ended. */
  readonly wait: boolean;
  /** Aborting it lets no further trial begin, and waits for those that run. */
  readonly draining?: AbortSignal;
  /** Aborting it ends the running trials too. */
  readonly cancelling?: AbortSignal;
  /** Says why nothing happens, and when something does again. */
  readonly onNote?: (note: string) => void;
}

/** What a run came to; with `open` it goes on, and so many trials have not ended. */
export type Followed = Pick<RunOutcome, "plan" | "failures" | "result"> & {
  readonly folder: string;
  readonly open?: number;
};

/** Times in milliseconds. */
const lookEveryMs = 150;
const lookAtWorkersEveryMs = 3000;
/** How often trials of a stopped run are looked for that no worker runs any more. */
const settleEveryMs = 1000;
/** How long the database may be away until following it ends. */
const longestOutageMs = 10 * 60_000;
/** Events that are read at once, in bytes. */
const bytesAtOnce = 16 * 1024 * 1024;
const trialsAtOnce = 500;

/**
 * Takes what workers record of a run into its folder, trial by trial as they end, and reports it as a run of this machine. `open` gives the folder,
 * and calls back with the trials that it has already. Stops the run where a budget, a decision or `bail` says so. Throws `store/unreachable` when the database is away for too long: the run goes on, and
 * can be followed again; and `store/deleted`.
 */
export async function followRun(
  runs: RemoteRuns,
  { head, plan }: Pick<SubmittedRun, "head" | "plan">,
  open: (onEnded: (result: TrialResult, trajectory: Trajectory) => void) => Promise<RunFolder>,
  options: FollowOptions,
): Promise<Followed> {
  const { budget, draining, cancelling, onNote, wait } = options;
  const { id: run } = head;
  const reporters = createMultiplexer(options.reporters ?? []);
  const replay = new RunReplay({ ...head, plan });
  const evidence = new KeptEvidence();
  const decisions = plan.until && new Decisions(plan);
  const spending =
    budget &&
    new Spending(budget, {
      currency: options.currency,
      elapsedMs: () => Date.now() - Date.parse(head.startedAt),
    });
  const trials = new Map(plan.trials.map((trial) => [trial.id, trial]));
  const results = new Map<string, TrialResult>();
  const begun = new Set<string>();
  const known: TrialResult[] = [];
  let lastAt = Date.parse(head.startedAt);
  await using folder = await open((result, trajectory) => {
    replay.keep(result, trajectory);
    known.push(result);
    lastAt = Math.max(lastAt, trajectory.events.at(-1)?.at ?? 0);
    if (result.verdict !== "pass" && result.verdict !== "skip") evidence.keep(result, trajectory);
  });
  let isBailed = false;
  let stop: Stop | undefined;

  const ask = <T>(work: () => Promise<T>): Promise<T> =>
    runs.persist(work, {
      forMs: wait ? longestOutageMs : 0,
      signal: cancelling,
      onOutage: () => onNote?.(`the database ${runs.name} does not answer; trying again`),
    });
  let mayChange = true;
  /** Changes the run, where this user may. */
  const change = async (work: () => Promise<void>): Promise<void> => {
    try {
      if (mayChange) await ask(work);
    } catch (error) {
      if (!(error instanceof McpvalsError) || error.code !== "store/no-access") throw error;
      mayChange = false;
    }
  };
  const begin = async (trial: Trial): Promise<void> => {
    if (begun.has(trial.id)) return;
    begun.add(trial.id);
    await reporters.onTrialStart(trial);
  };
  const add = async (trial: Trial, lines: string): Promise<void> => {
    const events: TraceEvent[] = [];
    await begin(trial);
    for (const line of lines.split("\n")) {
      if (line === "") continue;
      const event = JSON.parse(line) as Json as unknown as TraceEvent;
      events.push(event);
      folder.append(event, line);
      reporters.onEvent(event);
    }
    lastAt = Math.max(lastAt, events.at(-1)?.at ?? 0);
    await settle(replay.add(trial, events), events);
  };
  const settle = async (result: TrialResult, events?: readonly TraceEvent[]): Promise<void> => {
    results.set(result.id, result);
    if (events !== undefined && result.verdict !== "pass" && result.verdict !== "skip")
      evidence.keep(result, readTrace(events));
    decisions?.add(result);
    spending?.add(result);
    isBailed ||= options.bail === true && result.verdict !== "pass" && result.verdict !== "skip";
    await reporters.onTrialEnd(result);
  };
  const reasonToStop = (): Stop | undefined => {
    if (draining?.aborted === true) return { interrupted: true };
    if (decisions?.areMade === true) return { isDecided: true };
    const usedUp = spending?.usedUp;
    if (usedUp !== undefined) return { usedUp };
    return isBailed ? {} : undefined;
  };

  try {
    const { command: _, ...shown } = head;
    await reporters.onRunStart({
      plan,
      ...shown,
      folder: folder.path,
      ...(known.length > 0 && { recorded: known.length }),
    });
    for (const result of known) await settle(result);
    const workers = new WorkerWatch(runs, run, onNote);
    let since = "0";
    let hasEnded = false;
    let isClosed = false;
    let settleAt = 0;
    const followToEnd = async (): Promise<void> => {
      for (;;) {
        if (cancelling?.aborted === true) return;
        const reason = reasonToStop();
        if (wait && reason !== undefined && stop === undefined) {
          await change(() => runs.stop(run, "draining", reason));
          if (mayChange) {
            stop = reason;
            if (reason.interrupted === true)
              onNote?.(
                "no further trial begins; waiting for those that run. Interrupt again to end them, and to wait no longer",
              );
          } else if (reason.interrupted === true)
            throw new McpvalsError("run/interrupted", "the run goes on: this user may only read it");
        }
        const { next, trials: ended } = await ask(() => runs.endedSince(run, since));
        const fresh = ended.filter(({ id }) => !results.has(id));
        for (const some of inBatches(fresh)) {
          const events = await ask(() => runs.events(run, some));
          for (const id of some) {
            const trial = trials.get(id);
            if (trial !== undefined && !results.has(id)) await add(trial, events.get(id) ?? "");
          }
          folder.commit().catch(() => undefined);
          await nextTurn();
        }
        since = next;
        if (fresh.length === 0 || results.size === trials.size || stop !== undefined || !wait) {
          if (wait && stop !== undefined && performance.now() > settleAt) {
            settleAt = performance.now() + settleEveryMs;
            await change(() => runs.settle(run));
          }
          const state = await ask(() => runs.state(run));
          isClosed = state.state === "ended";
          const { waiting, running, ended: all } = state.trials;
          stop ??= state.stop ?? undefined;
          // What ended since is in the next look.
          hasEnded = waiting + running === 0 && results.size >= all;
          if (hasEnded || (!wait && results.size >= all)) break;
          if (!wait) continue;
          for (const id of await ask(() => runs.running(run))) {
            const trial = trials.get(id);
            if (trial !== undefined) await begin(trial);
          }
          await workers.look(state.trials);
        }
        await pause(lookEveryMs, cancelling ?? new AbortController().signal).catch(() => undefined);
      }
    };
    try {
      await followToEnd();
    } catch (error) {
      if (!wait || cancelling?.aborted !== true || !mayChange) throw error;
    }
    if (wait && cancelling?.aborted === true && !hasEnded) {
      stop = { interrupted: true };
      // Once: it has been asked for twice to end.
      await runs
        .use(() => runs.stop(run, "cancelled", { interrupted: true }))
        .catch((error: unknown) => onNote?.(`the run goes on: ${messageOf(error)}`));
    }
    if (hasEnded && !isClosed) await change(() => runs.close(run));
    const isDecided = stop?.isDecided === true;
    const ordered = plan.trials.flatMap((trial) => {
      const result = results.get(trial.id);
      if (result !== undefined) return [result];
      if (isDecided) return [];
      const error = notRun({ interrupted: !hasEnded || stop?.interrupted === true, usedUp: stop?.usedUp });
      return [ungradedTrial(trial, taskOf(trial, plan), { verdict: "skip", error, durationMs: 0 })];
    });
    for (const result of ordered) if (!results.has(result.id)) await reporters.onTrialEnd(result);
    const isLeftOut = ordered.some(({ error }) => error?.code === "run/budget");
    const usedUp = isLeftOut ? stop?.usedUp : undefined;
    if (stop?.usedUp !== undefined && hasEnded && !isLeftOut)
      onNote?.(`all trials had begun before: ${stop.usedUp}`);
    const ranPlan = ordered.length === plan.trials.length ? plan : withTrials(plan, ordered);
    const result = replay.result(ordered, lastAt, {
      plan: ranPlan,
      ...(budget && {
        budget: withoutUndefined({
          ...budget,
          usedUp,
          isUnknown: (usedUp !== undefined && spending?.isUnknown) || undefined,
        }),
      }),
    });
    const failures: ReporterFailure[] = [];
    let isUnkept = false;
    try {
      await folder.commit();
      if (ranPlan !== plan) await folder.writePlan(ranPlan);
      if (hasEnded) await finishRun(folder, result);
    } catch (error) {
      failures.push({ reporter: `run folder ${folder.path}`, error });
      isUnkept = true;
    }
    await reporters.onRunEnd({ result, evidence: evidence.byTrial, ...(isUnkept && { isUnkept }) });
    const open = hasEnded ? {} : { open: plan.trials.length - results.size };
    return {
      result,
      plan: ranPlan,
      folder: folder.path,
      failures: [...failures, ...reporters.errors],
      ...open,
    };
  } catch (error) {
    if (!(error instanceof McpvalsError) || error.code !== "store/not-found") throw error;
    throw new McpvalsError("store/deleted", `the run ${run} is not in ${runs.name} any more`, {
      cause: error,
    });
  } finally {
    await reporters.close();
  }
}

/** Says when no worker is there for the trials that have not ended. */
class WorkerWatch {
  readonly #runs: RemoteRuns;
  readonly #run: string;
  readonly #onNote: FollowOptions["onNote"];
  #nextAt = performance.now() + lookAtWorkersEveryMs;
  #said = "";

  constructor(runs: RemoteRuns, run: string, onNote: FollowOptions["onNote"]) {
    this.#runs = runs;
    this.#run = run;
    this.#onNote = onNote;
  }

  async look({ waiting, running, ended }: TrialCounts): Promise<void> {
    if (performance.now() < this.#nextAt) return;
    this.#nextAt = performance.now() + lookAtWorkersEveryMs;
    if (waiting + running === 0) return;
    const workers = await this.#runs.workers().catch(() => undefined);
    // One that is told to end is not among them, and ends what it runs.
    const isWorkedOn = running > 0 && (await this.#runs.isWorkedOn(this.#run).catch(() => true));
    if (workers === undefined) return;
    const refusals = workers.flatMap(({ id, refused }) =>
      refused[this.#run] === undefined ? [] : `${id}: ${refused[this.#run]}`,
    );
    const since = running + ended > 0 ? "any more" : "yet";
    const said = isWorkedOn
      ? ""
      : workers.length === 0
        ? `no worker is there ${since}; start some: npx mcpvals worker URL`
        : refusals.length === workers.length
          ? `no worker takes these trials: ${refusals.join("; ")}`
          : "";
    if (said !== "" && said !== this.#said) this.#onNote?.(said);
    this.#said = said;
  }
}

/** Trials whose events are read together. */
function* inBatches(
  ended: readonly { readonly id: string; readonly bytes: number }[],
): Generator<readonly string[]> {
  let some: string[] = [];
  let bytes = 0;
  for (const trial of ended) {
    some.push(trial.id);
    bytes += trial.bytes;
    if (bytes < bytesAtOnce && some.length < trialsAtOnce) continue;
    yield some;
    some = [];
    bytes = 0;
  }
  if (some.length > 0) yield some;
}
