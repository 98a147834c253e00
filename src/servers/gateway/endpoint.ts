import type { ServerResponse } from "node:http";
import type { McpvalsError } from "../../core/errors/error.ts";
import type { Emit } from "../../core/trace/events.ts";
import type { ServerHost } from "../connections/host.ts";
import type { Filter, FilterContext } from "../filters/filter-chain.ts";
import type { AgentConnection, HttpExchange } from "./agent-connection.ts";

/** The outer side of the recording gateway: what agents outside this process can reach. */
export interface Gateway {
  /** Opens one server to the agent of one trial. */
  open(route: GatewayRoute): Promise<GatewayEndpoint>;
  /** Ends all connections and stops listening. Never throws. */
  close(): Promise<void>;
}

export interface GatewayRoute {
  readonly host: ServerHost;
  /** Records messages as the agent sent and got them. */
  readonly emit: Emit;
  /** Creates the filters of one connection, in order from the client to the server. */
  readonly filters: (context: FilterContext) => readonly Filter[];
  /**
   * Called when an agent's connection cannot go on because of the server: a message that is too large or nested too deeply, a
   * flood, no connection to its address.
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
  /** Ends the agent's connections; nothing is recorded afterwards. Never throws. */
  close(): Promise<void>;
}

export interface BridgeCommand {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/** The session that a request names. */
export function sessionOf({ request }: Pick<HttpExchange, "request">): string | undefined {
  const value = request.headers["mcp-session-id"];
  return Array.isArray(value) ? value[0] : value;
}

/** Answers an agent's HTTP requests with one kind of server. */
export interface RequestHandler {
  /** Answers a request. Rejects only for a bug in mcpvals. */
  handle(exchange: HttpExchange): Promise<void>;
}

/** The endpoint, as request handlers use it. */
export interface EndpointContext {
  readonly server: string;
  /** Begins a new connection of the agent. */
  connect(via: "http" | "bridge"): AgentConnection;
}

/** Answers with a JSON-RPC error without an id, as MCP servers over HTTP do. */
export function answerError(response: ServerResponse, status: number, code: number, message: string): void {
  if (response.headersSent || response.destroyed) return void response.destroy();
  const body = JSON.stringify({ jsonrpc: "2.0", error: { code, message }, id: null });
  response.writeHead(status, {
    "content-type": "application/json",
    "content-length": Buffer.byteLength(body),
  });
  response.end(body);
}
