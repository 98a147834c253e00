import { basename, join, resolve } from "node:path";
import { equalJson } from "../expect/json-difference.ts";
import { McpvalsError } from "../base/error.ts";
import { suggestion } from "../base/did-you-mean.ts";
import { exact, withoutUndefined } from "../base/json.ts";
import type { Task } from "../model/task.ts";
import { calibrationFile } from "../graders/judge/calibration.ts";
import { type Plan, taskOf } from "../model/plan.ts";
import { createMultiplexer } from "../report/reporter.ts";
import type { RunEnvironment, TrialResult } from "../model/result.ts";
import { compareWithBaseline } from "../report/baseline.ts";
import { KeptEvidence } from "../report/evidence.ts";
import { fingerprintsOf } from "../report/fingerprint.ts";
import { notRun, RunTally, ungradedTrial } from "../report/result.ts";
import { SchemaValidator } from "../graders/schema-validator.ts";
import { createRedactor, type Redact } from "../trace/redact.ts";
import { prepare, prepareGraders, type Selection } from "./prepare.ts";
import { type RunOptions, type RunOutcome, sourceOf } from "./run.ts";
import { type GradingJob, gradeTrials } from "./grade-trials.ts";
import { judgesOfGraders } from "./grade-trial.ts";
import {
  type OpenedRun,
  runId,
  refusePlanted,
  defaultRunsFolder,
  createRunFolder,
} from "../store/run-folder.ts";
import { corrupt } from "../store/journal-file.ts";
import { readTrials } from "../store/journal.ts";
import { misfitIn } from "../store/misfits.ts";
import type { LoadedConfig } from "../formats/assemble-eval.ts";
import { finishRun } from "./finish-run.ts";

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
  /** What differs from the run, such as graders that graded only then. */
  readonly notes: readonly string[];
}

/**
 * Grades the record of a run with the graders that an eval declares now, into the folder of a new run. An incomplete folder is
 * removed. Throws McpvalsError of kind `usage` before the first trial, `store/corrupt`, and the signal's reason.
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
  await trials.return(undefined);
  if (first.done === true)
    throw new McpvalsError("store/nothing-recorded", `the run ${stored.id} has no trial that was recorded`, {
      hint: `Run it again. Its folder is ${stored.folder}.`,
    });
  const startedAt = new Date(performance.timeOrigin + started).toISOString();
  const head = {
    id: runId(startedAt),
    startedAt,
    gradedFrom: stored.gradedFrom ?? { id: stored.id, startedAt: stored.startedAt },
    ...exact({ retryOf: stored.retryOf }),
    environment: redact(await environmentOf(stored, loaded)),
  };
  if (output === undefined) refusePlanted(cwd);
  const runs = resolve(cwd, output ?? defaultRunsFolder);
  // The plan is written last: what an interrupted grading leaves is not a run.
  await using folder = await createRunFolder(runs, { ...head, source: redact(sourceOf(loaded)) });
  const reporters = createMultiplexer(options.reporters ?? []);
  const evidence = new KeptEvidence();
  const tally = new RunTally(plan);
  const results = new Map<string, TrialResult>();
  const dropped = new Set<string>();
  let reported = Promise.resolve();
  let next = 0;
  /** Reports results in the order of the plan. */
  const add = (result: TrialResult): Promise<void> => {
    if (results.has(result.id))
      throw corrupt(stored.folder, undefined, "begins a trial that another has begun");
    results.set(result.id, result);
    for (;;) {
      const known = results.get(plan.trials[next]?.id ?? "");
      if (known === undefined) return reported;
      next += 1;
      reported = reported.then(() => reporters.onTrialEnd(known));
    }
  };
  const job: GradingJob = {
    folder: stored.folder,
    spec: loaded.eval,
    env: { ...loaded.env },
    secrets: given.secrets,
    plan,
    ranTasks: stored.plan.tasks,
    askJudges: options.askJudges ?? false,
  };
  try {
    await reporters.onRunStart({ plan, ...head, folder: folder.path });
    await gradeTrials(job, {
      signal,
      journal: folder,
      validateSchema,
      onTrial({ result, trajectory, earlier }) {
        if (trajectory === undefined) return add(result);
        tally.add(trajectory, result);
        if (result.verdict !== "pass" && result.verdict !== "skip") evidence.keep(result, trajectory);
        for (const { grader } of earlier)
          if (!result.grades.some((each) => each.grader === grader)) dropped.add(grader);
        return add(result);
      },
    });
    for (const trial of plan.trials) {
      if (results.has(trial.id)) continue;
      const error = notRun({
        interrupted: stored.interrupted === true || stored.durationMs === undefined,
        usedUp: stored.budget?.usedUp,
      });
      const outcome = { verdict: "skip", error, durationMs: 0 } as const;
      await add(ungradedTrial(trial, taskOf(trial, plan), outcome));
    }
    const ordered = plan.trials.flatMap(({ id }) => results.get(id) ?? []);
    const interrupted = ordered.some(({ error }) => error?.code === "run/interrupted");
    const durationMs = Math.round(performance.now() - started);
    const fingerprints = fingerprintsOf(plan.tasks);
    const comparison = compareWithBaseline(plan, { ...head, trials: ordered, interrupted, fingerprints });
    const result = tally.result({ ...head, durationMs, fingerprints, comparison }, ordered, plan, {
      interrupted,
    });
    await finishRun(folder, result, plan);
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
    if (error instanceof McpvalsError || signal.aborted) throw error;
    throw (await misfitIn(stored.folder)) ?? error;
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

/** The plan of the recorded run, with the current expectations. Throws McpvalsError of kind `usage`. */
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

/** The environment of the run, with the current judge and calibrations. */
async function environmentOf(
  { environment }: OpenedRun,
  { eval: spec, dir, judgeError }: LoadedConfig,
): Promise<RunEnvironment> {
  const asked = judgesOfGraders(spec, judgeError);
  const isJudged = asked.length > 0 || spec.judge !== undefined || environment.calibrations !== undefined;
  if (!isJudged) return environment;
  const { readCalibrations } = await import("./calibrate-judge.ts");
  const calibrations = await readCalibrations(join(dir, calibrationFile));
  const judge = spec.judge && { model: spec.judge.model };
  return { ...environment, ...(judge && { judge }), calibrations };
}

/** The current declarations of the tasks of a run, by name. Throws `usage/no-match` for one that is missing. */
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
  /** Which part of the declared task is ignored. */
  readonly note?: string;
}

/** The task of a run, with the current expectations; those of turns only if the prompts are still the same. */
function taskToGrade(recorded: Task, { turns, expectTools, graders, portable }: Task): TaskToGrade {
  const isSame = equalJson(
    turns.map(({ user }) => user),
    recorded.turns.map(({ user }) => user),
  );
  const { graders: _, ...ran } = recorded;
  const assertions = portable?.assertions ?? [];
  const task: Task = {
    ...ran,
    expectTools,
    turns: isSame ? turns : ran.turns,
    ...withoutUndefined({ graders, portable: ran.portable && { ...ran.portable, assertions } }),
  };
  const name = JSON.stringify(recorded.name);
  const note = `the prompts of ${name} have changed since the run: its turns are graded as they were then`;
  return isSame ? { task } : { task, note };
}
