import { McpvalsError } from "../core/errors/error.ts";
import type { Json } from "../core/formats/model.ts";
import type { AllOfStep, AnyOfStep, ForeachStep, GroupStep, NotStep, Step } from "../core/formats/step.ts";
import { loopItems } from "../core/templates/expand.ts";
import { withLocals } from "../core/templates/scope.ts";
import type { Check } from "../core/trace/events.ts";
import { commandStep } from "./command.ts";
import { extensionStep } from "./extension.ts";
import { fileStep } from "./file.ts";
import { httpStep } from "./http.ts";
import { llmStep } from "./llm.ts";
import { aResult } from "./mcp-answer.ts";
import { mcpStep } from "./mcp.ts";
import {
  type CleanupOptions,
  innerContext,
  joinedChecks,
  type Ran,
  runCleanup,
  runInner,
  runSequence,
  setupFailed,
  type SequenceReport,
} from "./run-sequence.ts";
import { scriptStep } from "./script.ts";
import type { RunChild, StepAttempt, StepContext, StepReport, StepRunner } from "./step-runner.ts";

/** Runs its steps for every item, one after the other; all must pass. Setup ends with the first item that fails. */
const foreachStep: StepRunner<ForeachStep> = {
  type: "foreach",
  expand: (step, { json, trusts }) => ({
    ...step,
    trusted: trusts(step.in),
    in: typeof step.in === "string" ? loopItems(json(step.in), step.in) : step.in.map((item) => json(item)),
  }),
  input: (step) => ({ var: step.variable, in: step.in }),
  async run(step, context, run) {
    const items = typeof step.in === "string" ? loopItems(step.in, step.in) : step.in;
    if (items.length === 0) return { kind: "checked", checks: [emptyCheck] };
    const kind = context.phase === "setup" ? "setup" : "verify";
    const { parent = "" } = innerContext(step, context);
    const checks: Check[] = [];
    let healthy = true;
    for (const [index, item] of items.entries()) {
      const inner = {
        ...context,
        parent: `${parent}[${index}]`,
        scope: context.scope && withLocals(context.scope, { [step.variable]: item }, step),
      };
      const { ran, passed, error } = await runSequence(step.steps, inner, { kind, run });
      for (const check of joinedChecks(ran, `${step.variable}=${label(item)} `)) checks.push(check);
      if (error !== undefined) return { kind: "error", error, checks };
      healthy &&= passed;
      if (!passed && kind === "setup") break;
    }
    return { kind: "checked", checks, healthy };
  },
};

/** An empty list proves nothing. */
const emptyCheck: Check = {
  name: "items",
  passed: false,
  expected: "at least one item",
  actual: 0,
  message: "the list is empty",
  untried: true,
};

function label(item: Json): string {
  const text = typeof item === "string" ? item : JSON.stringify(item);
  return text.length <= 40 ? text : `${text.slice(0, 40)}…`;
}

/**
 * Passes with the first of its steps that passes and has looked at something; one in which every step was skipped has not.
 * When none does it has failed, unless one of them could not act: that one might have passed.
 */
const anyOfStep: StepRunner<AnyOfStep> = {
  type: "anyOf",
  expand: (step) => step,
  input: (step) => ({ steps: step.steps.length }),
  async run(step, context, run) {
    const inner = innerContext(step, context);
    const tried: Ran[] = [];
    for (const alternative of step.steps) {
      const report = await run(alternative, inner);
      tried.push({ step: alternative, report });
      if (report.outcome === "passed" && report.checks.length > 0)
        return { kind: "checked", checks: [anyCheck(step, tried, true)] };
    }
    const checks = [anyCheck(step, tried, false)];
    if (tried.every(({ report }) => hasSeenNothing(report)))
      return { kind: "error", error: nothingSeen(step), checks };
    const broken = tried.find(({ report }) => report.outcome === "error" || report.outcome === "timeout");
    return broken === undefined
      ? { kind: "checked", checks }
      : { kind: "error", error: broken.report.error, checks };
  },
};

function hasSeenNothing({ outcome, checks, ignored }: StepReport): boolean {
  return (
    (ignored && outcome === "failed") ||
    outcome === "skipped" ||
    (outcome === "passed" && checks.length === 0)
  );
}

/** An error: a failure would count as proof in an enclosing `not`. */
function nothingSeen({ id }: AnyOfStep): McpvalsError {
  return new McpvalsError("step/cannot-run", `no alternative of ${id} looked at anything that counts`);
}

function anyCheck({ steps }: AnyOfStep, tried: readonly Ran[], passed: boolean): Check {
  const last = tried.at(-1);
  const { ignored = false, checks = [] } = last?.report ?? {};
  const acted = ignored || checks.every((check) => check.acted === true);
  const expected = `one of ${steps.length} alternatives`;
  const name = last?.step.name ?? last?.step.id ?? "";
  if (passed) {
    const check = { name: "anyOf", passed, expected, actual: name, message: `${name} holds` };
    return acted ? { ...check, acted } : check;
  }
  const reasons = tried.map((each) => reasonOf(each));
  const message = `none of ${steps.length} alternatives holds: ${reasons.join("; ")}`;
  const failed = joinedChecks(tried).filter((each) => !each.passed);
  const check = { name: "anyOf", passed, expected, actual: reasons, message };
  if (failed.some((each) => each.untried === true)) return { ...check, untried: true };
  const unplaced = failed.length > 0 && failed.every((each) => each.unplaced === true);
  return unplaced ? { ...check, unplaced } : check;
}

function reasonOf(each: Ran): string {
  const { step, report } = each;
  const failed = joinedChecks([each]).filter((check) => !check.passed);
  if (failed.length > 0) return failed.map((check) => `${check.name}: ${check.message}`).join(", ");
  const { error, outcome } = report;
  const ended = outcome === "passed" ? "it looked at nothing" : outcome;
  return `${step.name ?? step.id}: ${error instanceof Error ? error.message : ended}`;
}

/** Passes when all of its steps pass. */
const allOfStep: StepRunner<AllOfStep> = {
  type: "allOf",
  expand: (step) => step,
  input: (step) => ({ steps: step.steps.length }),
  async run(step, context, run) {
    return attemptOf(await runInner(step, step.steps, { context, run }));
  },
};

/** What steps in a row checked, as the attempt of the step that holds them. */
function attemptOf({ ran, passed, error }: SequenceReport): StepAttempt {
  const checks = joinedChecks(ran);
  return error === undefined
    ? { kind: "checked", checks, healthy: passed }
    : { kind: "error", error, checks };
}

/**
 * Passes when not all of its steps pass. A step that could not act proves nothing either way and is an error. A row in
 * which every step was skipped proves nothing either: then there is no check. With a step that has looked at nothing, such
 * as one that was not tried or whose program ended with a code that answers neither yes nor no, it fails; and also where all
 * that failed are checks of places in JSON of which nothing is known.
 */
const notStep: StepRunner<NotStep> = {
  type: "not",
  expand: (step) => step,
  input: (step) => ({ steps: step.steps.length }),
  async run(step, context, run) {
    const { ran, passed, error } = await runInner(step, step.steps, { context, run });
    if (error !== undefined) return { kind: "error", error, checks: [] };
    const looked = ran.filter(({ report }) => hasLooked(report));
    if (looked.length === 0) return { kind: "checked", checks: [] };
    const untried = joinedChecks(looked).filter((check) => check.untried === true);
    if (untried.length > 0) return { kind: "checked", checks: untried.map(withAdvice) };
    const failed = joinedChecks(looked).filter((check) => !check.passed);
    if (!passed && failed.length > 0 && failed.every((check) => check.unplaced === true))
      return { kind: "checked", checks: failed };
    const doubt = failed.find((check) => check.doubt !== undefined)?.doubt;
    const message = passed
      ? `it holds: ${messagesOf(looked, true)}`
      : `it does not hold: ${messagesOf(looked, false)}`;
    return {
      kind: "checked",
      checks: [
        {
          name: "not",
          passed: !passed,
          expected: "does not hold",
          actual: passed ? "holds" : "does not hold",
          message,
          ...(passed || doubt === undefined ? {} : { doubt }),
          ...(passed && isOnlyActed(looked) ? { untried: true as const } : {}),
        },
      ],
    };
  },
};

/** Adds advice about an exit code, a status or a failure that the author may have wanted to check for. */
function withAdvice(check: Check): Check {
  const [, name] = /(?:^|: )(exit code|status|call)$/.exec(check.name) ?? [];
  const what = name === "call" ? (check.expected === aResult ? "failure" : undefined) : name;
  if (what === undefined) return check;
  const advice = `the ${what} shows neither that it holds nor that it does not; to check for it, expect it instead of using not`;
  return check.message.endsWith(advice) ? check : { ...check, message: `${check.message}; ${advice}` };
}

/** A step that holds only skipped ones passes without a check. */
function hasLooked({ outcome, checks, ignored }: StepReport): boolean {
  return !ignored && outcome !== "skipped" && (outcome !== "passed" || checks.length > 0);
}

/** Steps that only acted are no evidence either way. */
function isOnlyActed(ran: readonly Ran[]): boolean {
  return joinedChecks(ran).every(({ acted }) => acted === true);
}

function messagesOf(ran: readonly Ran[], passed: boolean): string {
  const checks = joinedChecks(ran).filter((check) => check.passed === passed);
  return checks.map((check) => `${check.name}: ${check.message}`).join("; ");
}

/** Longest that a group's cleanup may take. */
const cleanupMs = 60_000;
/** The same for a group in a cleanup of which the time is up already. */
const lateCleanupMs = 2_000;

/**
 * Runs its setup, then its steps, then its cleanup in reverse, also when one of the others failed, timed out or was
 * interrupted. Its setup must succeed; what its steps check is what it checks.
 */
const groupStep: StepRunner<GroupStep> = {
  type: "group",
  expand: (step) => step,
  input: ({ setup, steps, cleanup }) => ({
    setup: setup.length,
    steps: steps.length,
    cleanup: cleanup.length,
  }),
  async run(step, context, run) {
    try {
      return await runParts(step, context, run);
    } finally {
      const inner = partContext(step, context, "cleanup");
      await runCleanup(step.cleanup, inner, { ...cleanupLimit(context), run });
    }
  },
};

/** Setup and cleanup of a group count as those phases, wherever the group is; a state probe stays one. */
function partContext(step: GroupStep, context: StepContext, part: "setup" | "cleanup"): StepContext {
  const inner = innerContext(step, context);
  return context.phase === "probe" ? inner : { ...inner, phase: part };
}

/** A cleanup inside another one ends with that; any other one also follows an interruption. */
function cleanupLimit({ ignored, signal }: StepContext): Pick<CleanupOptions, "timeoutMs" | "until"> {
  if (ignored !== true) return { timeoutMs: cleanupMs };
  return signal.aborted ? { timeoutMs: lateCleanupMs } : { timeoutMs: cleanupMs, until: signal };
}

async function runParts(step: GroupStep, outer: StepContext, run: RunChild): Promise<StepAttempt> {
  const setup = await runSequence(step.setup, partContext(step, outer, "setup"), { kind: "setup", run });
  if (!setup.passed)
    return { kind: "error", error: setup.error ?? setupFailed(setup.ran, pathOf(step, outer)), checks: [] };
  return attemptOf(await runInner(step, step.steps, { context: outer, run }));
}

/** The group's name in messages. An id that was made from its place already contains that of the step around it. */
function pathOf({ id, name }: GroupStep, { parent }: StepContext): string {
  const around = parent?.split("/").at(-1);
  const own = name ?? id;
  return parent === undefined || (around !== undefined && own.startsWith(around)) ? own : `${parent}/${own}`;
}

/** Every type of step, one line each. */
const runners: { readonly [T in Step["type"]]: StepRunner<Extract<Step, { type: T }>> } = {
  command: commandStep,
  http: httpStep,
  file: fileStep,
  llm: llmStep,
  script: scriptStep,
  mcp: mcpStep,
  extension: extensionStep,
  foreach: foreachStep,
  anyOf: anyOfStep,
  allOf: allOfStep,
  not: notStep,
  group: groupStep,
};

/** The runner of a step's type. */
export function runnerOf<S extends Step>(step: S): StepRunner<S> {
  // The table gives each type its own runner, which the compiler cannot follow through an index.
  return runners[step.type] as unknown as StepRunner<S>;
}
