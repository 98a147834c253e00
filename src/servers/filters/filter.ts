import type { Emit } from "../../core/trace/events.ts";
import type { WireMessage } from "../wire.ts";

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
export const connectionEnded: unique symbol = Symbol("the connection has ended");
