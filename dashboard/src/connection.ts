import { useSyncExternalStore } from "react";

/** Why a page gets no updates: the server does not answer, or a new server does not accept its cookie. */
export type Outage = "silent" | "restarted";

/** Live views that lost their connection, and the last request if it got no answer. */
const outages = new Map<EventSource | "requests", Outage>();
const listeners = new Set<() => void>();

/** Notes why a live view, or the last request, has no answer; undefined when it has one. */
export function setOutage(source: EventSource | "requests", outage: Outage | undefined): void {
  if (outages.get(source) === outage) return;
  if (outage === undefined) outages.delete(source);
  else outages.set(source, outage);
  for (const listener of listeners) listener();
}

/** Why the page may be out of date; undefined while the server answers. */
export function useOutage(): Outage | undefined {
  return useSyncExternalStore(subscribe, () => [...outages.values()].at(-1));
}

export function useIsOffline(): boolean {
  return useOutage() !== undefined;
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
