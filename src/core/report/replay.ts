import { serializeError } from "../errors/error.ts";
import type { Task } from "../formats/model.ts";
import { type Plan, taskInVariant } from "../plan/plan.ts";
import { buildTrajectory } from "../trace/trajectory.ts";
import type { TraceEvent } from "../trace/events.ts";
import { collectEvidence } from "./collect-evidence.ts";
import type { RunResult, TrialResult } from "./result.ts";
import {
  brokenTrial,
  gradesOf,
  notRun,
  runVerdict,
  skippedTrial,
  summarize,
  trialResult,
} from "./trial-result.ts";

/** A run as its folder tells it. */
export interface RecordedRun extends Pick<RunResult, "id" | "startedAt" | "environment"> {
  readonly plan: Plan;
  readonly events: readonly TraceEvent[];
  /** How long it took, when it came to its end. */
  readonly durationMs?: number;
  /** Whether it was interrupted in order; absent when it was cut off before it ended. */
  readonly interrupted?: boolean;
}

export interface ReplayedRun {
  readonly result: RunResult;
  readonly evidence: ReadonlyMap<string, readonly TraceEvent[]>;
}

/**
 * Computes a run's result again from its plan and its events alone. A run that was cut off is `interrupted`, unless all of
 * its trials had been graded.
 */
export function replayRun(run: RecordedRun): ReplayedRun {
  const { plan } = run;
  const byTrial = Map.groupBy(run.events, (event) => event.trial);
  const tasks = new Map(plan.tasks.map((task) => [task.name, task]));
  const evidence = new Map<string, readonly TraceEvent[]>();
  const trials = plan.trials.map((trial): TrialResult => {
    const events = byTrial.get(trial.id) ?? [];
    const planned: Task | undefined = tasks.get(trial.task);
    if (planned === undefined) throw new Error(`the plan has a trial of a task that it lacks: ${trial.task}`);
    const task = taskInVariant(plan, planned, trial);
    if (events.length === 0) return skippedTrial(trial, task, notRun({ interrupted: wasInterrupted(run) }));
    try {
      const result = trialResult(buildTrajectory(trial, task, events), gradesOf(events));
      if (result.verdict !== "pass") evidence.set(trial.id, collectEvidence(events, result.grades));
      return result;
    } catch (cause) {
      return brokenTrial(trial, task, { error: serializeError(cause), durationMs: 0 });
    }
  });
  const interrupted =
    trials.some((trial) => trial.error?.code === "run/interrupted") || run.interrupted === true;
  const result: RunResult = {
    schema: "mcpvals.result/1",
    id: run.id,
    name: plan.name,
    verdict: runVerdict(trials, { interrupted }),
    startedAt: run.startedAt,
    durationMs: run.durationMs ?? timeUntilLastEvent(run),
    summary: summarize(trials),
    trials,
    environment: run.environment,
  };
  return { result, evidence };
}

/** A run that did not come to its end was interrupted in its own way. */
function wasInterrupted({ durationMs, interrupted }: RecordedRun): boolean {
  return interrupted === true || durationMs === undefined;
}

function timeUntilLastEvent({ events, startedAt }: RecordedRun): number {
  const start = Date.parse(startedAt);
  return Math.max(0, (events.at(-1)?.at ?? start) - start);
}
