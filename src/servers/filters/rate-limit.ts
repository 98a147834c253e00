import type { RateLimit } from "../../core/formats/model.ts";
import { type Filter, type FilterContext, requestCancelled } from "./filter-chain.ts";
import { requestOf } from "../messages/json-rpc.ts";

/**
 * Holds requests while the limit is reached. How long a request waited is recorded as `request.held`, also when the client
 * cancelled it.
 */
export function rateLimitFilter(limiter: RateLimiter, { server, client, emit }: FilterContext): Filter {
  const who = { server, ...(client === undefined ? {} : { client }) };
  return {
    fromClient(wire, signal) {
      const request = requestOf(wire.message);
      if (request === undefined) return { kind: "pass", wire };
      const started = performance.now();
      const passing = limiter.pass(signal);
      if (passing === undefined) return { kind: "pass", wire };
      const record = (): void => {
        const heldMs = performance.now() - started;
        emit({ type: "request.held", ...who, id: request.id, heldMs });
      };
      return passing.then(
        () => {
          record();
          return { kind: "pass", wire } as const;
        },
        (reason: unknown) => {
          if (reason === requestCancelled) record();
          throw reason;
        },
      );
    },
  };
}

interface Waiter {
  readonly go: () => void;
}

/** The longest time that a Node timer can wait, in milliseconds. */
const longestTimer = 2 ** 31 - 1;

/**
 * Lets at most `requests` pass in any span of `perMs`; the others wait in order. All agents of a shared server share one. A
 * timer runs only while a request waits.
 */
export class RateLimiter {
  readonly #limit: RateLimit;
  /** When the last `requests` requests passed, oldest first. */
  readonly #passed: number[] = [];
  readonly #waiting: Waiter[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(limit: RateLimit) {
    this.#limit = limit;
  }

  /**
   * Undefined when the request passes at once. Else a promise that settles when it passes, and rejects with the signal's reason
   * when that aborts first.
   */
  pass(signal: AbortSignal): Promise<void> | undefined {
    signal.throwIfAborted();
    if (this.#waiting.length === 0 && this.#waitMs() <= 0) {
      this.#note();
      return undefined;
    }
    return new Promise<void>((resolve, reject) => {
      const leave = (): void => {
        this.#waiting.splice(this.#waiting.indexOf(waiter), 1);
        this.#wake();
        reject(signal.reason as Error);
      };
      const waiter: Waiter = {
        go: () => {
          signal.removeEventListener("abort", leave);
          resolve();
        },
      };
      this.#waiting.push(waiter);
      signal.addEventListener("abort", leave, { once: true });
      this.#wake();
    });
  }

  #wake(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    while (this.#waiting.length > 0 && this.#waitMs() <= 0) {
      this.#note();
      this.#waiting.shift()?.go();
    }
    if (this.#waiting.length === 0) return;
    // A timer may fire a little early; then it is set again.
    const ms = Math.min(Math.max(Math.ceil(this.#waitMs()), 1), longestTimer);
    this.#timer = setTimeout(() => this.#wake(), ms);
  }

  #waitMs(): number {
    const [oldest] = this.#passed;
    if (oldest === undefined || this.#passed.length < this.#limit.requests) return 0;
    return oldest + this.#limit.perMs - performance.now();
  }

  #note(): void {
    this.#passed.push(performance.now());
    if (this.#passed.length > this.#limit.requests) this.#passed.shift();
  }
}
