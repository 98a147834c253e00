import { expect, it } from "vitest";
import { binomial, randomFrom } from "./random.ts";
import { ConfidenceSequence } from "./sequential.ts";

/** Looks after every round until a mean difference from 0 is shown; the number of rounds, undefined: never. */
function roundsUntilDecided(
  { tasks, rates, rounds }: { tasks: number; rates: readonly [number, number]; rounds: number },
  random: () => number,
): number | undefined {
  const sequence = new ConfidenceSequence({ variance: 1 / (8 * tasks), steps: 100 });
  for (let round = 1; round <= rounds; round += 1) {
    const [first, second] = rates.map((rate) => binomial(tasks, rate, random) / tasks);
    sequence.add(((second ?? 0) - (first ?? 0) + 1) / 2);
    const { low, high } = sequence.interval;
    if (low > 0.5 || high < 0.5) return round;
  }
  return undefined;
}

it.each([1, 4, 20])(
  "raises a false alarm in less than 6 %% of runs with a look after each round: %d tasks",
  (tasks) => {
    const random = randomFrom(tasks);
    const runs = 300;
    let alarms = 0;
    for (let run = 0; run < runs; run += 1)
      if (roundsUntilDecided({ tasks, rates: [0.7, 0.7], rounds: 100 }, random) !== undefined) alarms += 1;
    expect(alarms / runs).toBeLessThan(0.06);
  },
);

it("decides a clear difference after few rounds", () => {
  const random = randomFrom(1);
  const rounds = Array.from({ length: 20 }, () =>
    roundsUntilDecided({ tasks: 10, rates: [0.2, 0.9], rounds: 100 }, random),
  );
  expect(rounds.every((each) => each !== undefined && each <= 15)).toBe(true);
});

it("narrows down the mean, and contains it at all times", () => {
  const random = randomFrom(3);
  const sequence = new ConfidenceSequence();
  expect(sequence.interval).toEqual({ low: 0, high: 1 });
  for (let index = 0; index < 500; index += 1) {
    sequence.add(random() < 0.3 ? 1 : 0);
    const { low, high } = sequence.interval;
    expect(low).toBeLessThanOrEqual(0.3);
    expect(high).toBeGreaterThanOrEqual(0.3);
  }
  const { low, high } = sequence.interval;
  expect(high - low).toBeLessThan(0.2);
});
