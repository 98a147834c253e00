/** How often and how long to try again when a model does not answer, or a server refuses a request as one too many. Times are in milliseconds. */
export interface RetryPolicy {
  /** Attempts after the first. */
  readonly maxRetries: number;
  /** Longest first wait; the longest wait doubles with every attempt. */
  readonly baseDelayMs: number;
  /** Longest single wait, unless the other side asks for a longer one. */
  readonly maxDelayMs: number;
  /** Longest that all waits between attempts may take together. */
  readonly waitBudgetMs: number;
}

export const defaultRetryPolicy: RetryPolicy = {
  maxRetries: 4,
  baseDelayMs: 500,
  maxDelayMs: 30_000,
  waitBudgetMs: 60_000,
};

/**
 * How long to wait after the given failed attempt, counting from 1: what the other side asked for, else exponential
 * backoff with full jitter. `random` returns 0 to 1.
 */
export function retryDelay(
  { maxDelayMs, baseDelayMs }: RetryPolicy,
  attempt: number,
  { asked, random }: { readonly asked: number | undefined; readonly random: () => number },
): number {
  // A time that has passed, by another clock, says as little as none.
  if (asked !== undefined && asked > 0) return asked;
  return Math.round(random() * Math.min(maxDelayMs, baseDelayMs * 2 ** (attempt - 1)));
}

/**
 * The wait that a response asks for, in milliseconds: `retry-after-ms`, else `retry-after` in seconds or as an HTTP
 * date (RFC 9110, 10.2.3); undefined when it asks for none. `now` is the time in milliseconds since the Unix epoch.
 */
export function askedDelay(
  headers: Readonly<Record<string, string | undefined>> = {},
  now: () => number,
): number | undefined {
  const { "retry-after-ms": inMs = "", "retry-after": written = "" } = headers;
  const seconds = numberIn(written);
  const asked = numberIn(inMs) ?? (seconds === undefined ? undefined : seconds * 1000);
  if (asked !== undefined) return asked;
  // Every form of an HTTP date begins with the day of the week; Date.parse accepts much else.
  const date = /^\s*[a-z]{3}/i.test(written) ? Date.parse(written) : Number.NaN;
  return Number.isNaN(date) ? undefined : Math.max(0, date - now());
}

function numberIn(text: string): number | undefined {
  return /^\s*\d+(?:\.\d+)?\s*$/.test(text) ? Number(text) : undefined;
}
