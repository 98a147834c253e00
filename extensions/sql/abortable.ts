/** Waits for work, but not longer than until the signal aborts. Throws the signal's reason then; the work goes on. */
export async function abortable<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  // Its end is of no interest once nobody waits for it.
  work.catch(() => undefined);
  signal.throwIfAborted();
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const onAbort = (): void => reject(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}
