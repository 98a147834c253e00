import type { FetchLike, Transport } from "@modelcontextprotocol/client";
import type { McpvalsError } from "../../core/errors/error.ts";
import type { HttpServerSpec, ServerSpec } from "../../core/formats/model.ts";
import type { Emit } from "../../core/trace/events.ts";
import type { WireMessage } from "../messages/json-rpc.ts";

/**
 * Owns one started or reached server for as long as it serves: the process, where there is one, and every client's
 * channel to it. All clients of a program share its pipes; a server with an address has a session for each client.
 */
export interface ServerHost {
  readonly name: string;
  readonly transport: ServerSpec["transport"];
  /** Aborts with an McpvalsError when the server is lost without being stopped. */
  readonly lost: AbortSignal;
  /**
   * Records what happens to the server as a whole in a trial, from `server.started` on, until the result is called. A server
   * that was there before gets `reused`.
   */
  watch(emit: Emit): () => void;
  /** A recorded connection for a client in this process. Ending it does not end the server. */
  connect(emit: Emit, options?: ConnectOptions): ServerConnection;
  /** A channel for a client outside this process; nothing of it is recorded here. */
  open(listener: ChannelListener): Channel;
  /** How to reach the server itself, for one that has an address. */
  readonly address: HttpAddress | undefined;
  /** Ends the server with its whole process tree, and every channel. Never throws; afterwards nothing is recorded. */
  stop(): Promise<void>;
}

export interface ConnectOptions {
  /**
   * Whether it is an agent's, which gets everything that is meant for all clients. Other clients in this process get it only
   * while they wait for an answer or are alone, so that it is not recorded twice. Default: false.
   */
  readonly agent?: boolean;
  /** Puts a transport between the client and the server; the record has what the client sends and gets. */
  readonly between?: (inner: Transport) => Transport;
}

/** Where a server with an address is, and how requests get there. */
export interface HttpAddress {
  readonly transport: HttpServerSpec["transport"];
  readonly url: URL;
  /** `fetch` with the server's headers and its access token. */
  readonly fetch: FetchLike;
  /** Longest message accepted from the server, in bytes. */
  readonly maxMessageBytes: number;
}

/** A recorded connection to a server, for a client in this process. */
export interface ServerConnection {
  readonly name: string;
  /** The client has to start it. */
  readonly transport: Transport;
  /** Aborts with an McpvalsError when the connection is lost without being stopped. */
  readonly lost: AbortSignal;
  /** What is known about why things go wrong. */
  evidence(): Evidence;
  /** Ends the connection. Never throws; nothing is recorded afterwards. */
  stop(): Promise<void>;
}

export interface Evidence {
  /** The end of the server's stderr. */
  readonly stderrTail?: string;
  /** The first line on stdout that was not a message. */
  readonly firstInvalidLine?: string;
  /** The error status of the last HTTP request, if it had one. */
  readonly httpFailure?: McpvalsError;
}

export interface SendOptions {
  /** Further HTTP headers of a request. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Aborts when the answer is not needed any more: over HTTP this ends the request. */
  readonly signal?: AbortSignal;
}

/** One client's channel to a server. */
export interface Channel {
  /** Settles when the message has been sent; rejects with McpvalsError when the server is gone. */
  send(wire: WireMessage, options?: SendOptions): Promise<void>;
  /** Closes the channel; the server may go on. Nothing is received afterwards. Never throws. */
  close(): Promise<void>;
}

/** Receives what a server sends to one client. */
export interface ChannelListener {
  onMessage(wire: WireMessage): void;
  /**
   * The server closed the channel, or broke it. Called at most once; with the reason, where it concerns this channel and not
   * the host.
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

/** Whether a response says that there is no answer in it, whatever its body is. */
export function isAccepted({ status }: { readonly status: number }): boolean {
  return status === 202 || status === 204;
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
