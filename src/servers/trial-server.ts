import type { GatewayEndpoint } from "./gateway/endpoint.ts";
import type { ServerSession } from "./session.ts";

/** One server as one trial has it. */
export interface TrialServer {
  readonly name: string;
  /** What steps talk over. */
  readonly session: ServerSession;
  /** Aborts with an McpvalsError when the server is lost without our asking. */
  readonly lost: AbortSignal;
  /**
   * What an agent in this process talks over: `session`, or a client of its own where filters stand between the agent and
   * the server.
   */
  agentSession(options: { readonly signal: AbortSignal }): Promise<ServerSession>;
  /** Where an agent outside this process reaches the server; the same one each time. */
  endpoint(): Promise<GatewayEndpoint>;
  /** Ends the agent's ways to the server, so that nothing of an agent that lingers on gets there. Never throws. */
  closeAgentSide(): Promise<void>;
  /**
   * Settles when a program has shown that it outlived its last answer, or is lost; see `ServerSession.checkAlive`. Never
   * throws.
   */
  checkAlive(): Promise<void>;
  /** Ends the trial's part; the server itself when it serves no other trial. Never throws. */
  stop(): Promise<void>;
}
