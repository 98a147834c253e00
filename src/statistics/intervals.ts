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

/** How often a judge and people said pass and fail; the first word is what people said. */
export interface Confusion {
  readonly passPass: number;
  readonly passFail: number;
  readonly failPass: number;
  readonly failFail: number;
}

/** How far a judge agrees with people, with 95 % intervals. Absent: there are no labels to tell it from. */
export interface Agreement {
  readonly agreement?: Proportion | undefined;
  /** Share of what people pass that the judge passes. */
  readonly sensitivity?: Proportion | undefined;
  /** Share of what people fail that the judge fails. */
  readonly specificity?: Proportion | undefined;
  /** Cohen's kappa: agreement beyond that of chance; 1 is perfect, 0 is chance. */
  readonly kappa?: Proportion | undefined;
}

export function agreementOf(confusion: Confusion): Agreement {
  const { passPass, passFail, failPass, failFail } = confusion;
  return {
    agreement: wilson(passPass + failFail, passPass + passFail + failPass + failFail),
    sensitivity: wilson(passPass, passPass + passFail),
    specificity: wilson(failFail, failPass + failFail),
    kappa: cohensKappa(confusion),
  };
}

/**
 * Cohen's kappa (1960) with the interval of the large-sample variance of Fleiss, Cohen and Everitt (1969). Undefined when both
 * always say the same, or there are no labels: chance then explains all. Without variance, as of a judge that always says the same
 * or is always right, the interval is not known: both of its ends are the value.
 */
export function cohensKappa({ passPass, passFail, failPass, failFail }: Confusion): Proportion | undefined {
  const total = passPass + passFail + failPass + failFail;
  if (total === 0) return undefined;
  const [a, b, c, d] = [passPass, passFail, failPass, failFail].map((count) => count / total) as [
    number,
    number,
    number,
    number,
  ];
  const people = [a + b, c + d] as const;
  const judge = [a + c, b + d] as const;
  const observed = a + d;
  const chance = people[0] * judge[0] + people[1] * judge[1];
  if (chance === 1) return undefined;
  const value = (observed - chance) / (1 - chance);
  const off = 1 - value;
  const agreeing = a * (1 - (people[0] + judge[0]) * off) ** 2 + d * (1 - (people[1] + judge[1]) * off) ** 2;
  const differing = off ** 2 * (b * (judge[0] + people[1]) ** 2 + c * (judge[1] + people[0]) ** 2);
  const variance = (agreeing + differing - (value - chance * off) ** 2) / (total * (1 - chance) ** 2);
  // Rounding leaves a little of a variance of 0.
  if (variance < 1e-12) return { value, low: value, high: value };
  const half = z * Math.sqrt(variance);
  return { value, low: Math.max(-1, value - half), high: Math.min(1, value + half) };
}

/**
 * The share that people would pass, from the share that a judge passes (Rogan and Gladen 1978), with the errors of all
 * three shares in its interval. Undefined without a trial, or for a judge that is no better than chance.
 */
export function correctedRate(
  passed: number,
  total: number,
  { passPass, passFail, failPass, failFail }: Confusion,
): Proportion | undefined {
  const [positives, negatives] = [passPass + passFail, failPass + failFail];
  if (total === 0 || positives === 0 || negatives === 0) return undefined;
  const [observed, sensitivity, specificity] = [passed / total, passPass / positives, failFail / negatives];
  const worth = sensitivity + specificity - 1;
  if (worth <= 0) return undefined;
  const exact = (observed + specificity - 1) / worth;
  const variance =
    ((observed * (1 - observed)) / total +
      exact ** 2 * ((sensitivity * (1 - sensitivity)) / positives) +
      (1 - exact) ** 2 * ((specificity * (1 - specificity)) / negatives)) /
    worth ** 2;
  const half = z * Math.sqrt(variance);
  return { value: share(exact), low: share(exact - half), high: share(exact + half) };
}

function share(value: number): number {
  return Math.min(1, Math.max(0, value));
}

/** How values of the same things differ between two measurements. */
export interface PairedComparison {
  /** Pairs in all, and those of which the second value is higher or lower. */
  readonly pairs: number;
  readonly higher: number;
  readonly lower: number;
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
const maxSums = 20_000;
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
    if (next.size > maxSums || differences.length > maxSums / 20)
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
