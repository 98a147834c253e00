import type { Trial } from "../../core/plan/plan.ts";
import type { TrialResult } from "../../core/report/result.ts";
import { visibleText } from "../../core/text/visible-text.ts";

/** What a name is read from; a planned trial and its result both have it. */
export type Nameable = Pick<TrialResult, "task" | "agent" | "variant" | "attempt" | "form"> & {
  readonly suite?: string;
};

/** Whether a run has several agents, sets of servers or attempts, so that names must say which one is meant. */
export interface Variety {
  readonly agents: boolean;
  readonly variants: boolean;
  readonly attempts: boolean;
}

/** Finds out which variants trials come in. */
export function varietyOf(trials: readonly Pick<Trial, "agent" | "variant" | "attempt">[]): Variety {
  const agents = new Set<string>();
  const variants = new Set<string>();
  let attempts = false;
  for (const { agent, variant, attempt } of trials) {
    if (agent !== null) agents.add(agent);
    if (variant !== undefined) variants.add(variant);
    if (attempt > 1) attempts = true;
  }
  return { agents: agents.size > 1, variants: variants.size > 0, attempts };
}

const groups: Readonly<Record<Nameable["form"], string>> = {
  workflow: "workflows",
  "tool-test": "tool tests",
  task: "tasks",
};

/** The name of the group that a trial is shown under: its suite, or what it is. */
export function groupName(trial: Pick<Nameable, "suite" | "form">): string {
  return trial.suite === undefined ? groups[trial.form] : visibleText(trial.suite);
}

/** A task's name within its group: without the suite's name where the task repeats it. */
export function taskTitle({ task, suite }: Pick<Nameable, "task" | "suite">): string {
  if (suite === undefined || !task.startsWith(suite)) return visibleText(task);
  const rest = /^\s*(?:::|[/›>:.·])\s*(\S.*)$/su.exec(task.slice(suite.length));
  return visibleText(rest?.[1] ?? task);
}

/** A task's name with its group in front, for places without a heading. */
export function fullTitle(trial: Nameable): string {
  return trial.suite === undefined ? taskTitle(trial) : `${groupName(trial)} › ${taskTitle(trial)}`;
}

/** Which agent, set of servers and attempt a trial is, where a run has several; empty otherwise. */
export function variantName(
  { agent, variant, attempt }: Pick<Nameable, "agent" | "variant" | "attempt">,
  variety: Variety,
): string {
  const parts = [
    ...(variety.agents && agent !== null ? [visibleText(agent)] : []),
    ...(variety.variants && variant !== undefined ? [visibleText(variant)] : []),
    ...(variety.attempts ? [`attempt ${attempt}`] : []),
  ];
  return parts.join(" · ");
}
