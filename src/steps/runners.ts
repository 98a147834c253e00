import { McpvalsError } from "../base/error.ts";
import { type JsonObject, withoutUndefined } from "../base/json.ts";
import type {
  AllOfStep,
  AnyOfStep,
  ControlStep,
  ExtensionStep,
  ForeachStep,
  GroupStep,
  LlmStep,
  NotStep,
  Step,
} from "../model/step.ts";
import { loopItems } from "../templates/expand.ts";
import { withLocals } from "../templates/template.ts";
import type { Check } from "../model/event.ts";
import { aResult, mcpStep } from "./mcp.ts";
import {
  innerContext,
  joinedChecks,
  type Ran,
  type RunChild,
  runCleanup,
  runSequence,
  type SequenceReport,
  setupFailed,
  type StepAttempt,
  type StepContext,
  type StepReport,
  type StepRunner,
} from "./step-runner.ts";
import { excerpt } from "../expect/expectations.ts";

/** Asks the judge about a text, by default the agent's last message. Each criterion is a question and a check. */
const llmStep: StepRunner<LlmStep> = {
  input: ({ contains, exact, rubric, input }) => withoutUndefined({ contains, exact, rubric, input }),
  async run(step, { trial, signal }) {
    const { judge, prompt, agent } = trial;
    if (judge === undefined)
      throw new McpvalsError("task/no-judge", `step ${step.id} asks a judge, and none is configured`);
    const input = step.input ?? agent?.output ?? "";
    if (input.trim() === "") {
      // A judge may find anything in an empty text.
      const message =
        step.input === undefined ? "the agent said nothing" : "there is nothing to judge: the input is empty";
      const check = { name: "input", passed: false, expected: "a text", actual: input, message };
      return { kind: "checked", checks: [{ ...check, evidence: "notRun" }] };
    }
    let least = 1;
    const reasons: string[] = [];
    const checks: Check[] = [];
    for (const kind of ["contains", "exact", "rubric"] as const) {
      const reference = step[kind];
      if (reference === undefined) continue;
      const answer = await judge({ kind, reference, prompt, input }, signal);
      const { passed, score, reason } = answer;
      least = Math.min(least, score);
      reasons.push(reason);
      const message = `score ${Math.round(score * 100) / 100}: ${reason}`;
      const [expected, actual] = [excerpt(reference), excerpt(input)];
      checks.push({ name: kind, passed, expected, actual, message, judge: answer.judge });
    }
    return { kind: "checked", checks, values: { score: least, reason: reasons.join("\n") } };
  },
};

/** Runs an operation of an extension. An answer without success fails the step; anything else that goes wrong is an error. */
const extensionStep: StepRunner<ExtensionStep> = {
  keepsTime: true,
  input: ({ extension, operation, args }) => ({ extension, operation, args }),
  async run({ id, extension, operation, args, timeoutMs }, { trial, phase, signal }) {
    await trial.releasePorts([JSON.stringify(args)]);
    const call = { step: id, extension, operation, args, phase, timeoutMs };
    const { success, outputs = {}, ...said } = await trial.extensions.execute(call, signal);
    const texts = [said.message, said.error].filter((text) => text !== undefined && text.trim() !== "");
    const message =
      [...new Set(texts)].join(": ") || (success ? "it succeeded" : "it did not succeed, without a message");
    const name = `${extension}.${operation}`;
    const check = { name, passed: success, expected: true, actual: success, message };
    return { kind: "checked", checks: [check], values: outputs, outputs };
  },
};

/** Runs its steps for every item, one after the other; all must pass. Setup ends with the first item that fails. */
const foreachStep: StepRunner<ForeachStep> = {
  input: (step) => ({ var: step.variable, in: step.in }),
  async run(step, context, run) {
    const items = loopItems(step.in, step.in);
    if (items.length === 0) {
      const check = { name: "items", passed: false, expected: "at least one item", actual: 0 };
      return { kind: "checked", checks: [{ ...check, message: "the list is empty", evidence: "notRun" }] };
    }
    const { parent = "" } = innerContext(step, context);
    const checks: Check[] = [];
    let healthy = true;
    for (const [index, item] of items.entries()) {
      const scope = context.scope && withLocals(context.scope, { [step.variable]: item }, step);
      const inner = { ...context, parent: `${parent}[${index}]`, scope };
      const { ran, passed, error } = await runSequence(step.steps, inner, run);
      const text = typeof item === "string" ? item : JSON.stringify(item);
      const label = text.length <= 40 ? text : `${text.slice(0, 40)}…`;
      for (const check of joinedChecks(ran, `${step.variable}=${label} `)) checks.push(check);
      if (error !== undefined) return { kind: "error", error, checks };
      healthy &&= passed;
      if (!passed && context.phase === "setup") break;
    }
    return { kind: "checked", checks, healthy };
  },
};

const stepCount = (step: ControlStep): JsonObject => ({ steps: step.steps.length });

/**
 * Passes with the first of its steps that passes and has a check. If none does, it has failed, unless one of them could not act:
 * that one might have passed.
 */
const anyOfStep: StepRunner<AnyOfStep> = {
  input: stepCount,
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
    if (tried.every(({ report }) => hasCheckedNothing(report))) {
      // A failure would make an enclosing `not` pass.
      const message = `no alternative of ${step.id} checked anything`;
      return { kind: "error", error: new McpvalsError("step/cannot-run", message), checks };
    }
    const broken = tried.find(({ report }) => report.outcome === "error" || report.outcome === "timeout");
    return broken === undefined
      ? { kind: "checked", checks }
      : { kind: "error", error: broken.report.error, checks };
  },
};

function hasCheckedNothing({ outcome, checks, ignored }: StepReport): boolean {
  return (
    (ignored && outcome === "failed") ||
    outcome === "skipped" ||
    (outcome === "passed" && checks.length === 0)
  );
}

function anyCheck({ steps }: AnyOfStep, tried: readonly Ran[], passed: boolean): Check {
  const expected = `one of ${steps.length} alternatives`;
  if (passed) {
    const last = tried.at(-1);
    const { ignored = false, checks = [] } = last?.report ?? {};
    const actual = last?.step.name ?? last?.step.id ?? "";
    const check = { name: "anyOf", passed, expected, actual, message: `${actual} holds` };
    return ignored || areSideEffects(checks) ? { ...check, evidence: "sideEffect" } : check;
  }
  const reasons = tried.map((each) => reasonOf(each));
  const message = `none of ${steps.length} alternatives holds: ${reasons.join("; ")}`;
  const failed = joinedChecks(tried).filter((each) => !each.passed);
  const check = { name: "anyOf", passed, expected, actual: reasons, message };
  if (failed.some(({ evidence }) => evidence === "notRun")) return { ...check, evidence: "notRun" };
  const isPathMissing = failed.length > 0 && failed.every(({ evidence }) => evidence === "pathMissing");
  return isPathMissing ? { ...check, evidence: "pathMissing" } : check;
}

function areSideEffects(checks: readonly Check[]): boolean {
  return checks.every(({ evidence }) => evidence === "sideEffect");
}

function reasonOf(each: Ran): string {
  const { step, report } = each;
  const failed = joinedChecks([each]).filter((check) => !check.passed);
  if (failed.length > 0) return failed.map((check) => `${check.name}: ${check.message}`).join(", ");
  const { error, outcome } = report;
  const ended = outcome === "passed" ? "it checked nothing" : outcome;
  return `${step.name ?? step.id}: ${error instanceof Error ? error.message : ended}`;
}

/** Passes when all of its steps pass. */
const allOfStep: StepRunner<AllOfStep> = {
  input: stepCount,
  run: async (step, context, run) =>
    attemptOf(await runSequence(step.steps, innerContext(step, context), run)),
};

/** The checks of steps in a row, as the attempt of the step around them. */
function attemptOf({ ran, passed, error }: SequenceReport): StepAttempt {
  const checks = joinedChecks(ran);
  return error === undefined
    ? { kind: "checked", checks, healthy: passed }
    : { kind: "error", error, checks };
}

/**
 * Passes when not all of its steps pass. A step that could not act proves nothing and is an error. A row in which every
 * step was skipped proves nothing: then there is no check. It fails if a check was not run, such as one whose program ended with a
 * code that means neither yes nor no; if all that failed are checks of missing paths; and if its steps only have side effects.
 */
const notStep: StepRunner<NotStep> = {
  input: stepCount,
  async run(step, context, run) {
    const { ran, passed, error } = await runSequence(step.steps, innerContext(step, context), run);
    if (error !== undefined) return { kind: "error", error, checks: [] };
    // A step around skipped steps passes without a check.
    const counted = ran.filter(
      ({ report: { ignored, outcome, checks } }) =>
        !ignored && outcome !== "skipped" && (outcome !== "passed" || checks.length > 0),
    );
    if (counted.length === 0) return { kind: "checked", checks: [] };
    const all = joinedChecks(counted);
    const notRun = all.filter((check) => check.evidence === "notRun");
    if (notRun.length > 0) return { kind: "checked", checks: notRun.map(withAdvice) };
    const failed = all.filter((check) => !check.passed);
    if (!passed && failed.length > 0 && failed.every((check) => check.evidence === "pathMissing"))
      return { kind: "checked", checks: failed };
    const reasons = all.filter((check) => check.passed === passed);
    const state = passed ? "holds" : "does not hold";
    const check = {
      name: "not",
      passed: !passed,
      expected: "does not hold",
      actual: state,
      message: `it ${state}: ${reasons.map((each) => `${each.name}: ${each.message}`).join("; ")}`,
    };
    if (passed && areSideEffects(all)) return { kind: "checked", checks: [{ ...check, evidence: "notRun" }] };
    const doubt = passed ? undefined : failed.find((each) => each.doubt !== undefined)?.doubt;
    return { kind: "checked", checks: [doubt === undefined ? check : { ...check, doubt }] };
  },
};

/** Adds advice to a check of an exit code, a status or a failed call, which the author may have wanted to expect. */
function withAdvice(check: Check): Check {
  let [, what] = /(?:^|: )(exit code|status|call)$/.exec(check.name) ?? [];
  if (what === "call") what = check.expected === aResult ? "failure" : undefined;
  if (what === undefined) return check;
  const advice = `the ${what} means neither yes nor no; to check for it, expect it instead of using not`;
  return check.message.endsWith(advice) ? check : { ...check, message: `${check.message}; ${advice}` };
}

/** Time limit of a group's cleanup, in milliseconds. */
const cleanupMs = 60_000;
/** The same, inside a cleanup whose time is over. */
const lateCleanupMs = 2_000;

/**
 * Runs its setup, its steps, and always its cleanup, in reverse. Its setup must succeed; its checks are those of its steps.
 */
const groupStep: StepRunner<GroupStep> = {
  input: ({ setup, steps, cleanup }) => ({
    setup: setup.length,
    steps: steps.length,
    cleanup: cleanup.length,
  }),
  async run(step, context, run) {
    const inner = innerContext(step, context);
    // Setup and cleanup of a group have those phases, except in a state probe.
    const isProbe = context.phase === "probe";
    const { ignored, signal } = context;
    try {
      return await runGroup(step, context, isProbe ? inner : { ...inner, phase: "setup" }, run);
    } finally {
      // A cleanup inside another one ends with that one; any other one is not interrupted.
      let limits = {};
      if (ignored === true && !signal.aborted) limits = { until: signal };
      const timeoutMs = ignored === true && signal.aborted ? lateCleanupMs : cleanupMs;
      const cleanup = isProbe ? inner : ({ ...inner, phase: "cleanup" } as const);
      await runCleanup(step.cleanup, cleanup, run, { timeoutMs, ...limits });
    }
  },
};

async function runGroup(
  step: GroupStep,
  context: StepContext,
  setupContext: StepContext,
  run: RunChild,
): Promise<StepAttempt> {
  const { passed, ran, error } = await runSequence(step.setup, setupContext, run);
  if (passed) return attemptOf(await runSequence(step.steps, innerContext(step, context), run));
  const own = step.name ?? step.id;
  const around = context.parent?.split("/").at(-1);
  // An id that was made from the step's place begins with that of the step around it.
  const isWhole = around === undefined || own.startsWith(around);
  const path = isWhole ? own : `${context.parent}/${own}`;
  return { kind: "error", error: error ?? setupFailed(ran, path), checks: [] };
}

type RunnerOf<T extends Step["type"]> = StepRunner<Extract<Step, { type: T }>>;

/** The runner of every type of step. Those that tool tests do not need are loaded when they are used. */
const runners: { readonly [T in Step["type"]]: RunnerOf<T> | (() => Promise<RunnerOf<T>>) } = {
  command: async () => (await import("./program.ts")).commandStep,
  http: async () => (await import("./http.ts")).httpStep,
  file: async () => (await import("./file.ts")).fileStep,
  llm: llmStep,
  script: async () => (await import("./script.ts")).scriptStep,
  mcp: mcpStep,
  extension: extensionStep,
  foreach: foreachStep,
  anyOf: anyOfStep,
  allOf: allOfStep,
  not: notStep,
  group: groupStep,
};

export async function runnerOf<S extends Step>(step: S): Promise<StepRunner<S>> {
  const runner = runners[step.type];
  // The table gives each type its own runner, which the compiler cannot follow through an index.
  return (typeof runner === "function" ? await runner() : runner) as unknown as StepRunner<S>;
}
