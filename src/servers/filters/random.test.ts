import { expect, it } from "vitest";
import { randomSequence } from "./faults.ts";

const first = (seed: string, count: number): number[] => {
  const next = randomSequence(seed);
  return Array.from({ length: count }, () => next());
};

it("gives the same numbers for the same seed, and others for another", () => {
  expect(first("0/s/0", 3)).toEqual(first("0/s/0", 3));
  expect(first("0/s/0", 3)).not.toEqual(first("0/s/1", 3));
});

it("gives these numbers, on every machine and in every version", () => {
  expect(first("seed", 3)).toEqual([0.5276006809435785, 0.45600148756057024, 0.6399091784842312]);
});

it("gives numbers from 0 to below 1 that are spread evenly", () => {
  const numbers = first("spread", 100_000);
  expect(Math.min(...numbers.slice(0, 50_000))).toBeGreaterThanOrEqual(0);
  expect(Math.max(...numbers.slice(0, 50_000))).toBeLessThan(1);
  for (let tenth = 0; tenth < 10; tenth += 1) {
    const share = numbers.filter((number) => Math.floor(number * 10) === tenth).length;
    expect(share).toBeGreaterThan(9500);
    expect(share).toBeLessThan(10_500);
  }
});
