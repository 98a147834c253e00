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

/** One client's exchange of messages with a server. */
export interface Channel {
  /** Settles when the message was handed over; rejects with McpvalsError when the server is gone. */
  send(wire: WireMessage): Promise<void>;
  /** Ends this client's exchange; the server may go on. Nothing is received any more. Never throws. */
  close(): Promise<void>;
}

/** Who hears what a server says to one client. */
export interface ChannelListener {
  onMessage(wire: WireMessage): void;
  /**
   * The server ended the exchange, or cannot go on with it. Called at most once; with the reason, where it is one of this
   * exchange and not of the host.
   */
  onClosed(reason?: McpvalsError): void;
}
