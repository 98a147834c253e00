import type { ExpectedState } from "./fields.ts";
import type { JsonObject, Json } from "../base/json.ts";
import type { Step, McpRequest } from "./step.ts";
import type { SourceLocation } from "../base/error.ts";
import type { CheckSpec } from "./check.ts";
import type { SandboxSpec } from "./sandbox.ts";
/** The tool that a tool test calls; undefined for a task of another form. */
export function testedTool({ form, verify }: Pick<Task, "form" | "verify">): string | undefined {
  const [step] = form === "tool-test" ? verify : [];
  return step?.type === "mcp" && step.request.kind === "tool" ? step.request.tool : undefined;
}

/** What the `apiVersion` of a task must be. */
export const taskApiVersion = "mcp-eval/v1";

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
