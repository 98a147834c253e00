import { withoutUndefined } from "../../base/json.ts";
import { countOf, percentText, pointsText, signedPoints } from "../../base/visible-text.ts";
import type { ComparedDocument, ComparisonDocument, Question, Statement } from "../../model/comparison.ts";
import {
  decidingP,
  type Difference,
  holm,
  minTasks,
  type OpenDifference,
  type PairedRatio,
  safeVerdict,
  significance,
  type Verdict,
  verdictOf,
} from "../../statistics/compare.ts";
import type { Proportion } from "../../statistics/rates.ts";
import type { RunComparison } from "./compare-runs.ts";

/** What a side is called in sentences. */
export interface SideName {
  readonly name: string;
  /** Of a run that did not come to its end, why: `was interrupted`. */
  readonly unfinished?: string;
}

/** A comparison with what its sides are called. */
export interface NamedComparison {
  readonly comparison: RunComparison;
  readonly first: SideName;
  readonly second: SideName;
}

export interface StatementOptions {
  /** A difference of pass rates that does not matter, 0 to 1. Default: none. */
  readonly margin?: number;
}

/**
 * What comparisons with the same first side say, each with its numbers, in sentences that need no knowledge of statistics: of the pass rate on these
 * tasks, on tasks like these, of duration, of tokens and of cost. The pass rate is what a comparison is about: with one second side its verdict goes by its own
 * probability, with several these are adjusted for their number (Holm 1979). Durations, tokens and costs are adjusted among themselves.
 */
export function statementsOf(
  compared: readonly NamedComparison[],
  { margin = 0 }: StatementOptions = {},
): readonly (readonly Statement[])[] {
  const adjusted = (key: "theseTasks" | "tasksLikeThese"): readonly number[] => {
    const known = compared.map(({ comparison }) => comparison[key]);
    const ps = holm(known.flatMap((open) => (open === undefined ? [] : [decidingP(open)])));
    let next = 0;
    return known.map((open) => (open === undefined ? 1 : (ps[next++] ?? 1)));
  };
  const [these, others] = [adjusted("theseTasks"), adjusted("tasksLikeThese")];
  const ratios = compared.map(({ comparison }) => ratiosOf(comparison));
  const ofRatios = holm(ratios.flat().map(({ ratio }) => ratio.p));
  let next = 0;
  return compared.map((each, index) => {
    const said = { margin, compared: compared.length };
    return [
      ...passRates(each, { ...said, these: these[index] ?? 1, others: others[index] ?? 1 }),
      ...(ratios[index] ?? []).map((ratio) => ratioStatement(each, ratio, ofRatios[next++] ?? 1)),
    ];
  });
}

interface Measured {
  readonly metric: "duration" | "tokens" | "cost";
  readonly ratio: PairedRatio;
}

function ratiosOf({ durations, tokens, costs }: RunComparison): readonly Measured[] {
  return [
    ...(durations === undefined ? [] : [{ metric: "duration" as const, ratio: durations }]),
    ...(tokens === undefined ? [] : [{ metric: "tokens" as const, ratio: tokens }]),
    ...(costs === undefined ? [] : [{ metric: "cost" as const, ratio: costs }]),
  ];
}

interface Said {
  readonly margin: number;
  /** Number of comparisons. */
  readonly compared: number;
  /** Probabilities that decide. */
  readonly these: number;
  readonly others: number;
}

function passRates(named: NamedComparison, said: Said): readonly Statement[] {
  const { theseTasks: these, tasksLikeThese: others } = named.comparison;
  if (these === undefined || others === undefined) return [];
  const { pairs, higher, lower } = others.difference;
  const changes = `Of ${countOf(pairs, "task")} that both measured, ${higher} got better and ${lower} got worse.`;
  const tooFew: Statement = {
    question: "tasks like these",
    metric: "pass rate",
    verdict: "undecided",
    p: others.difference.p,
    text: `For other tasks like these nothing can be said: that takes at least ${minTasks} tasks, and both measured ${pairs}.`,
  };
  return [
    { ...passRate(named, these, { ...said, p: said.these, question: "these tasks" }), changes },
    pairs < minTasks
      ? tooFew
      : passRate(named, others, { ...said, p: said.others, question: "tasks like these" }),
  ];
}

function passRate(
  { comparison: { unscored }, first, second }: NamedComparison,
  open: OpenDifference,
  { margin, compared, p, question }: Pick<Said, "margin" | "compared"> & Pick<Statement, "p" | "question">,
): Statement {
  const { difference } = open;
  const verdict = safeVerdict(open, { margin, p });
  const known = verdictOf(difference, margin);
  const alone = safeVerdict(open, { margin });
  const subject = question === "these tasks" ? "On these tasks" : "For other tasks like these";
  const sentences = [
    `${subject} ${verdictText(verdict, first.name, second.name, margin)}: ${differenceText(difference, first.name, second.name)}.`,
    ...(verdict === "equivalent"
      ? withinText(difference, first.name, second.name)
      : [chanceText(difference, question), ...disagreement(difference, 0)]),
    ...(known !== "undecided" && alone !== known
      ? [missingText(known, [first, second], [unscored.before, unscored.after])]
      : []),
    ...(alone !== "undecided" && verdict === "undecided"
      ? [
          `With ${compared} comparisons one of them shows as much by chance more often, ${oftenText(p)} (Holm's correction), so this one decides nothing.`,
        ]
      : []),
  ];
  return withoutUndefined({
    question,
    metric: "pass rate" as const,
    verdict,
    p: difference.p,
    decidingP: p === difference.p ? undefined : p,
    text: sentences.join(" "),
  });
}

function verdictText(verdict: Verdict, first: string, second: string, margin: number): string {
  switch (verdict) {
    case "better":
    case "worse":
      return `${second} is ${verdict} than ${first}`;
    case "equivalent":
      return `${second} is as good as ${first}, within the margin of ${pointsText(margin)}`;
    case "undecided":
      return `it is undecided whether ${second} is better or worse than ${first}`;
  }
}

function differenceText({ value, low, high }: Difference, first: string, second: string): string {
  const interval =
    low === undefined || high === undefined
      ? ""
      : ` (95 % interval ${signedPoints(Math.max(-1, low))} to ${signedPoints(Math.min(1, high))} points)`;
  if (value === 0) return `the pass rates of both are the same${interval}`;
  return `the pass rate of ${second} is ${pointsText(value)} ${value > 0 ? "higher" : "lower"} than that of ${first}${interval}`;
}

/** What is equivalent may be surely higher or lower. */
function withinText(
  { value, low = 0, high = 0 }: Difference,
  first: string,
  second: string,
): readonly string[] {
  if (low <= 0 && high >= 0) return [];
  return [
    `It is ${value > 0 ? "higher" : "lower"}, but ${second} differs from ${first} by less than the margin.`,
  ];
}

/** What the probability means. */
function chanceText({ value, p }: Difference, question: Question): string {
  if (value === 0)
    return `That does not show that they are equally good: more ${question === "these tasks" ? "trials" : "tasks"} may show a difference.`;
  return `If both were equally good, chance alone would show a difference as large in ${oftenText(p)}.`;
}

/** An interval is approximate, the test is exact: near the limit they may disagree. `equal`: the value of sides that are the same. */
function disagreement(
  { low, high, p }: Pick<Difference, "low" | "high" | "p">,
  equal: 0 | 1,
): readonly string[] {
  if (low === undefined || high === undefined) return [];
  const excludes = low > equal || high < equal;
  if (excludes === p < significance) return [];
  return ["The interval is approximate and the test is exact; here they disagree, and the test decides."];
}

/** Why a verdict that the trials with a verdict would give does not hold. */
function missingText(
  known: Verdict,
  [first, second]: readonly [SideName, SideName],
  [before, after]: readonly [number, number],
): string {
  const parts = (
    [
      [first, before],
      [second, after],
    ] as const
  ).flatMap(([{ name, unfinished }, count]) =>
    count === 0
      ? []
      : [`${countOf(count, "trial")} of ${name}${unfinished === undefined ? "" : `, which ${unfinished},`}`],
  );
  const would = known === "equivalent" ? `as good as ${first.name}` : `${known} than ${first.name}`;
  return `By the trials with a verdict ${second.name} would be ${would}, but ${parts.join(" and ")} ${before + after === 1 ? "has" : "have"} none, and their outcomes could change that.`;
}

function oftenText(p: number): string {
  if (p < 0.001) return "less than 1 of 1,000 comparisons";
  const often = Math.round(p * 1000);
  return often === 1000 ? "every comparison" : `${often} of 1,000 comparisons`;
}

function ratioStatement(
  { first, second }: NamedComparison,
  { metric, ratio }: Measured,
  p: number,
): Statement {
  const verdict = p >= significance || ratio.ratio === 1 ? "undecided" : ratio.ratio < 1 ? "better" : "worse";
  const isEnough = ratio.pairs >= minTasks;
  // What is surely different is not said to be about the same.
  const digits = verdict === "undecided" ? 3 : digitsBesideOne(ratio.ratio);
  const interval =
    ratio.low === undefined || ratio.high === undefined || !isEnough
      ? ""
      : ` (95 % interval ${timesText(ratio.low, digits)} to ${timesText(ratio.high, digits)})`;
  const [verb, much] = ratioWords[metric];
  const times = timesText(ratio.ratio, digits);
  const about = `Trials of ${second.name} ${verb} ${times === "1" ? "about" : `${times} times`} ${much} as those of ${first.name}${interval}`;
  const why =
    verdict !== "undecided" || times === "1"
      ? ""
      : !isEnough
        ? `; whether that is chance cannot be said of fewer than ${minTasks} tasks`
        : `, which chance alone may explain${ratio.p < significance ? " where so much is compared (Holm's correction)" : ""}`;
  return withoutUndefined({
    question: "tasks like these" as const,
    metric,
    verdict,
    p: ratio.p,
    decidingP: p === ratio.p ? undefined : p,
    text: [`${about}${why}.`, ...(isEnough ? disagreement(ratio, 1) : [])].join(" "),
  });
}

const ratioWords = {
  duration: ["take", "as long"],
  tokens: ["use", "as many tokens"],
  cost: ["cost", "as much"],
} as const;

function timesText(ratio: number, digits: number): string {
  if (ratio >= 100) return String(Math.round(ratio)).replaceAll(/\B(?=(\d{3})+$)/gu, ",");
  if (ratio < 0.001) return "less than 0.001";
  return String(Number(ratio.toPrecision(digits)));
}

/** Digits, at least three, by which a ratio that is not 1 is told apart from it. */
function digitsBesideOne(ratio: number): number {
  let digits = 3;
  while (digits < 17 && Number(ratio.toPrecision(digits)) === 1) digits += 1;
  return digits;
}

/** Said where two sides have nothing to compare. */
export const nothingCommon = "They have no task in common that both measured, so nothing can be compared.";

/** Which sides are compared, and of how many tasks. */
export function headline(
  { first, firstRun }: ComparisonDocument,
  { name, run, tasksCompared, tasksInAll }: ComparedDocument,
): string {
  const tasks =
    tasksCompared === tasksInAll
      ? countOf(tasksInAll, "task")
      : `${tasksCompared} of ${countOf(tasksInAll, "task")} compared`;
  return `${titleOf(name, run)} compared with ${titleOf(first, firstRun)}: ${tasks}`;
}

/** A side by its name, and the run that it is. */
function titleOf(name: string, run: string | undefined): string {
  return run === undefined ? name : `${name} (${run})`;
}

type ComparedTool = NonNullable<ComparedDocument["tools"]>[number];

const toolsTitle =
  "Tools of which the pass rate of their tests differs, by probabilities for looking through all tools:";

/** The tools that differ by more than chance, with what is said of all of them first; empty where none does. */
export function toolLines({ tools = [] }: ComparedDocument): readonly string[] {
  const shown = tools.filter(({ verdict }) => verdict !== "undecided");
  return shown.length === 0 ? [] : [toolsTitle, ...shown.map(toolText)];
}

function toolText({ tool, verdict, difference, adjustedP }: ComparedTool): string {
  return `${tool}  ${verdict} by ${pointsText(difference)} (p ${adjustedP < 0.001 ? "under 0.001" : adjustedP.toFixed(3)})`;
}

/** Whether what is said of tasks like these has a base. */
export function hasEnoughTasks({ tasksLikeThese }: ComparedDocument): boolean {
  return (tasksLikeThese?.pairs ?? 0) >= minTasks;
}

/** A rate with its interval, for people. */
export function rateText(rate: Proportion): string {
  return `${percentText(rate.value)} (${rangeText(rate)})`;
}

export function rangeText({ low, high }: Proportion): string {
  return `${percentText(low)} to ${percentText(high)}`;
}

/** Said of two sides of one run of which no task has a verdict with both. */
export function nothingMeasured(first: string, second: string): Statement {
  return {
    question: "these tasks",
    metric: "pass rate",
    verdict: "undecided",
    p: 1,
    text: `On these tasks nothing can be said of ${second} and ${first}: no task has a verdict with both.`,
  };
}
