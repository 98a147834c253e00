import { setImmediate as nextTurn } from "node:timers/promises";
import type { Trial } from "../core/plan/plan.ts";

export interface ScheduleOptions {
  /** Trials at once. */
  readonly concurrency: number;
  readonly run: (trial: Trial) => Promise<void>;
  /** Asked before each trial; once true, no further trial starts. */
  readonly isStopped: () => boolean;
}

/**
 * Runs trials in order, at most `concurrency` at once, never two with the same `lane`. Once all that started have
 * ended, it returns the trials that never started. When `run` throws, no further trial starts, and the error is thrown once all
 * that started have ended.
 */
export async function schedule(
  trials: readonly Trial[],
  options: ScheduleOptions,
): Promise<readonly Trial[]> {
  const queue = new TrialQueue(trials);
  const slots = Math.min(options.concurrency, trials.length);
  let broken = false;
  const work = async (): Promise<void> => {
    while (!broken && !options.isStopped()) {
      const trial = queue.take();
      if (trial === undefined) {
        if (queue.isEmpty) return;
        await queue.released();
        continue;
      }
      try {
        await options.run(trial);
      } catch (error) {
        broken = true;
        throw error;
      } finally {
        queue.release(trial);
      }
      // Trials without I/O would otherwise delay timers, signals and writes until all of them are done.
      await nextTurn();
    }
  };
  const ended = await Promise.allSettled(Array.from({ length: slots }, work));
  const failure = ended.find((worker) => worker.status === "rejected");
  if (failure !== undefined) throw failure.reason;
  return queue.rest();
}

/** Trials with the same `lane`: they run one after the other. Those without one are in a group that is not exclusive. */
interface Group {
  readonly exclusive: boolean;
  /** Indexes in the list of trials, in order. */
  readonly indexes: number[];
  next: number;
  busy: boolean;
}

/** Waiting trials by group; `take` returns the earliest one whose group is free, in time that grows with groups, not trials. */
class TrialQueue {
  readonly #trials: readonly Trial[];
  readonly #groups = new Map<string | undefined, Group>();
  #waiters: (() => void)[] = [];
  #left: number;

  constructor(trials: readonly Trial[]) {
    this.#trials = trials;
    this.#left = trials.length;
    for (const [index, trial] of trials.entries()) this.#groupOf(trial).indexes.push(index);
  }

  get isEmpty(): boolean {
    return this.#left === 0;
  }

  take(): Trial | undefined {
    let best: Group | undefined;
    let bestIndex = this.#trials.length;
    for (const group of this.#groups.values()) {
      const index = group.indexes[group.next];
      if (index === undefined || group.busy || index >= bestIndex) continue;
      best = group;
      bestIndex = index;
    }
    if (best === undefined) return undefined;
    best.next += 1;
    best.busy = best.exclusive;
    this.#left -= 1;
    return this.#trials[bestIndex];
  }

  release(trial: Trial): void {
    this.#groupOf(trial).busy = false;
    for (const wake of this.#waiters.splice(0)) wake();
  }

  released(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiters.push(resolve);
    });
  }

  rest(): readonly Trial[] {
    return [...this.#groups.values()]
      .flatMap((group) => group.indexes.slice(group.next))
      .toSorted((a, b) => a - b)
      .flatMap((index) => this.#trials[index] ?? []);
  }

  #groupOf(trial: Trial): Group {
    const known = this.#groups.get(trial.lane);
    if (known !== undefined) return known;
    const group: Group = { exclusive: trial.lane !== undefined, indexes: [], next: 0, busy: false };
    this.#groups.set(trial.lane, group);
    return group;
  }
}
