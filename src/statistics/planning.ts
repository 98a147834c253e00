import {
  compareTasksLikeThese,
  compareTheseTasks,
  minTasks,
  significance,
  type TaskPair,
} from "./compare.ts";
import { incompleteBeta, normalCdf, solve, studentQuantile } from "./distributions.ts";
import { betaSample, binomial, randomFrom } from "./random.ts";
import { meanOf, sumOf, z95 } from "./rates.ts";

/**
 * What is assumed of tasks before anything has run: 60 % of trials pass; half of the variance is between tasks (rates have the beta distribution with
 * the parameters 0.6 and 0.4); the second side passes less, of each task by the same share; and other tasks of the kind are as hard on both sides but for one
 * in ten (so that rates correlate by 0.9, as in Miller 2024, arXiv 2411.00640).
 */
const assumed = { a: 0.6, b: 0.4, same: 0.9 };
const power = 0.8;
const draws = 400;
/** Most trials of a side, and most tasks, for which the test itself is simulated: with more the normal distribution says the same. */
const maxSimulatedTrials = 60;
const maxSimulatedTasks = 10;
/** Rates that stand for those of more tasks. */
const maxRates = 200;

/** The smallest drops of the mean rate, 0 to 1, that a comparison finds with 80 % probability; absent: it finds none so often. */
export interface Detectable {
  readonly theseTasks?: number;
  readonly tasksLikeThese?: number;
}

/**
 * The smallest drop that a comparison of two sides finds, with `tasks` tasks and `trials` trials of each on each side. The tests are those of
 * {@link compareTheseTasks} and {@link compareTasksLikeThese}: simulated, always with the same random numbers, where they are few, else by the normal
 * approximation of their power.
 */
export function detectableDrop(tasks: number, trials: number): Detectable {
  const rates = typicalRates(Math.min(tasks, maxRates));
  const { a, b } = assumed;
  const these = smallestDrop((drop) => powerOnThese(rates, tasks, trials, drop), meanOf(rates));
  const others =
    tasks < minTasks ? undefined : smallestDrop((drop) => powerOnOthers(tasks, trials, drop), a / (a + b));
  return {
    ...(these === undefined ? {} : { theseTasks: these }),
    ...(others === undefined ? {} : { tasksLikeThese: others }),
  };
}

/** The smallest drop, in whole points, with enough power, which grows with the drop; undefined if not even `most` has it. */
function smallestDrop(powerOf: (drop: number) => number, most: number): number | undefined {
  let [low, high] = [0, Math.floor(most * 100)];
  if (powerOf(high / 100) < power) return undefined;
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (powerOf(middle / 100) >= power) high = middle;
    else low = middle;
  }
  return high / 100;
}

/** Rates of the tasks of a suite: evenly spread over their distribution. */
function typicalRates(tasks: number): readonly number[] {
  return Array.from({ length: tasks }, (_, index) =>
    solve((rate) => incompleteBeta(rate, assumed.a, assumed.b), (index + 0.5) / tasks, 0, 1),
  );
}

function powerOnThese(rates: readonly number[], tasks: number, trials: number, drop: number): number {
  const kept = Math.max(0, 1 - drop / meanOf(rates));
  if (tasks * trials <= maxSimulatedTrials)
    return simulatedPower((random) =>
      compareTheseTasks(rates.map((rate) => pairOf(trials, [rate, rate * kept], random))),
    );
  const size = meanOf(rates) * (1 - kept);
  const [ifEqual, ifNot] = [
    meanOf(rates.map((rate) => (rate * (1 + kept)) / 2).map((rate) => 2 * rate * (1 - rate))),
    meanOf(rates.map((rate) => rate * (1 - rate) + rate * kept * (1 - rate * kept))),
  ].map((variance) => Math.sqrt(variance / (tasks * trials)));
  // The difference moves in steps, of which half is lost.
  return normalCdf((size - 1 / (tasks * trials) - z95 * (ifEqual ?? 0)) / (ifNot ?? 1));
}

function powerOnOthers(tasks: number, trials: number, drop: number): number {
  const { a, b, same } = assumed;
  const mean = a / (a + b);
  const kept = Math.max(0, 1 - drop / mean);
  if (tasks <= maxSimulatedTasks)
    return simulatedPower((random) =>
      compareTasksLikeThese(
        Array.from({ length: tasks }, () => {
          const rate = betaSample(a, b, random);
          const other = random() < same ? rate : betaSample(a, b, random);
          return pairOf(trials, [rate, other * kept], random);
        }),
      ),
    );
  const between = (mean * (1 - mean)) / (a + b + 1);
  const square = between + mean ** 2;
  const variances = [
    between * (1 + kept ** 2 - 2 * same * kept),
    (mean - square) / trials,
    (kept * mean - kept ** 2 * square) / trials,
  ];
  const error = Math.sqrt(sumOf(variances) / tasks);
  return normalCdf((mean * (1 - kept)) / error - studentQuantile(1 - significance / 2, tasks - 1));
}

function pairOf(trials: number, [first, second]: readonly [number, number], random: () => number): TaskPair {
  const count = (rate: number): TaskPair["first"] => ({
    passed: binomial(trials, rate, random),
    scored: trials,
  });
  return { first: count(first), second: count(second) };
}

/** How often a drawn comparison says that the second side is worse. */
function simulatedPower(
  draw: (random: () => number) => { readonly value: number; readonly p: number } | undefined,
): number {
  const random = randomFrom(1);
  let found = 0;
  for (let index = 0; index < draws; index += 1) {
    const { value = 0, p = 1 } = draw(random) ?? {};
    if (value < 0 && p < significance) found += 1;
  }
  return found / draws;
}
