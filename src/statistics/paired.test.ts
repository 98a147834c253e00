import { expect, it } from "vitest";
import { comparePairs, compareRatios } from "./intervals.ts";

// Fisher (1935), The Design of Experiments, 17 and 21: Darwin's maize, in eighths of an inch.
const darwin = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48];

it("flips signs exactly, and has Student's interval", () => {
  const found = comparePairs(darwin);
  expect(found).toMatchObject({ pairs: 15, higher: 13, lower: 2 });
  expect(found?.p).toBeCloseTo(1726 / 32768, 12);
  expect(found?.difference).toBeCloseTo(20.9333, 4);
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
  expect(comparePairs([0, 0])).toEqual({ pairs: 2, higher: 0, lower: 0, difference: 0, p: 1 });
  expect(comparePairs([1])).toMatchObject({ difference: 1, p: 1 });
  expect(comparePairs([])).toBeUndefined();
});

it("compares sizes by their ratios, with Student's interval of the logarithms", () => {
  // Logarithms 1, 2 and 3: mean 2, standard error 1 / sqrt(3), t of 2 degrees 4.302653.
  const found = compareRatios([1, 2, 3].map((power) => [10, 10 * Math.exp(power)] as const));
  expect(found?.pairs).toBe(3);
  expect(found?.ratio).toBeCloseTo(Math.exp(2), 9);
  expect(Math.log(found?.low ?? 0)).toBeCloseTo(2 - 4.302653 / Math.sqrt(3), 6);
  expect(Math.log(found?.high ?? 0)).toBeCloseTo(2 + 4.302653 / Math.sqrt(3), 6);
});

it("has no ratio of what was nothing, and no interval of one ratio", () => {
  expect(compareRatios([[0, 5]])).toBeUndefined();
  expect(
    compareRatios([
      [0, 5],
      [2, 4],
    ]),
  ).toEqual({ pairs: 1, ratio: 2 });
});
