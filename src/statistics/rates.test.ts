import { expect, it } from "vitest";
import { betaSample, binomial, randomFrom } from "./random.ts";
import {
  boundsOf,
  countTasksAlike,
  isFlaky,
  meanRate,
  passAllK,
  passAtK,
  type TaskCount,
  tasksLikeThese,
  theseTasks,
  wilson,
} from "./rates.ts";

const likeThese = (tasks: readonly TaskCount[]): ReturnType<typeof tasksLikeThese> =>
  tasksLikeThese(tasks.map((task) => [task]));
const of = (scored: number, ...passed: number[]): TaskCount[] =>
  passed.map((each) => ({ passed: each, scored }));

// Newcombe (1998), Statistics in Medicine 17, Table I, method 3.
it.each([
  [81, 263, 0.2553, 0.3662],
  [15, 148, 0.0624, 0.1605],
  [0, 20, 0, 0.1611],
  [1, 29, 0.0061, 0.1718],
])("%d of %d: %d to %d", (successes, total, low, high) => {
  const found = wilson(successes, total);
  expect(found?.value).toBe(successes / total);
  expect(found?.low).toBeCloseTo(low, 4);
  expect(found?.high).toBeCloseTo(high, 4);
});

it("ends at 1 exactly where all passed, and at 0 where none did; nothing of nothing", () => {
  for (let trials = 1; trials <= 1000; trials += 1) {
    expect(wilson(trials, trials)).toMatchObject({ value: 1, high: 1 });
    expect(wilson(0, trials)).toMatchObject({ value: 0, low: 0 });
  }
  expect(wilson(0, 0)).toBeUndefined();
});

it("tasks with equal rates count as one trial each for tasks like these, whatever rounding leaves", () => {
  const tenths = likeThese(of(10, ...Array.from({ length: 10 }, () => 1)));
  expect(tenths?.high).toBeCloseTo(
    likeThese(of(1000, ...Array.from({ length: 10 }, () => 100)))?.high ?? 0,
    9,
  );
  expect(tenths?.high).toBeGreaterThan(0.4);
});

it.each([
  [20, 1],
  [50, 1],
  [20, 2],
  [50, 2],
])(
  "covers the rate of equal tasks, also with one or two trials of each: %d tasks, %d trials",
  (tasks, trials) => {
    const random = randomFrom(tasks * 10 + trials);
    for (const rate of [0.5, 0.7, 0.9]) {
      const runs = 3000;
      let covered = 0;
      for (let run = 0; run < runs; run += 1) {
        const counts = Array.from({ length: tasks }, () => ({
          passed: binomial(trials, rate, random),
          scored: trials,
        }));
        const found = theseTasks(counts);
        if (found !== undefined && found.low <= rate && rate <= found.high) covered += 1;
      }
      expect(covered / runs).toBeGreaterThan(0.93);
    }
  },
);

it("a task counts the same however often it was tried", () => {
  expect(meanRate([...of(10, 10), ...of(2, 0)])).toBe(0.5);
  expect(meanRate([...of(0, 0)])).toBeUndefined();
});

// Computed with numpy 1.24 and scipy 1.10.1 by the formulas of the functions' descriptions.
it("gives the interval for these tasks and for tasks like these", () => {
  const [these, others] = [theseTasks(of(5, 5, 4, 3, 5, 0, 2)), likeThese(of(5, 5, 4, 3, 5, 0, 2))];
  expect(these?.value).toBeCloseTo(19 / 30, 12);
  expect(these?.low).toBeCloseTo(0.4727437368379748, 9);
  expect(these?.high).toBeCloseTo(0.7689195895337215, 9);
  expect(others?.low).toBeCloseTo(0.26174920329888035, 9);
  expect(others?.high).toBeCloseTo(0.8937835089888886, 9);
  expect(likeThese(of(3, 3, 3, 3, 3, 3, 3, 3, 3))?.low).toBeCloseTo(0.5886054296196936, 9);
});

it("a task counts the same whatever its agents and variants", () => {
  const counts = [
    { task: "a", passed: 10, scored: 10 },
    { task: "a", passed: 10, scored: 10 },
    { task: "a", passed: 0, scored: 0 },
    { task: "b", passed: 0, scored: 10 },
  ];
  const alike = countTasksAlike(counts, ({ task }) => task);
  expect(theseTasks(alike)?.value).toBe(0.5);
  expect(meanRate(alike)).toBe(0.5);
  const [a, b] = [counts.slice(0, 3), counts.slice(3)];
  expect(tasksLikeThese([a, b])?.value).toBe(0.5);
});

it("of one task the interval is Wilson's, and there is none for others like it", () => {
  expect(theseTasks(of(10, 9))).toEqual(wilson(9, 10));
  expect(likeThese(of(10, 9))).toBeUndefined();
  expect(theseTasks([])).toBeUndefined();
});

it.each([
  [5, 10],
  [10, 3],
  [20, 5],
  [50, 4],
])("covers the truth in 92 to 99 %% of runs with correlated trials: %d tasks, %d trials", (tasks, trials) => {
  const random = randomFrom(tasks);
  for (const [a, b] of [
    [0.6, 0.4],
    [1.8, 0.2],
    [3, 3],
  ] as const) {
    const runs = 800;
    let [these, others] = [0, 0];
    for (let run = 0; run < runs; run += 1) {
      const rates = Array.from({ length: tasks }, () => betaSample(a, b, random));
      const counts = rates.map((rate) => ({ passed: binomial(trials, rate, random), scored: trials }));
      const truth = rates.reduce((sum, rate) => sum + rate, 0) / tasks;
      const [same, like] = [theseTasks(counts), likeThese(counts)];
      if (same !== undefined && same.low <= truth && truth <= same.high) these += 1;
      if (like !== undefined && like.low <= a / (a + b) && a / (a + b) <= like.high) others += 1;
    }
    for (const covered of [these / runs, others / runs]) {
      expect(covered).toBeGreaterThan(0.92);
      expect(covered).toBeLessThanOrEqual(0.995);
    }
  }
});

it("pass@k and pass^k are those of Chen et al. and of tau-bench, and undefined with fewer than k trials", () => {
  // 1 - C(7, 2)/C(10, 2) and C(3, 2)/C(10, 2).
  expect(passAtK(of(10, 3), 2)).toBeCloseTo(1 - 21 / 45, 12);
  expect(passAllK(of(10, 3), 2)).toBeCloseTo(3 / 45, 12);
  expect(passAtK(of(4, 4, 0), 3)).toBe(0.5);
  expect(passAllK(of(4, 4, 2), 3)).toBe(0.5);
  expect(passAtK([...of(4, 4), ...of(2, 2)], 3)).toBeUndefined();
  expect(passAllK(of(2, 2), 3)).toBeUndefined();
});

it("says which tasks are flaky, and what trials without a verdict could change", () => {
  expect([...of(3, 0, 3), ...of(0, 0)].some(isFlaky)).toBe(false);
  expect(of(3, 1).every(isFlaky)).toBe(true);
  expect(
    boundsOf([
      { passed: 2, scored: 3, unscored: 1 },
      { passed: 0, scored: 0, unscored: 2 },
    ]),
  ).toEqual({
    low: 0.25,
    high: 0.875,
  });
  expect(boundsOf([])).toBeUndefined();
});
