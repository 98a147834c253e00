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

/** The longest time that a Node timer can wait, in milliseconds; anything longer would fire at once. */
const longestTimer = 2 ** 31 - 1;

/**
 * Makes a signal that aborts with `reason()` after `ms` milliseconds, or with the parent's reason when the parent aborts
 * first. Neither the timer nor the listener on the parent outlives the signal's disposal.
 */
export function abortAfter(ms: number, reason: () => unknown, parent?: AbortSignal): DeadlineSignal {
  const controller = new AbortController();
  const timer = ms > longestTimer ? undefined : setTimeout(() => controller.abort(reason()), ms);
  const follow = (): void => controller.abort(parent?.reason);
  const dispose = (): void => {
    clearTimeout(timer);
    parent?.removeEventListener("abort", follow);
  };
  controller.signal.addEventListener("abort", dispose, { once: true });
  parent?.addEventListener("abort", follow, { once: true });
  if (parent?.aborted === true) follow();
  return { signal: controller.signal, [Symbol.dispose]: dispose };
}

/**
 * Makes a signal that aborts with the first of the given ones, with its reason. Unlike `AbortSignal.any` it leaves no listener
 * behind after its disposal.
 */
export function abortWithAny(signals: readonly AbortSignal[]): DeadlineSignal {
  const controller = new AbortController();
  const follow = (event: Event): void => {
    controller.abort(event.target instanceof AbortSignal ? event.target.reason : undefined);
  };
  for (const signal of signals) {
    if (signal.aborted) controller.abort(signal.reason);
    signal.addEventListener("abort", follow, { once: true });
  }
  const dispose = (): void => {
    for (const signal of signals) signal.removeEventListener("abort", follow);
  };
  return { signal: controller.signal, [Symbol.dispose]: dispose };
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

/** Waits for a promise, but no longer than until the signal aborts; then it rejects with the signal's reason. */
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

/** Whether a promise settles within `ms` milliseconds; its outcome is ignored. */
export async function settlesWithin(work: Promise<unknown>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(() => resolve(false), ms);
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
