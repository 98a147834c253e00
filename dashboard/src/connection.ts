import { useSyncExternalStore } from "react";

/** Live views that wait for the server to answer again. */
const waiting = new Set<EventSource>();
const listeners = new Set<() => void>();

/** Notes whether a live view waits for the server. */
export function setWaiting(source: EventSource, isWaiting: boolean): void {
  if (isWaiting) waiting.add(source);
  else waiting.delete(source);
  for (const listener of listeners) listener();
}

/** Whether the page may show what is no longer so, since the server does not answer. */
export function useIsOffline(): boolean {
  return useSyncExternalStore(subscribe, () => waiting.size > 0);
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
