import { withoutUndefined } from "../base/json.ts";
import type { GroupRate, RunResult, TaskRate, TrialResult } from "../model/result.ts";
import {
  boundsOf,
  isFlaky,
  meanOf,
  passAllK,
  passAtK,
  tasksLikeThese,
  theseTasks,
  wilson,
} from "../statistics/rates.ts";

/** Most attempts of which pass@k and pass^k are given. */
const maxK = 10;

/**
 * Pass rates of a run, by task, agent and variant, and of all tasks of each agent and variant. Empty where no trial has a verdict; trials of a check are not counted, since
 * a check is not repeated.
 */
export function ratesOf(trials: readonly TrialResult[]): Pick<RunResult, "passRate" | "rates"> {
  const tasks = taskRates(trials);
  const passRate = theseTasks(tasks);
  if (passRate === undefined) return {};
  const groups = [...Map.groupBy(tasks, groupKeyOf).values()].map(groupRate);
  const isRepeated = groups.length > 1 || tasks.some(({ scored, unscored }) => scored + unscored > 1);
  return { passRate, rates: isRepeated ? { tasks, groups } : { groups } };
}

/** The rates of the tasks of a run, one for each agent and variant. */
export function taskRates(trials: readonly TrialResult[]): readonly TaskRate[] {
  const counted = trials.filter(({ form }) => form !== "check");
  return [...Map.groupBy(counted, keyOf).values()].map(taskRate);
}

function keyOf({ task, suite, agent, variant }: TrialResult): string {
  return JSON.stringify([task, suite, agent, variant]);
}

function groupKeyOf({ agent, variant }: TaskRate): string {
  return JSON.stringify([agent, variant]);
}

/** The rate of some trials of one task, agent and variant. */
export function taskRate(trials: readonly TrialResult[]): TaskRate {
  const [{ task, suite, agent, variant } = { task: "", agent: null }] = trials;
  const judged = trials.filter(({ verdict }) => verdict === "pass" || verdict === "fail");
  const passed = judged.filter(({ verdict }) => verdict === "pass").length;
  const counts = { passed, scored: judged.length, unscored: trials.length - judged.length };
  const tokens = judged.flatMap(({ usage }) =>
    usage === undefined ? [] : usage.inputTokens + usage.outputTokens,
  );
  return withoutUndefined({
    task,
    suite,
    agent,
    variant,
    ...counts,
    rate: wilson(passed, judged.length),
    flaky: isFlaky(counts) ? (true as const) : undefined,
    durationMs: judged.length === 0 ? undefined : meanOf(judged.map(({ durationMs }) => durationMs)),
    tokens: tokens.length === 0 ? undefined : meanOf(tokens),
  });
}

function groupRate(tasks: readonly TaskRate[]): GroupRate {
  const [{ agent, variant } = { agent: null }] = tasks;
  const sum = (key: "passed" | "scored" | "unscored"): number =>
    tasks.reduce((total, task) => total + task[key], 0);
  const ks = Array.from(
    { length: Math.min(maxK, ...tasks.map(({ scored }) => scored)) },
    (_, index) => index + 1,
  );
  const curve = (at: typeof passAtK): number[] | undefined =>
    ks.length < 2 ? undefined : ks.flatMap((k) => at(tasks, k) ?? []);
  return withoutUndefined({
    agent,
    variant,
    tasks: tasks.length,
    passed: sum("passed"),
    scored: sum("scored"),
    unscored: sum("unscored"),
    theseTasks: theseTasks(tasks),
    tasksLikeThese: tasksLikeThese(tasks),
    bounds: sum("unscored") === 0 ? undefined : boundsOf(tasks),
    passAt: curve(passAtK),
    passAll: curve(passAllK),
  });
}
