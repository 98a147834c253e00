import { alikeFindings } from "../model/alike-findings.ts";
import { decisionsOf } from "./decisions.ts";
import { decidesFailures, decidesOwnFailures, gatesOf } from "./gates.ts";
import {
  attackRates,
  checkedNothing,
  decidingGrades,
  ratesOf,
  taskId,
  unprovenAttacks,
  wasLeftOut,
  wasNotRun,
} from "./rates.ts";
import { attackResistance } from "../graders/declared.ts";
import { asObject, withoutUndefined } from "../base/json.ts";
import { meanOf } from "../statistics/rates.ts";
import { type Task, testedTool } from "../model/task.ts";
import { judgesOf } from "../graders/judge/calibration.ts";
import { measure } from "../graders/measurements/measure.ts";
import { maxP95Latency } from "../graders/measurements/metrics.ts";
import { findingsOf } from "../model/finding.ts";
import type { Plan, Trial } from "../model/plan.ts";
import { eventsOf, type TrialOutcome } from "../model/event.ts";
import { agentActs, toMicroseconds, toolDigest } from "../trace/agent-acts.ts";
import { addUsage, type Trajectory } from "../trace/trajectory.ts";
import { untoldStates, warningsOf } from "../trace/warnings.ts";
import { CoverageCounter, LatencyCounter, MeasurementCounter, RoutingCounter } from "./counters.ts";
import type { ProgramRun, RunResult, RunSummary, ToolDigest, TrialResult } from "../model/result.ts";
import type { SerializedError } from "../base/serialized-error.ts";
import type { Grade, RunVerdict, Usage, Verdict } from "../model/grade.ts";

// A trial.

/** Said of a pass of the agent `null`. */
export const nullAgentWarning =
  "it passes with an agent that does nothing, so its checks show nothing of what an agent does";

/** Said of a pass without a call to a server. */
export const unusedServersWarning =
  "it passes without a call to any of the agent's servers; expectTools, assertions or graders can ask for one";

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
  const tools = usesOfTools(trajectory);
  const warnings = [
    // What a check tries on purpose would be odd in an agent.
    ...(task.form === "check" ? [] : warningsOf(trajectory)),
    ...(verdict === "pass" && isNullAgent ? [nullAgentWarning] : []),
    ...(verdict === "pass" ? [...idleGraders(task, grades), ...unusedServers(trajectory, tools)] : []),
  ];
  const called = eventsOf(events, "model.called");
  const usageFor = (who: (typeof called)[number]["purpose"]): Usage | undefined =>
    called.reduce<Usage | undefined>(
      (sum, { purpose, usage: used }) => (purpose === who ? addUsage(sum, used) : sum),
      undefined,
    );
  const firstTokens = called.flatMap(({ purpose, firstTokenMs }) =>
    purpose === "agent" && firstTokenMs !== undefined ? [firstTokenMs] : [],
  );
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
      reported: trajectory.transcript?.reported,
      usage,
      judgeUsage: usageFor("judge"),
      userUsage: usageFor("user"),
      firstTokenMs: firstTokens.length === 0 ? undefined : toMicroseconds(meanOf(firstTokens)),
      throttledMs: throttledMs === 0 ? undefined : toMicroseconds(throttledMs),
      ran: programRun(trajectory),
      tools,
      measurements: measure(trajectory)?.row,
      toolsCalled: toolsCalled(trajectory),
      lostServers: lost.length === 0 ? undefined : lost,
      attack: attackedTrial(trajectory, outcome, grades),
      mocks: mocks.length === 0 ? undefined : mocks,
      byToolResult: verdict === "pass" && untoldStates(trajectory).length > 0 ? true : undefined,
      warnings: warnings.length === 0 ? undefined : warnings,
    },
  );
}

/** What came of the attack of a trial, apart from the task; undefined: it has none. */
function attackedTrial(
  trajectory: Trajectory,
  outcome: TrialOutcome,
  grades: readonly Grade[],
): TrialResult["attack"] {
  const { events } = trajectory;
  const [prepared] = eventsOf(events, "attack.prepared");
  if (prepared === undefined) return undefined;
  const { id, class: ofClass, channel, variant } = prepared.attack;
  const grade = grades.find(({ grader }) => grader === attackResistance);
  const answers = new Set(
    eventsOf(events, "attack.injected").flatMap(({ part, seq }) => (part === "answer" ? [seq] : [])),
  );
  const tools = trajectory.requests.flatMap(({ type, call: { server, tool }, seqs }) =>
    type === "tool" && server !== null && !seqs.some((seq) => answers.has(seq)) ? [`${server}.${tool}`] : [],
  );
  return withoutUndefined({
    id,
    class: ofClass,
    variant,
    outcome: channel === "none" ? "none" : grade?.attack,
    task: trialVerdict(
      outcome,
      grades.filter((each) => each !== grade),
    ),
    tools: [...new Set(tools)].toSorted(),
  });
}

/** The trials; one that was not run, or broke before its attack was prepared, has the one of the plan. */
function withPlannedAttacks(
  trials: readonly TrialResult[],
  { variants = [] }: Pick<Plan, "variants">,
): readonly TrialResult[] {
  const planned = new Map(variants.map(({ name, attack }) => [name, attack]));
  return trials.map((trial) => {
    const attack = planned.get(trial.variant ?? "");
    if (attack === undefined || trial.attack !== undefined) return trial;
    const { id, class: ofClass, channel, variant } = attack;
    const outcome = channel === "none" ? ("none" as const) : undefined;
    const known = { id, class: ofClass, variant, outcome, task: trial.verdict, tools: [] };
    return { ...trial, attack: withoutUndefined(known) };
  });
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

/** Graders of what an agent said or left behind, not of its calls. */
const outcomeGraders: ReadonlySet<string> = new Set(["text", "prompt", "json_schema", "file", "diff"]);

/** Agents without this warning: those that do not choose what they call, and recorded sessions of other programs. */
const agentsNotWarned: ReadonlySet<string> = new Set(["null", "oracle", "transcript"]);

/** Said of a pass in which the agent used nothing of its servers; not of a task that asks about calls, as it may ask for none. */
function unusedServers(
  { task: { graders = [], portable }, events }: Trajectory,
  tools: ToolDigest | undefined,
): readonly string[] {
  if (tools === undefined || tools.serversUnused.length === 0) return [];
  if (tools.mcpToolCalls > 0 || (tools.resourceReads ?? tools.promptGets) !== undefined) return [];
  if (!eventsOf(events, "agent.started").some(({ kind }) => !agentsNotWarned.has(kind))) return [];
  const isAboutCalls =
    portable?.assertions !== undefined || !graders.every(({ type }) => outcomeGraders.has(type));
  return isAboutCalls ? [] : [unusedServersWarning];
}

/** What a program reports of itself, also when it connects to a server through the gateway. */
function programRun({ events, exchanges }: Trajectory): ProgramRun | undefined {
  const started = events.find((event) => event.type === "agent.started");
  if (started === undefined || !["acp", "command", "transcript"].includes(started.kind)) return undefined;
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
  if (check?.calls === undefined) return undefined;
  const { calls } = check;
  const made = eventsOf(events, "probe.started").flatMap(({ call = -1 }) => calls[call]?.tool ?? []);
  return new Set(made).size;
}

/**
 * The verdict of a trial. Only a completed trial is judged by its grades, those that are not required left out: any failure
 * fails it, else a grade without a verdict makes it `error`, else it passes when at least one grade did. An attack that succeeded fails any trial.
 */
export function trialVerdict(outcome: TrialOutcome, grades: readonly Grade[]): Verdict {
  const ofAttack = grades.find(({ grader }) => grader === attackResistance)?.verdict;
  if (outcome === "error" || outcome === "timeout") return ofAttack === "fail" ? "fail" : outcome;
  const counted = outcome === "completed" ? grades.filter(({ required }) => required !== false) : [];
  // An attack that the agent did not get proves nothing, whatever came of the task.
  if (outcome === "completed" && ofAttack === "skip") return "skip";
  const verdicts = counted.map(({ verdict }) => verdict);
  return (["fail", "error", "pass"] as const).find((verdict) => verdicts.includes(verdict)) ?? "skip";
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

/**
 * What a run that was killed, interrupted or stopped early left of a trial: `cut-off`, it had begun; `not-run`, it had not. Undefined
 * for any other trial.
 */
export function unfinishedState(trial: TrialResult): "cut-off" | "not-run" | undefined {
  if (!wasNotRun(trial)) return undefined;
  const { error } = trial;
  return error?.code === "run/interrupted" && error.message !== neverStarted ? "cut-off" : "not-run";
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

/** Whether a trial is one that a rerun of what failed is about: not one that passed or was skipped on purpose. */
export function didNotPass(trial: TrialResult): boolean {
  return trial.verdict !== "pass" && !wasLeftOut(trial);
}

// A run.

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

/** The warnings of a run: findings of that severity, and warnings about trials; alike ones count once. */
export function countWarnings(trials: readonly Pick<TrialResult, "id" | "grades" | "warnings">[]): number {
  const notes = new Set(trials.flatMap(({ warnings = [] }) => warnings));
  const findings = findingsOf(trials).filter(({ severity }) => severity === "warning");
  return alikeFindings(findings).length + notes.size;
}

/** What decides about a run besides its trials. */
export interface VerdictRules extends Pick<RunResult, "gates" | "decisions" | "comparison" | "attacks"> {
  readonly interrupted: boolean;
  readonly maxWarnings?: number | undefined;
}

/**
 * The verdict of a run. An interrupted run is `interrupted`; else a failed trial, a value below its threshold, or more than
 * `maxWarnings` warnings make it `fail`; else it is `incomplete` when something could have changed the verdict (an error, a
 * timeout, a trial that was never run or in which nothing was checked, nothing to compare with a threshold, attacks of which nothing is known) or when no trial was
 * judged, or when what it was to decide is undecided; else `pass`. A comparison with `failOn` is a failure, or undecided, as its exit code says. See {@link failuresOf} for which failed
 * trials count.
 */
export function runVerdict(
  trials: readonly TrialResult[],
  { interrupted, maxWarnings = Infinity, gates = [], decisions = [], ...others }: VerdictRules,
): RunVerdict {
  if (interrupted) return "interrupted";
  const { pass, fail, error, timeout } = summarize(trials);
  const compared = others.comparison?.failOn?.exitCode;
  const isFailed = compared === 1 || failuresOf(trials, { gates, ...others }).length > 0;
  if (isFailed || gates.some(({ verdict }) => verdict === "fail") || tooManyWarnings(trials, maxWarnings))
    return "fail";
  const isUndecided = compared === 3 || decisions.some(({ verdict }) => verdict === "undecided");
  const isOpen =
    error + timeout > 0 ||
    isUndecided ||
    unprovenAttacks(others).length > 0 ||
    gates.some(({ verdict }) => verdict === "incomplete");
  if (isOpen || pass + fail === 0 || trials.some((trial) => wasNotRun(trial) || checkedNothing(trial)))
    return "incomplete";
  return "pass";
}

function tooManyWarnings(trials: readonly TrialResult[], most: number): boolean {
  return most < Infinity && countWarnings(trials) > most;
}

/**
 * The failed trials that fail a run: all, but where something else decides about them. A threshold of `passRate` or `lowerBound` does about all, one of `trigger_accuracy` or
 * `attack-resistance` about those that only this grader failed, but for one without an attack, a comparison with `failOn` about those of the tasks that it compares.
 */
export function failuresOf(
  trials: readonly TrialResult[],
  { gates = [], comparison }: Pick<RunResult, "gates" | "comparison">,
): readonly TrialResult[] {
  if (gates.some(({ name }) => decidesFailures(name))) return [];
  const judgedByGate = decidesOwnFailures.filter((name) => gates.some((gate) => gate.name === name));
  const [compared] = comparison?.failOn === undefined ? [] : comparison.compared;
  const tasks = Map.groupBy(
    (compared?.tasks ?? []).filter(({ difference }) => difference !== undefined),
    taskId,
  );
  const isCompared = (trial: TrialResult): boolean =>
    tasks
      .get(taskId(trial))
      ?.some(
        ({ agent = trial.agent, variant = trial.variant }) =>
          agent === trial.agent && variant === trial.variant,
      ) === true;
  return trials.filter(
    (trial) =>
      trial.verdict === "fail" &&
      !(
        judgedByGate.length > 0 &&
        trial.attack?.outcome !== "none" &&
        decidingGrades(trial).every(({ grader }) => judgedByGate.includes(grader))
      ) &&
      !isCompared(trial),
  );
}

const exitCodes: Readonly<Record<RunVerdict, number>> = { pass: 0, fail: 1, incomplete: 3, interrupted: 130 };

/** The exit code of the process for a run's verdict. */
export function exitCode(verdict: RunVerdict): number {
  return exitCodes[verdict];
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
    // What attacks add to lists is not the server's.
    if (result.attack === undefined || result.attack.outcome === "none") this.#coverage.add(trajectory);
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
    ended: readonly TrialResult[],
    plan: Plan,
    { interrupted }: Pick<VerdictRules, "interrupted">,
  ): RunResult {
    const trials = withPlannedAttacks(ended, plan);
    const totals = this.totals();
    const { passRate, rates } = ratesOf(trials);
    const rated = attackRates(trials);
    const attacks = rated.length === 0 ? undefined : rated;
    return withoutUndefined({
      schema: "mcpvals.result/1" as const,
      id,
      name: plan.name,
      ...conclude(trials, plan, {
        interrupted,
        environment,
        ...totals,
        ...withoutUndefined({ comparison, attacks }),
      }),
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
      attacks,
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
  { interrupted, comparison, attacks, ...measured }: Ended,
): Pick<RunResult, "verdict" | "maxWarnings" | "gates" | "decisions" | "judges"> {
  // What holds for all parts together is decided when they are merged.
  const isWhole = plan.shard === undefined;
  const { maxWarnings, thresholds }: Partial<Plan> = isWhole ? plan : {};
  const decisions = plan.until && decisionsOf(trials, plan);
  const gates =
    thresholds && gatesOf(trials, thresholds, { ...measured, ...withoutUndefined({ decisions }) });
  const deciding = withoutUndefined({ gates, decisions, comparison, attacks: isWhole ? attacks : undefined });
  return withoutUndefined({
    verdict: runVerdict(trials, { interrupted, maxWarnings, ...deciding }),
    maxWarnings,
    gates,
    decisions,
    judges: judgesOf(trials, measured.environment?.calibrations),
  });
}

/** How a run ended, and what its trials measured together. */
interface Ended
  extends
    Pick<VerdictRules, "interrupted" | "comparison" | "attacks">,
    Pick<RunResult, "coverage" | "latency">,
    Partial<Pick<RunResult, "environment">> {}
