import { setImmediate as nextTurn } from "node:timers/promises";
import { serializeError } from "../base/error.ts";
import type { Task } from "../model/task.ts";
import type { Emit, TraceEvent } from "../model/event.ts";
import { type Plan, taskOf, type Trial } from "../model/plan.ts";
import type { TrialResult } from "../model/result.ts";
import { notRun, trialResult, ungradedTrial } from "../report/result.ts";
import { createRecorder } from "../trace/recorder.ts";
import type { Redact } from "../trace/redact.ts";
import { buildTrajectory, type Trajectory } from "../trace/trajectory.ts";
import { abortWithAny, onUncaught } from "../process/deadline.ts";
import type { RecordReplay, TrialRecording } from "./record-replay.ts";
import type { AttackComparison } from "./attack-comparison.ts";
import type { TrialSource } from "./remote/trial-source.ts";
import { executeTrial } from "./trial.ts";
import type { TrialServices } from "./trial-state.ts";
import type { SerializedError } from "../base/serialized-error.ts";
import type { Grade } from "../model/grade.ts";

/** What the trials of a run need, and what observes them. */
export interface TrialsContext {
  readonly services: TrialServices;
  readonly redact: Redact;
  /** Stop after the first trial that does not pass. */
  readonly bail: boolean;
  /** Asked before each trial: true ends the run, and what did not run is not part of it. */
  readonly isDecided: () => boolean;
  /** Asked before each trial: why a budget lets no further one begin. Absent: there is no budget. */
  readonly usedUp?: (() => string | undefined) | undefined;
  /** Aborts when the run is interrupted, with an McpvalsError as its reason. */
  readonly signal: AbortSignal;
  /** Adds what models cost to what is emitted; absent: prices are not known. */
  readonly emittingCosts?: ((emit: Emit) => Emit) | undefined;
  /** What is on record of the trials of a run that goes on. Absent: nothing. */
  readonly recorded?: RecordedTrials | undefined;
  /** Compares trials under attacks with those without; absent: nothing is to be compared. */
  readonly attackComparison?: Pick<AttackComparison, "compare"> | undefined;
  /** Gives the trials, where this is one of several machines. Absent: those of the plan run. */
  readonly source?: TrialSource | undefined;
  /** Begins to record or replay a trial; absent: nothing is. */
  readonly recordReplay?: Pick<RecordReplay, "begin"> | undefined;
  /** Grades a completed trial; called only for those. */
  grade(trajectory: Trajectory, emit: Emit): Promise<readonly Grade[]>;
  onTrialStart(trial: Trial): Promise<void>;
  /** Called with every event and its JSON. */
  onEvent(event: TraceEvent, json: string): void;
  /** Stores what is kept of a trial; without a trajectory, it never started. What it throws makes the trial an error. */
  settle(result: TrialResult, trajectory?: Trajectory): Promise<void>;
  /** Never throws. */
  onTrialEnd(result: TrialResult): Promise<void>;
}

/** The trials of a run that was cut off, by id. */
export interface RecordedTrials {
  /** They have ended, and their verdicts stay. */
  readonly ended: ReadonlyMap<string, TrialResult>;
  /** Their execution has come to its end, and they have yet to be graded. */
  readonly ungraded: ReadonlyMap<string, readonly TraceEvent[]>;
}

/** Runs all trials of a plan. Returns their results in the plan's order, those that never started included unless the run is decided. */
export async function runTrials(plan: Plan, context: TrialsContext): Promise<readonly TrialResult[]> {
  // Events have no secrets, so the task that they are compared with must not have them either.
  const redacted = new Map(plan.tasks.map((task) => [task.name, context.redact.fromOutside(task)]));
  const results = new Map<string, TrialResult>();
  const share = shareEqual<readonly Grade[]>();
  let bailed = false;
  const ended = (id: string, result: TrialResult): void => {
    results.set(id, result);
    bailed ||= context.bail && result.verdict !== "pass" && result.verdict !== "skip";
  };
  for (const [id, result] of context.recorded?.ended ?? []) {
    ended(id, result);
    await context.settle(result);
    await context.onTrialEnd(result);
  }
  const waiting = results.size === 0 ? plan.trials : plan.trials.filter(({ id }) => !results.has(id));
  const { maxConcurrent } = plan;
  const gradedTaskOf = (trial: Trial, task: Task): Task => {
    const graded = redacted.get(task.name) ?? task;
    return trial.variant === undefined ? graded : { ...graded, servers: task.servers };
  };
  const { source } = context;
  if (source !== undefined) {
    await runTaken(source, async (trial, stopped) => {
      const task = taskOf(trial, plan);
      using alive = abortWithAny([context.signal, stopped]);
      const { signal } = alive;
      source.ended(
        await runTrial(trial, task, { ...context, signal, share, gradedTask: gradedTaskOf(trial, task) }),
      );
    });
    return [];
  }
  await schedule(waiting, {
    concurrency: plan.concurrency,
    ...(maxConcurrent && {
      limits: {
        most: maxConcurrent,
        serversOf: (trial) =>
          taskOf(trial, plan).servers.filter((name) => Object.hasOwn(maxConcurrent, name)),
      },
    }),
    isStopped: () =>
      bailed || context.signal.aborted || context.isDecided() || context.usedUp?.() !== undefined,
    run: async (trial) => {
      const task = taskOf(trial, plan);
      const result = await runTrial(trial, task, {
        ...context,
        share,
        gradedTask: gradedTaskOf(trial, task),
      });
      ended(trial.id, result);
    },
  });
  const all: TrialResult[] = [];
  const isDecided = context.isDecided();
  for (const trial of plan.trials) {
    const ran = results.get(trial.id);
    if (ran !== undefined) {
      all.push(ran);
      continue;
    }
    if (isDecided) continue;
    const error = notRun({
      interrupted: context.signal.aborted,
      usedUp: bailed ? undefined : context.usedUp?.(),
    });
    const result = ungradedTrial(trial, taskOf(trial, plan), { verdict: "skip", error, durationMs: 0 });
    all.push(result);
    await context.settle(result);
    await context.onTrialEnd(result);
  }
  return all;
}

/** Runs the trials that a source gives, until it has no more. While one waits for others, another one runs in its place. */
async function runTaken(
  source: TrialSource,
  execute: (trial: Trial, signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const waiting: Promise<void>[] = [];
  const work = async (): Promise<void> => {
    for (let taken = await source.next(); taken !== undefined; taken = await source.next()) {
      const ended = execute(taken.trial, taken.signal);
      const waits = await Promise.race([ended.then(() => false), taken.waits.then(() => true)]);
      if (waits) waiting.push(ended);
    }
  };
  await Promise.all(Array.from({ length: source.concurrency }, work));
  await Promise.all(waiting);
}

interface GradedContext extends TrialsContext {
  readonly share: (grades: readonly Grade[]) => readonly Grade[];
  /** The trial's task without secrets. */
  readonly gradedTask: Task;
}

/** Runs and grades one trial. Never throws: an unexpected error ends only this trial. */
async function runTrial(trial: Trial, task: Task, context: GradedContext): Promise<TrialResult> {
  const { redact, gradedTask, services, attackComparison } = context;
  const executed = context.recorded?.ungraded.get(trial.id);
  const events: TraceEvent[] = [...(executed ?? [])];
  const broken = new AbortController();
  const started = performance.now();
  const recording = context.recordReplay?.begin(trial, (error) => broken.abort(error));
  const { now = () => performance.now() } = recording ?? {};
  const record = createRecorder(trial.id, {
    redact,
    now: () => performance.timeOrigin + now(),
    events,
    onEvent: (event, json) => context.onEvent(event, json),
    onBroken: (error) => broken.abort(error),
  });
  const recorded = recording?.emitting(record) ?? record;
  const emit = context.emittingCosts?.(recorded) ?? recorded;
  const within: TrialRecording["within"] = recording?.within ?? ((work) => work());
  using alive = abortWithAny([context.signal, broken.signal]);
  using _ = onUncaught((error) => broken.abort(error));
  let result: TrialResult;
  try {
    await context.onTrialStart(trial);
    if (executed === undefined)
      await within(() =>
        executeTrial(
          {
            trial,
            task,
            emit,
            events,
            signal: alive.signal,
            ownValue: recording?.ownValue,
            compareAttack: attackComparison && (() => attackComparison.compare(trial, events, alive.signal)),
          },
          services,
        ),
      );
    const { outcome } = events.findLast((event) => event.type === "trial.finished") ?? {};
    // No event has an error after the last phase, or one that prevented `trial.finished`.
    if (outcome === undefined || outcome === "completed") broken.signal.throwIfAborted();
    const trajectory = buildTrajectory(trial, gradedTask, events);
    const grades = await within(() => gradeOf(trajectory, emit, context));
    // What was not recorded is no answer of a judge.
    if (outcome === "completed" && recording !== undefined) broken.signal.throwIfAborted();
    result = trialResult(trajectory, grades);
    recording?.end(events, result.verdict);
    if (grades !== undefined)
      emit({ type: "trial.graded", verdict: result.verdict, score: result.score, grades });
    await context.settle(result, trajectory);
  } catch (cause) {
    const error = withoutSecrets(serializeError(cause), redact);
    const durationMs = performance.now() - started;
    emit({ type: "trial.finished", outcome: "error", durationMs, error });
    result = ungradedTrial(trial, gradedTask, { verdict: "error", error, durationMs });
  }
  await context.onTrialEnd(result);
  return result;
}

/** If removing secrets fails, the original error is not shown, and the run goes on. */
function withoutSecrets(error: SerializedError, redact: Redact): SerializedError {
  try {
    return redact(error);
  } catch {
    const message = "an error is not shown, since removing secrets from it failed";
    return { code: "internal/unexpected", kind: "bug", message };
  }
}

/** Undefined when the run was interrupted during grading. */
async function gradeOf(
  trajectory: Trajectory,
  emit: Emit,
  context: GradedContext,
): Promise<readonly Grade[] | undefined> {
  try {
    return context.share(context.redact(await context.grade(trajectory, emit)));
  } catch (error) {
    if (context.signal.aborted) return undefined;
    throw error;
  }
}

const maxShared = 1000;

/**
 * Gives a function that returns the same object for equal JSON values, up to a number of different ones: a large run would otherwise
 * keep a hundred thousand copies of the same few grades.
 */
function shareEqual<T>(): (value: T) => T {
  const kept = new Map<string, T>();
  return (value) => {
    const key = JSON.stringify(value);
    const known = kept.get(key);
    if (known === undefined && kept.size < maxShared) kept.set(key, value);
    return known ?? value;
  };
}

export interface ScheduleOptions {
  readonly concurrency: number;
  /** How many trials may use a server at once. Absent: no server has a limit. */
  readonly limits?: ServerLimits;
  readonly run: (trial: Trial, index: number) => Promise<void>;
  /** Called before each trial; once true, no further trial starts. */
  readonly isStopped: () => boolean;
}

interface ServerLimits {
  /** By the names of servers. */
  readonly most: Readonly<Record<string, number>>;
  /** The servers with a limit that a trial uses. */
  readonly serversOf: (trial: Trial) => readonly string[];
}

/** Trials with the same `lane`, in order: they run one after the other. Those without one may run at the same time if they use the same servers. */
interface Group {
  readonly isSequential: boolean;
  /** Indexes of trials. */
  readonly waiting: readonly number[];
  next: number;
  isBusy: boolean;
}

/** A trial that may start. */
interface Next {
  readonly group: Group;
  readonly trial: Trial;
  readonly index: number;
  /** Those with a limit. */
  readonly servers: readonly string[];
}

/**
 * Runs trials in order, at most `concurrency` at once, never two of one sequential group (`lane`) and never more than a server may have,
 * and waits until all that started have ended. A trial that waits for servers goes before later ones that use one of them. When `run`
 * throws, no further trial starts, and the error is thrown once all that started have ended.
 */
export async function schedule(
  trials: readonly Trial[],
  { concurrency, limits, run, isStopped }: ScheduleOptions,
): Promise<void> {
  const lanes = new Map<string, number[]>();
  for (const [index, trial] of trials.entries()) {
    const { lane } = trial;
    const key = lane === undefined ? `servers ${limits?.serversOf(trial).join("\n")}` : `lane ${lane}`;
    const waiting = lanes.get(key);
    if (waiting === undefined) lanes.set(key, [index]);
    else waiting.push(index);
  }
  const groups = [...lanes.values()].map((waiting): Group => ({
    isSequential: trials[waiting[0] ?? -1]?.lane !== undefined,
    waiting,
    next: 0,
    isBusy: false,
  }));
  /** How many trials use each server with a limit. */
  const users = new Map<string, number>();
  const use = (servers: readonly string[], change: 1 | -1): void => {
    for (const name of servers) users.set(name, (users.get(name) ?? 0) + change);
  };
  const isFree = (name: string): boolean => (users.get(name) ?? 0) < (limits?.most[name] ?? Infinity);
  let left = trials.length;
  let released = Promise.withResolvers<void>();
  let isBroken = false;
  const work = async (): Promise<void> => {
    while (left > 0 && !isBroken && !isStopped()) {
      const found = earliest(groups, trials, { limits, isFree });
      if (found === undefined) {
        await released.promise;
        continue;
      }
      const { group, trial, index, servers } = found;
      group.next += 1;
      group.isBusy = group.isSequential;
      use(servers, 1);
      left -= 1;
      try {
        await run(trial, index);
      } catch (error) {
        isBroken = true;
        throw error;
      } finally {
        group.isBusy = false;
        use(servers, -1);
        released.resolve();
        released = Promise.withResolvers();
      }
      // Trials without I/O would otherwise delay timers, signals and writes until all of them are done.
      await nextTurn();
    }
  };
  const workers = await Promise.allSettled(
    Array.from({ length: Math.min(concurrency, trials.length) }, work),
  );
  const failure = workers.find(({ status }) => status === "rejected");
  if (failure?.status === "rejected") throw failure.reason;
}

/** The group with the earliest trial that may start, and what that trial uses. */
function earliest(
  groups: readonly Group[],
  trials: readonly Trial[],
  {
    limits,
    isFree,
  }: { readonly limits: ServerLimits | undefined; readonly isFree: (name: string) => boolean },
): Next | undefined {
  const passed = new Set<Group>();
  /** Servers that earlier trials wait for: later ones must not take them away for ever. */
  const awaited = new Set<string>();
  for (;;) {
    let best: Group | undefined;
    let bestIndex = Infinity;
    for (const group of groups) {
      const index = group.isBusy || passed.has(group) ? undefined : group.waiting[group.next];
      if (index === undefined || index >= bestIndex) continue;
      best = group;
      bestIndex = index;
    }
    const trial = trials[bestIndex];
    if (best === undefined || trial === undefined) return undefined;
    const servers = limits?.serversOf(trial) ?? [];
    if (servers.every((name) => isFree(name) && !awaited.has(name)))
      return { group: best, trial, index: bestIndex, servers };
    passed.add(best);
    for (const name of servers) awaited.add(name);
  }
}
