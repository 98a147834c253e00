import { normalCdf, studentQuantile } from "./distributions.ts";
import { meanOf, rateOf, sumOf, type TaskCount, theseTasks } from "./rates.ts";

/** A difference with its 95 % interval, and the probability of one so large by chance. */
export interface Difference {
  /** Second minus first. */
  readonly value: number;
  /** Absent: the data say nothing about its spread. */
  readonly low?: number;
  readonly high?: number;
  /** The probability of a difference at least as far from 0 if the two sides were the same. */
  readonly p: number;
}

/** A task on two sides. */
export interface TaskPair {
  readonly first: TaskCount;
  readonly second: TaskCount;
}

/**
 * *These tasks*: whether the second side is better on this suite; the trials are the sample. The test permutes the trials of each task between the sides,
 * exactly (Fisher 1935): given how many of its trials passed, those of the second side are hypergeometric. The interval is Newcombe's (1998, method 10) of
 * the two mean rates. Undefined without a task that both sides have scored.
 */
export function compareTheseTasks(pairs: readonly TaskPair[]): Difference | undefined {
  const both = pairs.filter(({ first, second }) => first.scored > 0 && second.scored > 0);
  const [first, second] = [both.map((pair) => pair.first), both.map((pair) => pair.second)];
  const [before, after] = [theseTasks(first), theseTasks(second)];
  if (before === undefined || after === undefined) return undefined;
  const value = after.value - before.value;
  const low = Math.hypot(after.value - after.low, before.high - before.value);
  const high = Math.hypot(after.high - after.value, before.value - before.low);
  return { value, low: value - low, high: value + high, p: permutationP(both, value) };
}

/** Sums of fractions that are equal may differ by less than this. */
const precision = 1e-9;
/** With more parts, or more different sums, than these, the distribution of a sum is taken to be normal. */
const maxParts = 1000;
const maxSums = 20_000;

/** The share of all ways to deal the trials of each task to the sides with which the mean difference is at least as far from 0. */
function permutationP(pairs: readonly TaskPair[], value: number): number {
  const parts = pairs.map(({ first, second }) => {
    const passed = first.passed + second.passed;
    const counts = hypergeometric(passed, second.scored, first.scored + second.scored);
    return counts.map(([dealt, share]): readonly [number, number] => [
      (dealt / second.scored - (passed - dealt) / first.scored) / pairs.length,
      share,
    ]);
  });
  return farShare(parts, value);
}

/** How many of `passed` trials are among `drawn` of `total`, with the probability of each number. */
function hypergeometric(
  passed: number,
  drawn: number,
  total: number,
): readonly (readonly [number, number])[] {
  const least = Math.max(0, drawn + passed - total);
  const most = Math.min(passed, drawn);
  let weight = 1;
  const weights: [number, number][] = [[least, weight]];
  for (let k = least; k < most; k += 1) {
    weight *= ((passed - k) * (drawn - k)) / ((k + 1) * (total - passed - drawn + k + 1));
    weights.push([k + 1, weight]);
  }
  const all = sumOf(weights.map(([, each]) => each));
  return weights.map(([k, each]) => [k, each / all]);
}

/**
 * The probability that a sum of independent parts, each with mean 0, is at least as far from 0 as a value: exact, or of the normal distribution where
 * there are too many different sums.
 */
function farShare(parts: readonly (readonly (readonly [number, number])[])[], value: number): number {
  const normal = (): number => {
    const variance = sumOf(parts.map((each) => sumOf(each.map(([size, chance]) => chance * size ** 2))));
    return variance === 0 ? 1 : 2 * normalCdf(-Math.abs(value) / Math.sqrt(variance));
  };
  if (parts.length > maxParts) return normal();
  let sums = new Map<number, number>([[0, 1]]);
  for (const part of parts) {
    const next = new Map<number, number>();
    for (const [sum, share] of sums)
      for (const [size, chance] of part) {
        const moved = sum + Math.round(size / precision);
        next.set(moved, (next.get(moved) ?? 0) + share * chance);
      }
    if (next.size > maxSums) return normal();
    sums = next;
  }
  // Roundings add up.
  const least = Math.abs(value) / precision - parts.length - 1;
  const far = [...sums].filter(([sum]) => Math.abs(sum) >= least);
  return Math.min(1, sumOf(far.map(([, share]) => share)));
}

/** How values of the same things differ between two measurements. */
export interface PairedComparison extends Difference {
  /** Pairs in all, and those of which the second value is higher or lower. */
  readonly pairs: number;
  readonly higher: number;
  readonly lower: number;
}

/**
 * *Tasks like these*: whether the second side would be better on other tasks of this kind; the tasks are the sample. See {@link comparePairs}. Undefined
 * without a task that both sides have scored.
 */
export function compareTasksLikeThese(pairs: readonly TaskPair[]): PairedComparison | undefined {
  return comparePairs(
    pairs
      .filter(({ first, second }) => first.scored > 0 && second.scored > 0)
      .map(({ first, second }) => rateOf(second) - rateOf(first)),
  );
}

/**
 * Compares by differences of pairs: second value minus first. The test flips signs exactly (Fisher 1935); for differences
 * of -1, 0 and 1 it is McNemar's exact test. The interval is Student's; it is absent where all differences are equal, which
 * says nothing about their spread. Undefined without pairs.
 */
export function comparePairs(differences: readonly number[]): PairedComparison | undefined {
  const pairs = differences.length;
  if (pairs === 0) return undefined;
  const value = meanOf(differences);
  const squares = sumOf(differences.map((each) => (each - value) ** 2));
  const counts = {
    pairs,
    higher: differences.filter((each) => each > 0).length,
    lower: differences.filter((each) => each < 0).length,
  };
  const unequal = differences.filter((each) => each !== 0);
  const p = farShare(
    unequal.map((each) => [
      [each / pairs, 0.5],
      [-each / pairs, 0.5],
    ]),
    value,
  );
  // Rounding leaves a little of equal differences.
  if (squares < pairs * 1e-24) return { ...counts, value, p };
  const half = studentQuantile(0.975, pairs - 1) * Math.sqrt(squares / (pairs - 1) / pairs);
  return { ...counts, value, low: value - half, high: value + half, p };
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
  /** The probability of a ratio at least as far from 1 if the two sides were the same. */
  readonly p: number;
}

/** Compares sizes such as durations, first and second value of each pair. Undefined without pairs of values above 0. */
export function compareRatios(pairs: readonly (readonly [number, number])[]): PairedRatio | undefined {
  const positive = pairs.filter(([first, second]) => first > 0 && second > 0);
  const logs = comparePairs(positive.map(([first, second]) => Math.log(second / first)));
  if (logs === undefined) return undefined;
  const { low, high, value, p } = logs;
  const ratio = { pairs: logs.pairs, ratio: Math.exp(value), p };
  return low === undefined || high === undefined
    ? ratio
    : { ...ratio, low: Math.exp(low), high: Math.exp(high) };
}

/** What a comparison says; `equivalent`: any difference is within the margin that the user named. */
export type Verdict = "better" | "worse" | "equivalent" | "undecided";

/** Fewest tasks of which a sign-flip test can find a difference at 5 %: with five all in one direction, p is 0.0625. */
export const minTasks = 6;

/**
 * The verdict of a difference at 5 %. `margin`: a difference that does not matter, such as 0.05 for five points; without one, nothing is
 * equivalent.
 */
export function verdictOf({ value, low, high, p }: Difference, margin = 0): Verdict {
  if (low !== undefined && high !== undefined && low > -margin && high < margin) return "equivalent";
  if (p >= 0.05 || value === 0) return "undecided";
  return value > 0 ? "better" : "worse";
}

/** The probabilities adjusted so that among several comparisons that were planned a false alarm stays as unlikely as with one (Holm 1979). */
export function holm(ps: readonly number[]): readonly number[] {
  const order = ps.map((p, index) => ({ p, index })).toSorted((a, b) => a.p - b.p);
  const adjusted = [...ps];
  let largest = 0;
  for (const [rank, { p, index }] of order.entries()) {
    largest = Math.max(largest, Math.min(1, p * (ps.length - rank)));
    adjusted[index] = largest;
  }
  return adjusted;
}

/** The probabilities adjusted so that of what is found by looking through many, the share of false alarms stays small (Benjamini and Hochberg 1995). */
export function benjaminiHochberg(ps: readonly number[]): readonly number[] {
  const order = ps.map((p, index) => ({ p, index })).toSorted((a, b) => b.p - a.p);
  const adjusted = [...ps];
  let smallest = 1;
  for (const [rank, { p, index }] of order.entries()) {
    smallest = Math.min(smallest, (p * ps.length) / (ps.length - rank));
    adjusted[index] = smallest;
  }
  return adjusted;
}
