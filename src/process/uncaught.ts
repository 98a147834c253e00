const listeners = new Set<(error: unknown) => void>();

/**
 * Has somebody hear of errors that nobody catches, such as those of a callback, until it is disposed of. Only for a process
 * that tells them with {@link tellUncaught}.
 */
export function hearUncaught(listener: (error: unknown) => void): Disposable {
  listeners.add(listener);
  return { [Symbol.dispose]: () => void listeners.delete(listener) };
}

/** Tells all who listen of an error that nobody has caught; false when nobody listens. */
export function tellUncaught(error: unknown): boolean {
  for (const listener of listeners) listener(error);
  return listeners.size > 0;
}
