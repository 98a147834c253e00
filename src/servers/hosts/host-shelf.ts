import type { RateLimiter } from "../filters/rate-limit.ts";
import type { ServerHost } from "./host.ts";

/** A host that serves more than one trial. */
export interface SharedHost {
  /** Rejects when it cannot be opened. */
  readonly opening: Promise<ServerHost>;
  /** Counts the requests of all agents that the host serves; absent: nothing is limited. */
  readonly limiter: RateLimiter | undefined;
}

/** Where a host stands: who asks with the same key gets the same one. */
export interface ShelfPlace {
  readonly key: string;
  /** Those of a group are stopped when the group has ended; absent: all at the end. */
  readonly group?: string;
}

interface Shelved extends SharedHost {
  readonly place: ShelfPlace;
  users: number;
  /** Nobody gets it any more. */
  dropped: boolean;
}

/** Keeps hosts that are shared: each is opened once, by who asks first, and goes when the last one has given it back. */
export class HostShelf {
  readonly #current = new Map<string, Shelved>();
  readonly #all = new Set<Shelved>();

  /** Takes the host of a place, or opens one; it has to be given back. One that is lost is replaced for who asks next. */
  take(place: ShelfPlace, open: () => SharedHost): SharedHost {
    const there = this.#current.get(place.key);
    const shelved = there ?? this.#put(place, open());
    shelved.users += 1;
    return shelved;
  }

  /** Gives a host to nobody any more, because it is of no use. */
  drop(shared: SharedHost): void {
    const shelved = this.#find(shared);
    if (shelved === undefined) return;
    shelved.dropped = true;
    if (this.#current.get(shelved.place.key) === shelved) this.#current.delete(shelved.place.key);
  }

  /** Ends a use; the host ends with the last use when it was dropped. Never throws. */
  async giveBack(shared: SharedHost): Promise<void> {
    const shelved = this.#find(shared);
    if (shelved === undefined) return;
    shelved.users -= 1;
    if (shelved.dropped && shelved.users === 0) await this.#stop(shelved);
  }

  /** Ends the hosts of a group that nobody uses, and lets the others end with their last use. Never throws. */
  async endGroup(group: string): Promise<void> {
    const ending = [...this.#all].filter((shelved) => shelved.place.group === group);
    for (const shelved of ending) this.drop(shelved);
    await Promise.all(ending.filter(({ users }) => users === 0).map((shelved) => this.#stop(shelved)));
  }

  /** Ends all hosts. Never throws. */
  async close(): Promise<void> {
    this.#current.clear();
    await Promise.all([...this.#all].map((shelved) => this.#stop(shelved)));
  }

  #put(place: ShelfPlace, shared: SharedHost): Shelved {
    const shelved: Shelved = { ...shared, place, users: 0, dropped: false };
    this.#current.set(place.key, shelved);
    this.#all.add(shelved);
    shared.opening.then(
      ({ lost }) => lost.addEventListener("abort", () => this.drop(shelved), { once: true }),
      () => this.drop(shelved),
    );
    return shelved;
  }

  async #stop(shelved: Shelved): Promise<void> {
    this.#all.delete(shelved);
    const [opened] = await Promise.allSettled([shelved.opening]);
    // Who asked for one that did not open was told why.
    if (opened.status === "fulfilled") await opened.value.stop();
  }

  #find(shared: SharedHost): Shelved | undefined {
    return [...this.#all].find((shelved) => shelved === shared);
  }
}
