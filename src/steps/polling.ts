import type { Step } from "../core/formats/step.ts";
import type { Check } from "../core/trace/events.ts";

/** How often a step that has to stay true is looked at, unless `retry.every` says. */
const defaultEveryMs = 1000;

type Polled = Pick<Step, "retry" | "retries" | "stableForMs">;

/** Tells after each attempt of a step whether there is to be another one, and when. Times are in milliseconds. */
export class Polling {
  readonly #step: Polled;
  readonly #started: number;
  #attempts = 0;
  #passingSince: number | undefined;

  constructor(step: Polled, now: number) {
    this.#step = step;
    this.#started = now;
  }

  /** `next`: how long to wait for the next attempt; undefined after the last. `check`: what is to be said of stability. */
  after(passed: boolean, now: number): { readonly next: number | undefined; readonly check?: Check } {
    this.#attempts += 1;
    return passed ? this.#afterPass(now) : this.#afterFailure(now);
  }

  #afterPass(now: number): { readonly next: number | undefined; readonly check?: Check } {
    const { stableForMs } = this.#step;
    if (stableForMs === undefined) return { next: undefined };
    this.#passingSince ??= now;
    const held = now - this.#passingSince;
    if (held >= stableForMs) return { next: undefined, check: stable(stableForMs, held, true) };
    return { next: Math.min(this.#everyMs, stableForMs - held) };
  }

  #afterFailure(now: number): { readonly next: number | undefined; readonly check?: Check } {
    const { retry, retries = 0, stableForMs } = this.#step;
    const since = this.#passingSince;
    this.#passingSince = undefined;
    if (this.#attempts <= retries) return { next: 0 };
    const left = retry === undefined ? 0 : this.#started + retry.forMs - now;
    if (left > 0) return { next: Math.min(this.#everyMs, left) };
    if (since === undefined || stableForMs === undefined) return { next: undefined };
    return { next: undefined, check: stable(stableForMs, now - since, false) };
  }

  get #everyMs(): number {
    return this.#step.retry?.everyMs ?? defaultEveryMs;
  }
}

function stable(expectedMs: number, heldMs: number, passed: boolean): Check {
  const held = Math.round(heldMs);
  const message = passed
    ? `stayed true for ${held} ms`
    : `stayed true for ${held} ms of ${expectedMs} ms only`;
  return { name: "stable", passed, expected: expectedMs, actual: held, message };
}
