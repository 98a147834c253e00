import type { Thresholds } from "../formats/model.ts";
import type { RunResult, TrialResult } from "./result.ts";

export type Gate = NonNullable<RunResult["gates"]>[number];

/** Compares what the trials measured with the thresholds of a run. */
export function gatesOf(trials: readonly TrialResult[], thresholds: Thresholds): readonly Gate[] {
  return Object.entries(thresholds).map(([name, threshold]) => gateOf(trials, name, threshold));
}

/** A trial that should have been measured and was not could have had any value from 0 to 1. */
function gateOf(trials: readonly TrialResult[], name: string, threshold: number): Gate {
  let [sum, weights, heaviest, measured, open] = [0, 0, 0, 0, 0];
  for (const trial of trials) {
    const value = measureOf(trial, name);
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
  const [lowest, highest] = [
    rounded(sum / (weights + missing)),
    rounded((sum + missing) / (weights + missing)),
  ];
  const verdict =
    measured === 0
      ? "incomplete"
      : lowest >= threshold
        ? "pass"
        : highest < threshold
          ? "fail"
          : "incomplete";
  return {
    name,
    verdict,
    value: measured === 0 ? null : rounded(sum / weights),
    threshold,
    trials: measured,
  };
}

/** Means of decimal fractions are off by less than this. */
function rounded(value: number): number {
  return Math.round(value * 1e9) / 1e9;
}

/** What a trial contributes to a metric: `score`, `passRate`, or the score of a grader; undefined: nothing. */
function measureOf({ verdict, score, grades }: TrialResult, name: string): number | undefined {
  const isJudged = verdict === "pass" || verdict === "fail";
  if (name === "passRate") return isJudged ? Number(verdict === "pass") : undefined;
  if (name === "score") return isJudged ? (score ?? undefined) : undefined;
  return grades.find((grade) => grade.grader === name && grade.verdict !== "error")?.score ?? undefined;
}

/** The weight of the grade that a trial contributes; the trials themselves all weigh the same. */
function weightIn({ grades }: TrialResult, name: string): number {
  if (name === "passRate" || name === "score") return 1;
  return grades.find((grade) => grade.grader === name)?.weight ?? 1;
}

function couldHaveMeasured({ verdict, grades, error }: TrialResult, name: string): boolean {
  const isCut = verdict === "error" || verdict === "timeout" || error?.kind === "interrupted";
  return isCut || grades.some((grade) => grade.grader === name && grade.verdict === "error");
}
