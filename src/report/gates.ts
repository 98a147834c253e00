import { withoutUndefined } from "../base/json.ts";
import { countOf, formatScore, visibleText } from "../base/visible-text.ts";
import {
  answerRate,
  coveredKind,
  lowerBound,
  maxCost,
  maxP95Latency,
  type Metric,
  metricOf,
  roundMeasured,
  runMeasures,
} from "../graders/measurements/metrics.ts";
import { attackResistance, triggerAccuracy } from "../graders/declared.ts";
import type { Thresholds } from "../model/eval.ts";
import type { CoverageKind, RunResult, TaskRate, TrialResult } from "../model/result.ts";
import { countTasksAlike, filled, meanRate, sumOf, theseTasks, trialsToDecide } from "../statistics/rates.ts";
import { coverageGaps, coverageTotals } from "./counters.ts";
import { agentUse, costOf, isJudged, taskId, taskRates, wholeCost } from "./rates.ts";

export type Gate = NonNullable<RunResult["gates"]>[number];

/** Whether a threshold of this name decides about failed trials, of which otherwise one fails the run. */
export function decidesFailures(name: string): boolean {
  return name === "passRate" || name === lowerBound;
}

/** Thresholds of graders that decide about the trials that only this grader failed. */
export const decidesOwnFailures: readonly string[] = [triggerAccuracy, attackResistance];

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
    known += cost?.amount ?? 0;
    if (isJudged(trial) && amount !== undefined) {
      sum += amount;
      measured += 1;
    } else if ((isJudged(trial) && cost !== undefined) || couldHaveMeasured(trial, "")) open += 1;
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
  const judged = trials.filter(isJudged).length;
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
  const judged = trials.filter(isJudged).length;
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
  return countTasksAlike(counts, taskId);
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
function measureOf(trial: TrialResult, name: string, metric: Metric | undefined): number | undefined {
  const { score, grades, measurements } = trial;
  if (name === "score") return isJudged(trial) ? (score ?? undefined) : undefined;
  if (metric !== undefined)
    return isJudged(trial) && measurements !== undefined ? metric.value(measurements) : undefined;
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

// What is said of them.

/** A measured value with two or three digits. */
export function formatMeasure({ name, value, threshold, atMost }: Gate): string {
  if (value === null) return "-";
  if (name === maxCost) return String(Number(value.toFixed(6)));
  const rounded = roundMeasured({ value, threshold, atMost });
  if (name === maxP95Latency) return `${Number(rounded.toFixed(2))} ms`;
  return rounded.toFixed(3).replace(/0$/, "");
}

/** What a value has to be, in words. */
export function wantedText(gate: Pick<Gate, "name" | "threshold" | "atMost">): string {
  return `${gate.atMost === true ? "at most" : "at least"} ${thresholdText(gate)}`;
}

function thresholdText({ name, threshold }: Pick<Gate, "name" | "threshold">): string {
  return name === maxP95Latency ? `${threshold} ms` : String(threshold);
}

/** A threshold with what was measured, in words. */
export function gateText(gate: Gate): string {
  const { name, verdict, value, threshold, trials, atMost } = gate;
  const what = visibleText(name);
  const needed = `${wantedText(gate)} ${atMost === true ? "allowed" : "needed"}`;
  if (value === null)
    return `${what} was not measured${name === maxCost ? ", since no cost of an agent is known" : ""}, ${needed}`;
  const measured = `${what} ${formatMeasure(gate)}`;
  const about = `${countOf(trials, "trial")}${intervalOf(gate)}`;
  if (verdict === "fail") {
    if (name === lowerBound) return `${measured}: the whole interval is below ${threshold} (${about})`;
    return `${measured} is ${atMost === true ? "above" : "below"} ${thresholdText(gate)} (${about})`;
  }
  if (verdict === "pass") return `${measured}, ${needed} (${about})`;
  return `${measured} of ${about}, ${needed}: ${undecidedText(gate)}`;
}

/** Of the lower bound both ends of its interval, and the variant that decides: `, 95 % interval 0.72 to 0.93 of new`. */
function intervalOf({ value, high, variant }: Gate): string {
  if (value === null || high === undefined) return "";
  const of = variant === undefined ? "" : ` of ${visibleText(variant)}`;
  return `, 95 % interval ${formatScore(value)} to ${high === 1 ? "1" : formatScore(high)}${of}`;
}

/** What would decide a gate that is undecided. */
function undecidedText({ name, moreTrials }: Gate): string {
  if (moreTrials === undefined)
    return `trials that were not measured${name === lowerBound ? ", or more trials," : ""} could change it`;
  return moreTrials === null
    ? "no number of trials would decide it, since the rate is at the threshold"
    : `at this rate about ${countOf(moreTrials, "more trial")} of each task would decide it`;
}
