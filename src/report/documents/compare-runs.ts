import { withoutUndefined } from "../../base/json.ts";
import type { Cost, ReportedVerdict } from "../../model/grade.ts";
import type { TrialResult } from "../../model/result.ts";
import {
  benjaminiHochberg,
  compareRatios,
  compareTasksLikeThese,
  compareTheseTasks,
  decidingP,
  type OpenDifference,
  type PairedComparison,
  type PairedRatio,
  significance,
  type TaskPair,
  type Verdict,
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
import { isJudged, taskId } from "../rates.ts";

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
  /** What the other tool that ran it says; absent: mcpvals ran it. */
  readonly reported?: ReportedVerdict;
  /** It was not measured on purpose, such as for a requirement that is not met. */
  readonly isLeftOut?: true;
  /** How many trials it stands for; absent: 1. */
  readonly times?: number;
  readonly durationMs?: number;
  readonly inputTokens?: number;
  readonly outputTokens?: number;
  /** Absent: unknown. */
  readonly cost?: Cost;
  /** What its agent's program reported; absent: nothing is known. */
  readonly ran?: TrialResult["ran"];
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
            task: taskId(each),
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
      of: new Set(tasks.map(taskId)).size,
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
  const judged = trials.filter(isJudged);
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
    return one === undefined || side === undefined ? [] : [{ ...side, task: taskId(one) }];
  });
  return theseTasks(countTasksAlike(counts, ({ task }) => task));
}

function rankOf({ difference }: ComparedTask): number {
  if (difference === undefined) return 2;
  return difference < 0 ? 0 : difference > 0 ? 1 : 3;
}
