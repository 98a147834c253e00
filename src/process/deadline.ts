import { maxDurationMs } from "../base/duration.ts";

/** A signal with a time limit; dispose of it as soon as the work is done, so that no timer outlives the work. */
export interface DeadlineSignal extends Disposable {
  readonly signal: AbortSignal;
}

export interface DeadlineOptions {
  /** Time limit in milliseconds; Infinity for none. */
  readonly ms: number;
  /** Aborts the work early, with its own reason. */
  readonly signal?: AbortSignal;
  /** Makes the error for the time limit. */
  readonly onTimeout: () => Error;
}

/**
 * Makes a signal that aborts with `reason()` after `ms` milliseconds, or with the reason of the first parent that aborts.
 * Neither the timer nor, unlike with `AbortSignal.any`, a listener on a parent outlives the signal's disposal.
 */
export function abortAfter(
  ms: number,
  reason: () => unknown,
  ...given: readonly (AbortSignal | undefined)[]
): DeadlineSignal {
  const { controller, leave } = following(given.filter((parent) => parent !== undefined));
  const timer = ms > maxDurationMs ? undefined : setTimeout(() => controller.abort(reason()), ms);
  const dispose = (): void => {
    clearTimeout(timer);
    leave();
  };
  if (controller.signal.aborted) dispose();
  else controller.signal.addEventListener("abort", dispose, { once: true });
  return { signal: controller.signal, [Symbol.dispose]: dispose };
}

/** Makes a controller that aborts with the first of some signals, with its reason, until `leave` is called. */
function following(parents: readonly AbortSignal[]): {
  readonly controller: AbortController;
  readonly leave: () => void;
} {
  const controller = new AbortController();
  const follow = (): void => controller.abort(parents.find(({ aborted }) => aborted)?.reason);
  for (const parent of parents) parent.addEventListener("abort", follow, { once: true });
  if (parents.some(({ aborted }) => aborted)) follow();
  const leave = (): void => {
    for (const parent of parents) parent.removeEventListener("abort", follow);
  };
  return { controller, leave };
}

/** Makes a signal that aborts with the first of the given ones, with its reason. */
export function abortWithAny(signals: readonly AbortSignal[]): DeadlineSignal {
  return abortAfter(Infinity, () => undefined, ...signals);
}

/**
 * Runs `start` with a signal that aborts on the time limit or with `signal`, and settles at the latest then, even if the
 * work ignores its signal. Rejects with `onTimeout()` or with the signal's reason.
 */
export async function withDeadline<T>(
  start: (signal: AbortSignal) => Promise<T>,
  { ms, signal, onTimeout }: DeadlineOptions,
): Promise<T> {
  signal?.throwIfAborted();
  const deadline = abortAfter(ms, onTimeout, signal);
  try {
    return await untilAborted(start(deadline.signal), deadline.signal);
  } finally {
    deadline[Symbol.dispose]();
  }
}

/** A time limit of {@link Clocks}. */
export interface Clock extends DeadlineSignal {
  /** How long it has run, in milliseconds. */
  elapsedMs(): number;
}

/** Stops time limits until a promise settles, as it does. */
export type Hold = <T>(waiting: Promise<T>) => Promise<T>;

/** Time limits that stand still together. */
export class Clocks {
  readonly #all = new Set<{ run(): void; pause(): void }>();
  readonly #now: () => number;
  #holds = 0;

  /** `now` tells the time that has passed for what is measured; timers are those of the system. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Starts a time limit, as {@link abortAfter} does. Data that has arrived by its end is read first. */
  start(ms: number, reason: () => unknown, parent: AbortSignal): Clock {
    const { controller, leave } = following([parent]);
    let elapsedMs = 0;
    let since: number | undefined;
    let timer: NodeJS.Timeout | undefined;
    const elapsed = (): number => elapsedMs + (since === undefined ? 0 : this.#now() - since);
    const end = (): void => {
      if (since !== undefined) controller.abort(reason());
    };
    const now = this.#now;
    const clock = {
      run() {
        since = now();
        const left = Math.max(0, ms - elapsedMs);
        timer = left > maxDurationMs ? undefined : setTimeout(() => setImmediate(end), left);
      },
      pause() {
        elapsedMs = elapsed();
        since = undefined;
        clearTimeout(timer);
      },
    };
    this.#all.add(clock);
    if (this.#holds === 0) clock.run();
    return {
      signal: controller.signal,
      elapsedMs: elapsed,
      [Symbol.dispose]: () => {
        this.#all.delete(clock);
        clock.pause();
        leave();
      },
    };
  }

  /** Stops all time limits until a promise settles. */
  async hold<T>(waiting: Promise<T>): Promise<T> {
    this.#holds += 1;
    if (this.#holds === 1) for (const clock of this.#all) clock.pause();
    try {
      return await waiting;
    } finally {
      this.#holds -= 1;
      if (this.#holds === 0) for (const clock of this.#all) clock.run();
    }
  }
}

/** Waits for a promise until the signal aborts; then it rejects with the signal's reason. */
export function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const abort = (): void => reject(signal.reason as Error);
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}

/** Waits for some milliseconds. Rejects with the signal's reason when it aborts first. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  using end = abortAfter(ms, () => timeIsOver, signal);
  if (end.signal.aborted) signal.throwIfAborted();
  await new Promise<void>((resolve) => {
    end.signal.addEventListener("abort", () => resolve(), { once: true });
  });
  signal.throwIfAborted();
}

const timeIsOver = Symbol("the time is over");

/**
 * Whether a promise settles within `ms` milliseconds; its outcome is ignored. Data that has arrived by then is read first, even if
 * this process was too busy to read it in time.
 */
export async function settlesWithin(work: Promise<unknown>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(() => setImmediate(resolve, false), ms);
  });
  const settled = work.then(
    () => true,
    () => true,
  );
  try {
    return await Promise.race([settled, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** A list that is replaced: a set that many trials change keeps its earlier tables in memory. */
let listeners: readonly ((error: unknown) => void)[] = [];

/**
 * Calls the listener with uncaught errors, such as those of a callback, until it is disposed of. Only in a process that reports
 * them with {@link reportUncaught}.
 */
export function onUncaught(listener: (error: unknown) => void): Disposable {
  listeners = [...listeners, listener];
  return {
    [Symbol.dispose]() {
      listeners = listeners.filter((other) => other !== listener);
    },
  };
}

/** Reports an uncaught error to all listeners; false when there is none. */
export function reportUncaught(error: unknown): boolean {
  for (const listener of listeners) listener(error);
  return listeners.length > 0;
}
