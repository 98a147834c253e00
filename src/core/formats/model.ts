import type { SourceLocation } from "../errors/error.ts";

/** Any JSON value. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

/** A JSON object. */
export type JsonObject = { readonly [key: string]: Json };

/** What every file format parses to: which tasks run, with which agents, against which servers. Durations are in milliseconds. */
export interface Eval {
  readonly name: string;
  readonly servers: Readonly<Record<string, ServerSpec>>;
  readonly agents: readonly AgentSpec[];
  readonly tasks: readonly Task[];
  /** Absent when no judge was asked for. */
  readonly judge?: JudgeSpec;
  /** Attempts of each task by each agent. */
  readonly trials: number;
  /** Trials at once. Absent: one at a time, except suites that ask to be parallel. */
  readonly concurrency?: number;
  readonly limits: Limits;
  /** Reporters as written on the command line: `NAME` or `NAME=FILE`. */
  readonly reporters: readonly string[];
}

export interface Limits {
  /** Longest a whole trial may take, from starting its servers to its last verify step. */
  readonly trialMs: number;
  /** Longest a single tool call may take. */
  readonly callMs: number;
  /** Longest one request to a model may take. */
  readonly modelMs: number;
}

interface ServerBase {
  /** Longest that handshake and `tools/list` may take together. */
  readonly startupTimeoutMs: number;
  /** Largest single message accepted from the server, in bytes. */
  readonly maxMessageBytes: number;
}

export interface StdioServerSpec extends ServerBase {
  readonly transport: "stdio";
  readonly command: string;
  readonly args: readonly string[];
  /** The complete environment of the process. */
  readonly env: Readonly<Record<string, string>>;
  /** Absolute path. */
  readonly cwd: string;
}

export interface HttpServerSpec extends ServerBase {
  /** `shttp` is Streamable HTTP; `sse` is the older HTTP+SSE transport. */
  readonly transport: "shttp" | "sse";
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
}

export type ServerSpec = StdioServerSpec | HttpServerSpec;

/** How to reach a language model. */
export interface ModelSpec {
  /** `PROVIDER/MODEL`, such as `anthropic/claude-sonnet-4-5`; with `baseURL` any name. */
  readonly model: string;
  readonly baseURL?: string;
  readonly apiKey?: string;
  /** OpenAI's wire format; `responses` unless given. */
  readonly api?: "responses" | "chat";
  readonly headers?: Readonly<Record<string, string>>;
  readonly temperature?: number;
  readonly maxOutputTokens?: number;
}

export interface ModelAgentSpec extends ModelSpec {
  readonly type: "model";
  readonly name: string;
  /** Model calls allowed in one user turn. */
  readonly maxSteps: number;
  readonly system?: string;
}

/** One thing a scripted agent does: call a tool, or say something, which ends the turn. */
export type ScriptedAction =
  | { readonly call: string; readonly server?: string; readonly args: JsonObject }
  | { readonly say: string };

export interface ScriptedAgentSpec {
  readonly type: "scripted";
  readonly name: string;
  /** Actions by workflow name. */
  readonly plan: Readonly<Record<string, readonly ScriptedAction[]>>;
}

export type AgentSpec = ModelAgentSpec | ScriptedAgentSpec;

export interface JudgeSpec extends ModelSpec {
  /** Lowest score that passes, 0 to 1. */
  readonly passThreshold: number;
}

/** A user turn and what is expected of it. */
export interface Turn {
  readonly user: string;
  /** Text that the turn's last assistant message or last tool result must contain, ignoring case. */
  readonly expectedState?: string;
  /** A tool call in this turn is expected to fail with this text; such a failure is healthy. */
  readonly expectedError?: string;
}

/** A portable unit of evaluation. Workflows and tool tests are short forms of it. */
export interface Task {
  /** Unique in a run. */
  readonly name: string;
  readonly form: "workflow" | "tool-test";
  readonly description?: string;
  /** The suite of a tool test. */
  readonly suite?: string;
  /** Names of the servers that a trial of this task starts. */
  readonly servers: readonly string[];
  /** What the agent is told, in order; empty when no agent takes part. */
  readonly turns: readonly Turn[];
  /** Tools expected to be called, in order. */
  readonly expectTools: readonly string[];
  readonly verify: readonly Step[];
  /** Whether trials of this task may overlap with others of the same suite. */
  readonly parallel: boolean;
  readonly location?: SourceLocation;
}

/** One typed action of a task. */
export type Step = McpStep;

/** A direct call of one tool. */
export interface McpStep {
  readonly type: "mcp";
  readonly id: string;
  /** Absent: the one server that offers the tool. */
  readonly server?: string;
  readonly tool: string;
  readonly args: JsonObject;
  readonly expect: McpExpectation;
  readonly timeoutMs: number;
  /** Further attempts after a failed one; each is kept in the trace. */
  readonly retries: number;
}

export interface McpExpectation {
  /** Absent: any result is accepted. */
  readonly result?: Json;
  /** The call must fail with an error that contains this text, ignoring case. */
  readonly error?: string;
  readonly maxLatencyMs?: number;
}
