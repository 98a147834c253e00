import { setTimeout as sleep } from "node:timers/promises";
import * as z from "zod";

export interface Limit {
  readonly ms: number;
  /** For messages: `within 60s`, with the reason if it is shorter than requested. */
  readonly text: string;
}

/**
 * How long an operation may poll: the requested time, or the timeout of the step, but short enough that its result, which
 * describes the current state, arrives before the step times out.
 */
export function limitOf(askedMs: number | undefined, { timeoutMs }: { readonly timeoutMs: number }): Limit {
  const left = timeoutMs - Math.min(1000, timeoutMs / 10);
  if (askedMs === undefined)
    return { ms: left, text: `within ${durationText(left)}, the time left for the step` };
  if (askedMs <= left) return { ms: askedMs, text: `within ${durationText(askedMs)}` };
  const text = `within ${durationText(left)} (the step's own timeout of ${durationText(timeoutMs)} is shorter than the ${durationText(askedMs)} asked for)`;
  return { ms: left, text };
}

/**
 * Calls `look` at once and then every `everyMs`, until it returns a value; returns undefined when the time is up. Throws the
 * signal's reason, and what `look` throws.
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

/** Waits. Throws the signal's reason itself when it aborts. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  try {
    await sleep(ms, undefined, { signal });
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  }
}

const units: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
};

/** A duration argument: a text such as `60s`, `1m30s`, `500ms`, or a number of milliseconds. */
export const duration: z.ZodType<string | number> = z.union([
  z.string().regex(/^(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|ms|s|m|h))+$/),
  z.number().positive(),
]);

/** How long to wait. Tasks of mcp-eval/v1 have no such argument, since there `timeout` is a field of the step. */
export const waitingTime: z.ZodOptional<typeof duration> = duration
  .optional()
  .describe("How long to wait. Default: as long as the step may take.");

/** The milliseconds of a duration. */
export function milliseconds(value: string | number): number {
  if (typeof value === "number") return value;
  const parts = [...value.matchAll(/(\d+\.?\d*|\.\d+)([a-zµ]+)/g)];
  return parts.reduce((sum, [, number, unit]) => sum + Number(number) * (units[unit ?? ""] ?? Number.NaN), 0);
}

/** A duration for a message: `90s`, `500ms`. */
export function durationText(ms: number): string {
  return ms < 1000 ? `${Math.round(ms)}ms` : `${Math.round(ms / 100) / 10}s`;
}
