import { expect, it } from "vitest";
import { compareTasksLikeThese, compareTheseTasks, type TaskPair } from "./compare.ts";
import { detectableDrop } from "./planning.ts";
import { betaSample, binomial, randomFrom } from "./random.ts";

/** Rates that are spread evenly over the beta distribution (0.6, 0.4): the middles of parts of many sorted draws. */
function spreadRates(tasks: number): readonly number[] {
  const random = randomFrom(99);
  const draws = 4000;
  const sorted = Array.from({ length: draws }, () => betaSample(0.6, 0.4, random)).toSorted((a, b) => a - b);
  return Array.from(
    { length: tasks },
    (_, index) => sorted[Math.floor(((index + 0.5) / tasks) * draws)] ?? 0,
  );
}

/** How often a comparison finds a drop, with the tests that comparisons use and random numbers of its own. */
function foundShare(tasks: number, trials: number, drop: number, question: "these" | "others"): number {
  const random = randomFrom(4711);
  const rates = spreadRates(tasks);
  const mean = question === "others" ? 0.6 : rates.reduce((sum, rate) => sum + rate, 0) / tasks;
  const kept = 1 - drop / mean;
  const count = (rate: number): TaskPair["first"] => ({
    passed: binomial(trials, rate, random),
    scored: trials,
  });
  const runs = 300;
  let found = 0;
  for (let run = 0; run < runs; run += 1) {
    const pairs = Array.from({ length: tasks }, (_, index): TaskPair => {
      const rate = question === "these" ? (rates[index] ?? 0) : betaSample(0.6, 0.4, random);
      const other = question === "these" || random() < 0.9 ? rate : betaSample(0.6, 0.4, random);
      return { first: count(rate), second: count(other * kept) };
    });
    const { p = 1, value = 0 } =
      (question === "these" ? compareTheseTasks : compareTasksLikeThese)(pairs) ?? {};
    if (p < 0.05 && value < 0) found += 1;
  }
  return found / runs;
}

it.each([
  [1, 20],
  [2, 10],
  [6, 5],
  [10, 3],
  [20, 5],
  [50, 4],
])(
  "a comparison finds the drop that is promised in about 80 %% of cases: %d tasks, %d trials",
  (tasks, trials) => {
    const { theseTasks, tasksLikeThese } = detectableDrop(tasks, trials);
    for (const [drop, question] of [
      [theseTasks, "these"],
      [tasksLikeThese, "others"],
    ] as const) {
      if (drop === undefined) continue;
      const found = foundShare(tasks, trials, drop, question);
      expect(found).toBeGreaterThan(0.73);
      // The next smaller point has less than 80 %, where the drop is not made of few large steps.
      expect(found).toBeLessThan(0.93);
    }
  },
);

it.each([
  [1, 1],
  // The smallest probability of three against three is 0.1.
  [1, 3],
  [5, 1],
  [2, 2],
])("promises nothing that no comparison could say: %d tasks, %d trials", (tasks, trials) => {
  expect(detectableDrop(tasks, trials)).toEqual({});
});

it("promises nothing for tasks like these below six tasks", () => {
  expect(detectableDrop(5, 1000)).toEqual({ theseTasks: expect.any(Number) as number });
  expect(detectableDrop(6, 1000)).not.toHaveProperty("tasksLikeThese", 0);
});

it("more tasks or trials show smaller drops", () => {
  const drops = (
    [
      [10, 10],
      [20, 10],
      [50, 10],
      [50, 50],
    ] as const
  ).map(([tasks, trials]) => detectableDrop(tasks, trials));
  for (const key of ["theseTasks", "tasksLikeThese"] as const) {
    const values = drops.map((drop) => drop[key] ?? 1);
    expect(values).toEqual(values.toSorted((a, b) => b - a));
  }
});
