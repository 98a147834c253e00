import { expect, it } from "vitest";
import { agreementOf, cohensKappa, type Confusion, correctedRate, worthOf } from "./agreement.ts";
import { betaSample, binomial, randomFrom } from "./random.ts";
import { wilson } from "./rates.ts";

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
  expect(cohensKappa([confusion])?.value).toBeCloseTo(value, 4);
});

it("the interval of kappa is that of the delta method", () => {
  const cells = [20, 5, 10, 15] as const;
  const total = 50;
  const kappa = ([a, b, c, d]: readonly number[]): number =>
    cohensKappa([counts(a ?? 0, b ?? 0, c ?? 0, d ?? 0)])?.value ?? 0;
  const slopes = cells.map((_, index) => {
    const moved = (by: number) => cells.map((cell, at) => cell + (at === index ? by : 0));
    return ((kappa(moved(1e-4)) - kappa(moved(-1e-4))) / 2e-4) * total;
  });
  const mean = cells.reduce((sum, cell, at) => sum + (cell / total) * (slopes[at] ?? 0), 0);
  const square = cells.reduce((sum, cell, at) => sum + (cell / total) * (slopes[at] ?? 0) ** 2, 0);
  const half = 1.959964 * Math.sqrt((square - mean ** 2) / total);
  const found = cohensKappa([counts(...cells)]);
  expect(found?.low).toBeCloseTo(0.4 - half, 5);
  expect(found?.high).toBeCloseTo(0.4 + half, 5);
});

it("agreement, sensitivity and specificity have Wilson intervals, and are absent without labels", () => {
  // Newcombe (1998), Statistics in Medicine 17, Table I, method 3: 81 of 263.
  const all = agreementOf([counts(81, 182, 0, 0)]);
  expect(all.sensitivity?.low).toBeCloseTo(0.2553, 4);
  expect(all.sensitivity?.high).toBeCloseTo(0.3662, 4);
  expect(all.specificity).toBeUndefined();
  expect(agreementOf([counts(0, 0, 0, 0)])).toEqual({});
  expect(agreementOf([counts(10, 0, 0, 0)]).kappa).toBeUndefined();
});

it.each([
  [2, 0, 1, 0],
  [2, 1, 0, 0],
  [7, 0, 0, 3],
])("the interval of kappa has no width where there is no variance: %d, %d, %d, %d", (...cells) => {
  const { value, low, high } = cohensKappa([counts(...cells)]) ?? {};
  expect([low, high]).toEqual([value, value]);
});

it("corrects a rate by Rogan and Gladen", () => {
  // Sensitivity 0.9, specificity 0.8: (0.5 + 0.8 - 1) / (0.9 + 0.8 - 1) = 3/7.
  const found = correctedRate([{ passed: 50, scored: 100 }], counts(90, 10, 20, 80));
  expect(found?.value).toBeCloseTo(3 / 7, 10);
  const variance = (0.0025 + (9 / 49) * 0.0009 + (16 / 49) * 0.0016) / 0.49;
  expect(found?.high).toBeCloseTo(3 / 7 + 1.959964 * Math.sqrt(variance), 6);
  expect(correctedRate([{ passed: 0, scored: 10 }], counts(90, 10, 20, 80))?.value).toBe(0);
  expect(correctedRate([{ passed: 5, scored: 10 }], counts(10, 10, 10, 10))).toBeUndefined();
  expect(correctedRate([], counts(9, 1, 1, 9))).toBeUndefined();
});

it("cases with a task of their own are independent; those of one task are worth less", () => {
  const alone = Array.from({ length: 20 }, (_, index) =>
    counts(Number(index < 12), 0, 0, Number(index >= 12)),
  );
  expect(agreementOf(alone.map((one, index) => (index < 3 ? counts(0, 1, 0, 0) : one))).agreement).toEqual(
    wilson(17, 20),
  );
  // Ten tasks of which the judge is right in all ten cases, or in none: worth ten cases, less for few tasks.
  const tasks = Array.from({ length: 10 }, (_, index) => ({ passed: index < 6 ? 10 : 0, scored: 10 }));
  expect(worthOf(tasks)).toBeCloseTo(9 * (1.959964 / 2.262157) ** 2, 4);
  const independent = wilson(60, 100) ?? { low: 0, high: 0 };
  const { agreement } = agreementOf(tasks.map(({ passed }) => counts(passed, 10 - passed, 0, 0)));
  expect(agreement?.value).toBe(0.6);
  expect(agreement?.low).toBeLessThan(independent.low - 0.1);
  expect(agreement?.high).toBeGreaterThan(independent.high + 0.1);
});

it.each([
  [12, 8],
  [30, 5],
])("intervals cover the truth where the judge errs by task: %d tasks, %d cases", (tasks, cases) => {
  const random = randomFrom(tasks);
  const runs = 500;
  const covered = { agreement: 0, kappa: 0, independent: 0 };
  for (let run = 0; run < runs; run += 1) {
    // Half of the cases of a task are passed by people; a judge is right in a share of the cases of each task.
    const confusions = Array.from({ length: tasks }, () => {
      const right = betaSample(1.6, 0.4, random);
      const [good, bad] = [binomial(cases, right, random), binomial(cases, right, random)];
      return counts(good, cases - good, cases - bad, bad);
    });
    const { agreement, kappa } = agreementOf(confusions);
    const total = tasks * cases * 2;
    const alone = wilson((agreement?.value ?? 0) * total, total);
    if (agreement !== undefined && agreement.low <= 0.8 && 0.8 <= agreement.high) covered.agreement += 1;
    if (kappa !== undefined && kappa.low <= 0.6 && 0.6 <= kappa.high) covered.kappa += 1;
    if (alone !== undefined && alone.low <= 0.8 && 0.8 <= alone.high) covered.independent += 1;
  }
  expect(covered.agreement / runs).toBeGreaterThan(0.9);
  expect(covered.kappa / runs).toBeGreaterThan(0.88);
  expect(covered.independent / runs).toBeLessThan(0.85);
});
