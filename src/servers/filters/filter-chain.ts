import type { Emit } from "../../model/event.ts";
import { untilAborted } from "../../process/deadline.ts";
import { cancelledId, type MessageId, requestOf, type WireMessage } from "../messages/json-rpc.ts";

/** What becomes of a message. */
export type FilterDecision =
  /** It goes on, as it is or changed; of a server's message, after `before`, which the server did not send. */
  | { readonly kind: "pass"; readonly wire: WireMessage; readonly before?: WireMessage }
  /** The client gets this answer and the server never gets the request. Only from `fromClient`. */
  | { readonly kind: "answer"; readonly wire: WireMessage }
  | { readonly kind: "drop" }
  /** The client's connection is cut. */
  | { readonly kind: "disconnect" };

type Pending = FilterDecision | Promise<FilterDecision>;

/** Stands between one client and one server, in one trial; gets every message in order, and may hold it. */
export interface Filter {
  fromClient?(wire: WireMessage, signal: AbortSignal): Pending;
  fromServer?(wire: WireMessage, signal: AbortSignal): Pending;
}

/** What filters record, and of whom. */
export interface FilterContext {
  readonly server: string;
  /** The agent's own connection; absent: a client in this process. */
  readonly client?: string;
  readonly emit: Emit;
  /** Called with the wait of a request that the rate limit holds, which takes none of the client's time. */
  readonly onHeld?: (waiting: Promise<void>) => void;
}

/** Carries a decision out: passes the message on, to the one side or the other, or cuts the connection. */
export type Deliver = (decision: FilterDecision) => void | Promise<void>;

/** The reason of a filter's signal when the client cancelled its request. */
export const requestCancelled: unique symbol = Symbol("the client cancelled the request");
const connectionEnded: unique symbol = Symbol("the connection has ended");

/** The filters of one connection, in order from the client to the server. */
export class FilterChain {
  readonly #filters: readonly Filter[];
  readonly #fromClient = new MessageQueue();
  readonly #fromServer = new MessageQueue();
  readonly #connection = new AbortController();
  /** Requests of the client that are not decided. */
  readonly #held = new Map<MessageId, AbortController>();
  /** Requests of the client that the server never gets. */
  readonly #withheld = new Set<MessageId>();

  constructor(filters: readonly Filter[]) {
    this.#filters = filters;
  }

  /**
   * Takes a message of the client. `deliver` is called once, when it is decided, and in the order of the messages; only a
   * request that a filter holds is overtaken, and by no notification but its cancellation. A request that is cancelled while
   * it is held is dropped. The promise settles as that of `deliver` does.
   */
  fromClient(wire: WireMessage, deliver: Deliver): Promise<void> {
    const request = requestOf(wire.message);
    if (request !== undefined) return this.#clientRequest(request.id, wire, deliver);
    const cancelled = cancelledId(wire.message);
    const signal =
      cancelled !== undefined && this.#cancel(cancelled)
        ? AbortSignal.abort(requestCancelled)
        : this.#connection.signal;
    // A notification stays behind what came before it; answers and cancellations need not.
    const order = "method" in wire.message && cancelled === undefined ? "strict" : "free";
    return this.#fromClient.add({
      order,
      decide: () => unlessAborted(signal, () => this.#outward(wire, signal)),
      deliver,
    });
  }

  /** Takes a message of the server; none overtakes another. */
  fromServer(wire: WireMessage, deliver: Deliver): Promise<void> {
    const { signal } = this.#connection;
    return this.#fromServer.add({
      order: "strict",
      decide: () => unlessAborted(signal, () => this.#inward(wire, signal)),
      deliver,
    });
  }

  /** Ends the connection: held messages are dropped, and so are later ones. No timer is left. */
  close(): void {
    this.#connection.abort(connectionEnded);
    for (const controller of this.#held.values()) controller.abort(connectionEnded);
  }

  #clientRequest(id: MessageId, wire: WireMessage, deliver: Deliver): Promise<void> {
    const controller = new AbortController();
    if (this.#connection.signal.aborted) controller.abort(connectionEnded);
    this.#withheld.delete(id);
    this.#held.set(id, controller);
    const { signal } = controller;
    return this.#fromClient.add({
      order: "holdable",
      decide: () => unlessAborted(signal, () => this.#outward(wire, signal)),
      deliver: (decision) => {
        if (this.#held.get(id) === controller) this.#held.delete(id);
        if (decision.kind !== "pass") this.#withheld.add(id);
        return deliver(decision);
      },
    });
  }

  /** Whether the server never gets a request that is cancelled, so that it must not get the cancellation either. */
  #cancel(id: MessageId): boolean {
    const controller = this.#held.get(id);
    controller?.abort(requestCancelled);
    return controller !== undefined || this.#withheld.delete(id);
  }

  /** Asks the filters from `index` on, towards the server. An answer of one goes back through those before it. */
  #outward(wire: WireMessage, signal: AbortSignal, index = 0): Pending {
    const filter = this.#filters[index];
    if (filter === undefined) return { kind: "pass", wire };
    return then(filter.fromClient?.(wire, signal) ?? { kind: "pass", wire }, (decision) => {
      if (decision.kind === "pass") return this.#outward(decision.wire, signal, index + 1);
      if (decision.kind !== "answer") return decision;
      return then(this.#inward(decision.wire, signal, index), (answer) =>
        answer.kind === "pass" ? { kind: "answer", wire: answer.wire } : answer,
      );
    });
  }

  /** Asks the filters before `end`, the last one first, towards the client. */
  #inward(wire: WireMessage, signal: AbortSignal, end = this.#filters.length): Pending {
    const filter = this.#filters[end - 1];
    if (filter === undefined) return { kind: "pass", wire };
    return then(filter.fromServer?.(wire, signal) ?? { kind: "pass", wire }, (decision) =>
      // Only the first filter, which is the client's, sends messages of its own.
      decision.kind === "pass" && end > 1 ? this.#inward(decision.wire, signal, end - 1) : decision,
    );
  }
}

/** A decision, or to drop the message when the signal aborts first. */
function unlessAborted(signal: AbortSignal, decide: () => Pending): Pending {
  const drop: FilterDecision = { kind: "drop" };
  if (signal.aborted) return drop;
  const decision = decide();
  if (!(decision instanceof Promise)) return decision;
  return untilAborted(decision, signal).then(
    (decided) => (signal.aborted ? drop : decided),
    (error: unknown) => {
      if (signal.aborted) return drop;
      throw error;
    },
  );
}

/** Synchronous where the decision is, so that messages which nothing holds are never delayed. */
function then(decision: Pending, use: (decision: FilterDecision) => Pending): Pending {
  return decision instanceof Promise ? decision.then(use) : use(decision);
}

interface QueuedMessage {
  /**
   * `holdable`: others may overtake it while it is held. `free`: it overtakes held ones, and nothing else. `strict`: it
   * overtakes nothing.
   */
  readonly order: "holdable" | "free" | "strict";
  readonly decide: () => Pending;
  readonly deliver: Deliver;
}

/** The messages of one direction, in order. What is decided synchronously is delivered synchronously. */
class MessageQueue {
  readonly #waiting: (QueuedMessage & PromiseWithResolvers<void>)[] = [];
  #held = 0;
  #isBlocked = false;

  /** Settles as `deliver` does; rejects with what `decide` throws. */
  add(message: QueuedMessage): Promise<void> {
    const settled = Promise.withResolvers<void>();
    this.#waiting.push({ ...message, ...settled });
    this.#advance();
    return settled.promise;
  }

  #advance(): void {
    for (;;) {
      const [next] = this.#waiting;
      if (next === undefined || this.#isBlocked || (next.order === "strict" && this.#held > 0)) return;
      this.#waiting.shift();
      this.#process(next);
    }
  }

  #process({ order, decide, deliver, resolve, reject }: QueuedMessage & PromiseWithResolvers<void>): void {
    try {
      const decision = decide();
      if (!(decision instanceof Promise)) return resolve(deliver(decision));
      if (order === "holdable") this.#held += 1;
      else this.#isBlocked = true;
      void decision
        .then((decided) => resolve(deliver(decided)))
        .catch(reject)
        .finally(() => {
          if (order === "holdable") this.#held -= 1;
          else this.#isBlocked = false;
          this.#advance();
        });
    } catch (error) {
      reject(error);
    }
  }
}
