import type {
  JSONRPCMessage,
  MessageExtraInfo,
  RequestId,
  Transport,
  TransportSendOptions,
} from "@modelcontextprotocol/client";
import type { Emit } from "../../core/trace/events.ts";
import { untilAborted } from "../../process/deadline.ts";
import { RelayTransport } from "../connections/transports.ts";
import { cancelledId, requestOf, type WireMessage } from "../messages/json-rpc.ts";

/** What a filter does with a message. */
export type Passage =
  /** It goes on, as it is or changed. */
  | { readonly kind: "pass"; readonly wire: WireMessage }
  /** The client gets this answer and the server never hears of the request. Only from `fromClient`. */
  | { readonly kind: "answer"; readonly wire: WireMessage }
  /** Nobody hears of it any more. */
  | { readonly kind: "drop" }
  /** The client's connection is cut. */
  | { readonly kind: "disconnect" };

/** Stands between one client and one server, in one trial; sees every message in order, and may keep it waiting. */
export interface Filter {
  fromClient?(wire: WireMessage, signal: AbortSignal): Passage | Promise<Passage>;
  fromServer?(wire: WireMessage, signal: AbortSignal): Passage | Promise<Passage>;
}

/** What filters record, and of whom. */
export interface FilterContext {
  readonly server: string;
  /** The agent's own connection; absent: a client in this process. */
  readonly client?: string;
  readonly emit: Emit;
}

/** The reason of a filter's signal when the client took its request back. */
export const requestCancelled: unique symbol = Symbol("the client cancelled the request");

/** The reason of a filter's signal when the connection has ended. */
const connectionEnded: unique symbol = Symbol("the connection has ended");

/** The filters of one connection at work. */
export interface FilterRun {
  /**
   * Takes a message of the client. `handOver` is called once, when it is decided what becomes of the message, and in the
   * order of the messages; only a request that a filter holds is overtaken, and by no notification but the one that takes
   * a request back. A request that is taken back while it is held is dropped. The promise settles as that of `handOver`
   * does.
   */
  fromClient(wire: WireMessage, handOver: HandOver): Promise<void>;
  /** Takes a message of the server; none overtakes another. */
  fromServer(wire: WireMessage, handOver: HandOver): Promise<void>;
  /** Ends the connection: whatever waits is dropped, and so is what comes later. No timer is left. */
  close(): void;
}

/** Puts filters, in the order from the client to the server, to work on one connection. */
export function runFilters(filters: readonly Filter[]): FilterRun {
  return new FilterChain(filters);
}

class FilterChain implements FilterRun {
  readonly #filters: readonly Filter[];
  readonly #fromClient = new Line();
  readonly #fromServer = new Line();
  readonly #connection = new AbortController();
  /** Requests of the client that have not been handed over. */
  readonly #waiting = new Map<RequestId, AbortController>();
  /** Requests of the client that the server never hears of. */
  readonly #unheard = new Set<RequestId>();

  constructor(filters: readonly Filter[]) {
    this.#filters = filters;
  }

  fromClient(wire: WireMessage, handOver: HandOver): Promise<void> {
    const request = requestOf(wire.message);
    if (request !== undefined) return this.#fromClientRequest(request.id, wire, handOver);
    const cancelled = cancelledId(wire.message);
    const signal = cancelled !== undefined && this.#takeBack(cancelled) ? gone : this.#connection.signal;
    const place = placeOf(wire.message, cancelled);
    const decide = decision(signal, () => outward(this.#filters, { wire, signal }));
    return this.#fromClient.join({ place, decide, handOver });
  }

  fromServer(wire: WireMessage, handOver: HandOver): Promise<void> {
    const { signal } = this.#connection;
    const decide = decision(signal, () => inward(this.#filters, { wire, signal }));
    return this.#fromServer.join({ place: "strict", decide, handOver });
  }

  close(): void {
    this.#connection.abort(connectionEnded);
    for (const controller of this.#waiting.values()) controller.abort(connectionEnded);
  }

  #fromClientRequest(id: RequestId, wire: WireMessage, handOver: HandOver): Promise<void> {
    const controller = new AbortController();
    if (this.#connection.signal.aborted) controller.abort(connectionEnded);
    this.#unheard.delete(id);
    this.#waiting.set(id, controller);
    const { signal } = controller;
    return this.#fromClient.join({
      place: "holdable",
      decide: decision(signal, () => outward(this.#filters, { wire, signal })),
      handOver: (passage) => {
        if (this.#waiting.get(id) === controller) this.#waiting.delete(id);
        if (passage.kind !== "pass") this.#unheard.add(id);
        return handOver(passage);
      },
    });
  }

  /** Whether the server never hears of a request that is taken back, so that it need not hear of that either. */
  #takeBack(id: RequestId): boolean {
    const controller = this.#waiting.get(id);
    controller?.abort(requestCancelled);
    return controller !== undefined || this.#unheard.delete(id);
  }
}

/** A notification stays behind what came before it; answers, and what takes a request back, need not. */
function placeOf(message: JSONRPCMessage, cancelled: RequestId | undefined): Place {
  return "method" in message && cancelled === undefined ? "strict" : "free";
}

const gone = AbortSignal.abort(requestCancelled);
const dropped: Passage = { kind: "drop" };

/** What becomes of a message; it is dropped when the signal aborts first. */
function decision(
  signal: AbortSignal,
  ask: () => Passage | Promise<Passage>,
): () => Passage | Promise<Passage> {
  return () => {
    if (signal.aborted) return dropped;
    const passage = ask();
    return passage instanceof Promise ? unlessAborted(passage, signal) : passage;
  };
}

async function unlessAborted(deciding: Promise<Passage>, signal: AbortSignal): Promise<Passage> {
  try {
    const passage = await untilAborted(deciding, signal);
    return signal.aborted ? dropped : passage;
  } catch (error) {
    if (signal.aborted) return dropped;
    throw error;
  }
}

interface Passing {
  readonly wire: WireMessage;
  readonly signal: AbortSignal;
}

/** Asks the filters from `index` on, towards the server. An answer of one goes back through those before it. */
function outward(
  filters: readonly Filter[],
  { wire, signal }: Passing,
  index = 0,
): Passage | Promise<Passage> {
  const filter = filters[index];
  if (filter === undefined) return { kind: "pass", wire };
  const go = (passage: Passage): Passage | Promise<Passage> => {
    if (passage.kind === "pass") return outward(filters, { wire: passage.wire, signal }, index + 1);
    if (passage.kind !== "answer") return passage;
    return then(inward(filters.slice(0, index), { wire: passage.wire, signal }), asAnswer);
  };
  return then(filter.fromClient?.(wire, signal) ?? { kind: "pass", wire }, go);
}

/** Asks the filters before `end`, the last one first, towards the client. */
function inward(
  filters: readonly Filter[],
  { wire, signal }: Passing,
  end = filters.length,
): Passage | Promise<Passage> {
  const filter = filters[end - 1];
  if (filter === undefined) return { kind: "pass", wire };
  return then(filter.fromServer?.(wire, signal) ?? { kind: "pass", wire }, (passage) =>
    passage.kind === "pass" ? inward(filters, { wire: passage.wire, signal }, end - 1) : passage,
  );
}

function asAnswer(passage: Passage): Passage {
  return passage.kind === "pass" ? { kind: "answer", wire: passage.wire } : passage;
}

/** At once where the value is there, so that messages which nothing holds are never late. */
function then(
  passage: Passage | Promise<Passage>,
  use: (passage: Passage) => Passage | Promise<Passage>,
): Passage | Promise<Passage> {
  return passage instanceof Promise ? passage.then(use) : use(passage);
}

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
class Line {
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

/**
 * Puts filters between a client in this process and a server. A record of what the client sent and got stands on the
 * client's side of it. A filter that cuts the connection closes the transport, so that whatever the client waits for fails.
 */
export class FilterTransport extends RelayTransport {
  readonly #filters: FilterRun;

  /** @param filters From the client to the server. */
  constructor(inner: Transport, filters: readonly Filter[]) {
    super(inner);
    this.#filters = runFilters(filters);
    const onclose = (): void => {
      this.#filters.close();
      this.onclose?.();
    };
    Object.assign(inner, { onclose } satisfies Partial<Transport>);
  }

  /** Settles when the server has been sent the message, or never will be. */
  override send(message: JSONRPCMessage, options?: TransportSendOptions): Promise<void> {
    return this.#filters.fromClient(lazyWire(message), (passage) => {
      switch (passage.kind) {
        case "pass":
          return super.send(passage.wire.message, options);
        case "answer":
          return super.receive(passage.wire.message);
        case "disconnect":
          return this.close();
        case "drop":
          return undefined;
      }
    });
  }

  override close(): Promise<void> {
    this.#filters.close();
    return super.close();
  }

  protected override receive(message: JSONRPCMessage, extra?: MessageExtraInfo): void {
    const passing = this.#filters.fromServer(lazyWire(message), (passage) => {
      switch (passage.kind) {
        case "pass":
        case "answer":
          return super.receive(passage.wire.message, extra);
        case "disconnect":
          return this.close();
        case "drop":
          return undefined;
      }
    });
    passing.catch((error: unknown) =>
      this.onerror?.(error instanceof Error ? error : new Error(String(error))),
    );
  }
}

/** In this process the message is passed on, and its text is hardly ever asked for. */
function lazyWire(message: JSONRPCMessage): WireMessage {
  return {
    message,
    get text() {
      return JSON.stringify(message);
    },
  };
}
