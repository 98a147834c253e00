import { suggestion } from "../base/did-you-mean.ts";
import type { Task } from "../model/task.ts";
import { builtInNames } from "./kinds.ts";
import { lowerBound, metricOf, metrics, runLimits, runMeasures } from "./measurements/metrics.ts";

/** The names of the graders of a task, including those that files declare. */
function graderNames(task: Task): readonly string[] {
  return [...builtInNames(task), ...(task.graders ?? []).map(({ name }) => name)];
}

export interface ThresholdProblem {
  readonly kind: "unknown" | "too high";
  readonly message: string;
  readonly hint: string;
}

/**
 * The problem of a threshold of some tasks: no score or metric of them has its name, or it is too high. Undefined: none. Metrics are
 * measured of agents; a grader of the same name takes precedence.
 */
export function thresholdProblem(
  name: string,
  threshold: number,
  tasks: readonly Task[],
): ThresholdProblem | undefined {
  const graders = scoreNames(tasks);
  const measured = tasks.some(({ turns }) => turns.length > 0) ? Object.keys(metrics) : [];
  const known = [...new Set([...graders, ...measured, ...runLimits])];
  if (!known.includes(name))
    return {
      kind: "unknown",
      message: `no task has a grader ${JSON.stringify(name)}, so that nothing can be compared with its threshold`,
      hint: suggestion(name, known, "thresholds"),
    };
  if (name === lowerBound && threshold >= 1)
    return {
      kind: "too high",
      message: `thresholds.${name} must be below 1`,
      hint: "No number of trials shows that all would pass. For a run of which every trial has to pass write passRate: 1.",
    };
  if (threshold <= 1 || (!graders.includes(name) && metricOf(name)?.isShare !== true)) return undefined;
  return {
    kind: "too high",
    message: `thresholds.${name} must be at most 1`,
    hint: "It is compared with a share or a score: write 80 % as 0.8.",
  };
}

/** Whether a run could miss this threshold: no share and no score is below 0, and no share above 1. */
export function canBeMissed(name: string, threshold: number, tasks: readonly Task[]): boolean {
  if (runLimits.includes(name)) return true;
  const metric = scoreNames(tasks).includes(name) ? undefined : metricOf(name);
  if (metric === undefined || metric.isGood === true) return threshold > 0;
  return metric.isShare !== true || threshold < 1;
}

function scoreNames(tasks: readonly Task[]): readonly string[] {
  return [...runMeasures, ...tasks.flatMap(graderNames)];
}

/** The hint for a metric of a waza eval that no grader of the tasks measures; undefined: one does. */
export function unknownGrader(name: string, tasks: readonly Task[]): string | undefined {
  const known = new Set(scoreNames(tasks));
  return known.has(name) ? undefined : suggestion(name, [...known], "thresholds");
}
