import type { FetchLike, Transport } from "@modelcontextprotocol/client";
import type { HttpServerSpec, ServerSpec } from "../../core/formats/model.ts";
import type { Emit } from "../../core/trace/events.ts";
import type { ServerConnection } from "../connection.ts";
import type { Channel, ChannelListener } from "../wire.ts";

/**
 * Owns one started or reached server for as long as it serves: the process, where there is one, and every client's
 * exchange with it. A program serves all of them over its one pair of pipes; a server with an address gets a session a
 * client.
 */
export interface ServerHost {
  readonly name: string;
  readonly transport: ServerSpec["transport"];
  /** Aborts with an McpvalsError when the server is lost without our asking. */
  readonly lost: AbortSignal;
  /**
   * Has everything that happens to the server as a whole recorded in a trial, from `server.started` on, until the result
   * is called. A server that was there before gets `reused`.
   */
  watch(emit: Emit): () => void;
  /** A recorded connection for a client in this process. Ending it does not end the server. */
  connect(emit: Emit, options?: ConnectOptions): ServerConnection;
  /** An exchange for a client elsewhere; nothing of it is recorded here. */
  open(listener: ChannelListener): Channel;
  /** How to reach the server itself, for one that has an address. */
  readonly address: HttpAddress | undefined;
  /** Ends the server with its whole process tree, and every exchange. Never throws; afterwards nothing is recorded. */
  stop(): Promise<void>;
}

export interface ConnectOptions {
  /**
   * Whether it is an agent's, which hears everything that is meant for all clients; ours hears it only while it waits for
   * an answer or nobody else is there, so that it is not recorded twice. Default: false.
   */
  readonly agent?: boolean;
  /** Puts something between the client and the server; the record has what the client sends and gets. */
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
