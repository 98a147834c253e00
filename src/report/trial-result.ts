import { alikeFindings } from "../model/alike-findings.ts";
import { decisionsOf } from "./decisions.ts";
import {
  agentUse,
  checkedNothing,
  costOf,
  ratesOf,
  taskOf,
  taskRates,
  wasNotRun,
  wholeCost,
} from "./rates.ts";
import { countTasksAlike, filled, meanRate, sumOf, theseTasks, trialsToDecide } from "../statistics/rates.ts";
import { triggerAccuracy } from "../graders/declared.ts";
import { asObject, withoutUndefined } from "../base/json.ts";
import { type Task, testedTool } from "../model/task.ts";
import type { Thresholds } from "../model/eval.ts";
import { judgesOf } from "../graders/judge/calibration.ts";
import { measure } from "../graders/measurements/measure.ts";
import {
  answerRate,
  coveredKind,
  lowerBound,
  maxCost,
  maxP95Latency,
  type Metric,
  metricOf,
  runMeasures,
} from "../graders/measurements/metrics.ts";
import { findingsOf } from "../model/finding.ts";
import type { Plan, Trial } from "../model/plan.ts";
import { eventsOf, type TrialOutcome } from "../model/event.ts";
import { agentActs, toMicroseconds, toolDigest } from "../trace/agent-acts.ts";
import { addUsage, type Trajectory } from "../trace/trajectory.ts";
import { untoldStates, warningsOf } from "../trace/warnings.ts";
import {
  CoverageCounter,
  LatencyCounter,
  coverageGaps,
  coverageTotals,
  MeasurementCounter,
  RoutingCounter,
} from "./counters.ts";
import type {
  CoverageKind,
  ProgramRun,
  RunResult,
  RunSummary,
  RunVerdict,
  TaskRate,
  ToolDigest,
  TrialResult,
} from "../model/result.ts";
import type { SerializedError } from "../base/serialized-error.ts";
import type { Grade, Usage, Verdict } from "../model/grade.ts";

/** Said of a pass of the agent `null`. */
export const nullAgentWarning =
  "it passes with an agent that does nothing, so its checks show nothing of what an agent does";

/**
 * The row of a trial in the result. `given` are its grades; a completed trial without them is one whose graders were
 * interrupted.
 */
export function trialResult(trajectory: Trajectory, given: readonly Grade[] | undefined): TrialResult {
  const { trial, task, events, usage } = trajectory;
  const finished = events.findLast((event) => event.type === "trial.finished");
  const isUngraded = finished?.outcome === "completed" && given === undefined;
  const outcome = isUngraded ? "interrupted" : (finished?.outcome ?? "interrupted");
  const grades = given ?? [];
  const verdict = trialVerdict(outcome, grades);
  const isNullAgent = eventsOf(events, "agent.started").some(({ kind }) => kind === "null");
  const warnings = [
    // What a check tries on purpose would be odd in an agent.
    ...(task.form === "check" ? [] : warningsOf(trajectory)),
    ...(verdict === "pass" && isNullAgent ? [nullAgentWarning] : []),
    ...(verdict === "pass" ? idleGraders(task, grades) : []),
  ];
  const called = eventsOf(events, "model.called");
  const judged = called.filter(({ purpose }) => purpose === "judge");
  const throttledMs = called.reduce((sum, event) => sum + (event.throttledMs ?? 0), 0);
  const started = eventsOf(events, "server.started").filter(({ transport }) => transport === "mock");
  const mocks = [...new Set(started.map(({ server }) => server))].toSorted();
  const lost = [...new Set(eventsOf(events, "server.lost").map(({ server }) => server))];
  const durationMs = finished?.durationMs ?? 0;
  return rowOf(
    trial,
    task,
    { verdict, score: averageScore(grades), durationMs, grades },
    {
      error:
        finished === undefined
          ? interruption("the trial was cut off before it ended")
          : isUngraded
            ? interruption("the run was interrupted before this trial was graded")
            : finished.error,
      usage,
      judgeUsage: judged.reduce<Usage | undefined>((sum, event) => addUsage(sum, event.usage), undefined),
      throttledMs: throttledMs === 0 ? undefined : toMicroseconds(throttledMs),
      ran: programRun(trajectory),
      tools: usesOfTools(trajectory),
      measurements: measure(trajectory)?.row,
      toolsCalled: toolsCalled(trajectory),
      lostServers: lost.length === 0 ? undefined : lost,
      mocks: mocks.length === 0 ? undefined : mocks,
      byToolResult: verdict === "pass" && untoldStates(trajectory).length > 0 ? true : undefined,
      warnings: warnings.length === 0 ? undefined : warnings,
    },
  );
}

/** Required graders that a task declares and that had nothing to judge, a sentence for each. */
function idleGraders(task: Task, grades: readonly Grade[]): readonly string[] {
  const declared = new Set(task.graders?.map(({ name }) => name));
  return grades
    .filter(
      ({ grader, verdict, required }) => verdict === "skip" && required !== false && declared.has(grader),
    )
    .map(({ grader, reason }) => `the grader ${JSON.stringify(grader)} judged nothing: ${reason}`);
}

/** What a program reports of itself, also when it connects to a server through the gateway. */
function programRun({ events, exchanges }: Trajectory): ProgramRun | undefined {
  const started = events.find((event) => event.type === "agent.started");
  if (started?.kind !== "acp" && started?.kind !== "command") return undefined;
  const told = eventsOf(events, "agent.reported");
  const clients = exchanges.flatMap(({ request: { client, message }, params }) => {
    if (client === undefined || message["method"] !== "initialize") return [];
    const { name, version } = asObject(params["clientInfo"]);
    if (typeof name !== "string") return [];
    return [typeof version === "string" ? `${name} ${version}` : name];
  });
  return {
    programs: namesOrNull([...[started, ...told].flatMap(({ program }) => program ?? []), ...clients]),
    models: namesOrNull(told.flatMap(({ model }) => model ?? [])),
  };
}

function namesOrNull(names: readonly string[]): readonly string[] | null {
  return names.length === 0 ? null : [...new Set(names)];
}

/** Nothing where there was nothing to use, so that a run of very many trials stays small. */
function usesOfTools(trajectory: Trajectory): ToolDigest | undefined {
  const { trial, task, events } = trajectory;
  if (trial.agent === null || events.length === 0) return undefined;
  // A trial may go on without a server that it does not require.
  const failed = new Set(eventsOf(events, "server.failed").map(({ server }) => server));
  const servers = task.servers.filter((name) => !failed.has(name));
  const acts = Map.groupBy(agentActs(trajectory), ({ type }) => type);
  if (!acts.has("tool") && servers.length === 0) return undefined;
  return withoutUndefined({
    ...toolDigest(trajectory, servers),
    resourceReads: acts.get("resource")?.length,
    promptGets: acts.get("prompt")?.length,
  });
}

/** How many tools the calls of a check were made of; a server that is lost may end them early. */
function toolsCalled({ task: { check }, events }: Trajectory): number | undefined {
  if (check?.kind !== "calls" || check.calls === undefined) return undefined;
  const { calls } = check;
  const made = eventsOf(events, "probe.started").flatMap(({ call = -1 }) => calls[call]?.tool ?? []);
  return new Set(made).size;
}

/** The row of a trial without grades: one that never started, or that ended with an unexpected error. */
export function ungradedTrial(
  trial: Trial,
  task: Task,
  { error, ...outcome }: Pick<TrialResult, "verdict" | "durationMs"> & { readonly error: SerializedError },
): TrialResult {
  return rowOf(trial, task, { ...outcome, score: null, grades: [] }, { error });
}

function interruption(message: string): SerializedError {
  return { code: "run/interrupted", kind: "interrupted", message };
}

const neverStarted = "the run was interrupted before this trial started";

/** The error of a trial that never started: the run was interrupted, its budget was used up, or it was told to stop early. */
export function notRun({
  interrupted,
  usedUp,
}: {
  readonly interrupted: boolean;
  /** Of a budget, the reason. */
  readonly usedUp: string | undefined;
}): SerializedError {
  if (interrupted) return interruption(neverStarted);
  const kind = "interrupted";
  return usedUp === undefined
    ? { code: "run/bailed", kind, message: "not run, because an earlier trial did not pass" }
    : { code: "run/budget", kind, message: `not run: ${usedUp}` };
}

/** What every row has is in one object literal, which takes half the memory of an object that is put together. */
function rowOf(
  { id, task: name, agent, variant, attempt }: Trial,
  { form, suite, portable, verify }: Task,
  {
    verdict,
    score,
    durationMs: ms,
    grades,
  }: Pick<TrialResult, "verdict" | "score" | "durationMs" | "grades">,
  rest: { readonly [K in keyof TrialResult]?: TrialResult[K] | undefined },
): TrialResult {
  const durationMs = toMicroseconds(ms);
  const row: TrialResult = { id, task: name, form, agent, attempt, verdict, score, durationMs, grades };
  const { difficulty, tags = [], labels = {} } = portable ?? {};
  return Object.assign(
    row,
    withoutUndefined({
      suite,
      tool: testedTool({ form, verify }),
      difficulty,
      tags: tags.length === 0 ? undefined : tags,
      labels: Object.keys(labels).length === 0 ? undefined : labels,
      variant,
      ...rest,
    }),
  );
}

/** Whether a server under test is at fault that a trial could not be judged: it had completed its handshake. */
export function isServerError({ verdict, lostServers }: TrialResult): boolean {
  return verdict === "error" && lostServers !== undefined;
}

export function summarize(trials: readonly TrialResult[]): RunSummary {
  const counts: Record<Verdict, number> = { pass: 0, fail: 0, error: 0, timeout: 0, skip: 0 };
  for (const trial of trials) counts[trial.verdict] += 1;
  const serverErrors = trials.filter(isServerError).length;
  const byToolResult = trials.filter((trial) => trial.byToolResult === true).length;
  return withoutUndefined({
    total: trials.length,
    ...counts,
    byToolResult: byToolResult || undefined,
    serverErrors: serverErrors || undefined,
  });
}

function tooManyWarnings(trials: readonly TrialResult[], most: number): boolean {
  return most < Infinity && countWarnings(trials) > most;
}

/** What decides about a run besides its trials. */
export interface VerdictRules extends Partial<
  Pick<RunResult, "coverage" | "environment" | "decisions" | "latency" | "comparison">
> {
  readonly interrupted: boolean;
  readonly maxWarnings?: number | undefined;
  readonly thresholds?: Thresholds | undefined;
}

/**
 * The verdict of a run. An interrupted run is `interrupted`; else a failed trial, a value below its threshold, or more than
 * `maxWarnings` warnings make it `fail`; else it is `incomplete` when something could have changed the verdict (an error, a
 * timeout, a trial that was never run or in which nothing was checked, nothing to compare with a threshold) or when no trial was
 * judged, or when what it was to decide is undecided; else `pass`. A comparison with `failOn` is a failure, or undecided, as its exit code says. See {@link failuresOf} for which failed
 * trials count.
 */
export function runVerdict(
  trials: readonly TrialResult[],
  { interrupted, maxWarnings = Infinity, thresholds = {}, ...covering }: VerdictRules,
): RunVerdict {
  if (interrupted) return "interrupted";
  const { pass, fail, error, timeout } = summarize(trials);
  const gates = gatesOf(trials, thresholds, covering);
  const compared = covering.comparison?.failOn?.exitCode;
  const isFailed = compared === 1 || failuresOf(trials, { thresholds, ...covering }).length > 0;
  if (isFailed || gates.some(({ verdict }) => verdict === "fail") || tooManyWarnings(trials, maxWarnings))
    return "fail";
  const isUndecided =
    compared === 3 || covering.decisions?.some(({ verdict }) => verdict === "undecided") === true;
  const isOpen = error + timeout > 0 || isUndecided || gates.some(({ verdict }) => verdict === "incomplete");
  if (isOpen || pass + fail === 0 || trials.some((trial) => wasNotRun(trial) || checkedNothing(trial)))
    return "incomplete";
  return "pass";
}

/** Whether one of the thresholds of these names decides about failed trials, of which otherwise one fails the run. */
export function decidesFailures(names: readonly string[]): boolean {
  return names.some((name) => name === "passRate" || name === lowerBound);
}

/**
 * The failed trials that fail a run: all, but where something else decides about them. A threshold of `passRate` or `lowerBound` does about all, one of `trigger_accuracy` about those
 * that failed as trigger tests, a comparison with `failOn` about those of the tasks that it compares.
 */
export function failuresOf(
  trials: readonly TrialResult[],
  { thresholds = {}, comparison }: Pick<VerdictRules, "thresholds" | "comparison">,
): readonly TrialResult[] {
  if (decidesFailures(Object.keys(thresholds))) return [];
  const [compared] = comparison?.failOn === undefined ? [] : comparison.compared;
  const tasks = Map.groupBy(
    (compared?.tasks ?? []).filter(({ difference }) => difference !== undefined),
    taskOf,
  );
  const isCompared = (trial: TrialResult): boolean =>
    tasks
      .get(taskOf(trial))
      ?.some(
        ({ agent = trial.agent, variant = trial.variant }) =>
          agent === trial.agent && variant === trial.variant,
      ) === true;
  return trials.filter(
    (trial) => trial.verdict === "fail" && !isTriggerTest(trial, thresholds) && !isCompared(trial),
  );
}

/** Whether a failed trial failed only as a test of what its prompt triggers, and there is a threshold for such tests. */
function isTriggerTest(trial: TrialResult, thresholds: Thresholds): boolean {
  if (!Object.hasOwn(thresholds, triggerAccuracy)) return false;
  return decidingGrades(trial).every(({ grader }) => grader === triggerAccuracy);
}

/** The grades that gave a trial its verdict. */
export function decidingGrades({
  verdict,
  grades,
}: Pick<TrialResult, "verdict" | "grades">): readonly Grade[] {
  return grades.filter((grade) => grade.verdict === verdict && grade.required !== false);
}

/** Collects from the trials of a run what its result says of all of them. */
export class RunTally {
  readonly #coverage = new CoverageCounter();
  readonly #measurements: MeasurementCounter;
  readonly #routing = new RoutingCounter();

  /** Only where it is needed, since it keeps a number of each call. */
  readonly #latency: LatencyCounter | undefined;

  constructor({ agents, thresholds = {} }: Pick<Plan, "agents" | "thresholds">) {
    this.#measurements = new MeasurementCounter(agents);
    this.#latency = Object.hasOwn(thresholds, maxP95Latency) ? new LatencyCounter() : undefined;
  }

  add(trajectory: Trajectory, result: TrialResult): void {
    this.#coverage.add(trajectory);
    this.#measurements.add(trajectory, result);
    this.#routing.add(trajectory, result);
    this.#latency?.add(trajectory);
  }

  /** The result of the run, with all of its trials. */
  result(
    {
      id,
      startedAt,
      durationMs,
      budget,
      environment,
      gradedFrom,
      retryOf,
      fingerprints,
      comparison,
    }: ResultHead,
    trials: readonly TrialResult[],
    plan: Plan,
    { interrupted }: Pick<VerdictRules, "interrupted">,
  ): RunResult {
    const totals = this.totals();
    const { passRate, rates } = ratesOf(trials);
    return withoutUndefined({
      schema: "mcpvals.result/1" as const,
      id,
      name: plan.name,
      ...conclude(trials, plan, { interrupted, environment, ...totals, ...withoutUndefined({ comparison }) }),
      budget,
      startedAt,
      durationMs,
      gradedFrom,
      retryOf,
      summary: withoutUndefined({ ...summarize(trials), warnings: countWarnings(trials) || undefined }),
      passRate,
      fingerprints,
      trials,
      rates,
      ...totals,
      comparison,
      environment,
    });
  }

  /** What the trials that were added say together. */
  totals(): Pick<RunResult, "coverage" | "measurements" | "routing" | "latency"> {
    return withoutUndefined({
      latency: this.#latency?.result(),
      coverage: this.#coverage.result(),
      measurements: this.#measurements.result(),
      routing: this.#routing.result(),
    });
  }
}

interface ResultHead extends Pick<
  RunResult,
  "id" | "startedAt" | "durationMs" | "budget" | "environment" | "gradedFrom" | "retryOf"
> {
  readonly fingerprints: RunResult["fingerprints"] | undefined;
  /** With the baseline of the plan. */
  readonly comparison: RunResult["comparison"] | undefined;
}

/** What a result says of its verdict. */
export function conclude(
  trials: readonly TrialResult[],
  plan: Plan,
  ended: Omit<VerdictRules, "maxWarnings" | "thresholds">,
): Pick<RunResult, "verdict" | "maxWarnings" | "gates" | "decisions" | "judges"> {
  const { maxWarnings, thresholds } = plan;
  const decisions = plan.until && decisionsOf(trials, plan);
  const deciding = { ...ended, ...withoutUndefined({ decisions }) };
  return withoutUndefined({
    verdict: runVerdict(trials, { ...deciding, maxWarnings, thresholds }),
    maxWarnings,
    gates: thresholds && gatesOf(trials, thresholds, deciding),
    decisions,
    judges: judgesOf(trials, ended.environment?.calibrations),
  });
}

/**
 * What a run that was killed, interrupted or stopped early left of a trial: `cut-off`, it had begun; `not-run`, it had not. Undefined
 * for any other trial.
 */
export function unfinishedState(trial: TrialResult): "cut-off" | "not-run" | undefined {
  if (!wasNotRun(trial)) return undefined;
  const { error } = trial;
  return error?.code === "run/interrupted" && error.message !== neverStarted ? "cut-off" : "not-run";
}

/** Whether a trial is one that a rerun of what failed is about: not one that passed or was skipped on purpose. */
export function didNotPass(trial: TrialResult): boolean {
  return trial.verdict !== "pass" && (trial.verdict !== "skip" || wasNotRun(trial));
}

const exitCodes: Readonly<Record<RunVerdict, number>> = { pass: 0, fail: 1, incomplete: 3, interrupted: 130 };

/** The exit code of the process for a run's verdict. */
export function exitCode(verdict: RunVerdict): number {
  return exitCodes[verdict];
}

/** The average score of the grades that passed or failed, by their weights, 0 to 1; null when none of them has a score. */
export function averageScore(grades: readonly Grade[]): number | null {
  let [sum, weights] = [0, 0];
  for (const { verdict, score, weight = 1 } of grades) {
    if (score === null || verdict === "skip" || verdict === "error") continue;
    sum += score * weight;
    weights += weight;
  }
  return weights === 0 ? null : sum / weights;
}

/**
 * The verdict of a trial. Only a completed trial is judged by its grades, those that are not required left out: any failure
 * fails it, else a grade without a verdict makes it `error`, else it passes when at least one grade did.
 */
export function trialVerdict(outcome: TrialOutcome, grades: readonly Grade[]): Verdict {
  if (outcome === "error" || outcome === "timeout") return outcome;
  const counted = outcome === "completed" ? grades.filter(({ required }) => required !== false) : [];
  const verdicts = counted.map(({ verdict }) => verdict);
  return (["fail", "error", "pass"] as const).find((verdict) => verdicts.includes(verdict)) ?? "skip";
}

/** The warnings of a run: findings of that severity, and warnings about trials; alike ones count once. */
export function countWarnings(trials: readonly Pick<TrialResult, "id" | "grades" | "warnings">[]): number {
  const notes = new Set(trials.flatMap(({ warnings = [] }) => warnings));
  const findings = findingsOf(trials).filter(({ severity }) => severity === "warning");
  return alikeFindings(findings).length + notes.size;
}

export type Gate = NonNullable<RunResult["gates"]>[number];

type Covering = Partial<Pick<RunResult, "coverage" | "environment" | "decisions" | "latency">>;

/** Compares what the trials measured with the thresholds of a run. */
export function gatesOf(
  trials: readonly TrialResult[],
  thresholds: Thresholds,
  covering: Covering = {},
): readonly Gate[] {
  return Object.entries(thresholds).map(([name, threshold]) => {
    const kind = coveredKind(name);
    if (name === lowerBound) return decidedGate(boundGate(trials, threshold), covering);
    if (name === "passRate" || name === answerRate) return rateGate(trials, name, threshold);
    if (name === maxCost) return costGate(trials, threshold);
    if (name === maxP95Latency) return latencyGate(trials, threshold, covering);
    return kind === undefined
      ? gateOf(trials, name, threshold)
      : { name, threshold, ...coverageOf(kind, threshold, trials, covering) };
  });
}

/** The mean cost of an agent in a trial that used a model. What is unknown of it, and trials that were cut, could have cost any amount. */
function costGate(trials: readonly TrialResult[], threshold: number): Gate {
  let [known, sum, measured, open] = [0, 0, 0, 0];
  for (const trial of trials) {
    const cost = costOf([agentUse(trial)]);
    const amount = cost && wholeCost(cost);
    const isJudged = trial.verdict === "pass" || trial.verdict === "fail";
    known += cost?.amount ?? 0;
    if (isJudged && amount !== undefined) {
      sum += amount;
      measured += 1;
    } else if ((isJudged && cost !== undefined) || couldHaveMeasured(trial, "")) open += 1;
  }
  const common = { name: maxCost, threshold, atMost: true, trials: measured } as const;
  const least = measured + open === 0 ? 0 : rounded(known / (measured + open));
  const value = measured === 0 ? null : rounded(sum / measured);
  if (least > threshold) return { ...common, verdict: "fail", value: Math.max(least, value ?? 0) };
  return { ...common, verdict: value === null || open > 0 ? "incomplete" : "pass", value };
}

/** Trials that were cut could have made any number of calls. */
function latencyGate(
  trials: readonly TrialResult[],
  threshold: number,
  { latency: { p95Ms } = { calls: 0, unanswered: 0 } }: Covering,
): Gate {
  const judged = trials.filter(({ verdict }) => verdict === "pass" || verdict === "fail").length;
  const isCut = trials.some((trial) => couldHaveMeasured(trial, ""));
  const verdict = p95Ms === undefined || isCut ? "incomplete" : p95Ms <= threshold ? "pass" : "fail";
  const value = p95Ms ?? null;
  return { name: maxP95Latency, verdict, value, threshold, atMost: true, trials: judged };
}

/** Trials that did not come to their end could have used more, and servers that no trial used list more. */
function coverageOf(
  kind: CoverageKind,
  threshold: number,
  trials: readonly TrialResult[],
  { coverage = {}, environment }: Covering,
): Pick<Gate, "verdict" | "value" | "trials"> {
  const judged = trials.filter(({ verdict }) => verdict === "pass" || verdict === "fail").length;
  const found = coverageTotals(coverage).find((total) => total.kind === kind);
  if (found === undefined) return { verdict: "incomplete", value: null, trials: judged };
  const value = rounded(found.used / found.total);
  const isCut = trials.some((trial) => couldHaveMeasured(trial, ""));
  const hasUnknown =
    environment !== undefined && coverageGaps({ coverage, environment }).some(({ isUsed }) => !isUsed);
  if (value >= threshold) return { verdict: hasUnknown ? "incomplete" : "pass", value, trials: judged };
  return { verdict: isCut ? "incomplete" : "fail", value, trials: judged };
}

/** As in a run that asks for the answer: what passed by a tool's result only has failed. */
function byAnswer(trial: TrialResult): TrialResult {
  return trial.byToolResult === true ? { ...trial, verdict: "fail" } : trial;
}

function alike(counts: readonly TaskRate[]): readonly TaskRate[] {
  return countTasksAlike(counts, taskOf);
}

function meanOfTasks(counts: readonly TaskRate[]): number {
  return meanRate(alike(counts)) ?? 0;
}

/** The share that passed: the mean over the tasks, of which each counts the same. A trial without a verdict could have had either. */
function rateGate(trials: readonly TrialResult[], name: string, threshold: number): Gate {
  const tasks = taskRates(name === answerRate ? trials.map(byAnswer) : trials);
  const common = { name, threshold, trials: sumOf(tasks.map(({ scored }) => scored)) };
  if (common.trials === 0) return { ...common, verdict: "incomplete", value: null };
  const [lowest, highest] = ([0, 1] as const).map((outcome) =>
    rounded(meanOfTasks(tasks.map((task) => filled(task, outcome)))),
  );
  const verdict = (lowest ?? 0) >= threshold ? "pass" : (highest ?? 1) < threshold ? "fail" : "incomplete";
  return { ...common, verdict, value: rounded(meanOfTasks(tasks)) };
}

/**
 * The lower bound of the pass rate on these tasks, which every variant has to reach: the gate passes when it is at least the threshold, fails when the
 * upper bound is below, and is undecided in between. Its numbers are those of the variant that decides.
 */
function boundGate(trials: readonly TrialResult[], threshold: number): Gate {
  const tasks = taskRates(trials);
  const [decides] = [...Map.groupBy(tasks, ({ variant }) => variant)]
    .map(([variant, group]) => boundOf(variant, group, threshold))
    .toSorted(byDeciding);
  const none = { name: lowerBound, threshold, trials: 0, verdict: "incomplete", value: null } as const;
  return decides === undefined ? none : { ...decides, trials: sumOf(tasks.map(({ scored }) => scored)) };
}

/** What decides about several variants comes first. */
function byDeciding(a: Gate, b: Gate): number {
  const [first = 0, second = 0] = [a, b].map(({ verdict, value }) =>
    value === null ? 1 : ["fail", "incomplete", "pass"].indexOf(verdict),
  );
  return first - second || (a.value ?? 0) - (b.value ?? 0);
}

function boundOf(variant: string | undefined, tasks: readonly TaskRate[], threshold: number): Gate {
  const rate = theseTasks(alike(tasks));
  const common = { name: lowerBound, threshold, trials: 0, ...(variant === undefined ? {} : { variant }) };
  if (rate === undefined) return { ...common, verdict: "incomplete", value: null };
  const [ifFailed, ifPassed] = ([0, 1] as const).map((outcome) =>
    theseTasks(alike(tasks.map((task) => filled(task, outcome)))),
  );
  const verdict =
    (ifFailed?.low ?? 0) >= threshold ? "pass" : (ifPassed?.high ?? 1) < threshold ? "fail" : "incomplete";
  const isMeasured = tasks.every(({ unscored }) => unscored === 0);
  const measured = { ...common, verdict, value: rounded(rate.low), high: rounded(rate.high) } as const;
  return verdict === "incomplete" && isMeasured
    ? { ...measured, moreTrials: trialsToDecide(alike(tasks), threshold) ?? null }
    : measured;
}

/** Where the number of trials depended on their verdicts, the interval that allows this decides, of the variant that decides. */
function decidedGate(gate: Gate, { decisions = [] }: Covering): Gate {
  const { name, threshold, trials } = gate;
  const [decides] = decisions
    .flatMap((each): readonly Gate[] => {
      if (each.kind !== "threshold" || each.threshold !== name) return [];
      const { variant, low: value, high } = each;
      const verdict = each.verdict === "met" ? "pass" : each.verdict === "missed" ? "fail" : "incomplete";
      return [withoutUndefined({ name, threshold, trials, variant, verdict, value, high })];
    })
    .toSorted(byDeciding);
  return decides ?? gate;
}

/** A trial that should have been measured and was not could have had any value, from 0 to 1 where it is a score or a share. */
function gateOf(trials: readonly TrialResult[], name: string, threshold: number): Gate {
  const isGrade = trials.some(({ grades }) => grades.some(({ grader }) => grader === name));
  const metric = isGrade ? undefined : metricOf(name);
  const atMost = metric !== undefined && metric.isGood !== true;
  let [sum, weights, heaviest, measured, open] = [0, 0, 0, 0, 0];
  for (const trial of trials) {
    const value = measureOf(trial, name, metric);
    if (value !== undefined) {
      const weight = weightIn(trial, name);
      sum += value * weight;
      weights += weight;
      heaviest = Math.max(heaviest, weight);
      measured += 1;
    } else if (couldHaveMeasured(trial, name)) open += 1;
  }
  // Of a trial that was cut nothing says what weight its grade would have had.
  const missing = open * heaviest;
  const most = metric === undefined || metric.isShare === true ? 1 : Infinity;
  const lowest = rounded(sum / (weights + missing));
  const highest = missing === 0 ? lowest : rounded((sum + missing * most) / (weights + missing));
  const [passes, fails] = atMost
    ? [highest <= threshold, lowest > threshold]
    : [lowest >= threshold, highest < threshold];
  const verdict = measured === 0 ? "incomplete" : passes ? "pass" : fails ? "fail" : "incomplete";
  return {
    name,
    verdict,
    value: measured === 0 ? null : rounded(sum / weights),
    threshold,
    ...(atMost ? { atMost } : {}),
    trials: measured,
  };
}

/** Means of decimal fractions are off by less than this. */
function rounded(value: number): number {
  return Math.round(value * 1e9) / 1e9;
}

/** What a trial contributes: its `score`, a measurement, or the score of a grader; undefined: nothing. */
function measureOf(
  { verdict, score, grades, measurements }: TrialResult,
  name: string,
  metric: Metric | undefined,
): number | undefined {
  const isJudged = verdict === "pass" || verdict === "fail";
  if (name === "score") return isJudged ? (score ?? undefined) : undefined;
  if (metric !== undefined)
    return isJudged && measurements !== undefined ? metric.value(measurements) : undefined;
  return grades.find((grade) => grade.grader === name && grade.verdict !== "error")?.score ?? undefined;
}

/** The weight of the grade that a trial contributes; the trials themselves all weigh the same. */
function weightIn({ grades }: TrialResult, name: string): number {
  if (runMeasures.includes(name)) return 1;
  return grades.find((grade) => grade.grader === name)?.weight ?? 1;
}

function couldHaveMeasured({ verdict, grades, error }: TrialResult, name: string): boolean {
  const isCut = verdict === "error" || verdict === "timeout" || error?.kind === "interrupted";
  return isCut || grades.some((grade) => grade.grader === name && grade.verdict === "error");
}
