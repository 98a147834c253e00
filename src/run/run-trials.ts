import { type SerializedError, serializeError } from "../core/errors/error.ts";
import type { Task } from "../core/formats/model.ts";
import type { Grade } from "../core/grade/grader.ts";
import { type Plan, taskInVariant, type Trial } from "../core/plan/plan.ts";
import type { TrialResult } from "../core/report/result.ts";
import { brokenTrial, notRun, skippedTrial, trialResult } from "../core/report/trial-result.ts";
import { buildTrajectory, type Trajectory } from "../core/trace/trajectory.ts";
import type { Emit, TraceEvent, TrialOutcome } from "../core/trace/events.ts";
import { createRecorder } from "../core/trace/recorder.ts";
import type { Redact } from "../core/trace/redact.ts";
import { abortWithAny } from "../process/deadline.ts";
import { onUncaught } from "../process/uncaught.ts";
import { schedule } from "./schedule.ts";
import type { TrialServices } from "./trial-context.ts";
import { executeTrial } from "./trial.ts";

/** What the trials of a run need, and what observes them. */
export interface TrialsContext {
  readonly services: TrialServices;
  readonly redact: Redact;
  /** Stop after the first trial that does not pass. */
  readonly bail: boolean;
  /** Aborts when the run is interrupted, with an McpvalsError as its reason. */
  readonly signal: AbortSignal;
  /** Grades a completed trial; asked only for those. */
  grade(trajectory: Trajectory, emit: Emit): Promise<readonly Grade[]>;
  onTrialStart(trial: Trial): Promise<void>;
  /** Called with every event and its JSON. */
  onEvent(event: TraceEvent, json: string): void;
  /** Stores what is kept of a trial. What it throws makes the trial an error. */
  settle(result: TrialResult, events: readonly TraceEvent[]): Promise<void>;
  /** Never throws. */
  onTrialEnd(result: TrialResult): Promise<void>;
}

/** Runs all trials of a plan. Returns their results in the plan's order, those that never started included. */
export async function runTrials(plan: Plan, context: TrialsContext): Promise<readonly TrialResult[]> {
  const tasks = new Map(plan.tasks.map((task) => [task.name, task]));
  // Events are redacted, so the task that they are compared with must be, too.
  const gradedTasks = new Map(plan.tasks.map((task) => [task.name, context.redact.fromOutside(task)]));
  const results = new Map<string, TrialResult>();
  const share = shareEqual<readonly Grade[]>();
  let bailed = false;
  const rest = await schedule(plan.trials, {
    concurrency: plan.concurrency,
    isStopped: () => bailed || context.signal.aborted,
    run: async (trial) => {
      const result = await runTrial(trial, taskInVariant(plan, taskOf(trial, tasks), trial), {
        ...context,
        share,
        gradedTask: taskInVariant(plan, taskOf(trial, gradedTasks), trial),
      });
      results.set(trial.id, result);
      bailed ||= context.bail && result.verdict !== "pass" && result.verdict !== "skip";
    },
  });
  for (const trial of rest) {
    const error = notRun({ interrupted: context.signal.aborted });
    const result = skippedTrial(trial, taskOf(trial, tasks), error);
    results.set(trial.id, result);
    await context.settle(result, []);
    await context.onTrialEnd(result);
  }
  return plan.trials.flatMap((trial) => results.get(trial.id) ?? []);
}

interface TrialContext extends TrialsContext {
  readonly share: (grades: readonly Grade[]) => readonly Grade[];
  /** The trial's task without secrets. */
  readonly gradedTask: Task;
}

/** Runs and grades one trial. Never throws: an unexpected error ends only this trial. */
async function runTrial(trial: Trial, task: Task, context: TrialContext): Promise<TrialResult> {
  const events: TraceEvent[] = [];
  const broken = new AbortController();
  const started = performance.now();
  const emit = createRecorder(trial.id, {
    redact: context.redact,
    now: () => performance.timeOrigin + performance.now(),
    sink: (event, json) => {
      events.push(event);
      context.onEvent(event, json);
    },
    onBroken: (error) => broken.abort(error),
  });
  using alive = abortWithAny([context.signal, broken.signal]);
  using _ = onUncaught((error) => broken.abort(error));
  let result: TrialResult;
  try {
    await context.onTrialStart(trial);
    await executeTrial({ trial, task, emit, events, signal: alive.signal }, context.services);
    // An error after the last phase, or one that prevented `trial.finished`, is in no event.
    if (["completed", undefined].includes(outcomeOf(events))) broken.signal.throwIfAborted();
    result = await resultOf(trial, { events, emit, context });
    await context.settle(result, events);
  } catch (cause) {
    const error = withoutSecrets(serializeError(cause), context.redact);
    const durationMs = performance.now() - started;
    emit({ type: "trial.finished", outcome: "error", durationMs, error });
    result = brokenTrial(trial, context.gradedTask, { error, durationMs });
  }
  await context.onTrialEnd(result);
  return result;
}

/** An error in removing secrets must not end the run; nothing of the original error is shown then. */
function withoutSecrets(error: SerializedError, redact: Redact): SerializedError {
  try {
    return redact(error);
  } catch {
    return {
      code: "internal/unexpected",
      kind: "bug",
      message: "an error is not shown, since removing secrets from it failed",
    };
  }
}

interface Executed {
  readonly events: readonly TraceEvent[];
  readonly emit: Emit;
  readonly context: TrialContext;
}

async function resultOf(trial: Trial, { events, emit, context }: Executed): Promise<TrialResult> {
  const trajectory = buildTrajectory(trial, context.gradedTask, events);
  const grades =
    outcomeOf(events) === "completed" ? await gradeUnlessInterrupted(trajectory, emit, context) : [];
  const result = trialResult(trajectory, grades);
  if (grades !== undefined) {
    emit({ type: "trial.graded", verdict: result.verdict, score: result.score, grades });
  }
  return result;
}

/** Undefined when the run was interrupted during grading. */
async function gradeUnlessInterrupted(
  trajectory: Trajectory,
  emit: Emit,
  context: TrialContext,
): Promise<readonly Grade[] | undefined> {
  try {
    return context.share(context.redact(await context.grade(trajectory, emit)));
  } catch (error) {
    if (context.signal.aborted) return undefined;
    throw error;
  }
}

function outcomeOf(events: readonly TraceEvent[]): TrialOutcome | undefined {
  return events.findLast((event) => event.type === "trial.finished")?.outcome;
}

function taskOf(trial: Trial, tasks: ReadonlyMap<string, Task>): Task {
  const task = tasks.get(trial.task);
  if (task === undefined) throw new Error(`the plan has a trial of a task that it lacks: ${trial.task}`);
  return task;
}

const maxShared = 1000;

/**
 * Creates a function that returns the same object for equal JSON values, up to a number of different ones: a large run
 * would otherwise hold a hundred thousand copies of the same few grades.
 */
function shareEqual<T>(): (value: T) => T {
  const kept = new Map<string, T>();
  return (value) => {
    const key = JSON.stringify(value);
    const known = kept.get(key);
    if (known !== undefined) return known;
    if (kept.size < maxShared) kept.set(key, value);
    return value;
  };
}
