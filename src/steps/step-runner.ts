import type { JsonObject } from "../base/json.ts";
import type { Step } from "../model/step.ts";
import type { ValidateSchema } from "../expect/tool-result.ts";
import type { Scope } from "../templates/template.ts";
import type { CallHistory } from "../trace/agent-acts.ts";
import type { Check, Emit, Phase, StepOutcome, JudgeAnswer, JudgeQuestion } from "../model/event.ts";
import type { OperationHost } from "../extensions/host/trial-extensions.ts";
import type { ServerSession } from "../servers/client/session.ts";
import { McpvalsError } from "../base/error.ts";
import { abortAfter, type Clocks } from "../process/deadline.ts";
import type { Task } from "../model/task.ts";

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
  /** Of the task that the step belongs to. */
  readonly form: Task["form"];
  readonly trial: TrialContext;
  /** Failures change no verdict, whatever the steps say. */
  readonly ignored?: true;
}

/** What a trial has for its steps, the same for all of them. */
export interface TrialContext {
  readonly task: string;
  /** The prompts of all turns, joined by empty lines. */
  readonly prompt: string;
  /** Absolute path of the folder that relative paths start from. */
  readonly dir: string;
  /** Absolute path of a folder that may be read as well. */
  readonly repository?: string | undefined;
  /** Absolute path of the trial's own folder. */
  readonly workspace: string;
  /** Whether paths may leave both folders. */
  readonly allowOutside: boolean;
  /** The whole environment of the processes that steps start. */
  readonly env: Readonly<Record<string, string>>;
  /** The last message of the agent's last turn, and 0 if it finished; undefined before it ran. */
  readonly agent: { readonly output: string; readonly exitCode: number } | undefined;
  /** The variables that the task declares, and those given for the run. */
  readonly declared: Readonly<Record<string, string>>;
  readonly judge: StepJudge | undefined;
  /** The time limits of the trial and of its steps; they stand still while a model waits for its provider's rate limit. */
  readonly clocks: Clocks;
  readonly extensions: OperationHost;
  readonly validateSchema: ValidateSchema;
  /** Outputs by step id, as far as steps have run. */
  readonly outputs: Map<string, JsonObject>;
  /** Ids of steps that failed when they last ran, so that they have no outputs; without those whose failure is ignored. */
  readonly failed: Set<string>;
  /** What the agent called so far. */
  history(): CallHistory;
  /** Frees the random ports that these texts name, for the process that is started with them. */
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
      /** False: it failed for a reason that is in no check. */
      readonly healthy?: boolean;
      /** What the step's `outputs` may use. */
      readonly values?: JsonObject;
      /** Outputs that the step has without declaring them. */
      readonly outputs?: JsonObject | undefined;
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
  readonly outputs?: JsonObject | undefined;
  /** Why the outcome is `error` or `timeout`. */
  readonly error?: unknown;
  /** Its failure changes no verdict. */
  readonly ignored: boolean;
  /** It failed without being run, since it needs outputs of a failed step. */
  readonly notRun?: true;
}

/** A step with its report. */
export interface Ran {
  readonly step: Step;
  readonly report: StepReport;
}

/** How a sequence of steps went. */
export interface SequenceReport {
  readonly ran: readonly Ran[];
  /** The error of a step that could not act, which ended the sequence. */
  readonly error?: unknown;
  /** Whether no step failed that counts. */
  readonly passed: boolean;
}

/**
 * Runs steps one after the other. A step that cannot act ends the sequence; so does a failed one if it is `hard`, and in the phase
 * `setup` unless it is `soft`. Steps whose failure is ignored end nothing. Throws only the signal's reason.
 */
export async function runSequence(
  steps: readonly Step[],
  context: StepContext,
  run: RunChild,
): Promise<SequenceReport> {
  const isSetup = context.phase === "setup";
  const ran: Ran[] = [];
  let passed = true;
  for (const step of steps) {
    const report = await run(step, context);
    ran.push({ step, report });
    const { outcome, ignored, error } = report;
    if (ignored || outcome === "passed" || outcome === "skipped") continue;
    if (outcome !== "failed") return { ran, passed: false, error };
    if (isSetup && step.failure === "soft") continue;
    passed = false;
    if (isSetup || step.failure === "hard") break;
  }
  return { ran, passed };
}

export interface CleanupOptions {
  /** Longest that all steps may take together. */
  readonly timeoutMs: number;
  /** Ends them early. */
  readonly until?: AbortSignal;
}

/**
 * Runs every step once, the last one first, whatever happens to the others; failures are only recorded. A step that
 * hangs is stopped early enough that each of the later ones keeps a share of half the time. The context's signal is
 * ignored: cleanup also follows an interruption.
 */
export async function runCleanup(
  steps: readonly Step[],
  context: StepContext,
  run: RunChild,
  { timeoutMs, until }: CleanupOptions,
): Promise<void> {
  const end = performance.now() + timeoutMs;
  const share = timeoutMs / 2 / Math.max(1, steps.length);
  for (const [index, step] of steps.toReversed().entries()) {
    const later = steps.length - index - 1;
    const limitMs = Math.max(share, end - performance.now() - later * share);
    const message = `cleanup step ${step.id}: it took longer than the ${Math.round(limitMs)} ms that cleanup had left for it`;
    using deadline = abortAfter(limitMs, () => new McpvalsError("step/timeout", message), until);
    try {
      await run(step, { ...context, ignored: true, signal: deadline.signal });
    } catch (error) {
      // The events of the step have the timeout.
      if (!deadline.signal.aborted) throw error;
    }
  }
}

/** The checks of steps, for the step around them, without those of steps that are ignored. */
export function joinedChecks(ran: readonly Ran[], prefix = ""): readonly Check[] {
  return ran
    .filter(({ report }) => !report.ignored)
    .flatMap(({ step, report }) => {
      const label = step.name ?? step.id;
      return report.checks.map((check) => ({
        ...check,
        name: `${prefix}${label === check.name ? label : `${label}: ${check.name}`}`,
      }));
    });
}

/** An object for a trace; undefined when it has no members. */
export function unlessEmpty<T extends object>(value: T): T | undefined {
  return Object.keys(value).length === 0 ? undefined : value;
}

export function innerContext(step: Step, context: StepContext): StepContext {
  return { ...context, parent: traceName(step, context) };
}

/** The name of a step in the trace. Only attempts of the steps around it repeat it. */
export function traceName({ id }: Step, { parent }: Pick<StepContext, "parent">): string {
  return parent === undefined ? id : `${parent}/${id}`;
}

/** The error for setup steps, of a phase or a group, that ran and failed. */
export function setupFailed(ran: readonly Ran[], group?: string): McpvalsError {
  const failed = joinedChecks(ran).filter((check) => !check.passed);
  const whose = group === undefined ? "setup" : `the setup of the group ${group}`;
  const reasons = failed.map((check) => `${check.name}: ${check.message}`).join("; ");
  return new McpvalsError("task/setup-failed", `${whose} failed: ${reasons || "a step was not healthy"}`);
}

/** Runs a phase, between the events of its start and its end. */
export async function runPhase<T>(phase: Phase, emit: Emit, work: () => Promise<T>): Promise<T> {
  const started = performance.now();
  emit({ type: "phase.started", phase });
  try {
    return await work();
  } finally {
    emit({ type: "phase.finished", phase, durationMs: performance.now() - started });
  }
}
