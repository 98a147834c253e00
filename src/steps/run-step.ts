import { McpvalsError, serializeError } from "../base/error.ts";
import { mapValues, withoutUndefined, type Json, type JsonObject } from "../base/json.ts";
import {
  type JsonExpectation,
  kindOf,
  type Step,
  type TextExpectation,
  type TextRole,
} from "../model/step.ts";
import {
  checkingScope,
  type Expander,
  expanderOf,
  loopItems,
  refuseEmptySearch,
} from "../templates/expand.ts";
import { type Resolve, type Scope, withLocals } from "../templates/template.ts";
import type { Check } from "../model/event.ts";
import { pause } from "../process/deadline.ts";
import {
  type StepAttempt,
  type StepContext,
  type StepReport,
  type StepRunner,
  traceName,
} from "./step-runner.ts";
import { runnerOf } from "./runners.ts";
import {
  expandJsonExpectations,
  expandResultExpectation,
  expandTextExpectation,
} from "../expect/expectations.ts";

/**
 * Runs a step: attempts until it passes, has stayed true long enough, or its time to retry is over. Each attempt has a pair of
 * events. Throws only the reason of the context's signal.
 */
export async function runStep(step: Step, context: StepContext): Promise<StepReport> {
  const { phase, parent, emit, signal } = context;
  signal.throwIfAborted();
  const nextAttempt = polling(step, performance.now());
  for (let attempt = 1; ; attempt += 1) {
    const started = performance.now();
    const place = withoutUndefined({ phase, step: traceName(step, context), parent, attempt });
    const tried = await attemptOf(step, context, (input) => {
      const { type: stepType, name } = step;
      emit({ type: "step.started", stepType, ...place, ...withoutUndefined({ name }), input });
    });
    const { waitMs, check } = nextAttempt(tried.outcome === "passed", performance.now());
    const ignored =
      context.ignored === true || step.continueOnError === true || phase === "cleanup" || phase === "probe";
    const ended = check === undefined ? tried : withStability(tried, check);
    const report = { ...ended, ignored };
    const { outcome, checks, outputs, error } = report;
    const isIgnored = ignored && outcome !== "passed" && outcome !== "skipped";
    emit({
      type: "step.finished",
      ...place,
      outcome,
      checks,
      durationMs: performance.now() - started,
      ...withoutUndefined({
        outputs,
        error: error === undefined ? undefined : serializeError(error),
        ignored: isIgnored ? (true as const) : undefined,
      }),
    });
    signal.throwIfAborted();
    remember(step, report, context);
    if (waitMs === undefined || outcome === "skipped" || report.notRun === true) return report;
    if (waitMs > 0) await pause(waitMs, signal);
    signal.throwIfAborted();
  }
}

/** Default pause between two attempts of a step that has to stay true, in milliseconds. */
const defaultEveryMs = 1000;

interface NextAttempt {
  /** The pause before the next attempt; undefined after the last one. */
  readonly waitMs: number | undefined;
  /** The result of `stableFor`, after the last attempt. */
  readonly check?: Check | undefined;
}

/** Gives a function to be called after each attempt of a step, which decides about the next one. Times are in milliseconds. */
export function polling(
  { retry, retries = 0, stableForMs }: Pick<Step, "retry" | "retries" | "stableForMs">,
  started: number,
): (passed: boolean, now: number) => NextAttempt {
  const everyMs = retry?.everyMs ?? defaultEveryMs;
  let attempts = 0;
  let passingSince: number | undefined;
  return (passed, now) => {
    attempts += 1;
    const held = now - (passingSince ?? now);
    if (passed) {
      passingSince ??= now;
      if (stableForMs === undefined) return { waitMs: undefined };
      if (held < stableForMs) return { waitMs: Math.min(everyMs, stableForMs - held) };
      return { waitMs: undefined, check: stabilityCheck(stableForMs, held, true) };
    }
    const hadPassed = passingSince !== undefined;
    passingSince = undefined;
    if (attempts <= retries) return { waitMs: 0 };
    const left = retry === undefined ? 0 : started + retry.forMs - now;
    if (left > 0) return { waitMs: Math.min(everyMs, left) };
    const wasStable = hadPassed && stableForMs !== undefined;
    return { waitMs: undefined, check: wasStable ? stabilityCheck(stableForMs, held, false) : undefined };
  };
}

function stabilityCheck(expectedMs: number, heldMs: number, passed: boolean): Check {
  const held = Math.round(heldMs);
  const message = `stayed true for ${held} ms${passed ? "" : ` of ${expectedMs} ms only`}`;
  return { name: "stable", passed, expected: expectedMs, actual: held, message };
}

/** A report without `ignored`. */
type Tried = Omit<StepReport, "ignored">;

/** Adds the check of `stableFor`. A step that did not stay true has failed. */
function withStability(tried: Tried, check: Check): Tried {
  // That a side effect lasts is no evidence either.
  const isSideEffect = check.passed && tried.checks.every(({ evidence }) => evidence === "sideEffect");
  const stability: Check = isSideEffect ? { ...check, evidence: "sideEffect" } : check;
  const outcome = check.passed || tried.outcome !== "passed" ? tried.outcome : "failed";
  return { ...tried, outcome, checks: [...tried.checks, stability] };
}

/** Stores the result for later steps, in place of that of an earlier run of the step. */
function remember({ id }: Step, { outcome, outputs, ignored }: StepReport, { trial }: StepContext): void {
  if (outcome === "skipped") return;
  trial.outputs.delete(id);
  trial.failed.delete(id);
  if (outcome === "failed" && !ignored) trial.failed.add(id);
  else if (outcome === "passed" && outputs !== undefined) trial.outputs.set(id, outputs);
}

/** One attempt; every error is in the outcome. `begin` is called once, with the step's input for the trace. */
async function attemptOf(
  written: Step,
  context: StepContext,
  begin: (input: JsonObject) => void,
): Promise<Tried> {
  let hasBegun = false;
  const { scope, neededCheck } = watchOutputs(context);
  try {
    if (written.if !== undefined && !conditionHolds(written.if, scope)) {
      begin({ if: written.if });
      return { outcome: "skipped", checks: [] };
    }
    const step = scope === undefined ? written : expandStep(written, expanderIn(scope, context));
    const runner = await runnerOf(step);
    begin(runner.input(step));
    hasBegun = true;
    return readAttempt(await withinTime(step, context, runner), step, scope);
  } catch (error) {
    // A step whose input could not be computed has a pair of events too.
    if (!hasBegun) begin({});
    const check = neededCheck() ?? unfitCheck(error);
    return check === undefined ? failureOf(error) : { outcome: "failed", checks: [check], notRun: true };
  }
}

/** In a check, an empty answer of the agent is refused. */
function expanderIn(scope: Scope, { phase }: StepContext): Expander {
  return expanderOf(phase === "verify" ? checkingScope(scope) : scope);
}

function failureOf(error: unknown, checks: readonly Check[] = []): Tried {
  const isTimeout = error instanceof McpvalsError && error.kind === "timeout";
  return { outcome: isTimeout ? "timeout" : "error", checks, error };
}

/** The check for a value that the step cannot use. */
function unfitCheck(error: unknown): Check | undefined {
  if (!(error instanceof McpvalsError) || error.code !== "task/unfit-value") return undefined;
  const { message } = error;
  const expected = "a value that fits";
  return { name: "value", passed: false, expected, actual: null, message, evidence: "notRun" };
}

async function withinTime(step: Step, context: StepContext, runner: StepRunner): Promise<StepAttempt> {
  if (runner.keepsTime === true) return runner.run(step, context, runStep);
  const { id, timeoutMs } = step;
  const timeUp = new McpvalsError("step/timeout", `step ${id}: it took longer than ${timeoutMs} ms`);
  using limit = context.trial.clocks.start(timeoutMs, () => timeUp, context.signal);
  return await runner.run(step, { ...context, signal: limit.signal }, runStep);
}

function readAttempt(attempt: StepAttempt, step: Step, scope: Scope | undefined): Tried {
  if (attempt.kind === "timeout") return failureOf(new McpvalsError("server/call-timeout", attempt.message));
  if (attempt.kind === "error") return failureOf(attempt.error, attempt.checks);
  const { checks, healthy = true } = attempt;
  const passed = healthy && checks.every((check) => check.passed);
  let outputs: JsonObject | undefined;
  try {
    outputs = outputsOf(attempt, step, scope);
  } catch (error) {
    // Outputs of a failed step are only shown, so they may be missing.
    if (passed || !(error instanceof McpvalsError)) throw error;
  }
  const outcome = passed ? "passed" : "failed";
  return { outcome, checks: markSideEffects(checks, step), outputs };
}

/** Marks the passed checks of a step that checks nothing. */
function markSideEffects(checks: readonly Check[], step: Step): readonly Check[] {
  const kind = kindOf(step.type);
  if (kind.inner.length > 0 || kind.checks(step, 0)) return checks;
  return checks.map((check) => (check.passed ? { ...check, evidence: "sideEffect" } : check));
}

function outputsOf(
  { values = {}, outputs = {} }: Extract<StepAttempt, { kind: "checked" }>,
  step: Step,
  scope: Scope | undefined,
): JsonObject | undefined {
  if (scope === undefined) return undefined;
  const { text } = expanderOf(withLocals(scope, { ...values, outputs }));
  const all = { ...outputs, ...mapValues(step.outputs ?? {}, text) };
  return Object.keys(all).length === 0 ? undefined : all;
}

/**
 * Whether a step's `if` holds: `A == B` and `A != B` compare texts, anything else holds unless it is empty, `false` or
 * `0`. The sides are separated before templates are replaced. Throws `task/template`.
 */
function conditionHolds(condition: string, scope: Scope | undefined): boolean {
  const expand = (text: string): string => expanderOf(scope).text(text).trim();
  const comparison = /^(.*?)\s(==|!=)\s(.*)$/s.exec(condition);
  if (comparison === null) return !["", "false", "0"].includes(expand(condition));
  const [, left = "", operator, right = ""] = comparison;
  return (expand(left) === expand(right)) === (operator === "==");
}

/**
 * Watches which outputs a step uses. A step that needs outputs of a failed step is a failure too, not an error: `neededCheck` gives
 * its check.
 */
function watchOutputs({ scope, trial }: Pick<StepContext, "scope" | "trial">): {
  readonly scope: Scope | undefined;
  readonly neededCheck: () => Check | undefined;
} {
  const steps = scope?.get("steps");
  if (scope === undefined || steps === undefined || trial.failed.size === 0)
    return { scope, neededCheck: () => undefined };
  let needed: string | undefined;
  const watched: Resolve = (names, variant) => {
    const value = steps(names, variant);
    const [id] = names;
    if (value === undefined && id !== undefined && trial.failed.has(id)) needed ??= id;
    return value;
  };
  return {
    scope: new Map([...scope, ["steps", watched]]),
    neededCheck() {
      if (needed === undefined) return undefined;
      const message = `not run: it needs outputs of step ${needed}, which failed`;
      const expected = `outputs of step ${needed}`;
      return { name: "needs", passed: false, expected, actual: null, message, evidence: "notRun" };
    },
  };
}

/**
 * Replaces the templates in a step's own fields, by the roles that its kind gives them; not in `id`, `name`, `if`, `outputs` and
 * the steps inside it. In shell text, values from outside become variables. Throws `task/unfit-value` for an empty value from
 * outside that a program may search for.
 */
function expandStep<S extends Step>(step: S, expander: Expander): S {
  const { model, texts } = kindOf(step.type);
  const variables: Record<string, string> = {};
  const expandAs = (role: TextRole, value: unknown, key: string): unknown => {
    if (role.role !== "text") return expandValue(role.role, value, expander);
    if (Array.isArray(value)) return value.map((item) => expandAs(role, item, key));
    const place = role.place(step, { key, resolve: expander.text });
    if (place !== "shell") return expander.placed(value as string, place);
    const shell = expander.shell(value as string);
    Object.assign(variables, shell.variables);
    return shell.text;
  };
  const expand = (value: unknown, path: string, pattern: string, key: string): unknown => {
    const role = texts[path] ?? texts[pattern];
    if (role !== undefined) return expandAs(role, value, key);
    if (typeof value !== "object" || value === null) return value;
    return mapValues({ ...value }, (member, name) => expand(member, `${path}.${name}`, `${path}.*`, name));
  };
  const fields: Readonly<Record<string, unknown>> = { ...step };
  const expanded = mapValues(fields, (value, key) => (key in model ? expand(value, key, "", key) : value));
  const program = kindOf(step.type).programText?.(step);
  if (program !== undefined) refuseEmpty(program.text, program.given, expander);
  const env = "env" in expanded ? { env: { ...(expanded["env"] as object), ...variables } } : {};
  const trusted = step.type === "foreach" ? { trusted: expander.trusts(step.in) } : {};
  return { ...expanded, ...env, ...trusted } as S;
}

function expandValue(role: Exclude<TextRole["role"], "text">, value: unknown, expander: Expander): unknown {
  switch (role) {
    case "fixed":
      return value;
    case "wanted":
      return expander.wanted(value as string);
    case "text expectation":
      return typeof value === "string"
        ? expander.text(value)
        : expandTextExpectation(value as TextExpectation, expander);
    case "JSON expectations":
      return expandJsonExpectations(value as readonly JsonExpectation[], expander);
    case "result expectation":
      return expandResultExpectation(value as Json, expander);
    case "JSON":
    case "JSON Schema":
      return expander.json(value as Json);
    case "items": {
      const items = expander.json(value as Json);
      return typeof value === "string" ? loopItems(items, value) : items;
    }
  }
}

function refuseEmpty(program: string, given: readonly string[], expander: Expander): void {
  for (const template of given)
    if (!expander.trusts(template)) refuseEmptySearch(program, template, expander.text(template));
}
