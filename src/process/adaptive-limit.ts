import { WaitingLine } from "./waiting-line.ts";

/** The limits of a run, by whose they are, and how many trials run at once. */
export interface SharedLimits {
  readonly most: number;
  readonly limits: Map<string, AdaptiveLimit>;
  /** Present: a pause holds on other machines, too. */
  readonly pauseOf?: ((key: string) => SharedPause) | undefined;
}

/** A time in which no machine sends a request. */
export interface SharedPause {
  /** How many milliseconds of it are left. Rejects with the signal's reason. */
  leftMs(signal: AbortSignal | undefined): Promise<number>;
  /** Begins one, or makes it longer. */
  begin(ms: number): void;
}

/** The limit that all requests with the same key share. */
export function sharedLimit({ most, limits, pauseOf }: SharedLimits, key: string): AdaptiveLimit {
  const limit = limits.get(key) ?? new AdaptiveLimit(most, pauseOf?.(key));
  limits.set(key, limit);
  return limit;
}

/** A change of how many requests may be sent at once. */
export interface LimitChange {
  readonly from: number;
  readonly to: number;
}

/** What a request waits for: a place among so many, or the end of a time that was asked for. */
export interface LimitWait {
  readonly limit?: number;
  readonly delayMs?: number;
}

/** What remains of a limit after a refusal, and what it grows by after a round of answers (as in Inspect AI). */
const cut = 0.8;
const growth = 1.05;
/** Refusals in this time have one cause, and cut the limit once. */
const episodeMs = 15_000;

/**
 * How many requests to an account of a model's provider, or to a server, may be sent at once. There is no limit until a request is
 * refused as one too many: then it is a share of `most`, and it grows again until there is none. Waiting requests are sent in order.
 */
export class AdaptiveLimit {
  readonly #most: number;
  /** As many as the whole part says. At `most` there is no limit. */
  #limit: number;
  #sent = 0;
  /** Answers since the limit changed, or the last refusal. */
  #answers = 0;
  #lastCut = -Infinity;
  #closedUntil = -Infinity;
  readonly #line = new WaitingLine();
  readonly #shared: SharedPause | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(most: number, shared?: SharedPause) {
    this.#most = most;
    this.#limit = most;
    this.#shared = shared;
  }

  /**
   * Undefined when a request may be sent at once. Else what it waits for, and a promise that settles when it may be sent, and rejects
   * with the signal's reason when that aborts first. {@link answered}, {@link refused} or {@link ended} has to follow.
   */
  enter(signal?: AbortSignal): (LimitWait & { readonly waiting: Promise<void> }) | undefined {
    signal?.throwIfAborted();
    if (this.#line.length === 0 && this.#isOpen()) {
      this.#sent += 1;
      return undefined;
    }
    const delayMs = Math.ceil(this.#closedUntil - performance.now());
    const why = delayMs > 0 ? { delayMs } : { limit: Math.floor(this.#limit) };
    const waiting = this.#line.join(signal, () => this.#wake());
    this.#wake();
    return { ...why, waiting };
  }

  /**
   * Of a request that may be sent: whether it may not after all, since a request of another machine was refused. Then it has ended here,
   * and has to enter again. Rejects with the signal's reason.
   */
  async isPausedElsewhere(signal?: AbortSignal): Promise<boolean> {
    if (this.#shared === undefined) return false;
    try {
      const leftMs = await this.#shared.leftMs(signal);
      if (leftMs <= 0) return false;
      this.#closedUntil = Math.max(this.#closedUntil, performance.now() + leftMs);
    } catch (error) {
      this.ended();
      throw error;
    }
    this.ended();
    return true;
  }

  /** A request has ended, which says nothing of the limit. */
  ended(): void {
    this.#sent -= 1;
    this.#wake();
  }

  /** A request was answered at its first attempt. */
  answered(): LimitChange | undefined {
    this.#answers += 1;
    const isRound = this.#limit < this.#most && this.#answers >= Math.floor(this.#limit);
    const change = isRound ? this.#change(Math.min(this.#limit * growth, this.#most)) : undefined;
    this.ended();
    return change;
  }

  /** A request was refused as one too many. No request is sent before `delayMs` milliseconds have passed, if any. */
  refused(delayMs = 0): LimitChange | undefined {
    const now = performance.now();
    this.#answers = 0;
    if (delayMs > 0) {
      this.#closedUntil = Math.max(this.#closedUntil, now + delayMs);
      this.#shared?.begin(delayMs);
    }
    const isNew = now - this.#lastCut >= episodeMs;
    if (isNew) this.#lastCut = now;
    const change = isNew ? this.#change(Math.max(this.#limit * cut, 1)) : undefined;
    this.ended();
    return change;
  }

  #change(limit: number): LimitChange | undefined {
    const [from, to] = [Math.floor(this.#limit), Math.floor(limit)];
    this.#limit = limit;
    this.#answers = 0;
    return from === to ? undefined : { from, to };
  }

  #isOpen(): boolean {
    const isFree = this.#limit >= this.#most || this.#sent < Math.floor(this.#limit);
    // A timer may fire a little early.
    return isFree && performance.now() > this.#closedUntil - 1;
  }

  #wake(): void {
    clearTimeout(this.#timer);
    while (this.#line.length > 0 && this.#isOpen()) {
      this.#sent += 1;
      this.#line.next();
    }
    const delayMs = Math.ceil(this.#closedUntil - performance.now());
    if (this.#line.length > 0 && delayMs > 0) this.#timer = setTimeout(() => this.#wake(), delayMs);
  }
}
