import { studentQuantile } from "./distributions.ts";

/** A share with its interval. */
export interface Proportion {
  readonly value: number;
  readonly low: number;
  readonly high: number;
}

/** The trials of one task, or of one task with one agent and variant, that have a verdict. */
export interface TaskCount {
  readonly passed: number;
  readonly scored: number;
  /** How much it counts beside the others; absent: 1. See {@link countTasksAlike}. */
  readonly weight?: number;
}

/** The 97.5 % quantile of the normal distribution; a number, since every run loads it. */
export const z95 = 1.959963984540054;

/**
 * The share of successes with its interval (Wilson 1927), as if all were independent: the trials of one task are. `total` may be a
 * fraction, as an effective sample size is. Undefined for a total of 0.
 */
export function wilson(successes: number, total: number, z: number = z95): Proportion | undefined {
  if (total === 0) return undefined;
  const value = successes / total;
  const scale = 1 + z ** 2 / total;
  const middle = (value + z ** 2 / (2 * total)) / scale;
  const half = (z / scale) * Math.sqrt((value * (1 - value)) / total + z ** 2 / (4 * total ** 2));
  // Rounding would leave a little between all or nothing and the end of its interval.
  return {
    value,
    low: value === 0 ? 0 : Math.max(0, middle - half),
    high: value === 1 ? 1 : Math.min(1, middle + half),
  };
}

/**
 * Gives the trials of tasks with several agents or variants weights, so that each task counts the same: a task of which three agents have a verdict
 * counts a third with each. `keyOf` is equal for what belongs to one task.
 */
export function countTasksAlike<T extends TaskCount>(
  counts: readonly T[],
  keyOf: (count: T) => string,
): readonly (T & { readonly weight: number })[] {
  const parts = Map.groupBy(scoredOf(counts), keyOf);
  return counts.map((count) => ({ ...count, weight: 1 / (parts.get(keyOf(count))?.length ?? 1) }));
}

/** The mean of the rates of tasks. Each task counts the same, however often it was tried. Undefined without scored trials. */
export function meanRate(tasks: readonly TaskCount[]): number | undefined {
  const scored = scoredOf(tasks);
  return scored.length === 0 ? undefined : meanOfScored(scored);
}

function meanOfScored(scored: readonly TaskCount[]): number {
  return sumOf(scored.map((task) => weightOf(task) * rateOf(task))) / sumOf(scored.map(weightOf));
}

function weightOf({ weight = 1 }: TaskCount): number {
  return weight;
}

/**
 * *These tasks*: the mean rate with a 95 % interval for running the same tasks again; the trials are the sample. Of one task it is Wilson's interval of
 * its trials; of several, Wilson's at the effective sample size p(1-p)/SE² (after Korn and Graubard 1998), where SE² is the sum of the variances within
 * tasks, each of a rate to which two trials with the mean rate were added, so that tasks that always passed have some; without bias where all tasks have the same rate, also
 * with one trial of each. Simulated coverage: 92 to 99 %; where all tasks but one always pass, at least 91 % with ten trials. Undefined without scored trials.
 */
export function theseTasks(tasks: readonly TaskCount[]): Proportion | undefined {
  const scored = scoredOf(tasks);
  const [first, ...others] = scored;
  if (first === undefined) return undefined;
  if (others.length === 0) return wilson(first.passed, first.scored);
  const value = meanOfScored(scored);
  return wilsonAt(value, (value * (1 - value)) / withinVariance(scored), scored);
}

/** Trials with the mean rate that are added to each task for its variance. */
const addedTrials = 2;

/** Most trials of a task that are thought of. */
const maxTrials = 1_000_000;

/**
 * About how many more trials of each task would bring an end of the interval for these tasks to the other side of a threshold, if the tasks went on
 * passing as often as they did: the lower end for a rate above it, the upper end for one below. Undefined where no number would.
 */
export function trialsToDecide(tasks: readonly TaskCount[], threshold: number): number | undefined {
  const scored = scoredOf(tasks);
  const most = scored.reduce((max, task) => Math.max(max, task.scored), 0);
  const isDecided = (factor: number): boolean => {
    const rate = theseTasks(
      scored.map((task) => ({ ...task, passed: task.passed * factor, scored: task.scored * factor })),
    );
    return rate !== undefined && (rate.low >= threshold || rate.high < threshold);
  };
  if (most === 0 || !isDecided(maxTrials / most)) return undefined;
  let [undecided, decided] = [0, maxTrials];
  while (decided - undecided > 1) {
    const trials = Math.floor((undecided + decided) / 2);
    if (isDecided((most + trials) / most)) decided = trials;
    else undecided = trials;
  }
  return decided;
}

/** The variance of the mean rate when the same tasks are run again. */
function withinVariance(scored: readonly TaskCount[]): number {
  const passed = sumOf(scored.map((task) => task.passed));
  const usual = (passed + 0.5) / (sumOf(scored.map((task) => task.scored)) + 1);
  const variances = scored.map((task) => {
    const { passed: some, scored: all } = task;
    const rate = (some + addedTrials * usual) / (all + addedTrials);
    // What is expected of rate × (1 - rate) is smaller by this factor, since the rate varies too.
    const expected = 1 - all / (all + addedTrials) ** 2;
    return (weightOf(task) ** 2 * (rate * (1 - rate))) / expected / all;
  });
  return sumOf(variances) / sumOf(scored.map(weightOf)) ** 2;
}

/**
 * *Tasks like these*: the mean rate with a 95 % interval for other tasks of this kind; the tasks are the sample, trials of one task are not independent.
 * Wilson's interval at the effective sample size p(1-p)/SE², with the SE of task means, shrunk by (z/t)² for few tasks. `tasks` are the trials of each task,
 * with each agent and variant. Undefined for fewer than two tasks.
 */
export function tasksLikeThese(tasks: readonly (readonly TaskCount[])[]): Proportion | undefined {
  const rates = tasks.flatMap((parts) => meanRate(parts) ?? []);
  if (rates.length < 2) return undefined;
  const value = meanOf(rates);
  const squares = sumOf(rates.map((rate) => (rate - value) ** 2));
  const variance = squares / (rates.length * (rates.length - 1));
  const trials = sumOf(tasks.flat().map((task) => task.scored));
  // Equal rates show no spread; then each task counts as one trial.
  const size = variance < tiny ? rates.length : Math.min(trials, (value * (1 - value)) / variance);
  const shrunk = Math.max(1, size) * (z95 / studentQuantile(0.975, rates.length - 1)) ** 2;
  return wilson(value * shrunk, shrunk);
}

/** Rounding leaves less than this of a variance of 0: that of two rates of a million trials is larger. */
const tiny = 1e-24;

/** Wilson's interval of a rate at an effective sample size; a rate of 0 or 1 has that of its trials, weighted by task. */
function wilsonAt(value: number, size: number, scored: readonly TaskCount[]): Proportion | undefined {
  const weights = sumOf(scored.map(weightOf));
  const harmonic = weights ** 2 / sumOf(scored.map((task) => weightOf(task) ** 2 / task.scored));
  const total = value === 0 || value === 1 ? harmonic : Math.max(1, size);
  return wilson(value * total, total);
}

/**
 * The probability that at least one of `k` trials of a task passes, as the mean over tasks of 1 - C(n-c, k)/C(n, k) (Chen et al. 2021). Undefined when
 * a task has fewer than `k` scored trials.
 */
export function passAtK(tasks: readonly TaskCount[], k: number): number | undefined {
  return meanOfAll(tasks, k, ({ passed, scored }) => 1 - shareOfDraws(scored - passed, scored, k));
}

/**
 * The probability that all of `k` trials of a task pass, as the mean over tasks of C(c, k)/C(n, k) (Yao et al. 2024, tau-bench). Undefined when
 * a task has fewer than `k` scored trials.
 */
export function passAllK(tasks: readonly TaskCount[], k: number): number | undefined {
  return meanOfAll(tasks, k, ({ passed, scored }) => shareOfDraws(passed, scored, k));
}

function meanOfAll(
  tasks: readonly TaskCount[],
  k: number,
  one: (task: TaskCount) => number,
): number | undefined {
  if (tasks.length === 0 || tasks.some(({ scored }) => scored < k)) return undefined;
  return meanOf(tasks.map(one));
}

/** C(some, k)/C(all, k): the share of draws of `k` that are all among `some`. */
function shareOfDraws(some: number, all: number, k: number): number {
  if (some < k) return 0;
  let share = 1;
  for (let drawn = 0; drawn < k; drawn += 1) share *= (some - drawn) / (all - drawn);
  return share;
}

/** Whether a task neither always passed nor always failed. */
export function isFlaky({ passed, scored }: TaskCount): boolean {
  return passed > 0 && passed < scored;
}

/** A task with trials that have no verdict. */
export interface UnscoredCount extends TaskCount {
  readonly unscored: number;
}

/** The mean rate if every trial without a verdict had failed, and if it had passed. Undefined without trials. */
export function boundsOf(
  tasks: readonly UnscoredCount[],
): { readonly low: number; readonly high: number } | undefined {
  const tried = tasks.filter(({ scored, unscored }) => scored + unscored > 0);
  if (tried.length === 0) return undefined;
  return {
    low: meanOfScored(tried.map((task) => filled(task, 0))),
    high: meanOfScored(tried.map((task) => filled(task, 1))),
  };
}

/** The trials of a task if every one without a verdict had failed (0) or passed (1). */
export function filled<T extends UnscoredCount>(count: T, outcome: 0 | 1): T {
  const { passed, scored, unscored } = count;
  return { ...count, passed: passed + outcome * unscored, scored: scored + unscored, unscored: 0 };
}

function scoredOf<T extends TaskCount>(tasks: readonly T[]): readonly T[] {
  return tasks.filter(({ scored }) => scored > 0);
}

export function rateOf({ passed, scored }: TaskCount): number {
  return passed / scored;
}

export function meanOf(values: readonly number[]): number {
  return sumOf(values) / values.length;
}

export function sumOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}
