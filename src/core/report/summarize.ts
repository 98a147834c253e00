import type { Grade, Verdict } from "../grade/grader.ts";
import type { TrialOutcome } from "../trace/events.ts";
import type { RunSummary, RunVerdict, TrialResult } from "./result.ts";

/** Counts trials by verdict. */
export function summarize(trials: readonly TrialResult[]): RunSummary {
  const counts: Record<Verdict, number> = { pass: 0, fail: 0, error: 0, timeout: 0, skip: 0 };
  for (const trial of trials) counts[trial.verdict] += 1;
  return { total: trials.length, ...counts };
}

/**
 * The verdict of a run. An interrupted run is `interrupted`; else one failure makes it `fail`; else it is `incomplete`
 * when something could have changed the verdict (an error, a timeout, a trial that was never run or in which nothing was
 * checked) or when nothing passed; else `pass`.
 */
export function runVerdict(
  trials: readonly TrialResult[],
  { interrupted }: { readonly interrupted: boolean },
): RunVerdict {
  if (interrupted) return "interrupted";
  const { pass, fail, error, timeout } = summarize(trials);
  if (fail > 0) return "fail";
  if (error + timeout > 0 || pass === 0 || trials.some((trial) => wasNotRun(trial) || checkedNothing(trial)))
    return "incomplete";
  return "pass";
}

/**
 * Whether a trial was skipped without being looked at: the run was interrupted or stopped early. A trial that was
 * skipped on purpose says so in a grade, or in an error of another kind.
 */
export function wasNotRun(trial: TrialResult): boolean {
  if (trial.verdict !== "skip") return false;
  return trial.error === undefined ? trial.grades.length === 0 : trial.error.kind === "interrupted";
}

/** Whether a trial came to its end without evidence. One that lacks what its task requires was left out on purpose, and has an error. */
export function checkedNothing(trial: TrialResult): boolean {
  return trial.verdict === "skip" && trial.error === undefined && trial.grades.length > 0;
}

const exitCodes: Readonly<Record<RunVerdict, number>> = { pass: 0, fail: 1, incomplete: 3, interrupted: 130 };

/** The exit code of the process for a run's verdict. */
export function exitCode(verdict: RunVerdict): number {
  return exitCodes[verdict];
}

/** The average score of the grades that passed or failed, 0 to 1; null when none of them has a score. */
export function averageScore(grades: readonly Grade[]): number | null {
  const scores = grades.flatMap(({ verdict, score }) =>
    score === null || verdict === "skip" || verdict === "error" ? [] : [score],
  );
  return scores.length === 0 ? null : scores.reduce((sum, score) => sum + score, 0) / scores.length;
}

/**
 * The verdict of a trial. Only a completed trial is judged by its grades: any failure fails it, else a grade without
 * a verdict makes it `error`, else it passes when at least one grade did.
 */
export function trialVerdict(outcome: TrialOutcome, grades: readonly Grade[]): Verdict {
  switch (outcome) {
    case "completed":
      return gradedVerdict(grades);
    case "error":
    case "timeout":
      return outcome;
    case "interrupted":
    case "not-started":
    case "skipped":
      return "skip";
  }
}

function gradedVerdict(grades: readonly Grade[]): Verdict {
  const verdicts = new Set(grades.map((grade) => grade.verdict));
  return (["fail", "error", "pass"] as const).find((verdict) => verdicts.has(verdict)) ?? "skip";
}
