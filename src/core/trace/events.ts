import type { SerializedError } from "../errors/error.ts";
import type { Fault, Json, JsonObject } from "../formats/model.ts";
import type { Grade, Verdict } from "../grade/grader.ts";
import type { TurnEnd, Usage } from "../formats/usage.ts";

export type { TurnEnd, Usage };

export type Phase = "workspace" | "servers" | "probe" | "setup" | "agent" | "verify" | "cleanup" | "stop";

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
   * It failed without anything having been looked at: the step needs what a failed step would have given, a program could
   * not do its work, a server broke, a text is not what was to be read or is that of a failure. It is a failure all the same, but a `not` must not
   * pass for its sake.
   */
  readonly untried?: true;
  /** It failed for a place in JSON, and there is no JSON, or not even what should hold that place: nothing is known of it. */
  readonly unplaced?: true;
  /** Why it may have found nothing only for a mistake of its author, such as a misspelt name. */
  readonly doubt?: string;
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
      /** What confines it; absent: nothing. */
      readonly sandbox?: "process" | "docker" | "none";
      /** It had been started before this trial, whose lifetime is longer than one. */
      readonly reused?: true;
    }
  /** A server that a trial can do without did not start. */
  | { readonly type: "server.failed"; readonly server: string; readonly error: SerializedError }
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
  /** A process of an extension was started; `extension` is its alias everywhere. */
  | {
      readonly type: "extension.started";
      readonly extension: string;
      readonly package: string;
      readonly version?: string;
      readonly protocol: "json-rpc" | "one-shot";
      readonly sandbox: "none" | "process" | "docker";
      readonly pid: number;
    }
  | {
      readonly type: "extension.log";
      readonly extension: string;
      readonly level: string;
      readonly message: string;
      readonly data?: Json;
    }
  | { readonly type: "extension.stderr"; readonly extension: string; readonly text: string }
  /** A line on its stdout that is no message. */
  | { readonly type: "extension.invalid_output"; readonly extension: string; readonly text: string }
  | {
      readonly type: "extension.output_omitted";
      readonly extension: string;
      readonly stream: "stderr" | "stdout" | "log";
      /** Bytes; of `log`, messages. */
      readonly count: number;
    }
  | {
      readonly type: "extension.exited";
      readonly extension: string;
      readonly exitCode: number | null;
      readonly signal: string | null;
      /** Whether we ended it, after its last operation. */
      readonly expected: boolean;
    }
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
      /** `disconnect`: only the connection was ended; the server goes on. */
      readonly by: "stdin" | "SIGTERM" | "SIGKILL" | "already-exited" | "disconnect";
      readonly durationMs: number;
    }
  | {
      readonly type: "mcp.message";
      readonly server: string;
      /** The agent's connection, when it is not our own: a number in the trial. Its request ids are its own. */
      readonly client?: string;
      readonly direction: "client-to-server" | "server-to-client";
      /** The JSON-RPC message as parsed. */
      readonly message: Json;
      /** The text on the wire, when writing the parsed message again would not give the same text and it holds no secret. */
      readonly raw?: string;
      /** What is wrong with its text, so that readers may read it in different ways. Only of a server's messages. */
      readonly malformed?: string;
    }
  | {
      readonly type: "http.response";
      readonly server: string;
      readonly client?: string;
      readonly method: string;
      readonly status: number;
      readonly requestIds: readonly (string | number)[];
    }
  /** A client of the agent's reached our gateway, or left it. */
  | {
      readonly type: "gateway.connected";
      readonly server: string;
      readonly client: string;
      readonly via: "http" | "bridge";
    }
  | { readonly type: "gateway.disconnected"; readonly server: string; readonly client: string }
  /** A request waited before it went to the server; the wait is not the server's time. */
  | {
      readonly type: "request.held";
      readonly server: string;
      readonly client?: string;
      readonly id: string | number;
      readonly heldMs: number;
    }
  /** Something went wrong on purpose. */
  | {
      readonly type: "fault.injected";
      readonly server: string;
      readonly client?: string;
      readonly fault: Fault["kind"];
      readonly method: string;
      readonly tool?: string;
      readonly id: string | number;
    }
  /** A fault that was to happen and met no request that it fits. */
  | {
      readonly type: "fault.unmet";
      readonly server: string;
      readonly fault: Fault["kind"];
      readonly method: string;
      readonly tool?: string;
    }
  /** Tools that the server lists and the agent does not see. */
  | {
      readonly type: "tools.hidden";
      readonly server: string;
      readonly client?: string;
      readonly tools: readonly string[];
      /** Names and globs of the allow-list that fit no tool of this listing. */
      readonly unmatched?: readonly string[];
    }
  /** The agent called a tool that it may not use; the server never heard of it. */
  | {
      readonly type: "tool.refused";
      readonly server: string;
      readonly client?: string;
      readonly tool: string;
      readonly id: string | number;
    }
  | {
      readonly type: "agent.started";
      readonly agent: string;
      readonly kind: string;
      readonly model?: string;
      /** What the program says of itself, such as its name and version. */
      readonly program?: string;
      readonly pid?: number;
    }
  /** What a program that is the agent tells, while it acts, of what runs: itself, or a model that answered. */
  | { readonly type: "agent.told"; readonly program?: string; readonly model?: string }
  /** What the agent itself tells of a use of a tool, its own or a server's; the last one of a `callId` is final. */
  | {
      readonly type: "agent.tool";
      readonly turn: number;
      readonly callId: string;
      /** As the agent names it. */
      readonly name: string;
      /** `mcp:SERVER`, `skill` (a load of a skill), `builtin`, or `unknown`, where the name does not tell. */
      readonly source: string;
      /** The server's own name of the tool, for one of a server's. */
      readonly tool?: string;
      readonly status: "started" | "completed" | "failed";
      readonly args?: Json;
      readonly result?: Json;
      readonly parentCallId?: string;
    }
  /** The agent asked whether it may do something. */
  | {
      readonly type: "agent.permission";
      readonly turn: number;
      readonly callId?: string;
      /** What it asked for, in its words. */
      readonly title: string;
      readonly decision: "allowed" | "denied" | "cancelled";
      readonly policy: string;
    }
  /** Tokens of a program's model: what the agent tells itself, or what our proxy counted, which wins. */
  | { readonly type: "agent.usage"; readonly source: "agent" | "proxy"; readonly usage: Usage }
  /** What a program writes that is neither protocol nor answer. */
  | { readonly type: "agent.output"; readonly stream: "stdout" | "stderr"; readonly text: string }
  | {
      readonly type: "agent.exited";
      readonly exitCode: number | null;
      readonly signal: string | null;
      readonly expected: boolean;
    }
  /** A config file that leads an agent to our gateway; `replaced`: there was one, and it is put back. */
  | {
      readonly type: "client_config.written";
      readonly client: string;
      readonly path: string;
      readonly action: "created" | "replaced";
    }
  /** Skills that were copied to where the agent looks for them. */
  | {
      readonly type: "skills.copied";
      /** Relative to the workspace. */
      readonly folder: string;
      readonly skills: readonly string[];
      /** The agent's tool that loads one; absent: it reads their files with its usual tools. */
      readonly tool?: string;
    }
  | { readonly type: "turn.started"; readonly turn: number; readonly user: string }
  | { readonly type: "agent.message"; readonly turn: number; readonly text: string }
  | { readonly type: "turn.finished"; readonly turn: number; readonly reason: TurnEnd }
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
      /** What has differed since an earlier trial of the task, and was not touched in this one. */
      readonly untouched: readonly string[];
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

/** Records an event and gives its number; 0 for one that is not recorded, since the record has ended. Never throws. */
export type Emit = (event: EventBody) => number;
