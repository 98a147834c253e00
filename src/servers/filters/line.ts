import type { Passage } from "./filter.ts";

/** Does what the filters decided: hands the message on, to the one side or the other, or cuts the connection. */
export type HandOver = (passage: Passage) => void | Promise<void>;

/**
 * How a message stands in line. `holdable`: others may overtake it while it is held. `free`: it overtakes such ones, and
 * nothing else. `strict`: it overtakes nothing.
 */
export type Place = "holdable" | "free" | "strict";

interface Joining {
  readonly place: Place;
  readonly decide: () => Passage | Promise<Passage>;
  readonly handOver: HandOver;
}

interface Waiting extends Joining {
  readonly resolve: (handedOver: void | Promise<void>) => void;
  readonly reject: (error: unknown) => void;
}

/** The messages of one direction, in order. What is decided at once is handed over at once. */
export class Line {
  readonly #waiting: Waiting[] = [];
  #held = 0;
  #isBlocked = false;

  /** Settles as `handOver` does; rejects with what `decide` throws. */
  join(joining: Joining): Promise<void> {
    return new Promise<void>((resolve, reject) => {
      this.#waiting.push({ ...joining, resolve, reject });
      this.#advance();
    });
  }

  #advance(): void {
    for (;;) {
      const [next] = this.#waiting;
      if (next === undefined || this.#isBlocked || (next.place === "strict" && this.#held > 0)) return;
      this.#waiting.shift();
      this.#serve(next);
    }
  }

  #serve({ place, decide, handOver, resolve, reject }: Waiting): void {
    try {
      const decision = decide();
      if (!(decision instanceof Promise)) return resolve(handOver(decision));
      const release = place === "holdable" ? this.#hold() : this.#block();
      void decision
        .then((passage) => resolve(handOver(passage)))
        .catch(reject)
        .finally(release);
    } catch (error) {
      reject(error);
    }
  }

  #hold(): () => void {
    this.#held += 1;
    return () => {
      this.#held -= 1;
      this.#advance();
    };
  }

  #block(): () => void {
    this.#isBlocked = true;
    return () => {
      this.#isBlocked = false;
      this.#advance();
    };
  }
}
