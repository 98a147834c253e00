import { basename, join, resolve } from "node:path";
import { equalJson } from "../core/checks/json-difference.ts";
import { McpvalsError, serializeError } from "../core/errors/error.ts";
import { suggestion } from "../core/formats/did-you-mean.ts";
import { exact, type Json, withoutUndefined } from "../core/formats/json.ts";
import type { Eval, GraderSpec, Task } from "../core/formats/model.ts";
import { judgeName } from "../core/grade/graders.ts";
import { calibrationFile } from "../core/grade/judge/calibration.ts";
import { type Plan, taskInVariant, type Trial } from "../core/plan/plan.ts";
import { createMultiplexer } from "../core/report/reporter.ts";
import type { RunEnvironment, TrialResult } from "../core/report/result.ts";
import { KeptEvidence, notRun, RunTally, trialResult, ungradedTrial } from "../core/report/trial-result.ts";
import type { Grade } from "../core/trace/events.ts";
import { createRecorder } from "../core/trace/recorder.ts";
import { createRedactor, type Redact } from "../core/trace/redact.ts";
import { buildTrajectory, type Trajectory } from "../core/trace/trajectory.ts";
import { SchemaValidator } from "../graders/schema-validator.ts";
import type { LoadedConfig } from "../load/assemble-eval.ts";
import { type Journal, readTrials, type StoredEvent, type StoredTrial } from "../store/journal.ts";
import {
  createRunFolder,
  defaultRunsFolder,
  type OpenedRun,
  refusePlanted,
  runId,
} from "../store/run-folder.ts";
import { createGrading, type GradeTrial, judgeOfGrader, judgesOfGraders } from "./grade-trial.ts";
import { prepareGraders } from "./prepare-graders.ts";
import { prepare, type Selection } from "./prepare.ts";
import { type RunOptions, type RunOutcome, sourceOf } from "./run.ts";

/** How to grade a run again. */
export interface GradeRunOptions
  extends Pick<RunOptions, "cwd" | "reporters" | "maxWarnings">, Pick<Selection, "thresholds"> {
  /** Folder that gets the new run's folder, relative to `cwd`. Default: `.mcpvals/runs`. */
  readonly output?: string;
  /** Ask judges also where their grades are on record and nothing has changed. */
  readonly askJudges?: boolean;
  readonly signal: AbortSignal;
}

export interface GradedRun extends Pick<RunOutcome, "result" | "plan" | "folder" | "failures"> {
  /** Notes on what the new grades do not rest on. */
  readonly notes: readonly string[];
}

/** Trials that are graded at once: some graders wait for a model or a program. */
const width = 4;

/**
 * Grades the record of a run with the graders that an eval declares now, into the folder of a new run that says so. Nothing of it
 * stays when it does not come to its end. Throws McpvalsError of kind `usage` before the first trial, `store/corrupt`, and the
 * signal's reason.
 */
export async function gradeRun(
  stored: OpenedRun,
  given: LoadedConfig,
  options: GradeRunOptions,
): Promise<GradedRun> {
  const { signal, cwd, output } = options;
  const started = performance.now();
  const redact = createRedactor(given.secrets);
  const { loaded, plan, notes } = planGrading(stored, given, { ...options, redact });
  await using validator = new SchemaValidator();
  const validateSchema = validator.validate.bind(validator);
  await prepareGraders(loaded, { validateSchema, signal });
  const trials = readTrials(stored.folder);
  const first = await trials.next();
  if (first.done === true)
    throw new McpvalsError("store/nothing-recorded", `the run ${stored.id} has no trial that was recorded`, {
      hint: `Run it again. Its folder is ${stored.folder}.`,
    });
  const startedAt = new Date(performance.timeOrigin + started).toISOString();
  const head = {
    id: runId(startedAt),
    startedAt,
    gradedFrom: stored.gradedFrom ?? { id: stored.id, startedAt: stored.startedAt },
    environment: redact(await environmentOf(stored, loaded)),
  };
  if (output === undefined) refusePlanted(cwd);
  const runs = resolve(cwd, output ?? defaultRunsFolder);
  // Without a plan until it is complete: what an immediate end leaves is no run.
  await using folder = await createRunFolder(runs, { ...head, source: redact(sourceOf(loaded)) });
  const reporters = createMultiplexer(options.reporters ?? []);
  const evidence = new KeptEvidence();
  const tally = new RunTally();
  const planned = new Map(plan.trials.map((trial) => [trial.id, trial]));
  const tasks = new Map(plan.tasks.map((task) => [task.name, task]));
  const grading: Grading = {
    spec: loaded.eval,
    plan,
    tasks,
    ranTasks: new Map(stored.plan.tasks.map((task) => [task.name, task])),
    askJudges: options.askJudges ?? false,
    signal,
    redact,
    grade: createGrading(loaded, { validateSchema, signal }),
    journal: folder,
  };
  const results = new Map<string, TrialResult>();
  const dropped = new Set<string>();
  const gradeNext = async ({ id, events }: StoredTrial): Promise<void> => {
    signal.throwIfAborted();
    const trial = planned.get(id);
    if (trial === undefined) return;
    const { result, trajectory, earlier } = await gradeTrial(trial, events, grading);
    if (trajectory !== undefined) {
      tally.add(trajectory, result);
      if (result.verdict !== "pass" && result.verdict !== "skip") evidence.keep(result, trajectory.events);
      for (const { grader } of earlier)
        if (!result.grades.some((each) => each.grader === grader)) dropped.add(grader);
    }
    results.set(result.id, result);
    await reporters.onTrialEnd(result);
  };
  try {
    await reporters.onRunStart({ plan, ...head, folder: folder.path });
    await gradeNext(first.value);
    const work = async (): Promise<void> => {
      for await (const trial of trials) await gradeNext(trial);
    };
    await Promise.all(Array.from({ length: width }, work));
    for (const trial of plan.trials) {
      if (results.has(trial.id)) continue;
      const error = notRun({ interrupted: stored.interrupted === true || stored.durationMs === undefined });
      const outcome = { verdict: "skip", error, durationMs: 0 } as const;
      const result = ungradedTrial(trial, taskOf(trial, tasks), outcome);
      results.set(trial.id, result);
      await reporters.onTrialEnd(result);
    }
    const ordered = plan.trials.flatMap(({ id }) => results.get(id) ?? []);
    const interrupted = ordered.some(({ error }) => error?.code === "run/interrupted");
    const durationMs = Math.round(performance.now() - started);
    const result = tally.result({ ...head, durationMs }, ordered, plan, { interrupted });
    await folder.finish(result, plan);
    await reporters.onRunEnd({ result, evidence: evidence.byTrial });
    const notGraded = [...dropped].map(
      (name) => `the grader "${name}" graded the run before, and not this time`,
    );
    return {
      result,
      plan,
      folder: folder.path,
      failures: reporters.errors,
      notes: [...otherId(stored), ...notes, ...notGraded],
    };
  } catch (error) {
    await folder.discard();
    throw error;
  } finally {
    await reporters.close();
  }
}

/** A note on a copied or renamed folder: its name is not the id in it. */
function otherId({ folder, id }: OpenedRun): readonly string[] {
  const name = basename(folder);
  return name === id ? [] : [`the folder ${JSON.stringify(name)} has the record of the run ${id}`];
}

interface PlannedGrading {
  /** The eval with the tasks of the run. */
  readonly loaded: LoadedConfig;
  readonly plan: Plan;
  readonly notes: readonly string[];
}

/** What ran, with what is expected of it now. Throws McpvalsError of kind `usage`. */
function planGrading(
  { plan: recorded }: OpenedRun,
  given: LoadedConfig,
  { thresholds, maxWarnings, redact }: GradeRunOptions & { readonly redact: Redact },
): PlannedGrading {
  const declared = declaredTasks(recorded, given);
  const loaded = prepare(given, { names: new Set(declared.keys()), thresholds });
  const { thresholds: _, ...ran } = recorded;
  const tasks = recorded.tasks.map((task) =>
    taskToGrade(task, redact.fromOutside(declared.get(task.name) ?? task)),
  );
  return {
    loaded,
    plan: {
      ...ran,
      tasks: tasks.map(({ task }) => task),
      ...exact({ maxWarnings: maxWarnings ?? ran.maxWarnings, thresholds: loaded.eval.thresholds }),
    },
    notes: tasks.flatMap(({ note = [] }) => note),
  };
}

/** Where the trials ran, with what is known of judges now. */
async function environmentOf(
  { environment }: OpenedRun,
  { eval: spec, dir, judgeError }: LoadedConfig,
): Promise<RunEnvironment> {
  const asked = await judgesOfGraders(spec, judgeError);
  const isJudged = asked.length > 0 || spec.judge !== undefined || environment.calibrations !== undefined;
  if (!isJudged) return environment;
  const { readCalibrations } = await import("./calibrate-judge.ts");
  const calibrations = await readCalibrations(join(dir, calibrationFile));
  const judge = spec.judge && { model: spec.judge.model };
  return { ...environment, ...withoutUndefined({ judge }), calibrations };
}

/** What grading a trial needs. */
interface Grading {
  readonly spec: Eval;
  readonly plan: Plan;
  /** What is graded, by name. */
  readonly tasks: ReadonlyMap<string, Task>;
  /** The same as the run had them. */
  readonly ranTasks: ReadonlyMap<string, Task>;
  readonly askJudges: boolean;
  readonly signal: AbortSignal;
  readonly grade: GradeTrial;
  readonly redact: Redact;
  /** Gets the recorded events, and those of the grading. */
  readonly journal: Pick<Journal, "append" | "copy">;
}

interface GradedTrial {
  readonly result: TrialResult;
  /** Absent when it could not be graded. */
  readonly trajectory?: Trajectory;
  /** The grades that the run had. */
  readonly earlier: readonly Grade[];
}

/** Grades a trial from its record. Throws only the signal's reason. */
async function gradeTrial(trial: Trial, all: readonly StoredEvent[], grading: Grading): Promise<GradedTrial> {
  const { plan, tasks, ranTasks, spec, redact, journal, signal } = grading;
  const task = taskInVariant(plan, taskOf(trial, tasks), trial);
  const earlier = gradesIn(all);
  const recorded = recordedEvents(all);
  for (const stored of recorded) journal.copy(stored);
  const events = recorded.map(({ event }) => event);
  const emit = createRecorder(trial.id, {
    redact,
    now: () => performance.timeOrigin + performance.now(),
    sink: (event, json) => {
      events.push(event);
      journal.append(event, json);
    },
    onBroken: (error) => {
      throw error;
    },
    after: events.at(-1)?.seq ?? 0,
  });
  try {
    const trajectory = buildTrajectory(trial, task, events);
    const finished = events.findLast((event) => event.type === "trial.finished");
    if (finished === undefined) return { result: trialResult(trajectory, undefined), trajectory, earlier };
    const kept = grading.askJudges
      ? undefined
      : await judgedBefore(earlier, { before: taskOf(trial, ranTasks), task, spec });
    const isCompleted = finished.outcome === "completed";
    const grades = isCompleted ? redact(await grading.grade(trajectory, emit, kept)) : [];
    const result = trialResult(trajectory, grades);
    emit({ type: "trial.graded", verdict: result.verdict, score: result.score, grades });
    return { result, trajectory, earlier };
  } catch (cause) {
    signal.throwIfAborted();
    const error = redact(serializeError(cause));
    emit({ type: "trial.finished", outcome: "error", durationMs: 0, error });
    const result = ungradedTrial(trial, task, { verdict: "error", error, durationMs: 0 });
    return { result, earlier };
  }
}

function taskOf({ task: name }: Trial, tasks: ReadonlyMap<string, Task>): Task {
  const task = tasks.get(name);
  if (task === undefined) throw new Error(`the plan has a trial of a task that it lacks: ${name}`);
  return task;
}

/** The tasks of a run as they are declared now, by name. Throws `usage/no-match` for one that is not. */
function declaredTasks({ tasks }: Plan, loaded: LoadedConfig): ReadonlyMap<string, Task> {
  const declared = new Map(loaded.eval.tasks.map((task) => [task.name, task]));
  return new Map(
    tasks.map(({ name, form }) => {
      const task = declared.get(name);
      if (task?.form === form) return [name, task];
      const kind = { workflow: "workflow", "tool-test": "tool test", task: "task", check: "check" }[form];
      throw new McpvalsError(
        "usage/no-match",
        `the run has trials of the ${kind} ${JSON.stringify(name)}, which ${sourceOf(loaded)} does not have`,
        {
          hint: `Name the file that declares it with --config. ${suggestion(name, [...declared.keys()], "tasks")}`,
        },
      );
    }),
  );
}

interface TaskToGrade {
  readonly task: Task;
  /** What of the declared task does not count. */
  readonly note?: string;
}

/** What ran, with what is expected of it now. What is expected of other prompts than those on record is left out. */
function taskToGrade(recorded: Task, { turns, expectTools, graders, portable }: Task): TaskToGrade {
  const isSame = equalJson(
    turns.map(({ user }) => user),
    recorded.turns.map(({ user }) => user),
  );
  const { graders: _, ...ran } = recorded;
  const task: Task = {
    ...ran,
    expectTools,
    ...(graders === undefined ? {} : { graders }),
    ...(isSame ? { turns } : {}),
    ...(ran.portable === undefined
      ? {}
      : { portable: { ...ran.portable, assertions: portable?.assertions ?? [] } }),
  };
  const name = JSON.stringify(recorded.name);
  const note = `the prompts of ${name} have changed since the run: its turns are graded as they were then`;
  return isSame ? { task } : { task, note };
}

/** The events of a trial without those of its grading. */
function recordedEvents(events: readonly StoredEvent[]): readonly StoredEvent[] {
  const end = events.findLastIndex(({ event }) => event.type === "trial.finished");
  return end === -1 ? events : events.slice(0, end + 1);
}

function gradesIn(events: readonly StoredEvent[]): readonly Grade[] {
  const last = events.at(-1)?.event;
  return last?.type === "trial.graded" ? last.grades : [];
}

/** The grades of judges that would be asked in the same way again, with the thresholds of now. */
async function judgedBefore(
  grades: readonly Grade[],
  { before, task, spec }: { readonly before: Task; readonly task: Task; readonly spec: Eval },
): Promise<ReadonlyMap<string, Grade>> {
  const kept = new Map<string, Grade>();
  for (const grade of grades) {
    const { grader: name, judge, secondJudge, verdict } = grade;
    if (judge === undefined || verdict === "error") continue;
    const { graderKinds } = await import("../core/grade/kinds.ts");
    const { withThreshold } = await import("../core/grade/judge/votes.ts");
    const [earlier, now] = [before, task].map(({ graders = [] }) =>
      graders.find((each) => each.name === name),
    );
    const ofEval = name === judgeName && now === undefined ? spec.judge : undefined;
    const wanted = now === undefined ? ofEval : await judgeOfGrader(now, spec);
    const declared = now && graderKinds[now.type]?.judge?.(now.config)?.threshold;
    const threshold = declared ?? ofEval?.passThreshold ?? judge.threshold;
    const isSame = equalJson(settingsOf(earlier, declared), settingsOf(now, declared));
    if (!isSame || wanted?.model !== judge.model) continue;
    if (threshold === judge.threshold) kept.set(name, grade);
    // The reason says of a second judge whether it agrees.
    else if (secondJudge === undefined) kept.set(name, withThreshold(grade, judge, threshold));
  }
  return kept;
}

/** What a judge is asked by; its `threshold` is compared with the score. */
function settingsOf(grader: GraderSpec | undefined, threshold: number | undefined): Json {
  if (grader === undefined) return null;
  const { type, config } = grader;
  return { type, config: threshold === undefined ? config : { ...config, threshold } };
}
