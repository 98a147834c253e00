import type { JsonObject, SolutionAction, Turn } from "../core/formats/model.ts";
import type { Scope } from "../core/templates/scope.ts";
import type { Emit } from "../core/trace/events.ts";
import type { ServerSession } from "../servers/session.ts";

/** What an agent gets for one trial. */
export interface AgentContext {
  readonly task: string;
  readonly turns: readonly Turn[];
  readonly sessions: readonly ServerSession[];
  readonly emit: Emit;
  /** Aborts on the trial's deadline, on interruption and when a server is lost. */
  readonly signal: AbortSignal;
  readonly callTimeoutMs: number;
  /** The task's own solution, for who is to play it; absent when it has none. */
  readonly solution?: TaskSolution;
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
 * for every turn, in order; tool calls are recorded by the sessions that it uses. What the agent does badly is
 * behaviour and never thrown; an agent that cannot act throws McpvalsError.
 */
export interface AgentDriver {
  /** Throws McpvalsError when the agent cannot act at all (no key, say); called before any server starts. */
  prepare(): Promise<void>;
  run(context: AgentContext): Promise<void>;
}
