import type { ElicitationAnswer, SolutionAction } from "../model/task.ts";
import type { JsonObject } from "../base/json.ts";
import type { Scope } from "../templates/template.ts";
import type { Emit } from "../model/event.ts";
import type { ClientSide, ServerSession } from "../servers/client/session.ts";
import type { GatewayEndpoint } from "../servers/gateway/endpoint.ts";
import type { Hold } from "../process/deadline.ts";
import type { Secret } from "../trace/redact.ts";
import type { SharedLimits } from "../process/adaptive-limit.ts";

/** What an agent gets for one trial. */
export interface AgentContext {
  readonly task: string;
  /** What the user says, in order. Of a simulated user it is known only when the turn before has ended, for what the agent said in it. */
  readonly turns: readonly UserTurn[] | AsyncIterable<UserTurn>;
  /** Of all servers, for a driver that acts inside this process; empty for one that starts a program. */
  readonly sessions: readonly ServerSession[];
  /** Of all servers, for a driver that starts a program; empty for one that acts inside this process. */
  readonly endpoints: readonly GatewayEndpoint[];
  /** Absolute path of the folder that the agent works in. */
  readonly workspace: string;
  /** Adds work to be done when the trial ends, after the servers have stopped, whatever happens until then. */
  readonly defer: (work: () => Promise<void>) => void;
  readonly emit: Emit;
  /** Aborts on the trial's deadline, on interruption and when a server is lost. */
  readonly signal: AbortSignal;
  readonly callTimeoutMs: number;
  /** Stops the trial's time limit until a promise settles. */
  readonly hold: Hold;
  /** What templates in a written plan refer to; absent: a plan has no templates. */
  readonly scope?: Scope;
  /** The task's own solution, for the oracle; absent when it has none. */
  readonly solution?: TaskSolution;
}

/** What the user says in one turn. */
export interface UserTurn {
  readonly user: string;
}

/** How a task can be solved, and what its templates refer to. */
export interface TaskSolution {
  readonly actions: readonly SolutionAction[];
  readonly scope: Scope;
  /** Outputs by step id; those of actions are added. */
  readonly outputs: Map<string, JsonObject>;
}

/**
 * Turns user turns and servers into behaviour. A driver emits `turn.started`, `agent.message` and `turn.finished`
 * for every turn, in order, and asks for the next turn when one has finished; tool calls are recorded by the sessions that it uses. Bad behaviour of the agent is never
 * thrown; an agent that cannot act throws McpvalsError.
 */
export interface AgentDriver {
  /** Whether the agent is a program, which reaches servers over the gateway. */
  readonly reach: "sessions" | "endpoints";
  /** What servers can ask of the agent while it acts; for one that uses sessions. */
  clientSide?(context: ClientSideContext): ClientSide;
  /** Throws McpvalsError when the agent cannot act at all (no key, say); called before any server starts. */
  prepare(): Promise<void>;
  run(context: AgentContext): Promise<void>;
}

/** What an agent's answers to servers come from. */
export interface ClientSideContext {
  readonly emit: Emit;
  readonly workspace: string;
  readonly elicitation: readonly ElicitationAnswer[];
}

export interface AgentOptions {
  /** Variables that models may take their keys and base URLs from. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Longest that one request to a model may take, in milliseconds. */
  readonly modelMs: number;
  /** Of the run; absent: requests to models are sent whatever others wait for. */
  readonly accounts?: SharedLimits;
  /** Has a secret removed from everything that is recorded from then on. */
  readonly onSecret?: (secret: Secret) => void;
  /** Version of mcpvals, for agent programs. */
  readonly version: string;
}
