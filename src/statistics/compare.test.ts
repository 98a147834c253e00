import { expect, it } from "vitest";
import {
  benjaminiHochberg,
  comparePairs,
  compareRatios,
  compareTasksLikeThese,
  compareTheseTasks,
  holm,
  type TaskPair,
  verdictOf,
} from "./compare.ts";
import { betaSample, binomial, randomFrom } from "./random.ts";

// Fisher (1935), The Design of Experiments, 17 and 21: Darwin's maize, in eighths of an inch.
const darwin = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48];

it("flips signs exactly, and has Student's interval", () => {
  const found = comparePairs(darwin);
  expect(found).toMatchObject({ pairs: 15, higher: 13, lower: 2 });
  expect(found?.p).toBeCloseTo(1726 / 32768, 12);
  expect(found?.value).toBeCloseTo(20.9333, 4);
  expect(found?.low).toBeCloseTo(0.0312, 3);
  expect(found?.high).toBeCloseTo(41.8355, 3);
});

it("gives the same for fractions", () => {
  expect(comparePairs(darwin.map((each) => each / 3))?.p).toBeCloseTo(1726 / 32768, 12);
});

// McNemar's exact test: twice the binomial tail.
it.each([
  [6, 0, 2 / 64],
  [5, 0, 2 / 32],
  [7, 1, 18 / 256],
  [3, 3, 1],
  [0, 0, 1],
])("is McNemar's exact test for %d pairs up and %d down", (up, down, p) => {
  const ties = Array.from({ length: 20 }, () => 0);
  const signs = (count: number, sign: number): number[] => Array.from({ length: count }, () => sign);
  expect(comparePairs([...signs(up, 1), ...ties, ...signs(down, -1)])?.p).toBeCloseTo(p, 12);
});

it("takes the sum of many differences to be normal", () => {
  const many = Array.from({ length: 100_000 }, (_, index) => (index % 200 < 101 ? 1 : -1));
  // z = 1000 / sqrt(100000)
  expect(comparePairs(many)?.p).toBeCloseTo(0.0015654, 6);
  const uneven = Array.from({ length: 60 }, (_, index) => Math.sqrt(index + 2) * (index % 3 === 0 ? -1 : 1));
  const p = comparePairs(uneven)?.p ?? 0;
  expect(p).toBeGreaterThan(0.005);
  expect(p).toBeLessThan(0.05);
});

it("has no interval where all differences are equal, and nothing of nothing", () => {
  expect(comparePairs([0, 0])).toEqual({ pairs: 2, higher: 0, lower: 0, value: 0, p: 1 });
  expect(comparePairs([1])).toMatchObject({ value: 1, p: 1 });
  expect(comparePairs([])).toBeUndefined();
});

it("compares sizes by their ratios, with Student's interval of the logarithms", () => {
  // Logarithms 1, 2 and 3: mean 2, standard error 1 / sqrt(3), t of 2 degrees 4.302653.
  const found = compareRatios([1, 2, 3].map((power) => ({ first: 10, second: 10 * Math.exp(power) })));
  expect(found?.pairs).toBe(3);
  expect(found?.ratio).toBeCloseTo(Math.exp(2), 9);
  expect(Math.log(found?.low ?? 0)).toBeCloseTo(2 - 4.302653 / Math.sqrt(3), 6);
  expect(Math.log(found?.high ?? 0)).toBeCloseTo(2 + 4.302653 / Math.sqrt(3), 6);
});

it("has no ratio of what was nothing, and no interval of one ratio", () => {
  expect(compareRatios([{ first: 0, second: 5 }])).toBeUndefined();
  expect(
    compareRatios([
      { first: 0, second: 5 },
      { first: 2, second: 4 },
    ]),
  ).toEqual({ pairs: 1, ratio: 2, p: 1 });
});

const pair = (c1: number, n1: number, c2: number, n2: number): TaskPair => ({
  first: { passed: c1, scored: n1 },
  second: { passed: c2, scored: n2 },
});

// Computed with scipy 1.10.1: all ways to deal the trials, by hypergeom.pmf; of one task it is Fisher's exact test.
it.each<[TaskPair[], number, number]>([
  [
    [pair(0, 10, 10, 10), ...Array.from({ length: 7 }, () => pair(10, 10, 10, 10))],
    0.125,
    1.0825088224469018e-5,
  ],
  [[pair(2, 5, 4, 5), pair(1, 3, 3, 3), pair(0, 4, 2, 6)], 7 / 15, 0.026984126984127],
  [[pair(3, 10, 8, 10)], 0.5, 0.06977851869492736],
  [[pair(4, 4, 4, 4), pair(0, 2, 0, 3)], 0, 1],
])("permutes trials within tasks: %j", (pairs, value, p) => {
  const found = compareTheseTasks(pairs);
  expect(found?.value).toBeCloseTo(value, 12);
  expect(found?.p).toBeCloseTo(p, 12);
});

// All ways to deal the trials, computed with scipy 1.17.1 (hypergeom.pmf); with equally many trials on both sides it is Fisher's exact test.
it.each<[TaskPair, number]>([
  [pair(250, 515, 290, 515), 0.014923202784358304],
  [pair(2500, 5000, 2560, 5000), 0.23796488860588208],
  [pair(4990, 5000, 4999, 5000), 0.011675815640037265],
  [pair(30, 600, 45, 700), 0.2851082138259703],
])("is exact for thousands of trials: %j", (one, p) => {
  expect(compareTheseTasks([one])?.p).toBeCloseTo(p, 11);
});

it("is right for many tasks with thousands of trials", () => {
  const pairs = Array.from({ length: 20 }, () => pair(4000, 5000, 4010, 5000));
  // z = 0.002 / sqrt(2 * 0.801 * 0.199 / 100000); the exact one is 0.26507.
  expect(compareTheseTasks(pairs)?.p).toBeCloseTo(0.2627, 4);
});

it("parts of a task count as one task", () => {
  const parts = ["a", "a", "b"].map((task) => ({ ...pair(0, 4, task === "a" ? 4 : 0, 4), task }));
  expect(compareTheseTasks(parts)?.value).toBe(0.5);
  expect(compareTasksLikeThese(parts)).toMatchObject({ pairs: 2, value: 0.5 });
});

it("one task that went from never to always is better on these tasks, and says little of others", () => {
  const pairs = [pair(0, 10, 10, 10), ...Array.from({ length: 7 }, () => pair(10, 10, 10, 10))];
  const [these, others] = [compareTheseTasks(pairs), compareTasksLikeThese(pairs)];
  expect(these && verdictOf(these)).toBe("better");
  expect(these?.low).toBeGreaterThan(0);
  expect(others && verdictOf(others)).toBe("undecided");
});

it("leaves out tasks that one side has not scored", () => {
  expect(compareTheseTasks([pair(1, 2, 0, 0)])).toBeUndefined();
  expect(compareTasksLikeThese([pair(1, 2, 0, 0), pair(1, 2, 2, 2)])).toMatchObject({ pairs: 1, value: 0.5 });
});

it.each([
  [{ value: 0.1, low: 0.02, high: 0.2, p: 0.01 }, 0, "better"],
  [{ value: -0.1, low: -0.2, high: -0.02, p: 0.01 }, 0, "worse"],
  [{ value: 0.1, low: -0.02, high: 0.2, p: 0.2 }, 0.05, "undecided"],
  [{ value: 0.01, low: -0.02, high: 0.04, p: 0.4 }, 0.05, "equivalent"],
  [{ value: 0.02, low: 0.01, high: 0.03, p: 0.001 }, 0.05, "equivalent"],
  [{ value: 0, p: 1 }, 0.05, "undecided"],
])("the verdict of %j with a margin of %d is %s", (difference, margin, expected) => {
  expect(verdictOf(difference, margin)).toBe(expected);
});

it("adjusts probabilities for several comparisons", () => {
  // Holm (1979) and Benjamini and Hochberg (1995), by hand.
  expect(holm([0.01, 0.04, 0.03, 0.005])).toEqual([0.03, 0.06, 0.06, 0.02]);
  expect(benjaminiHochberg([0.01, 0.04, 0.03, 0.005])).toEqual([0.02, 0.04, 0.04, 0.02]);
  expect(holm([])).toEqual([]);
});

it.each([
  [5, 10],
  [10, 3],
  [20, 5],
  [50, 4],
])(
  "raises a false alarm in less than 6 %% of comparisons of equal sides: %d tasks, %d trials",
  (tasks, trials) => {
    const random = randomFrom(27);
    const runs = 600;
    let [these, others] = [0, 0];
    for (let run = 0; run < runs; run += 1) {
      const pairs = Array.from({ length: tasks }, () => {
        const rate = betaSample(0.6, 0.4, random);
        return pair(binomial(trials, rate, random), trials, binomial(trials, rate, random), trials);
      });
      if ((compareTheseTasks(pairs)?.p ?? 1) < 0.05) these += 1;
      if ((compareTasksLikeThese(pairs)?.p ?? 1) < 0.05) others += 1;
    }
    expect(these / runs).toBeLessThan(0.06);
    expect(others / runs).toBeLessThan(0.06);
  },
);

it("sides that differ only by rounding are equal", () => {
  // 0.3 - 0.1 and 0 - 0.2 do not add up to 0.
  const parts = [
    { task: "a", first: { passed: 1, scored: 10 }, second: { passed: 3, scored: 10 } },
    { task: "a", first: { passed: 2, scored: 10 }, second: { passed: 0, scored: 10 } },
  ];
  expect(compareTheseTasks(parts)?.value).toBe(0);
  expect(compareTasksLikeThese(parts)).toMatchObject({ value: 0, higher: 0, lower: 0, p: 1 });
});

it("sides of very many trials are compared at once, with the normal distribution", () => {
  const scored = 1_000_000;
  const many = (passed: number): TaskPair["first"] => ({ passed, scored });
  const pairs = Array.from({ length: 1000 }, () => ({ first: many(500_000), second: many(500_100) }));
  const found = compareTheseTasks(pairs);
  expect(found?.value).toBeCloseTo(0.0001, 9);
  expect(found?.p).toBeLessThan(0.001);
  expect(compareTheseTasks(pairs.slice(0, 1))?.p).toBeCloseTo(0.8875, 3);
  const fewer = { first: { passed: 10_000, scored: 20_000 }, second: { passed: 10_200, scored: 20_000 } };
  // Exact: that of the normal distribution with half a step less.
  expect(compareTheseTasks([fewer])?.p).toBeCloseTo(0.04654, 4);
});
