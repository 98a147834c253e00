import { graderKinds } from "../graders/kinds.ts";
import { equalJson } from "../expect/json-difference.ts";
import { serializeError } from "../base/error.ts";
import type { Json } from "../base/json.ts";
import type { Eval } from "../model/eval.ts";
import { emittingCosts } from "../model/prices.ts";
import type { GraderSpec, Task } from "../model/task.ts";
import { judgeName } from "../graders/judge/llm-judge.ts";
import { type Plan, taskOf, type Trial } from "../model/plan.ts";
import type { TrialResult } from "../model/result.ts";
import { averageScore, trialResult, trialVerdict, ungradedTrial } from "../report/result.ts";
import type { TraceEvent } from "../model/event.ts";
import { createRecorder } from "../trace/recorder.ts";
import { createRedactor, type Redact, type Secret } from "../trace/redact.ts";
import { buildTrajectory, type Trajectory } from "../trace/trajectory.ts";
import type { EnvironmentVariables } from "../formats/environment.ts";
import { type Journal, readTrials, type StoredEvent } from "../store/journal.ts";
import { joinLines } from "../store/journal-file.ts";
import { explained } from "../store/misfits.ts";
import { createGrading, type GradeTrial, judgeOfGrader } from "./grade-trial.ts";
import type { ValidateSchema } from "../expect/tool-result.ts";
import type { Grade } from "../model/grade.ts";

/** How to grade the trials of a recorded run. */
export interface GradingJob {
  /** Folder of the recorded run. */
  readonly folder: string;
  readonly spec: Eval;
  readonly env: EnvironmentVariables;
  /** Values that must never be written. */
  readonly secrets: readonly Secret[];
  /** With the current expectations. */
  readonly plan: Plan;
  /** The tasks as the run had them. */
  readonly ranTasks: readonly Task[];
  /** Ask judges also where their grades are on record and nothing has changed. */
  readonly askJudges: boolean;
}

/** A trial that was graded. */
export interface Graded {
  readonly result: TrialResult;
  /** Absent when it could not be graded. */
  readonly trajectory?: Trajectory;
  /** The grades that the run had. */
  readonly earlier: readonly Grade[];
}

interface GradingOutput {
  readonly signal: AbortSignal;
  /** Receives the recorded events, and those of the grading. */
  readonly journal: Pick<Journal, "append" | "copy">;
  readonly validateSchema: ValidateSchema;
  /** Called for each trial, in any order. */
  readonly onTrial: (graded: Graded) => Promise<void>;
}

/** Maximum number of trials that are graded at once: graders may wait for a model or a program. */
const maxAtOnce = 4;

/** Grades the trials on record. Throws `store/corrupt`, and the signal's reason. */
export async function gradeTrials(
  job: GradingJob,
  { signal, journal, validateSchema, onTrial }: GradingOutput,
): Promise<void> {
  const { folder, spec, env, plan } = job;
  const byId = new Map(plan.trials.map((trial) => [trial.id, trial]));
  const grading: Grading = {
    ...job,
    ranPlan: { ...plan, tasks: job.ranTasks },
    signal,
    redact: createRedactor(job.secrets),
    grade: createGrading(
      { eval: spec, env },
      { validateSchema, signal, accounts: { most: maxAtOnce, limits: new Map() } },
    ),
    journal,
  };
  const trials = readTrials(folder);
  const work = async (): Promise<void> => {
    for await (const { id, events } of trials) {
      signal.throwIfAborted();
      const trial = byId.get(id);
      if (trial !== undefined) await onTrial(await gradeTrial(trial, events, grading));
    }
  };
  await Promise.all(Array.from({ length: maxAtOnce }, work));
}

/** What grading a trial needs. */
interface Grading extends Pick<GradingJob, "spec" | "plan" | "askJudges"> {
  /** The plan with the tasks as the run had them. */
  readonly ranPlan: Plan;
  readonly signal: AbortSignal;
  readonly grade: GradeTrial;
  readonly redact: Redact;
  readonly journal: GradingOutput["journal"];
}

/** Grades a trial from its record. Throws only the signal's reason. */
async function gradeTrial(trial: Trial, all: readonly StoredEvent[], grading: Grading): Promise<Graded> {
  const { plan, ranPlan, spec, redact, journal, signal } = grading;
  const task = taskOf(trial, plan);
  const earlier = gradesIn(all.at(-1)?.event);
  const recorded = recordedEvents(all);
  journal.copy(
    joinLines(recorded.map(({ line }) => line)),
    recorded.flatMap(({ attachment = [] }) => attachment),
  );
  const events = recorded.map(({ event }) => event);
  const record = createRecorder(trial.id, {
    redact,
    now: () => performance.timeOrigin + performance.now(),
    events,
    onEvent: (event, json) => journal.append(event, json),
    onBroken: (error) => {
      throw error;
    },
  });
  const { prices } = spec;
  const emit = prices === undefined ? record : emittingCosts(record, prices);
  try {
    const trajectory = buildTrajectory(trial, task, events);
    const finished = events.findLast((event) => event.type === "trial.finished");
    if (finished === undefined) return { result: trialResult(trajectory, undefined), trajectory, earlier };
    const kept = grading.askJudges
      ? undefined
      : await judgedBefore(earlier, { before: taskOf(trial, ranPlan), task, spec });
    const grades = await grading.grade(trajectory, emit, kept);
    const verdict = trialVerdict(finished.outcome, grades);
    emit({ type: "trial.graded", verdict, score: averageScore(grades), grades });
    // Recorded grades have no secrets.
    return { result: trialResult(trajectory, gradesIn(events.at(-1))), trajectory, earlier };
  } catch (cause) {
    signal.throwIfAborted();
    const error = redact(serializeError(explained(cause, events)));
    emit({ type: "trial.finished", outcome: "error", durationMs: 0, error });
    const result = ungradedTrial(trial, task, { verdict: "error", error, durationMs: 0 });
    return { result, earlier };
  }
}

/** The events of a trial without those of its grading. */
function recordedEvents(events: readonly StoredEvent[]): readonly StoredEvent[] {
  const end = events.findLastIndex(({ event }) => event.type === "trial.finished");
  return end === -1 ? events : events.slice(0, end + 1);
}

function gradesIn(event: TraceEvent | undefined): readonly Grade[] {
  return event?.type === "trial.graded" ? event.grades : [];
}

/** The grades of judges whose settings are unchanged, with the current thresholds. */
async function judgedBefore(
  grades: readonly Grade[],
  { before, task, spec }: { readonly before: Task; readonly task: Task; readonly spec: Eval },
): Promise<ReadonlyMap<string, Grade>> {
  const kept = new Map<string, Grade>();
  for (const grade of grades) {
    const { grader: name, judge, secondJudge, verdict } = grade;
    if (judge === undefined || verdict === "error") continue;
    const { withThreshold } = await import("../graders/judge/votes.ts");
    const [earlier, now] = [before, task].map(({ graders = [] }) =>
      graders.find((each) => each.name === name),
    );
    const ofEval = name === judgeName && now === undefined ? spec.judge : undefined;
    const wanted = now === undefined ? ofEval : judgeOfGrader(now, spec);
    const declared = now && graderKinds[now.type]?.judge?.(now.config)?.threshold;
    const threshold = declared ?? ofEval?.passThreshold ?? judge.threshold;
    const isSame = equalJson(settingsOf(earlier, declared), settingsOf(now, declared));
    if (!isSame || wanted?.model !== judge.model) continue;
    if (threshold === judge.threshold) kept.set(name, grade);
    // The reason of a grade with a second judge depends on the threshold.
    else if (secondJudge === undefined) kept.set(name, withThreshold(grade, judge, threshold));
  }
  return kept;
}

/** The settings of a grader that decide about the question to its judge: not `threshold`. */
function settingsOf(grader: GraderSpec | undefined, threshold: number | undefined): Json {
  if (grader === undefined) return null;
  const { type, config } = grader;
  return { type, config: threshold === undefined ? config : { ...config, threshold } };
}
