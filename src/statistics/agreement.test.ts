import { expect, it } from "vitest";
import { agreementOf, cohensKappa, type Confusion, correctedRate } from "./agreement.ts";

const counts = (passPass: number, passFail: number, failPass: number, failFail: number): Confusion => {
  return { passPass, passFail, failPass, failFail };
};

// Tables of known kappas: 50 grant proposals, and two tables with the same agreement and other margins.
it.each([
  [counts(20, 5, 10, 15), 0.4],
  [counts(45, 15, 25, 15), 0.1304],
  [counts(25, 35, 5, 35), 0.2593],
  [counts(10, 0, 0, 10), 1],
  [counts(0, 10, 10, 0), -1],
])("kappa of %j is %d", (confusion, value) => {
  expect(cohensKappa(confusion)?.value).toBeCloseTo(value, 4);
});

it("the interval of kappa is that of the delta method", () => {
  const cells = [20, 5, 10, 15] as const;
  const total = 50;
  const kappa = ([a, b, c, d]: readonly number[]): number =>
    cohensKappa(counts(a ?? 0, b ?? 0, c ?? 0, d ?? 0))?.value ?? 0;
  const slopes = cells.map((_, index) => {
    const moved = (by: number) => cells.map((cell, at) => cell + (at === index ? by : 0));
    return ((kappa(moved(1e-4)) - kappa(moved(-1e-4))) / 2e-4) * total;
  });
  const mean = cells.reduce((sum, cell, at) => sum + (cell / total) * (slopes[at] ?? 0), 0);
  const square = cells.reduce((sum, cell, at) => sum + (cell / total) * (slopes[at] ?? 0) ** 2, 0);
  const half = 1.959964 * Math.sqrt((square - mean ** 2) / total);
  const found = cohensKappa(counts(...cells));
  expect(found?.low).toBeCloseTo(0.4 - half, 5);
  expect(found?.high).toBeCloseTo(0.4 + half, 5);
});

it("agreement, sensitivity and specificity have Wilson intervals, and are absent without labels", () => {
  // Newcombe (1998), Statistics in Medicine 17, Table I, method 3: 81 of 263.
  const all = agreementOf(counts(81, 182, 0, 0));
  expect(all.sensitivity?.low).toBeCloseTo(0.2553, 4);
  expect(all.sensitivity?.high).toBeCloseTo(0.3662, 4);
  expect(all.specificity).toBeUndefined();
  expect(agreementOf(counts(0, 0, 0, 0))).toEqual({});
  expect(agreementOf(counts(10, 0, 0, 0)).kappa).toBeUndefined();
});

it.each([
  [2, 0, 1, 0],
  [2, 1, 0, 0],
  [7, 0, 0, 3],
])("the interval of kappa has no width where there is no variance: %d, %d, %d, %d", (...cells) => {
  const { value, low, high } = cohensKappa(counts(...cells)) ?? {};
  expect([low, high]).toEqual([value, value]);
});

it("corrects a rate by Rogan and Gladen", () => {
  // Sensitivity 0.9, specificity 0.8: (0.5 + 0.8 - 1) / (0.9 + 0.8 - 1) = 3/7.
  const found = correctedRate(50, 100, counts(90, 10, 20, 80));
  expect(found?.value).toBeCloseTo(3 / 7, 10);
  const variance = (0.0025 + (9 / 49) * 0.0009 + (16 / 49) * 0.0016) / 0.49;
  expect(found?.high).toBeCloseTo(3 / 7 + 1.959964 * Math.sqrt(variance), 6);
  expect(correctedRate(0, 10, counts(90, 10, 20, 80))?.value).toBe(0);
  expect(correctedRate(5, 10, counts(10, 10, 10, 10))).toBeUndefined();
  expect(correctedRate(0, 0, counts(9, 1, 1, 9))).toBeUndefined();
});
