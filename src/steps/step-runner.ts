import type { JudgeAnswer, JudgeQuestion } from "../core/grade/judge/judge-prompt.ts";
import type { JsonObject } from "../core/formats/model.ts";
import type { Step } from "../core/formats/step.ts";
import type { ValidateSchema } from "../core/checks/tool-result.ts";
import type { Scope } from "../core/templates/template.ts";
import type { CallHistory } from "../core/trace/trajectory.ts";
import type { Check, Emit, Phase, StepOutcome } from "../core/trace/events.ts";
import type { OperationHost } from "../extensions/host/trial-extensions.ts";
import type { ServerSession } from "../servers/client/session.ts";

/** What a step may use. */
export interface StepContext {
  readonly phase: Phase;
  /** Name in the trace of the step that this one belongs to. */
  readonly parent?: string;
  readonly sessions: readonly ServerSession[];
  /** Names of the task's servers that did not start; absent: none. */
  readonly absent?: readonly string[];
  readonly emit: Emit;
  /** Aborts on the trial's deadline, on interruption, when a server is lost, and on the step's own time limit. */
  readonly signal: AbortSignal;
  /** What templates refer to; undefined where texts have none. */
  readonly scope: Scope | undefined;
  readonly trial: TrialContext;
  /** Failures change no verdict, whatever the steps say. */
  readonly ignored?: true;
}

/** What a trial has for its steps, the same for all of them. */
export interface TrialContext {
  readonly task: string;
  /** What the agent was told; the turns joined by empty lines. */
  readonly prompt: string;
  /** Absolute path of the folder that relative paths start from. */
  readonly dir: string;
  /** Absolute path of a folder that may be read as well. */
  readonly repository?: string | undefined;
  /** Absolute path of the trial's own folder. */
  readonly workspace: string;
  /** Whether paths may leave both folders. */
  readonly allowOutside: boolean;
  /** The complete environment of the processes that steps start. */
  readonly env: Readonly<Record<string, string>>;
  /** What the agent said last, and 0 when it came to its end; undefined before. */
  readonly agent: { readonly output: string; readonly exitCode: number } | undefined;
  /** The variables that the task declares, and those given for the run. */
  readonly declared: Readonly<Record<string, string>>;
  readonly judge: StepJudge | undefined;
  readonly extensions: OperationHost;
  readonly validateSchema: ValidateSchema;
  /** Outputs by step id, as far as steps have run. */
  readonly outputs: Map<string, JsonObject>;
  /** Ids of steps whose failure counts and that, when they last ran, failed and so have given nothing. */
  readonly failed: Set<string>;
  /** What the agent called so far. */
  history(): CallHistory;
  /** To be called with everything that a process is started with: random ports among it are the process's from now on. */
  releasePorts(texts: Iterable<string>): Promise<void>;
  /** Takes charge of a process that a step leaves running on purpose; it ends with the trial. */
  adopt(process: { stop(): Promise<unknown> }): void;
}

/** Throws McpvalsError `judge/no-verdict`, and what the model throws. */
export type StepJudge = (question: JudgeQuestion, signal: AbortSignal) => Promise<JudgeAnswer>;

/** How one attempt of a step went. */
export type StepAttempt =
  | {
      readonly kind: "checked";
      readonly checks: readonly Check[];
      /** False: it failed for a reason that no check names. */
      readonly healthy?: boolean;
      /** What the step's `outputs` may use. */
      readonly values?: JsonObject;
      /** Outputs that the step gives by itself. */
      readonly outputs?: JsonObject;
    }
  | { readonly kind: "timeout"; readonly message: string }
  /** For steps that have steps: one of them could not act. */
  | { readonly kind: "error"; readonly error: unknown; readonly checks: readonly Check[] };

/** How one type of step is run. Its texts are expanded before. */
export interface StepRunner<S extends Step = Step> {
  /** True when it applies `timeoutMs` itself; else its signal aborts then. */
  readonly keepsTime?: true;
  /** What the trace shows of the step. */
  readonly input: (step: S) => JsonObject;
  /**
   * Makes one attempt. Throws McpvalsError when it cannot act at all, and the signal's reason when that aborts.
   */
  readonly run: (step: S, context: StepContext, runChild: RunChild) => Promise<StepAttempt>;
}

/** Runs a step inside another one. Throws only the signal's reason. */
export type RunChild = (step: Step, context: StepContext) => Promise<StepReport>;

/** How a step went in the end. */
export interface StepReport {
  readonly outcome: StepOutcome;
  /** Those of the last attempt. */
  readonly checks: readonly Check[];
  readonly outputs?: JsonObject;
  /** Why the outcome is `error` or `timeout`. */
  readonly error?: unknown;
  /** The step, or what it belongs to, says that its failure changes nothing. */
  readonly ignored: boolean;
  /** It failed without being tried, since it needs what a failed step would have given. */
  readonly untried?: true;
}
