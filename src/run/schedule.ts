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
 * Runs trials in order, as many at once as allowed, never two of one lane. Gives back, once all that started have
 * ended, the trials that never started. When `run` throws, no further trial starts, and the error is thrown once all
 * that started have ended.
 */
export async function schedule(
  trials: readonly Trial[],
  options: ScheduleOptions,
): Promise<readonly Trial[]> {
  const queue = new LaneQueue(trials);
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
      // Trials that wait for nothing would otherwise keep timers, signals and the disk waiting until all are done.
      await nextTurn();
    }
  };
  const ended = await Promise.allSettled(Array.from({ length: slots }, work));
  const failure = ended.find((worker) => worker.status === "rejected");
  if (failure !== undefined) throw failure.reason;
  return queue.rest();
}

interface Lane {
  readonly exclusive: boolean;
  /** Places in the list of trials, in order. */
  readonly places: number[];
  next: number;
  busy: boolean;
}

/** Waiting trials by lane; `take` gives the earliest one whose lane is free, in time that grows with lanes, not trials. */
class LaneQueue {
  readonly #trials: readonly Trial[];
  readonly #lanes = new Map<string | undefined, Lane>();
  #waiters: (() => void)[] = [];
  #left: number;

  constructor(trials: readonly Trial[]) {
    this.#trials = trials;
    this.#left = trials.length;
    for (const [place, trial] of trials.entries()) this.#laneOf(trial).places.push(place);
  }

  get isEmpty(): boolean {
    return this.#left === 0;
  }

  take(): Trial | undefined {
    let best: Lane | undefined;
    let bestPlace = this.#trials.length;
    for (const lane of this.#lanes.values()) {
      const place = lane.places[lane.next];
      if (place === undefined || lane.busy || place >= bestPlace) continue;
      best = lane;
      bestPlace = place;
    }
    if (best === undefined) return undefined;
    best.next += 1;
    best.busy = best.exclusive;
    this.#left -= 1;
    return this.#trials[bestPlace];
  }

  release(trial: Trial): void {
    this.#laneOf(trial).busy = false;
    for (const wake of this.#waiters.splice(0)) wake();
  }

  released(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiters.push(resolve);
    });
  }

  rest(): readonly Trial[] {
    return [...this.#lanes.values()]
      .flatMap((lane) => lane.places.slice(lane.next))
      .toSorted((a, b) => a - b)
      .flatMap((place) => this.#trials[place] ?? []);
  }

  #laneOf(trial: Trial): Lane {
    const known = this.#lanes.get(trial.lane);
    if (known !== undefined) return known;
    const lane: Lane = { exclusive: trial.lane !== undefined, places: [], next: 0, busy: false };
    this.#lanes.set(trial.lane, lane);
    return lane;
  }
}
