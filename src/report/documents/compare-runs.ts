import { commonSequence } from "../../expect/json-difference.ts";
import { canonicalJson, type Json } from "../../base/json.ts";
import {
  comparePairs,
  compareRatios,
  type PairedComparison,
  type PairedRatio,
} from "../../statistics/intervals.ts";
import type { CallItem, Excerpt, RunDocument, TraceItem, TrialRow } from "./documents.ts";

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

export type Call = TraceItem & CallItem;

/** A call of one trial beside the one of another trial that it corresponds to. */
export interface AlignedCalls {
  readonly first?: Call;
  readonly second?: Call;
  /** `equal`: the same tool, arguments and result. `changed`: the same tool. `only-first`, `only-second`: the other trial has no such call there. */
  readonly relation: "equal" | "changed" | "only-first" | "only-second";
  /** What differs between two calls of the same tool. */
  readonly differs: readonly ("arguments" | "result" | "status")[];
}

/** Of calls in the middle of each trial; the table of the alignment has the square of this. */
const maxAligned = 2000;

/**
 * Aligns the agent's calls of two trials, or all calls if no agent made one: a longest common subsequence of tools, after equal calls at both ends. Between
 * two aligned calls, those of the first trial stand before those of the second. Values of which only the beginning is there are compared by their hashes.
 */
export function alignCalls(
  first: readonly TraceItem[],
  second: readonly TraceItem[],
): readonly AlignedCalls[] {
  const [a, b] = comparedCalls(first, second);
  const shorter = Math.min(a.length, b.length);
  let start = 0;
  while (start < shorter && isSameTool(a[start], b[start])) start += 1;
  let end = 0;
  while (end < shorter - start && isSameTool(a.at(-1 - end), b.at(-1 - end))) end += 1;
  const middle = (calls: readonly Call[]): readonly Call[] =>
    calls.slice(start, start + maxAligned).slice(0, calls.length - start - end);
  const pairs = [
    ...Array.from({ length: start }, (_, index) => [index, index] as const),
    ...commonSequence(middle(a), middle(b), isSameTool).map(([x, y]) => [start + x, start + y] as const),
    ...Array.from({ length: end }, (_, index) => [a.length - end + index, b.length - end + index] as const),
    [a.length, b.length] as const,
  ];
  let [nextA, nextB] = [0, 0];
  return pairs.flatMap(([indexA, indexB]) => {
    const rows = [
      ...a.slice(nextA, indexA).map(onlyFirst),
      ...b.slice(nextB, indexB).map(onlySecond),
      ...paired(a[indexA], b[indexB]),
    ];
    [nextA, nextB] = [indexA + 1, indexB + 1];
    return rows;
  });
}

function onlyFirst(first: Call): AlignedCalls {
  return { first, relation: "only-first", differs: [] };
}

function onlySecond(second: Call): AlignedCalls {
  return { second, relation: "only-second", differs: [] };
}

function comparedCalls(
  first: readonly TraceItem[],
  second: readonly TraceItem[],
): readonly [readonly Call[], readonly Call[]] {
  const [a, b] = [callsOf(first), callsOf(second)];
  if (![...a, ...b].some(({ byAgent }) => byAgent)) return [a, b];
  return [a.filter(({ byAgent }) => byAgent), b.filter(({ byAgent }) => byAgent)];
}

function callsOf(items: readonly TraceItem[]): readonly Call[] {
  return items.filter((item): item is Call => item.kind === "call");
}

function isSameTool(a: Call | undefined, b: Call | undefined): boolean {
  return a?.tool === b?.tool && a?.server === b?.server && a?.source === b?.source;
}

/** The row of two calls of the same tool; none behind the last calls. */
function paired(first: Call | undefined, second: Call | undefined): readonly AlignedCalls[] {
  if (first === undefined || second === undefined) return [];
  const differs = (["arguments", "result", "status"] as const).filter(
    (part) => partOf(first, part) !== partOf(second, part),
  );
  return [{ first, second, relation: differs.length === 0 ? "equal" : "changed", differs }];
}

function partOf(call: Call, part: AlignedCalls["differs"][number]): string {
  if (part === "status") return call.status;
  const hash = call.hashes?.[part];
  if (hash !== undefined) return hash;
  return part === "arguments" ? valueOf(call.args) : `${valueOf(call.result)} ${call.error ?? ""}`;
}

/** A text to compare values by: the order of keys makes no difference. */
function valueOf({ text, type }: Pick<Excerpt, "text" | "type"> = { text: "", type: "text" }): string {
  return type === "text" ? text : canonicalJson(JSON.parse(text) as Json);
}
