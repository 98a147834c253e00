import type { SourceLocation } from "../errors/error.ts";
import type { Step } from "./step.ts";

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
  /** The judge is there for steps of tasks and is not asked about workflows. */
  readonly judgesStepsOnly?: true;
  /** Attempts of each task by each agent. */
  readonly trials: number;
  /** Trials at once. Absent: one at a time, except suites that ask to be parallel. */
  readonly concurrency?: number;
  readonly limits: Limits;
  /** Reporters as written on the command line: `NAME` or `NAME=FILE`. */
  readonly reporters: readonly string[];
  /** Servers that a task declares itself, by task and name; they win over `servers`. */
  readonly taskServers?: Readonly<Record<string, Readonly<Record<string, ServerSpec>>>>;
  /** Other sets of servers to run every task with, each a dimension of the matrix beside the agents; absent: one, unnamed. */
  readonly variants?: readonly Variant[];
  /** Begins the random numbers of faults. Default: 0. */
  readonly seed?: number;
}

/** One set of servers that tasks are run with. */
export interface Variant {
  readonly name: string;
  /** All servers that a trial of a task starts, by task and server. */
  readonly servers: Readonly<Record<string, Readonly<Record<string, ServerSpec>>>>;
}

export interface Limits {
  /** Longest a whole trial may take, from starting its servers to its last verify step. */
  readonly trialMs: number;
  /** Longest a single tool call may take. */
  readonly callMs: number;
  /** Longest one request to a model may take. */
  readonly modelMs: number;
}

/** How long one started server serves; see docs/architecture.md, "Servers". */
export type ServerLifetime = "per_trial" | "per_task" | "per_run";

interface ServerBase {
  /** Longest that handshake and `tools/list` may take together. */
  readonly startupTimeoutMs: number;
  /** Largest single message accepted from the server, in bytes. */
  readonly maxMessageBytes: number;
  /** Absent: `per_trial` for programs and mocks, `per_run` for servers with an address. */
  readonly lifetime?: ServerLifetime;
  /**
   * true: when it cannot start, nothing runs at all. false: a trial goes on without it. Absent: a trial that cannot start
   * it is an error.
   */
  readonly required?: boolean;
  /** Tools that agents see and may call, by name or glob; absent: all. */
  readonly tools?: readonly string[];
  readonly rateLimit?: RateLimit;
  /** What goes wrong on purpose between agents and this server. */
  readonly faults?: readonly Fault[];
  /** `legacy` begins with `initialize`, `modern` is 2026-07-28; absent: `legacy`, then `modern` where that is refused. */
  readonly protocol?: "legacy" | "modern";
  /** Whether what the server writes to stderr is recorded; absent: yes. */
  readonly captureStderr?: boolean;
}

/** At most `requests` of the client's requests in any `perMs`; those over it wait. */
export interface RateLimit {
  readonly requests: number;
  readonly perMs: number;
}

/** Something that goes wrong on purpose with a request of an agent. */
export interface Fault {
  /**
   * `delay`: the request is held for `ms`. `drop`: it is never answered. `error`: we answer with a JSON-RPC error.
   * `truncate`: the texts of the result are cut to `bytes`. `disconnect`: the connection is cut.
   */
  readonly kind: "delay" | "drop" | "error" | "truncate" | "disconnect";
  /** Name or glob of the tools that it befalls; absent: any. Only for `tools/call`. */
  readonly tool?: string;
  /** Method that it befalls. Default: `tools/call`. */
  readonly method?: string;
  /** 0 to 1. */
  readonly probability: number;
  /** How often it may happen in one trial; absent: without end. */
  readonly times?: number;
  readonly ms?: number;
  readonly bytes?: number;
  readonly code?: number;
  readonly message?: string;
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
  readonly auth?: OAuthSpec;
}

/** How to get an access token by OAuth 2.1. */
export type OAuthSpec =
  | {
      readonly kind: "client-credentials";
      readonly clientId: string;
      readonly clientSecret: string;
      readonly scope?: string;
      /** The authorization server that may see the secret; absent: the one that the server names. */
      readonly issuer?: string;
    }
  /** Tokens that were got before; refreshed ones are written back to the file. */
  | {
      readonly kind: "stored";
      /** Absolute path of a JSON file with `access_token`, and `refresh_token` where there is one. */
      readonly file: string;
      readonly clientId?: string;
      readonly clientSecret?: string;
      /** The authorization server that may see the refresh token; absent: the file's `issuer`, or the one that the server names. */
      readonly issuer?: string;
    };

/** A server that is nothing but written answers. */
export interface MockServerSpec extends ServerBase {
  readonly transport: "mock";
  readonly mock: MockDefinition;
}

/** What a mock server offers and answers. */
export interface MockDefinition {
  readonly instructions?: string;
  readonly tools: Readonly<Record<string, MockTool>>;
  readonly resources: readonly MockResource[];
  readonly prompts: readonly MockPrompt[];
  /** Values that responses can look at and change; each server process begins with these. */
  readonly state: Readonly<Record<string, Json>>;
}

export interface MockTool {
  readonly description?: string;
  readonly inputSchema: JsonObject;
  readonly outputSchema?: JsonObject;
  /** The first that fits answers; when none does, the call is an error of the tool. */
  readonly responses: readonly MockResponse[];
}

export interface MockResponse {
  /** The arguments, exactly and all of them. */
  readonly match?: JsonObject;
  /** A JSON Schema that the arguments satisfy. */
  readonly matchSchema?: JsonObject;
  /** Regular expressions (RE2) by argument. */
  readonly matchRegex?: Readonly<Record<string, string>>;
  /** Values that the state must have. */
  readonly when?: Readonly<Record<string, Json>>;
  /** Values that the state has from then on. */
  readonly set?: Readonly<Record<string, Json>>;
  readonly latencyMs?: number;
  readonly answer:
    | { readonly kind: "return"; readonly value: Json }
    /** An error of the tool (`isError`). */
    | { readonly kind: "error"; readonly message: string }
    /** A JSON-RPC error. */
    | { readonly kind: "protocol-error"; readonly code: number; readonly message: string }
    /** This text in the place of the whole answer; `{id}` is the request's id as JSON. */
    | { readonly kind: "malformed"; readonly text: string }
    | { readonly kind: "silence" };
}

export interface MockResource {
  readonly uri: string;
  readonly name: string;
  readonly description?: string;
  readonly mimeType?: string;
  readonly text: string;
}

export interface MockPrompt {
  readonly name: string;
  readonly description?: string;
  readonly arguments: readonly {
    readonly name: string;
    readonly required: boolean;
    readonly description?: string;
  }[];
  /** `{NAME}` is replaced by the argument. */
  readonly messages: readonly { readonly role: "user" | "assistant"; readonly text: string }[];
}

export type ServerSpec = StdioServerSpec | HttpServerSpec | MockServerSpec;

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
  /** Whether the model can read resources and get prompts, with tools of ours. Default: true. */
  readonly resources?: boolean;
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

/** Plays each task's own `solution`. */
export interface OracleAgentSpec {
  readonly type: "oracle";
  readonly name: string;
}

/** Does nothing at all. */
export interface NullAgentSpec {
  readonly type: "null";
  readonly name: string;
}

/** Agent programs that we know how to start, configure and read. */
export const agentPresets = ["claude-code", "codex", "gemini", "copilot", "opencode"] as const;
export type AgentPreset = (typeof agentPresets)[number];

/** Programs whose MCP config files we can write into a workspace. */
export const mcpClients = [...agentPresets, "vscode", "cursor"] as const;
export type McpClient = (typeof mcpClients)[number];

interface ProgramAgentBase {
  readonly name: string;
  /** Who it is, for the names of tools, config files and defaults; absent: nobody known. */
  readonly preset?: AgentPreset;
  readonly command: string;
  readonly args: readonly string[];
  /** The complete environment of the program. */
  readonly env: Readonly<Record<string, string>>;
  /** Absolute path of the folder that it works in; absent: the trial's workspace. */
  readonly cwd?: string;
  readonly model?: string;
  /** How the program reaches servers: at an address, or by a command that it starts. Default: whatever it can. */
  readonly connect?: "http" | "bridge";
  readonly modelProxy?: ModelProxySpec;
}

/** Requests to the model go through us, so that tokens are counted whatever the agent tells. */
export interface ModelProxySpec {
  /** Address of the provider's API. */
  readonly target: string;
  /** Variable of the agent that is set to our address. */
  readonly variable: string;
}

/** What an agent's own requests for permission are answered. `allow-mcp` allows calls of tools of servers only. */
export type PermissionPolicy = "allow" | "allow-mcp" | "deny";

/** A program that speaks the Agent Client Protocol on its stdin and stdout. */
export interface AcpAgentSpec extends ProgramAgentBase {
  readonly type: "acp";
  readonly permissions: PermissionPolicy;
}

/** Formats of lines of JSON that agent programs print. */
export const commandOutputs = ["text", ...agentPresets] as const;
export type CommandOutput = (typeof commandOutputs)[number];

/**
 * A program that is started once for each user turn. In `command`, `args`, `nextArgs` and `env`, `{prompt}`, `{workspace}`
 * (of the trial), `{cwd}` (the folder that it works in), `{mcpConfig}` (path of a file with `mcpServers`), `{model}`,
 * `{session}` (id of the session before, empty in the first turn) and `{servers.NAME.url}` are replaced; `{{` writes a brace.
 */
export interface CommandAgentSpec extends ProgramAgentBase {
  readonly type: "command";
  readonly output: CommandOutput;
  /** Arguments of every turn but the first. Absent: `args`. */
  readonly nextArgs?: readonly string[];
  /** The prompt is written to stdin. */
  readonly stdin: boolean;
  /** Clients whose config files are written into the folder that the program works in. */
  readonly configFiles: readonly McpClient[];
}

export type AgentSpec =
  | ModelAgentSpec
  | ScriptedAgentSpec
  | OracleAgentSpec
  | NullAgentSpec
  | AcpAgentSpec
  | CommandAgentSpec;

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

/** What the user answers when a server asks. */
export interface ElicitationAnswer {
  /** Text that the server's question contains, ignoring case; absent: any question. */
  readonly message?: string;
  readonly server?: string;
  readonly action: "accept" | "decline" | "cancel";
  readonly content?: JsonObject;
}

/** A portable unit of evaluation. Workflows and tool tests are short forms of it. */
export interface Task {
  /** Unique in a run. */
  readonly name: string;
  readonly form: "workflow" | "tool-test" | "task";
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
  /** Answers to what servers ask of the user (elicitation), in order of trying; without one that fits it is declined. */
  readonly elicitation?: readonly ElicitationAnswer[];
  readonly location?: SourceLocation;
  /** What only a task from a file of its own has; always there when `form` is `task`, absent otherwise. */
  readonly portable?: PortableTask;
}

/** The parts of a task that come from its own file. In their strings templates are still to be replaced. */
export interface PortableTask {
  /** `script-form` and `step-form` are the older forms of `mcp-eval/v1`; `waza` is that tool's task. Only ours is templated. */
  readonly format: "mcp-eval/v1" | "script-form" | "step-form" | "waza";
  /** Absolute path of the task's file. */
  readonly file: string;
  /** Absolute path of the folder that relative paths start from, and that they may not leave. */
  readonly dir: string;
  readonly env: Readonly<Record<string, string>>;
  readonly setup: readonly Step[];
  /** In the order of the file; they are run in the reverse order. */
  readonly cleanup: readonly Step[];
  /** Absent when the task does not say how it can be solved. */
  readonly solution?: readonly SolutionAction[];
  /** Paths relative to `dir`; each is copied into the workspace under its last name. */
  readonly fixtures: readonly string[];
  readonly requires: readonly Requirement[];
  readonly difficulty?: string;
  readonly tags: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
  /** Longest that setup, agent and verify may take together; absent: the eval's limit. */
  readonly timeoutMs?: number;
  readonly cleanupTimeoutMs: number;
  /** Attempts, when the task asks for a number of its own. */
  readonly runs?: number;
  /** `STEP` or `STEP.OUTPUT`: outputs that must be the same before setup and after cleanup. */
  readonly stateProbe: readonly string[];
  /** Names that `{random.port}` is used with; the plain form has the name "". */
  readonly randomPorts: readonly string[];
  /** Assertions on the calls of the agent, one set for every task set that reached the task. */
  readonly assertions: readonly AssertionSet[];
  /** Variables of the shell that the task's processes get besides a small safe set; true: all. */
  readonly inheritEnv: readonly string[] | true;
}

/** Something that must be there before a task can run. */
export type Requirement =
  | { readonly kind: "command"; readonly name: string }
  | { readonly kind: "env"; readonly name: string }
  | { readonly kind: "server"; readonly name: string }
  | { readonly kind: "platform"; readonly name: string }
  | { readonly kind: "extension"; readonly name: string }
  | { readonly kind: "judge" };

/** What the oracle does to solve a task. Strings may have templates. */
export type SolutionAction =
  | {
      readonly kind: "tool";
      readonly id?: string;
      readonly server?: string;
      readonly tool: string;
      readonly args: JsonObject;
      readonly outputs?: Readonly<Record<string, string>>;
    }
  | {
      readonly kind: "resource";
      readonly id?: string;
      readonly server?: string;
      readonly uri: string;
      readonly outputs?: Readonly<Record<string, string>>;
    }
  | {
      readonly kind: "prompt";
      readonly id?: string;
      readonly server?: string;
      readonly prompt: string;
      readonly args: JsonObject;
      readonly outputs?: Readonly<Record<string, string>>;
    }
  /** Ends the turn. */
  | { readonly kind: "say"; readonly text: string }
  | {
      readonly kind: "foreach";
      readonly variable: string;
      readonly in: string | readonly Json[];
      readonly actions: readonly SolutionAction[];
    };

/** A call, by server and by name or pattern; both: one of the two has to fit. None: any call on that server. */
export interface CallPattern {
  /** Absent: any server, and the tools of the agent itself as far as it tells of them. */
  readonly server?: string;
  /** Name of the tool or prompt, or URI of the resource. */
  readonly name?: string;
  /** A regular expression (RE2) found anywhere in the name. */
  readonly pattern?: string;
}

/** What a task set asserts of the agent's calls. Absent: not looked at. */
export interface AssertionSet {
  readonly toolsUsed?: readonly CallPattern[];
  readonly requireAny?: readonly CallPattern[];
  readonly toolsNotUsed?: readonly CallPattern[];
  readonly minToolCalls?: number;
  readonly maxToolCalls?: number;
  readonly resourcesRead?: readonly CallPattern[];
  readonly resourcesNotRead?: readonly CallPattern[];
  readonly promptsUsed?: readonly CallPattern[];
  readonly promptsNotUsed?: readonly CallPattern[];
  readonly callOrder?: readonly {
    readonly type: "tool" | "resource" | "prompt";
    readonly server: string;
    readonly name: string;
  }[];
  readonly noDuplicateCalls?: boolean;
}
