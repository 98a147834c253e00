/** The largest share of its capital that a bet may lose. */
const maxStake = 0.9;

/**
 * A confidence sequence for the mean of values between 0 and 1, by betting (Waudby-Smith and Ramdas 2024, "Estimating means of bounded random variables by
 * betting", the hedged capital process with predictable plug-in bets). Its interval holds for all times at once: however often one looks, the
 * probability that the true mean is ever outside of it is at most `alpha`.
 */
export class ConfidenceSequence {
  readonly #alpha: number;
  /** Means that are not excluded; a grid, of which the logarithms of both capitals are kept. */
  readonly #grid: readonly number[];
  readonly #up: Float64Array;
  readonly #down: Float64Array;
  readonly #excluded: Uint8Array;
  #count = 0;
  #sum = 0.5;
  /** Of squared distances from the running mean, begun with the variance that is expected. */
  #squares: number;

  /**
   * `variance` is what the values are expected to have: it decides how soon small differences are seen, not whether the interval is
   * right. `steps`: into how many the means from 0 to 1 are divided.
   */
  constructor({ alpha = 0.05, variance = 0.25, steps = 1000 } = {}) {
    this.#alpha = alpha;
    this.#squares = variance;
    this.#grid = Array.from({ length: steps + 1 }, (_, index) => index / steps);
    this.#up = new Float64Array(steps + 1);
    this.#down = new Float64Array(steps + 1);
    this.#excluded = new Uint8Array(steps + 1);
  }

  /** Adds a value from 0 to 1. */
  add(value: number): void {
    const time = this.#count + 1;
    // The bet only knows the values before this one.
    const variance = this.#squares / time;
    const bet = Math.sqrt((2 * Math.log(2 / this.#alpha)) / (variance * time * Math.log(time + 1)));
    for (const [index, mean] of this.#grid.entries()) {
      const up = Math.min(bet, mean === 0 ? bet : maxStake / mean);
      const down = Math.min(bet, mean === 1 ? bet : maxStake / (1 - mean));
      const [gain, loss] = [1 + up * (value - mean), 1 - down * (value - mean)];
      this.#up[index] = (this.#up[index] ?? 0) + Math.log(gain);
      this.#down[index] = (this.#down[index] ?? 0) + Math.log(loss);
      const capital = Math.max(this.#up[index] ?? 0, this.#down[index] ?? 0) + Math.log(0.5);
      if (capital >= Math.log(1 / this.#alpha)) this.#excluded[index] = 1;
    }
    this.#count = time;
    this.#sum += value;
    this.#squares += (value - this.#sum / (time + 1)) ** 2;
  }

  /** The means that were never excluded; of a single one that is left, both ends. */
  get interval(): { readonly low: number; readonly high: number } {
    const low = this.#excluded.indexOf(0);
    const high = this.#excluded.lastIndexOf(0);
    // Values that differ from what is possible with any mean exclude all: then the last estimate is what is left.
    if (low === -1) return { low: this.#sum / (this.#count + 1), high: this.#sum / (this.#count + 1) };
    const step = 1 / (this.#grid.length - 1);
    return { low: Math.max(0, (low - 1) * step), high: Math.min(1, (high + 1) * step) };
  }
}
