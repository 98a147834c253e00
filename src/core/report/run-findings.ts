import { bySeverity, type Finding } from "../lint/finding.ts";
import type { TrialResult } from "./result.ts";

/** A finding of a run, with the trial whose events show it. */
export interface RunFinding extends Finding {
  readonly trial: string;
}

/** The findings of trials, errors first; what several trials found is there once, with the first of them. */
export function findingsOf(trials: readonly Pick<TrialResult, "id" | "grades">[]): readonly RunFinding[] {
  const distinct = new Map<string, RunFinding>();
  for (const { id, grades } of trials)
    for (const finding of grades.flatMap(({ findings = [] }) => findings)) {
      const { code, server, message, place } = finding;
      const { tool, resource, prompt, parameter, pointer } = place;
      const key = JSON.stringify([code, server, tool, resource, prompt, parameter, pointer, message]);
      if (!distinct.has(key)) distinct.set(key, { ...finding, trial: id });
    }
  return bySeverity([...distinct.values()]);
}

/** The warnings of a run: findings of that severity, and warnings about trials; equal ones count once. */
export function countWarnings(trials: readonly Pick<TrialResult, "id" | "grades" | "warnings">[]): number {
  const notes = new Set(trials.flatMap(({ warnings = [] }) => warnings));
  return findingsOf(trials).filter(({ severity }) => severity === "warning").length + notes.size;
}
