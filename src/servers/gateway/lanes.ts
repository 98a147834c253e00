/** A client without a session. */
export interface Lane {
  /** Whether a request with that id is on its way. */
  isWaitingFor(id: string | number): boolean;
}

/**
 * The clients of an endpoint that name no session, as 2026-07-28 has none. They are one client, until two requests with the
 * same id are on their way at the same time, which shows that there are two.
 */
export class Lanes<T extends Lane> {
  readonly #create: () => T;
  readonly #lanes: T[] = [];

  constructor(create: () => T) {
    this.#create = create;
  }

  /** Adds a client that turned out to have no session. */
  add(lane: T): void {
    this.#lanes.push(lane);
  }

  /** The client that requests with these ids belong to. */
  pick(ids: readonly (string | number)[]): T {
    const free = this.#lanes.find((lane) => !ids.some((id) => lane.isWaitingFor(id)));
    if (free !== undefined) return free;
    const lane = this.#create();
    this.#lanes.push(lane);
    return lane;
  }

  remove(lane: T): void {
    const index = this.#lanes.indexOf(lane);
    if (index !== -1) this.#lanes.splice(index, 1);
  }
}
