import { normalCdf, studentQuantile } from "./distributions.ts";
import { filled, meanOf, rateOf, sumOf, type TaskCount, theseTasks, type UnscoredCount } from "./rates.ts";

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

/** A task on two sides, or a part of one: its trials with one agent and variant. */
export interface TaskPair<T extends TaskCount = TaskCount> {
  /** Equal for the parts of one task, which count as one; absent: it is the only part of its task. */
  readonly task?: string;
  readonly first: T;
  readonly second: T;
}

/** The pairs of which both sides are scored. */
function scoredPairs(pairs: readonly TaskPair[]): readonly TaskPair[] {
  return pairs.filter(({ first, second }) => first.scored > 0 && second.scored > 0);
}

/** Things by the task that they belong to; what names none is a task of its own. */
function byTask<T extends { readonly task?: string }>(parts: readonly T[]): readonly (readonly T[])[] {
  return [...Map.groupBy(parts, (part) => part.task ?? part).values()];
}

/**
 * *These tasks*: whether the second side is better on this suite; the trials are the sample. The test permutes the trials of each task between the sides,
 * exactly (Fisher 1935): given how many of its trials passed, those of the second side are hypergeometric. The interval is Newcombe's (1998, method 10) of
 * the two mean rates. Each task counts the same, whatever its parts. Undefined without a task that both sides have scored.
 */
export function compareTheseTasks(pairs: readonly TaskPair[]): Difference | undefined {
  const parts = byTask(scoredPairs(pairs)).flatMap((group) =>
    group.map(({ first, second }) => ({ first, second, weight: 1 / group.length })),
  );
  const before = theseTasks(parts.map(({ first, weight }) => ({ ...first, weight })));
  const after = theseTasks(parts.map(({ second, weight }) => ({ ...second, weight })));
  if (before === undefined || after === undefined) return undefined;
  const value = withoutRounding(after.value - before.value);
  const low = Math.hypot(after.value - after.low, before.high - before.value);
  const high = Math.hypot(after.high - after.value, before.value - before.low);
  return { value, low: value - low, high: value + high, p: permutationP(parts, value) };
}

/** A difference of rates that are equal may be off by less than this; that of different rates is larger. */
const rounding = 1e-12;

function withoutRounding(difference: number): number {
  return Math.abs(difference) < rounding ? 0 : difference;
}

/** Sums of fractions that are equal may differ by less than this. */
const precision = 1e-9;
/** With more parts, values of parts, different sums, or steps of work than these, the distribution of a sum is taken to be normal. */
const maxParts = 1000;
const maxValues = 200_000;
const maxSums = 20_000;
const maxWork = 5_000_000;

/** The share of all ways to deal the trials of each task to the sides with which the mean difference is at least as far from 0. */
function permutationP(parts: readonly (TaskPair & { readonly weight: number })[], value: number): number {
  const weights = sumOf(parts.map(({ weight }) => weight));
  const dealt = parts.map(({ first, second, weight }): Part => {
    const passed = first.passed + second.passed;
    const [drawn, total] = [second.scored, first.scored + second.scored];
    const [least, most] = [Math.max(0, drawn + passed - total), Math.min(passed, drawn)];
    const scale = weight / weights;
    const spread = (drawn * passed * (total - passed) * first.scored) / (total * total * (total - 1));
    return {
      variance: spread * ((1 / drawn + 1 / first.scored) * scale) ** 2,
      size: most - least + 1,
      values: () =>
        hypergeometric(passed, drawn, total).map(([each, share]): readonly [number, number] => [
          (each / drawn - (passed - each) / first.scored) * scale,
          share,
        ]),
    };
  });
  return farShare(dealt, value);
}

/** A part of a sum: a random number with mean 0. */
interface Part {
  readonly variance: number;
  /** How many values it can have. */
  readonly size: number;
  /** Its values with their probabilities. */
  readonly values: () => readonly (readonly [number, number])[];
}

/** Numbers that are less likely than this are left out, so that a probability is exact where it is not far below. */
const leastShare = 1e-30;

/**
 * How many of `passed` trials are among `drawn` of `total`, with the probability of each number. In logarithms, since the weights of
 * thousands of trials exceed the largest number.
 */
function hypergeometric(
  passed: number,
  drawn: number,
  total: number,
): readonly (readonly [number, number])[] {
  const least = Math.max(0, drawn + passed - total);
  const most = Math.min(passed, drawn);
  let weight = 0;
  const weights: [number, number][] = [[least, weight]];
  for (let k = least; k < most; k += 1) {
    weight += Math.log(((passed - k) * (drawn - k)) / ((k + 1) * (total - passed - drawn + k + 1)));
    weights.push([k + 1, weight]);
  }
  const heaviest = weights.reduce((max, [, each]) => Math.max(max, each), -Infinity);
  const shares = weights.map(([k, each]): [number, number] => [k, Math.exp(each - heaviest)]);
  const all = sumOf(shares.map(([, each]) => each));
  return shares
    .map(([k, each]): [number, number] => [k, each / all])
    .filter(([, share]) => share > leastShare);
}

/**
 * The probability that a sum of independent parts, each with mean 0, is at least as far from 0 as a value: exact, or of the normal distribution where
 * there are too many different sums.
 */
function farShare(parts: readonly Part[], value: number): number {
  const normal = (): number => {
    const variance = sumOf(parts.map((part) => part.variance));
    return variance === 0 ? 1 : 2 * normalCdf(-Math.abs(value) / Math.sqrt(variance));
  };
  if (parts.length > maxParts || sumOf(parts.map(({ size }) => size)) > maxValues) return normal();
  let sums = new Map<number, number>([[0, 1]]);
  let work = 0;
  for (const part of parts) {
    work += sums.size * part.size;
    if (work > maxWork) return normal();
    const values = part.values();
    const next = new Map<number, number>();
    for (const [sum, share] of sums) {
      if (share < leastShare) continue;
      for (const [size, chance] of values) {
        const moved = sum + Math.round(size / precision);
        next.set(moved, (next.get(moved) ?? 0) + share * chance);
      }
      if (next.size > maxSums) return normal();
    }
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
 * *Tasks like these*: whether the second side would be better on other tasks of this kind; the tasks are the sample, each with the mean difference of
 * its parts. See {@link comparePairs}. Undefined without a task that both sides have scored.
 */
export function compareTasksLikeThese(pairs: readonly TaskPair[]): PairedComparison | undefined {
  return comparePairs(
    byTask(scoredPairs(pairs)).map((parts) =>
      meanOf(parts.map(({ first, second }) => rateOf(second) - rateOf(first))),
    ),
  );
}

/**
 * Compares by differences of pairs: second value minus first. The test flips signs exactly (Fisher 1935); for differences
 * of -1, 0 and 1 it is McNemar's exact test. The interval is Student's; it is absent where all differences are equal, which
 * says nothing about their spread. Undefined without pairs.
 */
export function comparePairs(given: readonly number[]): PairedComparison | undefined {
  const pairs = given.length;
  if (pairs === 0) return undefined;
  const differences = given.map(withoutRounding);
  const value = withoutRounding(meanOf(differences));
  const squares = sumOf(differences.map((each) => (each - value) ** 2));
  const counts = {
    pairs,
    higher: differences.filter((each) => each > 0).length,
    lower: differences.filter((each) => each < 0).length,
  };
  const unequal = differences.filter((each) => each !== 0);
  const p = farShare(
    unequal.map((each): Part => ({
      variance: (each / pairs) ** 2,
      size: 2,
      values: () => [
        [each / pairs, 0.5],
        [-each / pairs, 0.5],
      ],
    })),
    value,
  );
  // Rounding leaves a little of equal differences.
  if (squares < pairs * 1e-24) return { ...counts, value, p };
  const half = studentQuantile(0.975, pairs - 1) * Math.sqrt(squares / (pairs - 1) / pairs);
  return { ...counts, value, low: value - half, high: value + half, p };
}

/** How many times as large values of the same things are in the second of two measurements. */
export interface PairedRatio {
  /** Tasks of which both values are above 0. */
  readonly pairs: number;
  /** Geometric mean of the ratios. */
  readonly ratio: number;
  /** Its 95 % interval (Student, of the logarithms); absent where all ratios are equal. */
  readonly low?: number;
  readonly high?: number;
  /** The probability of a ratio at least as far from 1 if the two sides were the same. */
  readonly p: number;
}

/** A size such as a duration on two sides, of a task or of a part of one. */
export interface SizePair extends Pick<TaskPair, "task"> {
  readonly first: number;
  readonly second: number;
}

/** Compares sizes such as durations; a task counts once, with the geometric mean of its parts. Undefined without pairs of values above 0. */
export function compareRatios(pairs: readonly SizePair[]): PairedRatio | undefined {
  const positive = pairs.filter(({ first, second }) => first > 0 && second > 0);
  const logs = comparePairs(
    byTask(positive).map((parts) => meanOf(parts.map(({ first, second }) => Math.log(second / first)))),
  );
  if (logs === undefined) return undefined;
  const { low, high, value, p } = logs;
  const ratio = { pairs: logs.pairs, ratio: Math.exp(value), p };
  return low === undefined || high === undefined
    ? ratio
    : { ...ratio, low: Math.exp(low), high: Math.exp(high) };
}

/** What a comparison says; `equivalent`: any difference is within the margin that the user named. */
export const verdicts = ["better", "worse", "equivalent", "undecided"] as const;
export type Verdict = (typeof verdicts)[number];

/** What a comparison may be asked to fail on. */
export const failOnNames = ["worse", "not-better", "undecided"] as const;
export type FailOn = (typeof failOnNames)[number];

/** The exit code that `--fail-on` gives: 1 where a side is worse (or what else was named), else 3 where one is undecided. */
export function failCode(found: readonly Verdict[], failOn: FailOn): 0 | 1 | 3 {
  const isFailure = (verdict: Verdict): boolean =>
    verdict === "worse" ||
    (failOn === "not-better" && verdict === "equivalent") ||
    (failOn === "undecided" && verdict === "undecided");
  if (found.some(isFailure)) return 1;
  return found.includes("undecided") ? 3 : 0;
}

/** Fewest tasks of which a sign-flip test can find a difference at 5 %: with five all in one direction, p is 0.0625. */
export const minTasks = 6;

/** A difference is not chance where it is less likely than this. */
export const significance = 0.05;

/**
 * The verdict of a difference at 5 %. `margin`: a difference that does not matter, such as 0.05 for five points; without one, nothing is
 * equivalent. What is within the margin is equivalent, also where it is surely not 0.
 */
export function verdictOf({ value, low, high, p }: Difference, margin = 0): Verdict {
  if (low !== undefined && high !== undefined && low > -margin && high < margin) return "equivalent";
  if (p >= significance || value === 0) return "undecided";
  return value > 0 ? "better" : "worse";
}

/** A difference, and what it would be at most and at least with other outcomes of the trials without a verdict. */
export interface OpenDifference<D extends Difference = Difference> {
  readonly difference: D;
  /** If the trials without a verdict had passed on the first side and failed on the second. The same as `difference` where all have one. */
  readonly least: D;
  /** The opposite. */
  readonly most: D;
}

/**
 * Applies a comparison to the trials that have a verdict, and to the extremes of those that have none. Undefined without a task that both sides
 * have scored.
 */
export function withUnscored<D extends Difference>(
  pairs: readonly TaskPair<UnscoredCount>[],
  compare: (pairs: readonly TaskPair[]) => D | undefined,
): OpenDifference<D> | undefined {
  const difference = compare(pairs);
  if (difference === undefined) return undefined;
  if (pairs.every(({ first, second }) => first.unscored + second.unscored === 0))
    return { difference, least: difference, most: difference };
  const withOutcome = (first: 0 | 1, second: 0 | 1): D =>
    compare(
      pairs.map((pair) => ({
        ...pair,
        first: filled(pair.first, first),
        second: filled(pair.second, second),
      })),
    ) ?? difference;
  return { difference, least: withOutcome(1, 0), most: withOutcome(0, 1) };
}

/** The probability that decides: the larger one of the difference and of the extreme that speaks against it; 1 where that has no such difference. */
export function decidingP({ difference, least, most }: OpenDifference): number {
  const { value, p } = difference;
  const against = value > 0 ? least : most;
  return value === 0 || Math.sign(against.value) !== Math.sign(value) ? 1 : Math.max(p, against.p);
}

/**
 * The verdict that holds whatever the trials without a verdict had been. `p`: {@link decidingP}, adjusted where there are several
 * comparisons.
 */
export function safeVerdict(
  open: OpenDifference,
  { margin = 0, p = decidingP(open) }: { readonly margin?: number; readonly p?: number } = {},
): Verdict {
  const { difference, least, most } = open;
  if ([difference, least, most].every((each) => verdictOf(each, margin) === "equivalent"))
    return "equivalent";
  return verdictOf({ value: difference.value, p });
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
