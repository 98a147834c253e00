/** How often and how long to try again when a model does not answer. Times are in milliseconds. */
export interface RetryPolicy {
  /** Attempts after the first. */
  readonly maxRetries: number;
  /** Longest first wait; the longest wait doubles with every attempt. */
  readonly baseDelayMs: number;
  /** Longest single wait that we choose ourselves. */
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
 * How long to wait after the given failed attempt, counting from 1: what the provider asked for, else exponential
 * backoff with full jitter. `random` gives 0 to 1.
 */
export function retryDelay(
  policy: RetryPolicy,
  attempt: number,
  options: { readonly asked: number | undefined; readonly random: () => number },
): number {
  if (options.asked !== undefined) return options.asked;
  const longest = Math.min(policy.maxDelayMs, policy.baseDelayMs * 2 ** (attempt - 1));
  return Math.round(options.random() * longest);
}

/**
 * The wait that a response asks for, in milliseconds: `retry-after-ms`, else `retry-after` in seconds or as an HTTP
 * date (RFC 9110, 10.2.3); undefined when it asks for none. `now` is the time in milliseconds since the Unix epoch.
 */
export function askedDelay(
  headers: Readonly<Record<string, string>> | undefined,
  now: () => number,
): number | undefined {
  const milliseconds = numberIn(headers?.["retry-after-ms"]);
  if (milliseconds !== undefined) return milliseconds;
  const written = headers?.["retry-after"];
  const seconds = numberIn(written);
  if (seconds !== undefined) return seconds * 1000;
  // Every form of an HTTP date begins with the day of the week; Date.parse takes much else for a date.
  const date = written !== undefined && /^\s*[a-z]{3}/i.test(written) ? Date.parse(written) : Number.NaN;
  return Number.isNaN(date) ? undefined : Math.max(0, date - now());
}

function numberIn(text: string | undefined): number | undefined {
  return text !== undefined && /^\s*\d+(?:\.\d+)?\s*$/.test(text) ? Number(text) : undefined;
}
