/** A share with its interval. */
export interface Proportion {
  readonly value: number;
  readonly low: number;
  readonly high: number;
}

/** The 97.5 % quantile of the normal distribution. */
const z = 1.959963984540054;

/** The share of successes with its 95 % interval (Wilson 1927), as if all were independent. Undefined for a total of 0. */
export function wilson(successes: number, total: number): Proportion | undefined {
  if (total === 0) return undefined;
  const value = successes / total;
  const scale = 1 + z ** 2 / total;
  const middle = (value + z ** 2 / (2 * total)) / scale;
  const half = (z / scale) * Math.sqrt((value * (1 - value)) / total + z ** 2 / (4 * total ** 2));
  return { value, low: Math.max(0, middle - half), high: Math.min(1, middle + half) };
}
