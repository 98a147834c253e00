import { maxDurationMs } from "./duration.ts";

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
 * for what is none: without a unit, zero, negative, longer than a timer can wait.
 */
export function parseGoDuration(text: string): number | undefined {
  if (!goDuration.test(text)) return undefined;
  let total = 0;
  for (const [, number, unit] of text.matchAll(/(\d+\.?\d*|\.\d+)([a-zµμ]+)/g)) {
    total += Number(number) * (units[unit ?? ""] ?? Number.NaN);
  }
  return total > 0 && total <= maxDurationMs ? total : undefined;
}
