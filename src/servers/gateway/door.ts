import type { IncomingMessage, ServerResponse } from "node:http";
import type { McpvalsError } from "../../core/errors/error.ts";
import type { AgentLink } from "./agent-link.ts";

/** One request of an agent's, read to its end. */
export interface HttpExchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly body: Buffer;
  /** Aborts when the agent leaves before it has got everything. */
  readonly signal: AbortSignal;
}

/** How an agent's HTTP gets to one kind of server. */
export interface Door {
  /** Answers a request. Rejects only for a bug of ours. */
  handle(exchange: HttpExchange): Promise<void>;
}

/** What doors need of the endpoint that they belong to. */
export interface Room {
  readonly server: string;
  /** Begins a new connection of an agent's. */
  connect(via: "http" | "bridge"): AgentLink;
  /** The server did what no exchange with it survives. */
  onLost(error: McpvalsError): void;
}
