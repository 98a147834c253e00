/** Replaced rather than changed: a set that many trials change keeps its earlier tables in memory. */
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
