import type { SourceLocation } from "../base/error.ts";
import type { AgentSpec, ModelSpec } from "./agent.ts";
import type { ServerSpec } from "./server.ts";
import type { ExpectedState } from "./fields.ts";
import type { ExtensionSettings } from "./extension.ts";
import type { Json, JsonObject } from "../base/json.ts";
import type { SandboxSpec } from "./sandbox.ts";
import type { McpRequest, Step } from "./step.ts";

export type {
  AcpAgentSpec,
  AgentSkills,
  AgentSpec,
  BuiltinAgentSpec,
  CommandAgentSpec,
  ModelAgentSpec,
  ModelSpec,
  PermissionPolicy,
  ScriptedAction,
  ScriptedAgentSpec,
} from "./agent.ts";
export type {
  Fault,
  HttpServerSpec,
  MockDefinition,
  MockResponse,
  MockServerSpec,
  OAuthSpec,
  RateLimit,
  ServerLifetime,
  ServerProgramSpec,
  ServerSpec,
  StdioServerSpec,
} from "./server.ts";
export type { ExtensionSettings } from "./extension.ts";
export type * from "../base/json.ts";
export * from "./sandbox.ts";

/** The tool that a tool test calls; undefined for a task of another form. */
export function testedTool({ form, verify }: Pick<Task, "form" | "verify">): string | undefined {
  const [step] = form === "tool-test" ? verify : [];
  return step?.type === "mcp" && step.request.kind === "tool" ? step.request.tool : undefined;
}

/** What the `apiVersion` of a task must be. */
export const taskApiVersion = "mcp-eval/v1";

/**
 * Lowest values with which a run passes, by the name of what is measured: `score`, the mean score of the trials; `passRate`, the
 * share of those with a verdict that passed; `answerRate`, the same without those in which only a tool's result has what was expected
 * of the agent; else a grader, its mean score.
 */
export type Thresholds = Readonly<Record<string, number>>;

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
  /** Absent: no trial may fail, and scores do not matter. */
  readonly thresholds?: Thresholds;
  /** Reporters as written on the command line: `NAME` or `NAME=FILE`. */
  readonly reporters: readonly string[];
  /** Absent: a check has its defaults. */
  readonly check?: CheckSettings;
  /** Servers that a task declares itself, by task and name; they win over `servers`. */
  readonly taskServers?: Readonly<Record<string, Readonly<Record<string, ServerSpec>>>>;
  /** Other sets of servers to run every task with, each a dimension of the matrix beside the agents; absent: one, unnamed. */
  readonly variants?: readonly Variant[];
  /** Whether the first trial that does not pass ends the run. Absent: it does not. */
  readonly bail?: true;
  /** Absent: no commands run around a run. */
  readonly hooks?: RunHooks;
  /** Begins the random numbers of faults. Default: 0. */
  readonly seed?: number;
  /** Which tasks of the files were asked for, as flags: `--tag smoke`. Absent: all. */
  readonly filter?: string;
  /** How the extensions of its tasks are fetched; absent: all defaults. */
  readonly extensionSettings?: ExtensionSettings;
}

/** Commands around a whole run; those after it run however it ends. */
export interface RunHooks {
  readonly before: readonly RunHook[];
  readonly after: readonly RunHook[];
}

/** A command line of sh around a whole run. */
export interface RunHook {
  /** Its place in the file, such as `before_run[0]`. */
  readonly id: string;
  readonly command: string;
  /** Absolute path. */
  readonly cwd: string;
  /** Exit codes with which it has not failed. */
  readonly exitCodes: readonly number[];
  /** Whether its failure is only a warning. */
  readonly mayFail: boolean;
  readonly timeoutMs: number;
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

export interface JudgeSpec extends ModelSpec {
  /** Lowest score that passes, 0 to 1. */
  readonly passThreshold: number;
}

/** A user turn and what is expected of it. */
export interface Turn {
  readonly user: string;
  /** A text: the turn's last assistant message or last tool result must contain it, ignoring case. */
  readonly expectedState?: string | ExpectedState;
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
  readonly form: "workflow" | "tool-test" | "task" | "check";
  readonly description?: string;
  /** The suite of a tool test, or the server of a check. */
  readonly suite?: string;
  /** Names of the servers that a trial of this task starts. */
  readonly servers: readonly string[];
  /** The prompts, in order; empty when no agent takes part. */
  readonly turns: readonly Turn[];
  /** Tools expected to be called, in order. */
  readonly expectTools: readonly string[];
  readonly verify: readonly Step[];
  /** Whether trials of this task may overlap with others of the same suite. */
  readonly parallel: boolean;
  /** Graders that files declare, besides those of every task of its form; absent: none. */
  readonly graders?: readonly GraderSpec[];
  /** Answers to what servers ask of the user (elicitation), in order of trying; without one that fits it is declined. */
  readonly elicitation?: readonly ElicitationAnswer[];
  readonly location?: SourceLocation;
  /** What only a task from a file of its own has; always there when `form` is `task`, absent otherwise. */
  readonly portable?: PortableTask;
  /** Which part of a server is checked; always there when `form` is `check`, absent otherwise. */
  readonly check?: CheckSpec;
}

/** A grader that a file declares; see `GraderKind`. */
export interface GraderSpec {
  readonly type: string;
  /** Name of its grades; unique among the graders of a task. */
  readonly name: string;
  /** Weight of its score in the trial's score. */
  readonly weight: number;
  /** Whether the trial passes only if it passes. */
  readonly required: boolean;
  /** Its settings, as the schema of its type gives them. */
  readonly config: JsonObject;
  /** Servers that its settings name; absent: none. */
  readonly servers?: readonly string[];
  /** Absolute path of the folder that files in its settings are relative to. */
  readonly dir: string;
  /** Where it is declared. */
  readonly location?: SourceLocation;
  /** Where its settings are in that file, by their keys; absent: unknown. */
  readonly places?: Readonly<Record<string, Pick<SourceLocation, "line" | "column">>>;
}

/** The parts of a check of a server; each is a task. */
export type CheckKind =
  | "handshake"
  | "requests"
  | "shutdown"
  | "definitions"
  | "calls"
  | "reads"
  | "stability"
  | "conformance";

/** A tool that a check does not call: why, and what to do. */
export interface NotCalled {
  readonly tool: string;
  readonly reason: string;
}

/** One part of a check of a server, all that is decided before it runs. */
export interface CheckSpec {
  readonly kind: CheckKind;
  /** Codes of rules that are left out. */
  readonly disable: readonly string[];
  /** Why this part has nothing to do, so that its trial is skipped; absent: it has. */
  readonly skipped?: string;
  /** The calls to make, in order; only for `calls`. */
  readonly calls?: readonly PlannedCall[];
  /** The resources to read and the prompts to get, in order; only for `reads`. */
  readonly reads?: readonly PlannedRead[];
  /** Resources and prompts that are not read, and why, in sentences; only for `definitions`. */
  readonly notRead?: readonly string[];
  /** What the server said of itself when the check was planned; only for `definitions`. */
  readonly about?: ServerSummary;
  /** Tools that are not called, and why; only for `definitions`. */
  readonly notCalled?: readonly NotCalled[];
  /** Tools of which other servers of the check have one with the same name, and those servers; only for `definitions`. */
  readonly sharedNames?: readonly { readonly tool: string; readonly servers: readonly string[] }[];
  /** Whether the server cannot start while it runs already, so that each start has to wait for the end of the one before. */
  readonly runsOnce?: boolean;
  /** What the server listed when the check was planned; only for `stability`. */
  readonly listing?: JsonObject;
  /** The committed listing that the server's must equal; only for `stability`. */
  readonly snapshot?: JsonObject;
  /** What runs of the official conformance suite; only for `conformance`. */
  readonly conformance?: ConformancePlan;
}

/** An installed conformance suite. */
export interface ConformanceSuite {
  readonly version: string;
  /** Absolute path of its main file. */
  readonly main: string;
}

export interface ConformancePlan {
  readonly suite: ConformanceSuite;
  /** Scenarios to run. */
  readonly scenarios: readonly string[];
  /** Scenarios that say nothing about the server, and why. */
  readonly skipped: readonly SkippedScenario[];
}

export interface SkippedScenario {
  readonly scenario: string;
  readonly reason: string;
}

/** Which tools a check calls: those that are annotated `readOnlyHint: true`, all, or none. */
export const callPolicies = ["safe", "all", "none"] as const;
export type CallPolicy = (typeof callPolicies)[number];

/** What an eval says of checks of its servers; a command line may say otherwise. */
export interface CheckSettings {
  readonly calls: CallPolicy;
  /** Codes of rules that are left out. */
  readonly disable: readonly string[];
  /** Codes of rules that look only when they are named. */
  readonly enable: readonly string[];
  /** More warnings fail the check. Absent: any number may pass. */
  readonly maxWarnings?: number;
  /** Absolute path of the file with the definitions that the servers must have. */
  readonly snapshot?: string;
  /** How long a request may take. */
  readonly callMs: number;
  /** Whether the official conformance suite runs, too. */
  readonly conformance: boolean;
}

/** What a server says that it is; "" where it does not say. */
export interface ServerIdentity {
  readonly name: string;
  readonly version: string;
  readonly protocolVersion: string;
}

/** What a server is, in a few words: what it says of itself, and how much it lists. */
export interface ServerSummary extends ServerIdentity {
  readonly tools: number;
  readonly resources: number;
  readonly prompts: number;
}

/** A call of a tool with generated arguments. */
export interface PlannedCall {
  readonly tool: string;
  readonly args: JsonObject;
  /** `result`: the arguments are valid; `refusal`: they are not. */
  readonly expects: "result" | "refusal";
  /** How the arguments were made, such as `defaults and examples` or `path is missing`. */
  readonly why: string;
}

/** A resource that a check reads, or a prompt that it gets. */
export interface PlannedRead {
  readonly kind: "resource" | "prompt";
  /** The URI of the resource, or the name of the prompt. */
  readonly name: string;
  /** Made up for a prompt that requires arguments, so that the server may refuse them. */
  readonly args?: JsonObject;
}

/** The parts of a task that come from its own file. In their strings templates are still to be replaced. */
export interface PortableTask {
  /** `script-form` and `step-form` are the older forms of `mcp-eval/v1`; `waza` is that tool's task. Only ours is templated. */
  readonly format: "mcp-eval/v1" | "script-form" | "step-form" | "waza";
  /** Absolute path of the task's file. */
  readonly file: string;
  /** Absolute path of the folder that relative paths start from, and that they may not leave. */
  readonly dir: string;
  /** Absolute path of a folder that scripts may lie in besides `dir`; older forms only. */
  readonly repository?: string;
  readonly env: Readonly<Record<string, string>>;
  readonly setup: readonly Step[];
  /** In the order of the file; they are run in the reverse order. */
  readonly cleanup: readonly Step[];
  /** Extensions that its steps use, by what the steps name them by; absent: none. */
  readonly extensions?: Readonly<Record<string, ExtensionSpec>>;
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
  /** Settings of the grader `assertions`, of every task set that reached the task. */
  readonly assertions: readonly JsonObject[];
  /** Variables of the shell that the task's processes get besides a small safe set; true: all. */
  readonly inheritEnv: readonly string[] | true;
}

/** Something that must be there before a task can run. */
export type Requirement =
  | { readonly kind: "command" | "env" | "server" | "platform" | "extension"; readonly name: string }
  | { readonly kind: "judge" };

interface SolutionRequest {
  readonly id?: string;
  readonly server?: string;
  readonly outputs?: Readonly<Record<string, string>>;
}

/** What the oracle does to solve a task. Strings may have templates. */
export type SolutionAction =
  | (SolutionRequest & McpRequest)
  /** Ends the turn. */
  | { readonly kind: "say"; readonly text: string }
  | {
      readonly kind: "foreach";
      readonly variable: string;
      readonly in: string | readonly Json[];
      readonly actions: readonly SolutionAction[];
    };

/** An extension as a task uses it: an outside program that adds steps. */
export interface ExtensionSpec {
  /** What steps name it by. */
  readonly alias: string;
  /** Where it comes from, as written; see `parsePackageRef`. */
  readonly package: string;
  /** Absolute folder that a relative `package`, and relative paths in `sandbox.read`, start from. */
  readonly dir: string;
  /** Settings that it is started with. Texts may have templates, which each trial replaces. */
  readonly config: JsonObject;
  /** Variables for its process, with templates. */
  readonly env: Readonly<Record<string, string>>;
  /** Variables of the shell that its process gets besides, by name; `true`: all. Not in a sandbox. Absent: none. */
  readonly inheritEnv?: readonly string[] | true;
  readonly sandbox: SandboxSpec;
  /** Where the file says so. */
  readonly location?: SourceLocation;
}
