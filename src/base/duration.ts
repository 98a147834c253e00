import ms from "ms";

/** The longest time that a timer can wait, about 24.8 days. */
export const maxDurationMs = 2_147_483_647;

/**
 * Reads a duration: a number of milliseconds, or a text such as `500ms`, `2s`, `5m`, `1h`. Gives milliseconds, or
 * undefined for what is not a duration: nonsense, zero, negative, longer than a timer can wait.
 */
export function parseDuration(value: unknown): number | undefined {
  const milliseconds = millisecondsOf(value);
  return milliseconds > 0 && milliseconds <= maxDurationMs ? milliseconds : undefined;
}

/** Whether a value is a duration, but a longer one than there may be. */
export function isTooLong(value: unknown): boolean {
  return millisecondsOf(value) > maxDurationMs;
}

/** NaN if the value is not a duration. */
function millisecondsOf(value: unknown): number {
  const milliseconds = typeof value === "string" ? parseText(value) : value;
  return typeof milliseconds === "number" ? milliseconds : Number.NaN;
}

function parseText(text: string): number | undefined {
  const trimmed = text.trim();
  if (trimmed === "" || trimmed.length > 100) return undefined;
  // Its type admits only texts that are known to be durations; for others it gives undefined.
  const parse: (text: ms.StringValue) => number | undefined = ms;
  return parse(trimmed as ms.StringValue);
}

const units: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  μs: 1e-3,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
};

/** The regular expression of a duration as Go writes it, above zero or not. */
export const goDurationPattern = "^\\+?(?:(?:\\d+\\.?\\d*|\\.\\d+)(?:ns|us|µs|μs|ms|s|m|h))+$";
const goDuration = new RegExp(goDurationPattern);

/**
 * Reads a duration as Go writes it: numbers with units, such as `300ms`, `1.5h`, `1h30m`. Gives milliseconds, or undefined
 * for an invalid one: without a unit, zero, negative, longer than a timer can wait.
 */
export function parseGoDuration(text: string): number | undefined {
  if (!goDuration.test(text)) return undefined;
  let total = 0;
  for (const [, number, unit] of text.matchAll(/(\d+\.?\d*|\.\d+)([a-zµμ]+)/g)) {
    total += Number(number) * (units[unit ?? ""] ?? Number.NaN);
  }
  return total > 0 && total <= maxDurationMs ? total : undefined;
}

/** A duration in the unit that reads best: `41 ms`, `2.0 s`, `3 min 12 s`, `1 h 2 min`. */
export function formatDuration(milliseconds: number): string {
  const ms = Number.isFinite(milliseconds) ? Math.max(0, milliseconds) : 0;
  if (ms > 0 && ms < 1) return "<1 ms";
  if (Math.round(ms) < 1000) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  const minutes = Math.round(seconds / 60);
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** A duration that is still growing, so that it does not change its unit while one looks: `0.4 s`. */
export function formatElapsed(milliseconds: number): string {
  return milliseconds < 1000
    ? `${(Math.floor(Math.max(0, milliseconds) / 100) / 10).toFixed(1)} s`
    : formatDuration(milliseconds);
}

const byteUnits: Readonly<Record<string, number>> = { "": 1, k: 1024, m: 1024 ** 2, g: 1024 ** 3 };

/**
 * Reads an amount of memory: a number of bytes, or a text such as `512MB`, `1.5GiB`, `64k`; a kilobyte is 1024 bytes. Gives
 * whole bytes, or undefined for an invalid one: no number, zero, negative, too large.
 */
export function parseByteSize(value: unknown): number | undefined {
  const bytes = typeof value === "string" ? parseByteText(value) : value;
  if (typeof bytes !== "number") return undefined;
  const whole = Math.floor(bytes);
  return whole > 0 && Number.isSafeInteger(whole) ? whole : undefined;
}

function parseByteText(text: string): number | undefined {
  const match = /^\s*(\d+(?:\.\d+)?)\s*([kmg]?)(?:i?b)?\s*$/i.exec(text);
  if (match === null) return undefined;
  const [, number, unit = ""] = match;
  return Number(number) * (byteUnits[unit.toLowerCase()] ?? Number.NaN);
}
