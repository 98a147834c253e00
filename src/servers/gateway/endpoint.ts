import type { McpvalsError } from "../../core/errors/error.ts";
import type { Emit } from "../../core/trace/events.ts";
import type { Filter, FilterContext } from "../filters/filter.ts";
import type { ServerHost } from "../hosts/host.ts";

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
