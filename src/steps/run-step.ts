import { McpvalsError, serializeError } from "../core/errors/error.ts";
import type { JsonObject } from "../core/formats/model.ts";
import type { Step } from "../core/formats/step.ts";
import { checkingScope, expanderOf, expandText } from "../core/templates/expand.ts";
import { type Resolve, type Scope, withLocals } from "../core/templates/scope.ts";
import type { Check } from "../core/trace/events.ts";
import { abortAfter, pause } from "../process/deadline.ts";
import { Polling } from "./polling.ts";
import { traceName } from "./run-sequence.ts";
import { runnerOf } from "./runners.ts";
import type { StepAttempt, StepContext, StepReport } from "./step-runner.ts";

/**
 * Runs a step to its end: attempts until it passes, its time to try is over, or it has stayed true long enough. Each
 * attempt leaves a pair of events. Throws only the context's signal's reason.
 */
export async function runStep(step: Step, context: StepContext): Promise<StepReport> {
  context.signal.throwIfAborted();
  const polling = new Polling(step, performance.now());
  for (let attempt = 1; ; attempt++) {
    const { report, waitMs } = await runAttempt(step, { attempt, polling }, context);
    if (waitMs === undefined) return report;
    if (waitMs > 0) await pause(waitMs, context.signal);
    context.signal.throwIfAborted();
  }
}

interface Place {
  readonly attempt: number;
  readonly polling: Polling;
}

interface Attempted {
  readonly report: StepReport;
  /** How long to wait for the next attempt; undefined when this was the last one. */
  readonly waitMs: number | undefined;
}

async function runAttempt(step: Step, { attempt, polling }: Place, context: StepContext): Promise<Attempted> {
  const started = performance.now();
  const { phase, parent, emit } = context;
  const place = {
    phase,
    step: traceName(step, context),
    ...(parent === undefined ? {} : { parent }),
    attempt,
  };
  const name = step.name === undefined ? {} : { name: step.name };
  const begin = (input: JsonObject): void => {
    emit({ type: "step.started", stepType: step.type, ...place, ...name, input });
  };
  const tried = await attemptOf(step, context, begin);
  const { next, check } = polling.after(tried.outcome === "passed", performance.now());
  const report = withStability({ ...tried, ignored: isIgnored(step, context) }, check, next === undefined);
  const { outcome, checks, outputs, error } = report;
  emit({
    type: "step.finished",
    ...place,
    outcome,
    checks,
    ...(outputs === undefined ? {} : { outputs }),
    durationMs: performance.now() - started,
    ...(error === undefined ? {} : { error: serializeError(error) }),
    ...(report.ignored && outcome !== "passed" && outcome !== "skipped" ? { ignored: true as const } : {}),
  });
  context.signal.throwIfAborted();
  remember(step, report, context);
  const isFinal = outcome === "skipped" || report.untried === true;
  return { report, waitMs: isFinal ? undefined : next };
}

/** Outputs of an earlier run of the step no longer count. */
function remember({ id }: Step, { outcome, outputs, ignored }: StepReport, { trial }: StepContext): void {
  if (outcome === "skipped") return;
  trial.outputs.delete(id);
  trial.failed.delete(id);
  if (outcome === "failed" && !ignored) trial.failed.add(id);
  else if (outcome === "passed" && outputs !== undefined) trial.outputs.set(id, outputs);
}

function isIgnored(step: Step, { phase, ignored }: StepContext): boolean {
  return ignored === true || step.continueOnError === true || phase === "cleanup" || phase === "probe";
}

type Tried = Omit<StepReport, "ignored">;

/** Adds the check of `stableFor`; a step that did not stay true has failed, whatever the last attempt said. */
function withStability(report: StepReport, check: Check | undefined, isLast: boolean): StepReport {
  if (check === undefined || !isLast) return report;
  // That nothing was looked at stays so, for however long.
  const isVoid = check.passed && report.checks.every(({ acted }) => acted === true);
  const checks = [...report.checks, isVoid ? { ...check, acted: true as const } : check];
  return check.passed || report.outcome !== "passed"
    ? { ...report, checks }
    : { ...report, checks, outcome: "failed" };
}

/** One attempt, without its events but for the first; whatever goes wrong is in the outcome. */
async function attemptOf(
  written: Step,
  context: StepContext,
  begin: (input: JsonObject) => void,
): Promise<Tried> {
  let begun = false;
  const { scope, needed } = watchOutputs(context);
  try {
    if (written.if !== undefined && !conditionHolds(written.if, scope)) {
      begin({ if: written.if });
      return { outcome: "skipped", checks: [] };
    }
    const { expand, input } = runnerOf(written);
    const isCheck = scope !== undefined && context.phase === "verify";
    const step = expand(written, expanderOf(isCheck ? checkingScope(scope) : scope));
    begin(input(step));
    begun = true;
    return outcomeOf(await withinTime(step, context), step, scope);
  } catch (error) {
    // Events come in pairs, also for a step whose input could not be computed.
    if (!begun) begin({});
    const check = needed() ?? unfit(error);
    if (check !== undefined) return { outcome: "failed", checks: [check], untried: true };
    const outcome = error instanceof McpvalsError && error.kind === "timeout" ? "timeout" : "error";
    return { outcome, checks: [], error };
  }
}

/** The check for a value that the step cannot use: whoever gave it has failed. */
function unfit(error: unknown): Check | undefined {
  if (!(error instanceof McpvalsError) || error.code !== "task/unfit-value") return undefined;
  const { message } = error;
  return {
    name: "value",
    passed: false,
    expected: "a value that fits",
    actual: null,
    message,
    untried: true,
  };
}

async function withinTime(step: Step, context: StepContext): Promise<StepAttempt> {
  const runner = runnerOf(step);
  if (runner.keepsTime === true) return runner.run(step, context, runStep);
  const { timeoutMs } = step;
  const message = `it took longer than ${timeoutMs} ms`;
  const timeUp = new McpvalsError("step/timeout", `step ${step.id}: ${message}`);
  using limit = abortAfter(timeoutMs, () => timeUp, context.signal);
  return await runner.run(step, { ...context, signal: limit.signal }, runStep);
}

function outcomeOf(attempt: StepAttempt, step: Step, scope: Scope | undefined): Tried {
  switch (attempt.kind) {
    case "timeout":
      return {
        outcome: "timeout",
        checks: [],
        error: new McpvalsError("server/call-timeout", attempt.message),
      };
    case "error": {
      const { error, checks } = attempt;
      const timedOut = error instanceof McpvalsError && error.kind === "timeout";
      return { outcome: timedOut ? "timeout" : "error", checks, error };
    }
    case "checked": {
      const { checks, healthy = true } = attempt;
      const passed = healthy && checks.every((check) => check.passed);
      if (!passed) return { outcome: "failed", checks, ...outputsOfFailed(attempt, step, scope) };
      const outputs = outputsOf(attempt, step, scope);
      return { outcome: "passed", checks, ...(outputs === undefined ? {} : { outputs }) };
    }
  }
}

type Checked = Extract<StepAttempt, { kind: "checked" }>;

/** Outputs of a failed step are only shown: that they cannot be computed is not another error. */
function outputsOfFailed(
  attempt: Checked,
  step: Step,
  scope: Scope | undefined,
): Pick<StepReport, "outputs"> {
  try {
    const outputs = outputsOf(attempt, step, scope);
    return outputs === undefined ? {} : { outputs };
  } catch (error) {
    if (error instanceof McpvalsError) return {};
    throw error;
  }
}

function outputsOf(
  { values = {}, outputs = {} }: Checked,
  step: Step,
  scope: Scope | undefined,
): JsonObject | undefined {
  if (scope === undefined) return undefined;
  const local = withLocals(scope, { ...values, outputs });
  const { text } = expanderOf(local);
  const named = Object.entries(step.outputs ?? {}).map(([name, template]) => [name, text(template)] as const);
  const all = { ...outputs, ...Object.fromEntries(named) };
  return Object.keys(all).length === 0 ? undefined : all;
}

/**
 * Whether a step's `if` holds: `A == B` and `A != B` compare texts, anything else holds unless it is empty, `false` or
 * `0`. The sides are told apart before templates are replaced. Throws `task/template`.
 */
function conditionHolds(condition: string, scope: Scope | undefined): boolean {
  const expand = (text: string): string => (scope === undefined ? text : expandText(text, scope)).trim();
  const comparison = /^(.*?)\s(==|!=)\s(.*)$/s.exec(condition);
  if (comparison === null) return !["", "false", "0"].includes(expand(condition));
  const [, left = "", operator, right = ""] = comparison;
  return (expand(left) === expand(right)) === (operator === "==");
}

/** A scope that records when a text uses outputs of a failed step. */
export interface WatchedScope {
  readonly scope: Scope | undefined;
  /** The check that says so, once that has happened. */
  readonly needed: () => Check | undefined;
}

/**
 * Watches the outputs that a step uses. One that needs those of a failed step cannot act for the same reason for which that
 * one failed, so it is a failure too and no error.
 */
function watchOutputs({ scope, trial }: Pick<StepContext, "scope" | "trial">): WatchedScope {
  const steps = scope?.get("steps");
  if (scope === undefined || steps === undefined || trial.failed.size === 0)
    return { scope, needed: () => undefined };
  let needed: string | undefined;
  const watched: Resolve = (names, variant) => {
    const value = steps(names, variant);
    const [id] = names;
    if (value === undefined && id !== undefined && trial.failed.has(id)) needed ??= id;
    return value;
  };
  return {
    scope: new Map([...scope, ["steps", watched]]),
    needed: () => (needed === undefined ? undefined : neededCheck(needed)),
  };
}

function neededCheck(id: string): Check {
  return {
    name: "needs",
    passed: false,
    expected: `outputs of step ${id}`,
    actual: null,
    message: `not tried: it needs what step ${id} gives, and that failed`,
    untried: true,
  };
}
