import type { SerializedError } from "../errors/error.ts";
import type { Json, JsonObject } from "../formats/model.ts";
import type { Grade, Verdict } from "../grade/grade.ts";

export type Phase = "workspace" | "servers" | "probe" | "setup" | "agent" | "verify" | "cleanup" | "stop";

/** Tokens, as the provider reports them. */
export interface Usage {
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly cacheReadTokens?: number;
  readonly cacheWriteTokens?: number;
  /** Requests to the model that were answered. */
  readonly requests: number;
}

/** One expectation of a step, tried. */
export interface Check {
  readonly name: string;
  readonly passed: boolean;
  readonly expected: Json;
  readonly actual: Json;
  readonly message: string;
  /** It tells what the step did, not what it found: it is no evidence. */
  readonly acted?: true;
  /**
   * It failed without anything having been looked at: the step needs what a failed step would have given, or the shell
   * could not run something. It is a failure all the same, but a `not` must not pass for its sake.
   */
  readonly untried?: true;
}

/** `skipped`: its `if` did not hold. */
export type StepOutcome = "passed" | "failed" | "error" | "timeout" | "skipped";

/** What happened, without its stamp. `mcp.message` is the raw truth; tool calls are a view of it (see trajectory.ts). */
export type EventBody =
  | {
      readonly type: "trial.started";
      readonly task: string;
      readonly agent: string | null;
      readonly attempt: number;
    }
  | { readonly type: "phase.started"; readonly phase: Phase }
  | { readonly type: "phase.finished"; readonly phase: Phase; readonly durationMs: number }
  | {
      readonly type: "server.started";
      readonly server: string;
      readonly transport: string;
      readonly target: string;
      readonly pid?: number;
    }
  | {
      readonly type: "server.ready";
      readonly server: string;
      readonly name: string;
      readonly version: string;
      readonly protocolVersion: string;
      readonly tools: number;
      readonly durationMs: number;
    }
  | { readonly type: "server.stderr"; readonly server: string; readonly text: string }
  | {
      readonly type: "server.output_omitted";
      readonly server: string;
      readonly stream: "stderr" | "stdout";
      readonly bytes: number;
    }
  | { readonly type: "server.invalid_output"; readonly server: string; readonly text: string }
  | {
      readonly type: "server.exited";
      readonly server: string;
      readonly exitCode: number | null;
      readonly signal: string | null;
      readonly expected: boolean;
    }
  | {
      readonly type: "server.stopped";
      readonly server: string;
      readonly by: "stdin" | "SIGTERM" | "SIGKILL" | "already-exited" | "disconnect";
      readonly durationMs: number;
    }
  | {
      readonly type: "mcp.message";
      readonly server: string;
      readonly direction: "client-to-server" | "server-to-client";
      /** The JSON-RPC message as parsed. */
      readonly message: Json;
      /** The text on the wire, when writing the parsed message again would not give the same text and it holds no secret. */
      readonly raw?: string;
    }
  | {
      readonly type: "http.response";
      readonly server: string;
      readonly method: string;
      readonly status: number;
      readonly requestIds: readonly (string | number)[];
    }
  | { readonly type: "agent.started"; readonly agent: string; readonly kind: string; readonly model?: string }
  | { readonly type: "turn.started"; readonly turn: number; readonly user: string }
  | { readonly type: "agent.message"; readonly turn: number; readonly text: string }
  | { readonly type: "turn.finished"; readonly turn: number; readonly reason: "done" | "max-steps" }
  | { readonly type: "tool.rejected"; readonly tool: string; readonly args: Json; readonly reason: string }
  | {
      readonly type: "model.called";
      readonly purpose: "agent" | "judge";
      readonly model: string;
      readonly durationMs: number;
      readonly finishReason: string;
      readonly usage: Usage;
    }
  | {
      readonly type: "model.retried";
      readonly purpose: "agent" | "judge";
      readonly model: string;
      /** Number of the attempt that failed, counting from 1. */
      readonly attempt: number;
      readonly reason: string;
      readonly status?: number;
      readonly delayMs: number;
    }
  | {
      readonly type: "step.started";
      readonly phase: Phase;
      readonly step: string;
      readonly stepType: string;
      readonly name?: string;
      /** The step that it belongs to; absent for a phase's own steps. */
      readonly parent?: string;
      readonly attempt: number;
      /** What the step works with, templates replaced. */
      readonly input: JsonObject;
    }
  | {
      readonly type: "step.finished";
      readonly phase: Phase;
      readonly step: string;
      readonly parent?: string;
      readonly attempt: number;
      readonly outcome: StepOutcome;
      readonly checks: readonly Check[];
      readonly outputs?: JsonObject;
      readonly durationMs: number;
      readonly error?: SerializedError;
      /** Recorded, but it changes no verdict: the step says `continueOnError`, or it belongs to a cleanup. */
      readonly ignored?: true;
    }
  | { readonly type: "workspace.created"; readonly path: string; readonly fixtures: readonly string[] }
  | {
      readonly type: "state.compared";
      /** What differs between before setup and after cleanup; none: everything was restored. */
      readonly differences: readonly string[];
    }
  | {
      readonly type: "trial.finished";
      readonly outcome: TrialOutcome;
      readonly durationMs: number;
      readonly error?: SerializedError;
    }
  | {
      readonly type: "trial.graded";
      readonly verdict: Verdict;
      readonly score: number | null;
      readonly grades: readonly Grade[];
    };

/** How a trial's execution ended; only a completed trial is graded. */
export type TrialOutcome = "completed" | "error" | "timeout" | "interrupted" | "not-started" | "skipped";

export interface EventStamp {
  /** Position in the trial, counting from 1: what grades cite as evidence. */
  readonly seq: number;
  /** Milliseconds since the Unix epoch, with a fraction; differences are monotonic. */
  readonly at: number;
  /** Id of the trial. */
  readonly trial: string;
}

export type TraceEvent = EventStamp & EventBody;

export type EventOf<T extends EventBody["type"]> = Extract<TraceEvent, { readonly type: T }>;

/** Records an event and gives its number. */
export type Emit = (event: EventBody) => number;
