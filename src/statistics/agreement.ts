import { studentQuantile } from "./distributions.ts";
import { type Proportion, sumOf, type TaskCount, wilson, z95 as z } from "./rates.ts";

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

/** The agreement over the cases of tasks, given those of each task: cases of one task are alike, so that they are worth less than as many of different ones. */
export function agreementOf(tasks: readonly Confusion[]): Agreement {
  return {
    agreement: shareOf(
      tasks.map((task) => ({ passed: task.passPass + task.failFail, scored: sumOf(Object.values(task)) })),
    ),
    sensitivity: shareOf(tasks.map(labelledPass)),
    specificity: shareOf(tasks.map(labelledFail)),
    kappa: cohensKappa(tasks),
  };
}

/** Cases that people pass, and those of them that the judge passes. */
export function labelledPass({ passPass, passFail }: Confusion): TaskCount {
  return { passed: passPass, scored: passPass + passFail };
}

/** Cases that people fail, and those of them that the judge fails. */
export function labelledFail({ failPass, failFail }: Confusion): TaskCount {
  return { passed: failFail, scored: failPass + failFail };
}

/** The cases of several tasks together. */
export function joined(tasks: readonly Confusion[]): Confusion {
  const sum = (key: keyof Confusion): number => sumOf(tasks.map((task) => task[key]));
  return {
    passPass: sum("passPass"),
    passFail: sum("passFail"),
    failPass: sum("failPass"),
    failFail: sum("failFail"),
  };
}

/** A share of all cases with Wilson's interval at what they are worth. */
function shareOf(tasks: readonly TaskCount[]): Proportion | undefined {
  const [passed, scored] = [sumOf(tasks.map((task) => task.passed)), sumOf(tasks.map((task) => task.scored))];
  if (scored === 0) return undefined;
  const worth = worthOf(tasks);
  const found = wilson((passed / scored) * worth, worth);
  return found && { ...found, value: passed / scored };
}

/** Rounding leaves less than this of a variance of 0. */
const tiny = 1e-12;

/**
 * How many independent cases the cases of tasks are worth for a share: p(1-p)/SE² with the variance of a ratio between tasks (Cochran 1977, 6.3), shrunk by (z/t)² for few tasks; where all
 * tasks have the same share, one case each. All of them where each case has a task of its own, and of a single task, of which alone they then speak.
 */
export function worthOf(tasks: readonly TaskCount[]): number {
  const counted = tasks.filter(({ scored }) => scored > 0);
  const total = sumOf(counted.map(({ scored }) => scored));
  const { length } = counted;
  if (length < 2 || length === total) return total;
  const share = sumOf(counted.map(({ passed }) => passed)) / total;
  const squares = sumOf(counted.map(({ passed, scored }) => (passed - share * scored) ** 2));
  const variance = ((length / (length - 1)) * squares) / total ** 2;
  const size = variance < tiny ? length : Math.min(total, Math.max(1, (share * (1 - share)) / variance));
  return size * (z / studentQuantile(0.975, length - 1)) ** 2;
}

/**
 * Cohen's kappa (1960) with the interval of the large-sample variance of Fleiss, Cohen and Everitt (1969), or of that between tasks where it is larger. Undefined when both
 * always say the same, or there are no labels: chance then explains all. Without variance, as of a judge that always says the same
 * or is always right, the interval is not known: both of its ends are the value.
 */
export function cohensKappa(tasks: readonly Confusion[]): Proportion | undefined {
  const { passPass, passFail, failPass, failFail } = joined(tasks);
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
  // What a case of each cell adds to kappa, but for a constant: its derivatives.
  const slope = (isSame: 0 | 1, byPeople: number, byJudge: number): number =>
    (isSame - (byPeople + byJudge) * off) / (1 - chance);
  const slopes: Readonly<Record<keyof Confusion, number>> = {
    passPass: slope(1, people[0], judge[0]),
    passFail: slope(0, people[1], judge[0]),
    failPass: slope(0, people[0], judge[1]),
    failFail: slope(1, people[1], judge[1]),
  };
  const half = halfWidth(tasks, { slopes, total, variance });
  return { value, low: Math.max(-1, value - half), high: Math.min(1, value + half) };
}

function halfWidth(
  tasks: readonly Confusion[],
  given: {
    readonly slopes: Readonly<Record<keyof Confusion, number>>;
    readonly total: number;
    /** As if cases were independent. */
    readonly variance: number;
  },
): number {
  const { slopes, total, variance } = given;
  const sums = tasks.map((task) => {
    const cells = Object.entries(task) as [keyof Confusion, number][];
    return {
      cases: sumOf(Object.values(task)),
      slope: sumOf(cells.map(([cell, count]) => count * slopes[cell])),
    };
  });
  const counted = sums.filter(({ cases }) => cases > 0);
  const { length } = counted;
  const independent = z * Math.sqrt(variance);
  if (length < 2 || length === total) return independent;
  const mean = sumOf(counted.map(({ slope }) => slope)) / total;
  const squares = sumOf(counted.map(({ cases, slope }) => (slope - mean * cases) ** 2));
  const between = ((length / (length - 1)) * squares) / total ** 2;
  return Math.max(independent, studentQuantile(0.975, length - 1) * Math.sqrt(between));
}

/**
 * The share that people would pass, from the share that a judge passes (Rogan and Gladen 1978), with the errors of all
 * three shares in its interval. `trials` are those of each task; `worth`: what the cases that people pass, and fail, are worth, by {@link worthOf}. Undefined without a trial, or for a judge that
 * is no better than chance.
 */
export function correctedRate(
  trials: readonly TaskCount[],
  confusion: Confusion,
  worth: { readonly pass: number; readonly fail: number } = {
    pass: labelledPass(confusion).scored,
    fail: labelledFail(confusion).scored,
  },
): Proportion | undefined {
  const { passPass, passFail, failPass, failFail } = confusion;
  const [passed, total] = [
    sumOf(trials.map((task) => task.passed)),
    sumOf(trials.map((task) => task.scored)),
  ];
  const [positives, negatives] = [passPass + passFail, failPass + failFail];
  if (total === 0 || positives === 0 || negatives === 0) return undefined;
  const [observed, sensitivity, specificity] = [passed / total, passPass / positives, failFail / negatives];
  const power = sensitivity + specificity - 1;
  if (power <= 0) return undefined;
  const exact = (observed + specificity - 1) / power;
  const variance =
    ((observed * (1 - observed)) / worthOf(trials) +
      exact ** 2 * ((sensitivity * (1 - sensitivity)) / worth.pass) +
      (1 - exact) ** 2 * ((specificity * (1 - specificity)) / worth.fail)) /
    power ** 2;
  const half = z * Math.sqrt(variance);
  return { value: share(exact), low: share(exact - half), high: share(exact + half) };
}

function share(value: number): number {
  return Math.min(1, Math.max(0, value));
}
