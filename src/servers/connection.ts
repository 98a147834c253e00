import type { Transport } from "@modelcontextprotocol/client";
import type { McpvalsError } from "../core/errors/error.ts";

/**
 * The connection to one started or reached server, recorded and owned, without a client on top: what a client in this
 * process uses, and what outside agents can be bridged to.
 */
export interface ServerConnection {
  readonly name: string;
  /** Recorded; whoever talks over it has to start it. */
  readonly transport: Transport;
  /** Aborts with an McpvalsError when the connection is lost without our asking. */
  readonly lost: AbortSignal;
  /** What is known about why things go wrong. */
  evidence(): Evidence;
  /** Ends the connection and, where there is one, the process tree. Never throws; nothing is recorded afterwards. */
  stop(): Promise<void>;
}

export interface Evidence {
  /** The end of the server's stderr. */
  readonly stderrTail?: string;
  /** The first line on stdout that was not a message. */
  readonly firstInvalidLine?: string;
  /** How the last HTTP request failed: no connection, or a status that is an error. */
  readonly httpFailure?: McpvalsError;
}
