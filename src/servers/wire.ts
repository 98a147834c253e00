import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import type { McpvalsError } from "../core/errors/error.ts";

/** A JSON-RPC message together with its text, which is what is passed on: writing it again could change its bytes. */
export interface WireMessage {
  readonly message: JSONRPCMessage;
  /** JSON in one line. */
  readonly text: string;
}

/** A message of ours. */
export function wireMessage(message: JSONRPCMessage): WireMessage {
  return { message, text: JSON.stringify(message) };
}

export interface SendOptions {
  /** Further HTTP headers of a request. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Aborts when nobody waits for the answer any more: over HTTP the request is ended. */
  readonly signal?: AbortSignal;
}

/** One client's exchange of messages with a server. */
export interface Channel {
  /** Settles when the message was handed over; rejects with McpvalsError when the server is gone. */
  send(wire: WireMessage, options?: SendOptions): Promise<void>;
  /** Ends this client's exchange; the server may go on. Nothing is received any more. Never throws. */
  close(): Promise<void>;
}

/** Receives what a server sends to one client. */
export interface ChannelListener {
  onMessage(wire: WireMessage): void;
  /**
   * The server ended the exchange, or cannot go on with it. Called at most once; with the reason, where it is one of this
   * exchange and not of the host.
   */
  onClosed(reason?: McpvalsError): void;
  /** Called for each HTTP response, before its messages. */
  onResponse?(response: HttpResponseInfo): void;
  /**
   * The HTTP response to a request has no answer in it. Without this method the client gets a JSON-RPC error in place of the
   * answer.
   */
  onNoAnswer?(request: WireMessage, failure: HttpNoAnswer): void;
}

export interface HttpResponseInfo {
  readonly method: string;
  readonly status: number;
  /** Ids of the JSON-RPC requests that it responds to. */
  readonly requestIds: readonly (string | number)[];
}

/** An HTTP response that has no answer to the request in it. */
export class HttpNoAnswer extends Error {
  readonly status: number;
  /** What came instead of an answer; empty for an event stream. */
  readonly body: string;
  /** The error for a status that is one; undefined for other responses. */
  readonly statusError: McpvalsError | undefined;

  constructor(message: string, options: Pick<HttpNoAnswer, "status" | "body" | "statusError">) {
    super(message);
    this.status = options.status;
    this.body = options.body;
    this.statusError = options.statusError;
  }
}
