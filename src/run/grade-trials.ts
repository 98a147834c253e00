import { equalJson } from "../expect/json-difference.ts";
import { serializeError } from "../base/error.ts";
import type { Json } from "../base/json.ts";
import type { Eval, GraderSpec, Task } from "../model/model.ts";
import { judgeName } from "../graders/graders.ts";
import { type Plan, taskOf, type Trial } from "../model/plan.ts";
import type { TrialResult } from "../model/result.ts";
import {
  averageScore,
  KeptEvidence,
  RunTally,
  type TallyState,
  trialResult,
  trialVerdict,
  ungradedTrial,
} from "../report/trial-result.ts";
import type { Grade, TraceEvent } from "../model/event.ts";
import { createRecorder } from "../trace/recorder.ts";
import { createRedactor, type Redact, type Secret } from "../trace/redact.ts";
import { buildTrajectory, type Trajectory } from "../trace/trajectory.ts";
import { SchemaValidator } from "../graders/schema-validator.ts";
import type { EnvironmentVariables } from "../formats/environment.ts";
import {
  type Journal,
  type JournalPart,
  readTrials,
  type StoredEvent,
  type StoredTrial,
} from "../store/journal.ts";
import { joinLines } from "../store/journal-file.ts";
import { createGrading, type GradeTrial, judgeOfGrader } from "./grade-trial.ts";

/** How to grade the trials of a recorded run, as plain data. */
export interface GradingJob {
  /** Folder of the recorded run. */
  readonly folder: string;
  readonly spec: Eval;
  readonly env: EnvironmentVariables;
  /** Values that must never be written. */
  readonly secrets: readonly Secret[];
  /** With what is expected now. */
  readonly plan: Plan;
  /** The tasks as the run had them. */
  readonly ranTasks: readonly Task[];
  /** Ask judges also where their grades are on record and nothing has changed. */
  readonly askJudges: boolean;
}

/** Gets the recorded events, and those of the grading. */
export type GradingJournal = Pick<Journal, "append" | "copy">;

/** A trial that was graded. */
export interface Graded {
  readonly result: TrialResult;
  /** Graders that graded the trial before, and not this time. */
  readonly dropped: readonly string[];
}

/** What trials say together, as plain data. */
export interface GradedTrials {
  readonly tally: TallyState;
  readonly evidence: KeptEvidence["byTrial"];
}

interface GradingOutput {
  readonly signal: AbortSignal;
  readonly journal: GradingJournal;
  /** Called for each trial, in no order. */
  readonly onTrial: (graded: Graded) => Promise<void> | void;
}

/** Trials that are graded at once where graders may wait for a model or a program. */
const width = 4;

/** Grades the trials of a part of the record, or all. Throws `store/corrupt`, and the signal's reason. */
export async function gradeTrials(
  job: GradingJob,
  part: JournalPart | undefined,
  { signal, journal, onTrial }: GradingOutput,
): Promise<GradedTrials> {
  const { folder, spec, env, plan } = job;
  await using validator = new SchemaValidator();
  const validateSchema = validator.validate.bind(validator);
  const places = new Map(plan.trials.map(({ id }, index) => [id, index]));
  const grading: Grading = {
    ...job,
    ranPlan: { ...plan, tasks: job.ranTasks },
    signal,
    redact: createRedactor(job.secrets),
    grade: createGrading({ eval: spec, env }, { validateSchema, signal }),
    journal,
  };
  const tally = new RunTally(plan);
  const evidence = new KeptEvidence();
  const gradeNext = async ({ id, events }: StoredTrial): Promise<void> => {
    signal.throwIfAborted();
    const trial = plan.trials[places.get(id) ?? -1];
    if (trial === undefined) return;
    const { result, trajectory, earlier } = await gradeTrial(trial, events, grading);
    const dropped = new Set<string>();
    if (trajectory !== undefined) {
      tally.add(trajectory, result);
      if (result.verdict !== "pass" && result.verdict !== "skip") evidence.keep(result, trajectory.events);
      for (const { grader } of earlier)
        if (!result.grades.some((each) => each.grader === grader)) dropped.add(grader);
    }
    await onTrial({ result, dropped: [...dropped] });
  };
  const trials = readTrials(folder, part);
  const work = async (): Promise<void> => {
    for await (const trial of trials) await gradeNext(trial);
  };
  await Promise.all(Array.from({ length: part === undefined ? width : 1 }, work));
  return { tally: tally.state, evidence: evidence.byTrial };
}

/** What grading a trial needs. */
interface Grading extends Pick<GradingJob, "spec" | "plan" | "askJudges"> {
  /** The plan with the tasks as the run had them. */
  readonly ranPlan: Plan;
  readonly signal: AbortSignal;
  readonly grade: GradeTrial;
  readonly redact: Redact;
  readonly journal: GradingJournal;
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
  const { plan, ranPlan, spec, redact, journal, signal } = grading;
  const task = taskOf(trial, plan);
  const earlier = gradesIn(all.at(-1)?.event);
  const recorded = recordedEvents(all);
  journal.copy(
    joinLines(recorded.map(({ line }) => line)),
    recorded.flatMap(({ attachment = [] }) => attachment),
  );
  const events = recorded.map(({ event }) => event);
  const emit = createRecorder(trial.id, {
    redact,
    now: () => performance.timeOrigin + performance.now(),
    events,
    onEvent: (event, json) => journal.append(event, json),
    onBroken: (error) => {
      throw error;
    },
  });
  try {
    const trajectory = buildTrajectory(trial, task, events);
    const finished = events.findLast((event) => event.type === "trial.finished");
    if (finished === undefined) return { result: trialResult(trajectory, undefined), trajectory, earlier };
    const kept = grading.askJudges
      ? undefined
      : await judgedBefore(earlier, { before: taskOf(trial, ranPlan), task, spec });
    const { outcome } = finished;
    const grades = outcome === "completed" ? await grading.grade(trajectory, emit, kept) : [];
    const verdict = trialVerdict(outcome, grades);
    emit({ type: "trial.graded", verdict, score: averageScore(grades), grades });
    // On record they are without secrets.
    return { result: trialResult(trajectory, gradesIn(events.at(-1))), trajectory, earlier };
  } catch (cause) {
    signal.throwIfAborted();
    const error = redact(serializeError(cause));
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

/** The grades of judges that would be asked in the same way again, with the thresholds of now. */
async function judgedBefore(
  grades: readonly Grade[],
  { before, task, spec }: { readonly before: Task; readonly task: Task; readonly spec: Eval },
): Promise<ReadonlyMap<string, Grade>> {
  const kept = new Map<string, Grade>();
  for (const grade of grades) {
    const { grader: name, judge, secondJudge, verdict } = grade;
    if (judge === undefined || verdict === "error") continue;
    const { graderKinds } = await import("../graders/kinds.ts");
    const { withThreshold } = await import("../graders/judge/votes.ts");
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
