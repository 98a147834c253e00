import { setTimeout as sleep } from "node:timers/promises";
import * as z from "zod";

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

const units: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
};

/** A duration as arguments have it: a text such as `60s`, `1m30s`, `500ms`, or a number of milliseconds. */
export const duration: z.ZodType<string | number> = z.union([
  z.string().regex(/^(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|ms|s|m|h))+$/),
  z.number().positive(),
]);

/** How long to wait. A task of our own form has no such argument: there `timeout` is the step's. */
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
