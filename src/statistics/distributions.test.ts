import { expect, it } from "vitest";
import { incompleteBeta, logGamma, normalCdf, studentCdf, studentQuantile } from "./distributions.ts";

// Computed with scipy 1.10.1; Student's quantiles with mpmath 1.2 to 30 digits.
it.each([
  [-3, 0.0013498980316300933],
  [-1, 0.15865525393145707],
  [0, 0.5],
  [0.5, 0.6914624612740131],
  [2, 0.9772498680518208],
])("a normal value is at most %d with probability %d", (z, p) => {
  expect(normalCdf(z)).toBeCloseTo(p, 13);
});

it("is right far out", () => {
  expect(normalCdf(-8) / 6.22096057427174e-16).toBeCloseTo(1, 9);
  expect(normalCdf(-4.753424308822899) / 1e-6).toBeCloseTo(1, 9);
});

it.each([
  [1, 12.7062047361747],
  [2, 4.302652729749463],
  [5, 2.570581835636314],
  [30, 2.042272456301238],
  [200, 1.9718962236316093],
])("a quantile of Student's distribution with %d degrees is %d", (degrees, t) => {
  expect(studentQuantile(0.975, degrees)).toBeCloseTo(t, 9);
  expect(studentCdf(t, degrees)).toBeCloseTo(0.975, 12);
  expect(studentCdf(-t, degrees)).toBeCloseTo(0.025, 12);
});

it("has the functions that these are made of", () => {
  expect(studentCdf(1.3, 7)).toBeCloseTo(0.8826160823038114, 12);
  expect(incompleteBeta(0.3, 2.5, 3.5)).toBeCloseTo(0.2967529892956661, 12);
  expect(incompleteBeta(0.001, 0.5, 50)).toBeCloseTo(0.2476309800346232, 12);
  expect([incompleteBeta(0, 1, 1), incompleteBeta(1, 1, 1)]).toEqual([0, 1]);
  expect(logGamma(0.3)).toBeCloseTo(1.0957979948180756, 12);
  expect(logGamma(171.3)).toBeCloseTo(708.1149470389971, 9);
});
