import {
  compareRatios,
  compareTasksLikeThese,
  compareTheseTasks,
  type Difference,
  holm,
  minTasks,
  type PairedComparison,
  type PairedRatio,
  type Verdict,
  verdictOf,
} from "../../statistics/compare.ts";
import {
  meanOf,
  type Proportion,
  type TaskCount,
  tasksLikeThese,
  theseTasks,
} from "../../statistics/rates.ts";
import type { TrialResult } from "../../model/result.ts";
import { withoutUndefined } from "../../base/json.ts";

/** What a comparison needs of a trial: rows of the dashboard and results have it. */
export interface ComparedTrial {
  readonly task: string;
  readonly suite?: string;
  readonly agent?: string | null;
  readonly variant?: string;
  /** Absent until it has ended. */
  readonly verdict?: TrialResult["verdict"];
  readonly durationMs?: number;
  readonly inputTokens?: number;
  readonly outputTokens?: number;
}

/** One side of a comparison: a run, or a part of one. */
export interface Side<T extends ComparedTrial = ComparedTrial> {
  readonly trials: readonly T[];
  /** Names of its agents. */
  readonly agents: readonly { readonly name: string }[];
  /** Hashes of what its tasks are and how they are graded, by name; absent: not known. */
  readonly hashes?: ReadonlyMap<string, string>;
}

/** The trials of one task (with agent and variant) on one side. */
export interface TaskSide<T extends ComparedTrial = ComparedTrial> extends TaskCount {
  readonly trials: readonly T[];
  /** Share of those with the verdict pass or fail that passed; absent if none has one. */
  readonly passRate?: number;
  /** Means of these trials, as far as they have them. */
  readonly durationMs?: number;
  readonly tokens?: number;
}

/** A task on two sides. */
export interface ComparedTask<T extends ComparedTrial = ComparedTrial> {
  readonly key: string;
  readonly task: string;
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
  /** Pass rates of the tasks that both sides measured, whose difference is the one compared; absent if there are none. */
  readonly rates?: { readonly before: Rates; readonly after: Rates };
  /** Whether the second side is better on these tasks; absent if both measured none. */
  readonly theseTasks?: Difference;
  /** Whether it would be on tasks like these. */
  readonly tasksLikeThese?: PairedComparison;
  /** How many times as long trials take, and as many tokens they use; absent if no task has both values. */
  readonly durations?: PairedRatio;
  readonly tokens?: PairedRatio;
}

/** A mean pass rate, with its interval for both questions as far as it can be told. */
export interface Rates {
  readonly theseTasks: Proportion;
  readonly tasksLikeThese?: Proportion;
}

/** How sides are compared. */
export interface CompareOptions {
  /** What is the difference between the sides, and so does not have to be equal: the agent, or the variant. */
  readonly across?: "agent" | "variant" | undefined;
}

/**
 * Pairs tasks by name, agent and variant. Where each side has one agent, or agents are what is compared, tasks are paired whatever their agents.
 * Tasks that are not the same on both sides, or that one of them lacks, are listed and not compared.
 */
export function compareRuns<T extends ComparedTrial>(
  before: Side<T>,
  after: Side<T>,
  { across }: CompareOptions = {},
): RunComparison<T> {
  const keepsAgents = across !== "agent" && (before.agents.length > 1 || after.agents.length > 1);
  const groups = new Map<string, { one: T; before: T[]; after: T[] }>();
  for (const [side, run] of [
    ["before", before],
    ["after", after],
  ] as const)
    for (const trial of run.trials) {
      const agent = keepsAgents ? trial.agent : null;
      const variant = across === "variant" ? null : trial.variant;
      const key = JSON.stringify([trial.task, trial.suite, agent, variant]);
      const group = groups.get(key) ?? { one: trial, before: [], after: [] };
      group[side].push(trial);
      groups.set(key, group);
    }
  const isChanged = (task: string): boolean => {
    const [first, second] = [before.hashes?.get(task), after.hashes?.get(task)];
    return first !== undefined && second !== undefined && first !== second;
  };
  const tasks = [...groups].map(([key, group]) => taskOf(key, group, { keepsAgents, across, isChanged }));
  const compared = tasks.flatMap(({ before: first, after: second, difference }) =>
    first === undefined || second === undefined || difference === undefined ? [] : [{ first, second }],
  );
  const comparison: Mutable<RunComparison<T>> = {
    tasks: tasks.sort(
      (a, b) => rankOf(a) - rankOf(b) || Math.abs(b.difference ?? 0) - Math.abs(a.difference ?? 0),
    ),
  };
  const rates = [compared.map(({ first }) => first), compared.map(({ second }) => second)].map(ratesOf);
  if (rates[0] !== undefined && rates[1] !== undefined)
    comparison.rates = { before: rates[0], after: rates[1] };
  const these = compareTheseTasks(compared);
  if (these !== undefined) comparison.theseTasks = these;
  const others = compareTasksLikeThese(compared);
  if (others !== undefined) comparison.tasksLikeThese = others;
  for (const name of ["durations", "tokens"] as const) {
    const key = name === "durations" ? "durationMs" : "tokens";
    const ratio = compareRatios(compared.map(({ first, second }) => [first[key] ?? 0, second[key] ?? 0]));
    if (ratio !== undefined) comparison[name] = ratio;
  }
  return comparison;
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

function ratesOf(tasks: readonly TaskCount[]): Rates | undefined {
  const these = theseTasks(tasks);
  const others = tasksLikeThese(tasks);
  if (these === undefined) return undefined;
  return others === undefined ? { theseTasks: these } : { theseTasks: these, tasksLikeThese: others };
}

function taskOf<T extends ComparedTrial>(
  key: string,
  group: { readonly one: T; readonly before: readonly T[]; readonly after: readonly T[] },
  {
    keepsAgents,
    across,
    isChanged,
  }: CompareOptions & { readonly keepsAgents: boolean; readonly isChanged: (task: string) => boolean },
): ComparedTask<T> {
  const { task, agent, variant } = group.one;
  const compared: Mutable<ComparedTask<T>> = { key, task };
  if (keepsAgents && typeof agent === "string") compared.agent = agent;
  if (across !== "variant" && variant !== undefined) compared.variant = variant;
  const [before, after] = [sideOf(group.before), sideOf(group.after)];
  if (before !== undefined) compared.before = before;
  if (after !== undefined) compared.after = after;
  if (isChanged(task)) compared.changed = true;
  else if (before?.passRate !== undefined && after?.passRate !== undefined)
    compared.difference = after.passRate - before.passRate;
  return compared;
}

function sideOf<T extends ComparedTrial>(trials: readonly T[]): TaskSide<T> | undefined {
  if (trials.length === 0) return undefined;
  const judged = trials.filter(({ verdict }) => verdict === "pass" || verdict === "fail");
  const passed = judged.filter(({ verdict }) => verdict === "pass").length;
  const side: Mutable<TaskSide<T>> = { trials, passed, scored: judged.length };
  if (judged.length === 0) return side;
  side.passRate = passed / judged.length;
  const durations = judged.flatMap(({ durationMs }) => durationMs ?? []);
  if (durations.length > 0) side.durationMs = meanOf(durations);
  const tokens = judged.flatMap(({ inputTokens, outputTokens }) =>
    inputTokens === undefined ? [] : inputTokens + (outputTokens ?? 0),
  );
  if (tokens.length > 0) side.tokens = meanOf(tokens);
  return side;
}

function rankOf({ difference }: ComparedTask): number {
  if (difference === undefined) return 2;
  return difference < 0 ? 0 : difference > 0 ? 1 : 3;
}

/** One metric of a comparison: what is said of it, and in which words. */
export interface Statement {
  readonly metric: "pass rate" | "pass rate of tasks like these" | "duration" | "tokens";
  readonly verdict: Verdict;
  /** The probability of such a difference by chance, adjusted for the number of metrics (Holm). */
  readonly p: number;
  readonly text: string;
  /** How many tasks changed. */
  readonly changes?: string;
}

export interface StatementOptions {
  /** What the sides are called. */
  readonly names: readonly [string, string];
  /** A difference of pass rates that does not matter, 0 to 1. Default: none. */
  readonly margin?: number;
}

/**
 * What a comparison says, each with its numbers, in sentences that need no knowledge of statistics: of the pass rate on these tasks, on tasks
 * like these, of duration and of tokens. Metrics of the same question are adjusted for their number (Holm 1979).
 */
export function statementsOf(
  { tasks, theseTasks: these, tasksLikeThese: others, durations, tokens }: RunComparison,
  { names: [first, second], margin = 0 }: StatementOptions,
): readonly Statement[] {
  if (these === undefined || others === undefined) return [];
  const ratios = [
    { metric: "duration" as const, ratio: durations, what: "take", of: "as long" },
    { metric: "tokens" as const, ratio: tokens, what: "use", of: "as many tokens" },
  ].flatMap(({ ratio, ...each }) => (ratio === undefined ? [] : [{ ...each, ratio }]));
  const [adjusted = these.p, ...ofRatios] = holm([these.p, ...ratios.map(({ ratio }) => ratio.p)]);
  const counted = tasks.filter(({ difference }) => difference !== undefined);
  const better = counted.filter(({ difference = 0 }) => difference > 0).length;
  const worse = counted.filter(({ difference = 0 }) => difference < 0).length;
  const changes = `Of ${countOf(counted.length, "task")} that both measured, ${better} got better and ${worse} got worse.`;
  const onThese = verdictOf({ ...these, p: adjusted }, margin);
  const onOthers = others.pairs < minTasks ? "undecided" : verdictOf(others, margin);
  return [
    {
      metric: "pass rate",
      verdict: onThese,
      p: adjusted,
      text: `On these tasks ${verdictText(onThese, first, second, margin)}: ${differenceText(these)}${chanceText(onThese, adjusted)}.`,
      changes,
    },
    {
      metric: "pass rate of tasks like these",
      verdict: onOthers,
      p: others.p,
      text:
        others.pairs < minTasks
          ? `For other tasks like these nothing can be said: that takes at least ${minTasks} tasks, and both measured ${others.pairs}.`
          : `For other tasks like these ${verdictText(onOthers, first, second, margin)}: ${differenceText(others)}${chanceText(onOthers, others.p)}.`,
    },
    ...ratios.map(({ metric, ratio, what, of }, index): Statement => {
      const p = ofRatios[index] ?? ratio.p;
      const verdict = p >= 0.05 || ratio.ratio === 1 ? "undecided" : ratio.ratio < 1 ? "better" : "worse";
      const interval =
        ratio.low === undefined || ratio.high === undefined || ratio.pairs < minTasks
          ? ""
          : ` (95 % interval ${timesText(ratio.low)} to ${timesText(ratio.high)})`;
      return {
        metric,
        verdict,
        p,
        text: `Trials of ${second} ${what} ${timesText(ratio.ratio)} times ${of} as those of ${first}${interval}${verdict === "undecided" ? ", which chance alone may explain" : ""}.`,
      };
    }),
  ];
}

function verdictText(verdict: Verdict, first: string, second: string, margin: number): string {
  switch (verdict) {
    case "better":
    case "worse":
      return `${second} is ${verdict} than ${first}`;
    case "equivalent":
      return `${second} is as good as ${first}, within ${points(margin)}`;
    case "undecided":
      return `it is undecided whether ${second} is better or worse than ${first}`;
  }
}

function differenceText({ value, low, high }: Difference): string {
  const interval =
    low === undefined || high === undefined
      ? ""
      : ` (95 % interval ${signed(Math.max(-1, low))} to ${signed(Math.min(1, high))} points)`;
  const size = value === 0 ? "the same" : `${points(Math.abs(value))} ${value > 0 ? "higher" : "lower"}`;
  return `its pass rate is ${size}${interval}`;
}

/** What the probability means; of what is equivalent it says nothing. */
function chanceText(verdict: Verdict, p: number): string {
  if (verdict === "equivalent") return "";
  if (verdict === "undecided") return ", which chance alone may explain";
  const often = p < 0.001 ? "less than 1 of 1,000" : `${Math.max(1, Math.round(p * 1000))} of 1,000`;
  return `; if both were equally good, ${often} such comparisons would show a difference as large`;
}

function points(share: number): string {
  const value = Math.round(share * 1000) / 10;
  return `${value} point${value === 1 ? "" : "s"}`;
}

function signed(share: number): string {
  const value = Math.round(share * 1000) / 10;
  return value < 0 ? `−${-value}` : value > 0 ? `+${value}` : "0";
}

function timesText(ratio: number): string {
  return ratio.toPrecision(3).replace(/\.?0+$/, "");
}

function countOf(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

/** What is said of the pass rates of the variants of one run, each compared with the first; else of its agents. Empty where it has one of each. */
export function comparisonsOf(
  results: readonly TrialResult[],
  agents: Side["agents"],
): readonly (readonly Statement[])[] {
  const trials = results.filter(({ form }) => form !== "check").map(comparedTrial);
  const variants = [...new Set(trials.flatMap(({ variant }) => variant ?? []))];
  const acting = [...new Set(trials.flatMap(({ agent }) => agent ?? []))];
  const across = variants.length > 1 ? "variant" : acting.length > 1 ? "agent" : undefined;
  if (across === undefined) return [];
  const [first = "", ...others] = across === "variant" ? variants : acting;
  const sideOf = (name: string): Side => ({
    agents,
    trials: trials.filter((trial) => trial[across] === name),
  });
  return others.map((name) => {
    const comparison = compareRuns(sideOf(first), sideOf(name), { across });
    const hasTasks = (comparison.tasksLikeThese?.pairs ?? 0) >= minTasks;
    return statementsOf(comparison, { names: [first, name] }).filter(
      ({ metric }) => metric === "pass rate" || (hasTasks && metric === "pass rate of tasks like these"),
    );
  });
}

/** What a comparison needs of a trial's result. */
export function comparedTrial(result: TrialResult): ComparedTrial {
  const { task, suite, agent, variant, verdict, durationMs, usage } = result;
  return withoutUndefined({
    task,
    suite,
    agent,
    variant,
    verdict,
    durationMs,
    inputTokens: usage?.inputTokens,
    outputTokens: usage?.outputTokens,
  });
}
