/** Time in ticks since the start. */
export class Clock {
  #started = performance.now();

  /** @param {number} tickMs length of a tick in milliseconds */
  constructor(tickMs) {
    this.tickMs = tickMs;
  }

  /** The number of whole ticks that have passed. */
  get tick() {
    return Math.floor((performance.now() - this.#started) / this.tickMs);
  }

  /** Resolves with the next tick. */
  next() {
    const left = this.#started + (this.tick + 1) * this.tickMs - performance.now();
    return new Promise((resolve) => {
      setTimeout(resolve, Math.max(1, left));
    });
  }
}
