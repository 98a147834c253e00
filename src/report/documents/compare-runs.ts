import { countOf, pointsText, signedPoints } from "../../base/visible-text.ts";
import {
  benjaminiHochberg,
  compareRatios,
  compareTasksLikeThese,
  compareTheseTasks,
  decidingP,
  type Difference,
  holm,
  minTasks,
  type OpenDifference,
  type PairedComparison,
  type PairedRatio,
  safeVerdict,
  significance,
  type TaskPair,
  type Verdict,
  verdictOf,
  withUnscored,
} from "../../statistics/compare.ts";
import {
  countTasksAlike,
  meanOf,
  type Proportion,
  tasksLikeThese,
  theseTasks,
  type UnscoredCount,
} from "../../statistics/rates.ts";
import type { Cost } from "../../model/grade.ts";
import type { TrialResult } from "../../model/result.ts";
import { withoutUndefined } from "../../base/json.ts";
import type { Question, Statement } from "../../model/comparison.ts";

/** What a comparison needs of a trial: rows of the dashboard and results have it. */
export interface ComparedTrial {
  readonly task: string;
  readonly suite?: string;
  /** The tool of a tool test. */
  readonly tool?: string;
  readonly agent?: string | null;
  readonly variant?: string;
  /** Absent until it has ended. */
  readonly verdict?: TrialResult["verdict"];
  /** It was not measured on purpose, such as for a requirement that is not met. */
  readonly isLeftOut?: true;
  /** How many trials it stands for; absent: 1. */
  readonly times?: number;
  readonly durationMs?: number;
  readonly inputTokens?: number;
  readonly outputTokens?: number;
  /** Absent: unknown. */
  readonly cost?: Cost;
}

/** One side of a comparison: a run, or a part of one. */
export interface Side<T extends ComparedTrial = ComparedTrial> {
  readonly trials: readonly T[];
  /** Hashes of what its tasks are and how they are graded, by name; absent: not known. */
  readonly fingerprints?: Readonly<Record<string, string>> | undefined;
}

/** The trials of one task (with agent and variant) on one side. `unscored` had no verdict, though they were to have one. */
export interface TaskSide<T extends ComparedTrial = ComparedTrial> extends UnscoredCount {
  readonly trials: readonly T[];
  /** Trials that were not measured on purpose. */
  readonly leftOut: number;
  /** Share of those with the verdict pass or fail that passed; absent if none has one. */
  readonly passRate?: number;
  /** Means of these trials, as far as they have them. */
  readonly durationMs?: number;
  readonly tokens?: number;
  /** Absent if that of a trial that used a model is unknown. */
  readonly cost?: Cost;
}

/** A task on two sides. */
export interface ComparedTask<T extends ComparedTrial = ComparedTrial> {
  readonly key: string;
  readonly task: string;
  readonly suite?: string;
  readonly agent?: string;
  readonly variant?: string;
  readonly before?: TaskSide<T>;
  readonly after?: TaskSide<T>;
  /** It is not the same task on both sides, so that it is not compared. */
  readonly changed?: true;
  /** Second pass rate minus first; absent if one is unknown. */
  readonly difference?: number;
}

export interface RunComparison<T extends ComparedTrial = ComparedTrial> {
  /** What got worse comes first, then what got better, what one side does not have or did not measure, what is the same. */
  readonly tasks: readonly ComparedTask<T>[];
  /** Tasks that both sides measured, of those that one of them has. */
  readonly compared: { readonly tasks: number; readonly of: number };
  /** Trials without a verdict, of the tasks that both sides have. */
  readonly unscored: { readonly before: number; readonly after: number };
  /** Pass rates of the tasks that both sides measured, whose difference is the one compared; absent if there are none. */
  readonly rates?: { readonly before: Rates; readonly after: Rates };
  /** Whether the second side is better on these tasks; absent if both measured none. */
  readonly theseTasks?: OpenDifference;
  /** Whether it would be on tasks like these. */
  readonly tasksLikeThese?: OpenDifference<PairedComparison>;
  /** How each tool compares that tool tests call on both sides; absent for fewer than two. */
  readonly tools?: readonly ComparedTool[];
  /** How many times as long trials take, as many tokens they use, and as much they cost; absent if no task has both values. */
  readonly durations?: PairedRatio;
  readonly tokens?: PairedRatio;
  readonly costs?: PairedRatio;
}

/** The tests of one tool on two sides, on these tasks. */
export interface ComparedTool {
  readonly tool: string;
  /** Second minus first. */
  readonly difference: number;
  /** The probability of a difference as far from 0 by chance; the larger one of all outcomes that trials without a verdict could have had. */
  readonly p: number;
  /** The same where one looks through all tools (Benjamini and Hochberg 1995). */
  readonly adjustedP: number;
  readonly verdict: Extract<Verdict, "better" | "worse" | "undecided">;
}

/** A mean pass rate, with its interval for both questions as far as it can be told. */
export interface Rates {
  readonly theseTasks: Proportion;
  readonly tasksLikeThese?: Proportion;
}

/** What tasks may differ in between the sides. */
export type Kind = "agent" | "variant";

/** How sides are compared. */
export interface CompareOptions {
  /** What is the difference between the sides, and so does not have to be equal. */
  readonly across?: Kind | undefined;
}

/** The agents, or the variants, of a side. */
export function namesIn(trials: readonly ComparedTrial[], kind: Kind): readonly string[] {
  return [...new Set(trials.flatMap((trial) => trial[kind] ?? []))];
}

/** Whether tasks are paired by agent or variant: where a side has several, and that is not the difference between the sides. */
export function isPairedBy(kind: Kind, sides: readonly Side[], across: Kind | undefined): boolean {
  return across !== kind && sides.some(({ trials }) => namesIn(trials, kind).length > 1);
}

/**
 * Pairs tasks by name, agent and variant. Where each side has one agent or variant, or they are what is compared, tasks are paired whatever these are.
 * Tasks that are not the same on both sides, or that one of them lacks, are listed and not compared.
 */
export function compareRuns<T extends ComparedTrial>(
  before: Side<T>,
  after: Side<T>,
  { across }: CompareOptions = {},
): RunComparison<T> {
  const keeps = {
    agent: isPairedBy("agent", [before, after], across),
    variant: isPairedBy("variant", [before, after], across),
  };
  const groups = new Map<string, Group<T>>();
  for (const [side, run] of [
    ["before", before],
    ["after", after],
  ] as const)
    for (const trial of run.trials) {
      const key = JSON.stringify([
        trial.task,
        trial.suite,
        keeps.agent ? trial.agent : null,
        keeps.variant ? trial.variant : null,
      ]);
      const group = groups.get(key) ?? { one: trial, before: [], after: [] };
      group[side].push(trial);
      groups.set(key, group);
    }
  const isChanged = (task: string): boolean => {
    const [first, second] = [before, after].map(({ fingerprints = {} }) =>
      Object.hasOwn(fingerprints, task) ? fingerprints[task] : undefined,
    );
    return first !== undefined && second !== undefined && first !== second;
  };
  const tasks = [...groups].map(([key, group]) => taskOf(key, group, keeps, isChanged(group.one.task)));
  const pairs = tasks.flatMap((each) =>
    each.before === undefined || each.after === undefined || each.changed === true
      ? []
      : [
          {
            task: idOf(each),
            // A baseline does not have it.
            tool: (each.after.trials[0] ?? each.before.trials[0])?.tool,
            first: each.before,
            second: each.after,
          },
        ],
  );
  const measured = pairs.filter(({ first, second }) => first.scored > 0 && second.scored > 0);
  const unscoredIn = (side: "first" | "second"): number =>
    pairs.reduce((sum, pair) => sum + pair[side].unscored, 0);
  const sizes = (key: "durationMs" | "tokens"): PairedRatio | undefined =>
    compareRatios(
      measured.map(({ task, first, second }) => ({ task, first: first[key] ?? 0, second: second[key] ?? 0 })),
    );
  const costs = compareRatios(
    measured.flatMap(({ task, first: { cost: before }, second: { cost: after } }) =>
      before === undefined || before.currency !== after?.currency
        ? []
        : [{ task, first: before.amount, second: after.amount }],
    ),
  );
  const [first, second] = (["first", "second"] as const).map((side) => sideRates(measured, side));
  return withoutUndefined({
    tasks: tasks.toSorted(
      (a, b) => rankOf(a) - rankOf(b) || Math.abs(b.difference ?? 0) - Math.abs(a.difference ?? 0),
    ),
    compared: {
      tasks: new Set(measured.map(({ task }) => task)).size,
      of: new Set(tasks.map(idOf)).size,
    },
    unscored: { before: unscoredIn("first"), after: unscoredIn("second") },
    rates: first && second && { before: first, after: second },
    theseTasks: withUnscored(pairs, compareTheseTasks),
    tasksLikeThese: withUnscored(pairs, compareTasksLikeThese),
    durations: sizes("durationMs"),
    tokens: sizes("tokens"),
    costs,
    tools: comparedTools(pairs),
  });
}

/** Each tool with its tests. Many are looked through, so that some would differ by chance. */
function comparedTools(
  pairs: readonly (TaskPair<UnscoredCount> & { readonly tool: string | undefined })[],
): readonly ComparedTool[] | undefined {
  const byTool = Map.groupBy(pairs, ({ tool }) => tool);
  const found = [...byTool].flatMap(([tool, tests]) => {
    const open = tool === undefined ? undefined : withUnscored(tests, compareTheseTasks);
    return tool === undefined || open === undefined
      ? []
      : [{ tool, difference: open.difference.value, p: decidingP(open) }];
  });
  if (found.length < 2) return undefined;
  const adjusted = benjaminiHochberg(found.map(({ p }) => p));
  return found.map((each, index): ComparedTool => {
    const adjustedP = adjusted[index] ?? 1;
    const isChance = adjustedP >= significance || each.difference === 0;
    return { ...each, adjustedP, verdict: isChance ? "undecided" : each.difference > 0 ? "better" : "worse" };
  });
}

/** Trials of one task, with the agent and variant that it is paired by. */
interface Group<T extends ComparedTrial> {
  readonly one: T;
  readonly before: T[];
  readonly after: T[];
}

/** Equal for the parts of one task. */
function idOf({ task, suite }: Pick<ComparedTrial, "task" | "suite">): string {
  return JSON.stringify([task, suite]);
}

function sideRates(
  pairs: readonly (TaskPair<UnscoredCount> & { readonly task: string })[],
  side: "first" | "second",
): Rates | undefined {
  const counts = pairs.map((pair) => ({ ...pair[side], task: pair.task }));
  const these = theseTasks(countTasksAlike(counts, ({ task }) => task));
  if (these === undefined) return undefined;
  const others = tasksLikeThese([...Map.groupBy(counts, ({ task }) => task).values()]);
  return withoutUndefined({ theseTasks: these, tasksLikeThese: others });
}

function taskOf<T extends ComparedTrial>(
  key: string,
  { one: { task, suite, agent, variant }, ...trials }: Group<T>,
  keeps: Readonly<Record<Kind, boolean>>,
  isChanged: boolean,
): ComparedTask<T> {
  const [before, after] = [sideOf(trials.before), sideOf(trials.after)];
  const [first, second] = [before?.passRate, after?.passRate];
  return withoutUndefined({
    key,
    task,
    suite,
    agent: keeps.agent ? (agent ?? undefined) : undefined,
    variant: keeps.variant ? variant : undefined,
    before,
    after,
    changed: isChanged ? (true as const) : undefined,
    difference: isChanged || first === undefined || second === undefined ? undefined : second - first,
  });
}

function sideOf<T extends ComparedTrial>(trials: readonly T[]): TaskSide<T> | undefined {
  if (trials.length === 0) return undefined;
  const judged = trials.filter(({ verdict }) => verdict === "pass" || verdict === "fail");
  const passed = numberOf(judged.filter(({ verdict }) => verdict === "pass"));
  const scored = numberOf(judged);
  const leftOut = numberOf(trials.filter(({ isLeftOut }) => isLeftOut === true));
  const durations = judged.flatMap(({ durationMs }) => durationMs ?? []);
  const tokens = judged.flatMap(({ inputTokens, outputTokens }) =>
    inputTokens === undefined ? [] : inputTokens + (outputTokens ?? 0),
  );
  return withoutUndefined({
    trials,
    passed,
    scored,
    unscored: numberOf(trials) - scored - leftOut,
    leftOut,
    passRate: scored === 0 ? undefined : passed / scored,
    durationMs: durations.length === 0 ? undefined : meanOf(durations),
    tokens: tokens.length === 0 ? undefined : meanOf(tokens),
    cost: costOfSide(judged),
  });
}

function numberOf(trials: readonly ComparedTrial[]): number {
  return trials.reduce((sum, { times = 1 }) => sum + times, 0);
}

/** The mean cost of those that used a model. */
function costOfSide(judged: readonly ComparedTrial[]): Cost | undefined {
  const used = judged.filter(({ inputTokens, cost }) => inputTokens !== undefined || cost !== undefined);
  const costs = used.flatMap(({ cost }) => (cost === undefined || cost.isPartial === true ? [] : cost));
  const [{ currency } = { currency: "" }] = costs;
  const isKnown = costs.length === used.length && costs.every((cost) => cost.currency === currency);
  if (!isKnown || used.length === 0) return undefined;
  return { amount: meanOf(costs.map(({ amount }) => amount)), currency };
}

/** The mean pass rate of the tasks of some trials, with its interval for these tasks. Undefined where none has a verdict. */
export function rateOfTrials(trials: readonly ComparedTrial[]): Proportion | undefined {
  const parts = Map.groupBy(trials, ({ task, suite, agent, variant }) =>
    JSON.stringify([task, suite, agent, variant]),
  );
  const counts = [...parts.values()].flatMap((part) => {
    const [one, side] = [part[0], sideOf(part)];
    return one === undefined || side === undefined ? [] : [{ ...side, task: idOf(one) }];
  });
  return theseTasks(countTasksAlike(counts, ({ task }) => task));
}

function rankOf({ difference }: ComparedTask): number {
  if (difference === undefined) return 2;
  return difference < 0 ? 0 : difference > 0 ? 1 : 3;
}

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
