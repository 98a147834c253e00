import { setTimeout as sleep } from "node:timers/promises";
import { durationText } from "./duration.ts";

export interface Limit {
  readonly ms: number;
  /** For messages: `within 60s`, with the reason when it is shorter than was asked. */
  readonly text: string;
}

/**
 * How long an operation may look on: as long as it was asked to, or as the step may take, but short enough that its answer,
 * which says what is there, comes before its host gives up.
 */
export function limitOf(askedMs: number | undefined, { timeoutMs }: { readonly timeoutMs: number }): Limit {
  const left = timeoutMs - Math.min(1000, timeoutMs / 10);
  if (askedMs === undefined)
    return { ms: left, text: `within ${durationText(left)}, the time that the step has` };
  if (askedMs <= left) return { ms: askedMs, text: `within ${durationText(askedMs)}` };
  const text = `within ${durationText(left)} (the step's own timeout of ${durationText(timeoutMs)} is shorter than the ${durationText(askedMs)} asked for)`;
  return { ms: left, text };
}

/**
 * Looks at something again and again, at once and then every `everyMs`, until a look finds it or the time is up. Gives
 * undefined then. Throws the signal's reason, and what a look throws.
 */
export async function poll<T>(
  { ms, everyMs, signal }: { readonly ms: number; readonly everyMs: number; readonly signal: AbortSignal },
  look: () => Promise<T | undefined>,
): Promise<T | undefined> {
  const end = performance.now() + ms;
  for (;;) {
    const found = await look();
    if (found !== undefined) return found;
    const left = end - performance.now();
    if (left <= 0) return undefined;
    await pause(Math.min(everyMs, left), signal);
  }
}

/** Waits. Throws the signal's reason, as it is, when that aborts. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  try {
    await sleep(ms, undefined, { signal });
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  }
}
