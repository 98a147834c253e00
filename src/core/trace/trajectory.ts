import type { Fault, Json, JsonObject, Task } from "../formats/model.ts";
import type { Trial } from "../plan/plan.ts";
import type { EventOf, Phase, TraceEvent, TurnEnd, Usage } from "./events.ts";

/** A tool as its server declared it in `tools/list`. */
export interface ToolDeclaration {
  readonly server: string;
  readonly name: string;
  readonly outputSchema?: Json;
}

/** Why a tool call gave no result. */
export interface CallError {
  /** `protocol`: a JSON-RPC error. `rejected`: no server has such a tool. `no-response`: never answered, or with neither result nor error. */
  readonly kind: "protocol" | "rejected" | "no-response";
  readonly message: string;
}

/** One tool call, joined from the request and the response on the wire. */
export interface ToolCall {
  /** null when no server offers the tool. */
  readonly server: string | null;
  readonly tool: string;
  readonly args: Json;
  /** What the newest list of the server that has the tool says of it, as of the call; absent: it was never listed. */
  readonly declared?: readonly ToolDeclaration[];
  /** The agent's own connection that it came over; absent: ours. */
  readonly client?: string;
  /** Number of the turn, counting from 0, or the id of the step that made the call. */
  readonly turn?: number;
  readonly step?: string;
  /** True for a call of a step's attempt that was tried again. */
  readonly superseded: boolean;
  /** Number of the request's event. */
  readonly seq: number;
  /** What went wrong with it on purpose. */
  readonly fault?: Fault["kind"];
  /** Number of the response's event. */
  readonly responseSeq?: number;
  readonly latencyMs?: number;
  /** The `CallToolResult`, as received. */
  readonly result?: JsonObject;
  readonly error?: CallError;
  readonly httpStatus?: number;
}

/** A user turn as it went. */
export interface TurnView {
  readonly turn: number;
  readonly user: string;
  readonly messages: readonly EventOf<"agent.message">[];
  readonly calls: readonly ToolCall[];
  readonly reason?: TurnEnd;
}

/** A step with its last attempt. */
export interface StepView {
  readonly step: string;
  readonly phase: Phase;
  /** The step that it belongs to; absent for a phase's own steps. */
  readonly parent?: string;
  readonly attempts: readonly EventOf<"step.finished">[];
  readonly last?: EventOf<"step.finished">;
}

/** A read-only view of one trial's events. */
export interface Trajectory {
  readonly trial: Trial;
  readonly task: Task;
  readonly events: readonly TraceEvent[];
  readonly turns: readonly TurnView[];
  readonly calls: readonly ToolCall[];
  readonly steps: readonly StepView[];
  readonly tools: readonly ToolDeclaration[];
  readonly usage?: Usage;
  readonly warnings: readonly string[];
}
