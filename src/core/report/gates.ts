import type { Thresholds } from "../formats/model.ts";
import type { RunResult, TrialResult } from "./result.ts";

export type Gate = NonNullable<RunResult["gates"]>[number];

/** Compares what the trials measured with the thresholds of a run. */
export function gatesOf(trials: readonly TrialResult[], thresholds: Thresholds): readonly Gate[] {
  return Object.entries(thresholds).map(([name, threshold]) => gateOf(trials, name, threshold));
}

/** A trial that should have been measured and was not could have had any value from 0 to 1. */
function gateOf(trials: readonly TrialResult[], name: string, threshold: number): Gate {
  let [sum, measured, open] = [0, 0, 0];
  for (const trial of trials) {
    const value = measureOf(trial, name);
    if (value !== undefined) {
      sum += value;
      measured += 1;
    } else if (couldHaveMeasured(trial, name)) open += 1;
  }
  const [lowest, highest] = [rounded(sum / (measured + open)), rounded((sum + open) / (measured + open))];
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
    value: measured === 0 ? null : rounded(sum / measured),
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

function couldHaveMeasured({ verdict, grades, error }: TrialResult, name: string): boolean {
  const isCut = verdict === "error" || verdict === "timeout" || error?.kind === "interrupted";
  return isCut || grades.some((grade) => grade.grader === name && grade.verdict === "error");
}
