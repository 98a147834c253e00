/** The reason of a filter's signal when the client took its request back. */
export const requestCancelled: unique symbol = Symbol("the client cancelled the request");

/** The reason of a filter's signal when the connection has ended. */
export const connectionEnded: unique symbol = Symbol("the connection has ended");
