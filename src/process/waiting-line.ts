/** Those who wait for their turn, in order. */
export class WaitingLine {
  readonly #waiting: { readonly go: () => void; readonly fail: (error: unknown) => void }[] = [];

  get length(): number {
    return this.#waiting.length;
  }

  /** Settles at its turn; rejects with the signal's reason when that aborts first, and calls `onLeave`. */
  join(signal: AbortSignal | undefined, onLeave: () => void): Promise<void> {
    return new Promise<void>((resolve, reject) => {
      const leave = (): void => {
        this.#waiting.splice(this.#waiting.indexOf(place), 1);
        onLeave();
        place.fail(signal?.reason);
      };
      const settle = (done: () => void): void => {
        signal?.removeEventListener("abort", leave);
        done();
      };
      const place = {
        go: () => settle(resolve),
        fail: (error: unknown) => settle(() => reject(error)),
      };
      this.#waiting.push(place);
      signal?.addEventListener("abort", leave, { once: true });
    });
  }

  /** It is the turn of the first. */
  next(): void {
    this.#waiting.shift()?.go();
  }

  /** Nobody gets a turn any more. */
  fail(error: unknown): void {
    for (const { fail } of this.#waiting.splice(0)) fail(error);
  }
}
