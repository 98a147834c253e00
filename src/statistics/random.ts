/** Random numbers from 0 to below 1, the same for the same seed: mulberry32 (bryc, public domain). */
export function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** How many of some trials pass. */
export function binomial(trials: number, rate: number, random: () => number): number {
  let passed = 0;
  for (let trial = 0; trial < trials; trial += 1) if (random() < rate) passed += 1;
  return passed;
}

/** A value of the beta distribution (Johnk 1964), for small parameters. */
export function betaSample(a: number, b: number, random: () => number): number {
  for (;;) {
    const [x, y] = [random() ** (1 / a), random() ** (1 / b)];
    if (x + y <= 1 && x + y > 0) return x / (x + y);
  }
}
