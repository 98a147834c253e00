import type { IncomingMessage, ServerResponse } from "node:http";
import type { McpvalsError } from "../../core/errors/error.ts";
import type { Emit } from "../../core/trace/events.ts";
import type { ServerHost } from "../connections/host.ts";
import type { Filter, FilterContext } from "../filters/filter-chain.ts";
import type { AgentLink } from "./agent-link.ts";

/** The outer side of the recording gateway: what agents outside this process can reach. */
export interface Gateway {
  /** Opens one server to the agent of one trial. */
  open(route: GatewayRoute): Promise<GatewayEndpoint>;
  /** Ends all exchanges and stops listening. Never throws. */
  close(): Promise<void>;
}

export interface GatewayRoute {
  readonly host: ServerHost;
  /** Records what passes, as the agent sent and got it. */
  readonly emit: Emit;
  /** Makes the filters of one connection, from the client to the server; they are passed in reverse on the way back. */
  readonly filters: (context: FilterContext) => readonly Filter[];
  /**
   * Called when the server did what no exchange with it survives, and the host cannot know: a message that is too large or
   * nested too deeply, a flood, no connection to its address.
   */
  readonly onLost?: (error: McpvalsError) => void;
}

/** Where an agent reaches one server. */
export interface GatewayEndpoint {
  readonly server: string;
  /** Streamable HTTP on loopback; the path holds the trial's secret. */
  readonly url: string;
  /** A program that an agent can start instead, and talk to over stdin and stdout. */
  readonly bridge: BridgeCommand;
  /** Ends the agent's exchanges; nothing of it is recorded afterwards. Never throws. */
  close(): Promise<void>;
}

export interface BridgeCommand {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

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

/** Answers with a JSON-RPC error that belongs to no request, as MCP servers over HTTP do. */
export function answerError(
  response: ServerResponse,
  status: number,
  error: { readonly code: number; readonly message: string },
): void {
  if (response.headersSent || response.destroyed) {
    response.destroy();
    return;
  }
  const body = JSON.stringify({ jsonrpc: "2.0", error, id: null });
  response.writeHead(status, {
    "content-type": "application/json",
    "content-length": Buffer.byteLength(body),
  });
  response.end(body);
}

/** Writes, and waits while the other side reads too slowly; settles too when it has gone. */
export async function writeTo(response: ServerResponse, bytes: Uint8Array | string): Promise<void> {
  if (response.destroyed || response.writableEnded || response.write(bytes)) return;
  await new Promise<void>((resolve) => {
    const done = (): void => {
      response.off("drain", done);
      response.off("close", done);
      resolve();
    };
    response.once("drain", done);
    response.once("close", done);
  });
}
