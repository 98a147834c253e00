import {
  comparePairs,
  compareRatios,
  type PairedComparison,
  type PairedRatio,
} from "../statistics/paired.ts";
import type { RunDocument, TrialRow } from "./documents.ts";

/** The trials of one task (with agent and variant) in one run. */
export interface TaskSide {
  readonly trials: readonly TrialRow[];
  /** Share of those with the verdict pass or fail that passed; absent if none has one. */
  readonly passRate?: number;
  /** Means of these trials, as far as they have them. */
  readonly durationMs?: number;
  readonly tokens?: number;
}

/** A task in two runs. */
export interface TaskPair {
  readonly key: string;
  readonly task: string;
  readonly agent?: string;
  readonly variant?: string;
  readonly before?: TaskSide;
  readonly after?: TaskSide;
  /** Second pass rate minus first; absent if one is unknown. */
  readonly difference?: number;
}

export interface RunComparison {
  /** What got worse comes first, then what got better, what one run does not have or did not measure, what is the same. */
  readonly tasks: readonly TaskPair[];
  /** Of the tasks that both runs measured; absent if there are none. */
  readonly test?: PairedComparison;
  /** How many times as long trials take, and as many tokens they use; absent if no task has both values. */
  readonly durations?: PairedRatio;
  readonly tokens?: PairedRatio;
}

type Compared = Pick<RunDocument, "trials" | "agents">;

/**
 * Pairs tasks by name, agent and variant. Where each run has one agent, agents are what is compared, and tasks are paired
 * whatever their names.
 */
export function compareRuns(before: Compared, after: Compared): RunComparison {
  const keepsAgents = before.agents.length > 1 || after.agents.length > 1;
  const groups = new Map<string, { one: TrialRow; before: TrialRow[]; after: TrialRow[] }>();
  for (const [side, run] of [
    ["before", before],
    ["after", after],
  ] as const)
    for (const trial of run.trials) {
      const key = JSON.stringify([trial.task, trial.suite, keepsAgents ? trial.agent : null, trial.variant]);
      const group = groups.get(key) ?? { one: trial, before: [], after: [] };
      group[side].push(trial);
      groups.set(key, group);
    }
  const tasks = [...groups].map(([key, group]) => pairOf(key, group, keepsAgents));
  const test = comparePairs(tasks.flatMap(({ difference }) => difference ?? []));
  const [durations, tokens] = [ratioOf(tasks, "durationMs"), ratioOf(tasks, "tokens")];
  return {
    tasks: tasks.sort(
      (a, b) => rankOf(a) - rankOf(b) || Math.abs(b.difference ?? 0) - Math.abs(a.difference ?? 0),
    ),
    ...(test === undefined ? {} : { test }),
    ...(durations === undefined ? {} : { durations }),
    ...(tokens === undefined ? {} : { tokens }),
  };
}

function ratioOf(tasks: readonly TaskPair[], name: "durationMs" | "tokens"): PairedRatio | undefined {
  return compareRatios(tasks.map(({ before, after }) => [before?.[name] ?? 0, after?.[name] ?? 0]));
}

function pairOf(
  key: string,
  group: {
    readonly one: TrialRow;
    readonly before: readonly TrialRow[];
    readonly after: readonly TrialRow[];
  },
  keepsAgents: boolean,
): TaskPair {
  const { task, agent, variant } = group.one;
  const [before, after] = [sideOf(group.before), sideOf(group.after)];
  const difference =
    before?.passRate === undefined || after?.passRate === undefined
      ? undefined
      : after.passRate - before.passRate;
  return {
    key,
    task,
    ...(agent === undefined || !keepsAgents ? {} : { agent }),
    ...(variant === undefined ? {} : { variant }),
    ...(before === undefined ? {} : { before }),
    ...(after === undefined ? {} : { after }),
    ...(difference === undefined ? {} : { difference }),
  };
}

function sideOf(trials: readonly TrialRow[]): TaskSide | undefined {
  if (trials.length === 0) return undefined;
  const judged = trials.filter(({ verdict }) => verdict === "pass" || verdict === "fail");
  const passRate = mean(judged.map(({ verdict }) => Number(verdict === "pass")));
  const durationMs = mean(judged.flatMap((trial) => trial.durationMs ?? []));
  const tokens = mean(
    judged.flatMap(({ inputTokens, outputTokens }) =>
      inputTokens === undefined ? [] : inputTokens + (outputTokens ?? 0),
    ),
  );
  return {
    trials,
    ...(passRate === undefined ? {} : { passRate }),
    ...(durationMs === undefined ? {} : { durationMs }),
    ...(tokens === undefined ? {} : { tokens }),
  };
}

function mean(values: readonly number[]): number | undefined {
  return values.length === 0 ? undefined : values.reduce((sum, value) => sum + value, 0) / values.length;
}

function rankOf({ difference }: TaskPair): number {
  if (difference === undefined) return 2;
  return difference < 0 ? 0 : difference > 0 ? 1 : 3;
}
