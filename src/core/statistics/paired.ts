/** How values of the same things differ between two measurements. */
export interface PairedComparison {
  /** Pairs in all, and those of which the second value is higher or lower. */
  readonly pairs: number;
  readonly higher: number;
  readonly lower: number;
  /** Mean of the differences. */
  readonly difference: number;
  /** Its 95 % interval (Student); absent where all differences are equal, which says nothing about their spread. */
  readonly low?: number;
  readonly high?: number;
  /** Probability of a mean so far from 0, were each difference as likely with the other sign. */
  readonly p: number;
}

/**
 * Compares by differences of pairs: second value minus first. The test flips signs exactly (Fisher 1935); for differences
 * of -1, 0 and 1 it is McNemar's exact test. Undefined without pairs.
 */
export function comparePairs(differences: readonly number[]): PairedComparison | undefined {
  const pairs = differences.length;
  if (pairs === 0) return undefined;
  const difference = differences.reduce((sum, each) => sum + each, 0) / pairs;
  const squares = differences.reduce((sum, each) => sum + (each - difference) ** 2, 0);
  const half = squares === 0 ? undefined : studentT(pairs - 1) * Math.sqrt(squares / (pairs - 1) / pairs);
  return {
    pairs,
    higher: differences.filter((each) => each > 0).length,
    lower: differences.filter((each) => each < 0).length,
    difference,
    ...(half === undefined ? {} : { low: difference - half, high: difference + half }),
    p: signFlipP(differences.filter((each) => each !== 0)),
  };
}

/** How many times as large values of the same things are in the second of two measurements. */
export interface PairedRatio {
  /** Pairs of which both values are above 0. */
  readonly pairs: number;
  /** Geometric mean of the ratios. */
  readonly ratio: number;
  /** Its 95 % interval (Student, of the logarithms); absent where all ratios are equal. */
  readonly low?: number;
  readonly high?: number;
}

/** Compares sizes such as durations, first and second value of each pair. Undefined without pairs of values above 0. */
export function compareRatios(pairs: readonly (readonly [number, number])[]): PairedRatio | undefined {
  const positive = pairs.filter(([first, second]) => first > 0 && second > 0);
  const logs = comparePairs(positive.map(([first, second]) => Math.log(second / first)));
  if (logs === undefined) return undefined;
  const { low, high, difference } = logs;
  return {
    pairs: logs.pairs,
    ratio: Math.exp(difference),
    ...(low === undefined || high === undefined ? {} : { low: Math.exp(low), high: Math.exp(high) }),
  };
}

/** More sums than these are taken to be normal. */
const mostSums = 20_000;
/** Sums of fractions that are equal may differ by less than this. */
const precision = 1e-9;

/** The share of all choices of signs with which the sum is at least as far from 0. */
function signFlipP(differences: readonly number[]): number {
  const observed = Math.abs(differences.reduce((sum, each) => sum + each, 0));
  let sums = new Map<number, number>([[0, 1]]);
  for (const each of differences) {
    const size = Math.round(Math.abs(each) / precision);
    const next = new Map<number, number>();
    for (const [sum, share] of sums)
      for (const moved of [sum - size, sum + size]) next.set(moved, (next.get(moved) ?? 0) + share / 2);
    if (next.size > mostSums || differences.length > mostSums / 20)
      return normalP(observed / Math.sqrt(differences.reduce((sum, one) => sum + one ** 2, 0)));
    sums = next;
  }
  // Roundings add up.
  const least = observed / precision - differences.length;
  const far = [...sums].filter(([sum]) => Math.abs(sum) >= least);
  return Math.min(
    1,
    far.reduce((total, [, share]) => total + share, 0),
  );
}

/** The probability of a normal value at least so far from 0 (Abramowitz and Stegun 7.1.26, off by 2e-7 at most). */
function normalP(z: number): number {
  const t = 1 / (1 + (0.3275911 * z) / Math.SQRT2);
  const polynomial =
    t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  return polynomial * Math.exp(-(z ** 2) / 2);
}

/** For 1 to 4 degrees of freedom. */
const fewDegrees = [12.706205, 4.302653, 3.182446, 2.776445];

/** The 97.5 % quantile of Student's distribution (Abramowitz and Stegun 26.7.5). */
function studentT(degrees: number): number {
  const x = 1.959963984540054;
  const terms = [
    (x ** 3 + x) / 4,
    (5 * x ** 5 + 16 * x ** 3 + 3 * x) / 96,
    (3 * x ** 7 + 19 * x ** 5 + 17 * x ** 3 - 15 * x) / 384,
    (79 * x ** 9 + 776 * x ** 7 + 1482 * x ** 5 - 1920 * x ** 3 - 945 * x) / 92_160,
  ];
  const expansion = terms.reduce((sum, term, index) => sum + term / degrees ** (index + 1), x);
  return fewDegrees[degrees - 1] ?? expansion;
}
