import type { JudgeSpec } from "../core/formats/model.ts";
import { calibrate, type Calibration, type JudgedCase } from "../core/grade/judge/calibration.ts";
import { type LabelledCase, trialOfCase } from "../core/grade/judge/calibration.ts";
import { prompt, type PromptSettings } from "../core/grade/prompt.ts";
import type { KindContext } from "../core/grade/grader.ts";
import { McpvalsError, messageOf } from "../core/errors/error.ts";
import { taskInVariant } from "../core/plan/plan.ts";
import { buildTrajectory, type Trajectory } from "../core/trace/trajectory.ts";
import { createGradersJudge } from "../graders/judge.ts";
import { readNamedFile } from "../graders/workspace-files.ts";
import { checkModel } from "../models/locate-model.ts";
import { readRun, type StoredRun } from "../store/run-folder.ts";

export interface CalibrationInput {
  readonly settings: PromptSettings;
  readonly cases: readonly LabelledCase[];
  readonly judge: JudgeSpec;
  readonly env: Readonly<Record<string, string>>;
  /** Absolute path of the folder that files in the settings are relative to. */
  readonly dir: string;
  /** Folder of the runs that cases name. */
  readonly runs: string;
  readonly signal: AbortSignal;
}

export interface CalibrationOutcome {
  /** Absent when the judge gave no verdict at all. */
  readonly calibration?: Calibration | undefined;
  /** Why cases have no verdict, each reason once. */
  readonly problems: readonly string[];
}

/** Longest that one request to the judge may take. */
const modelMs = 120_000;
/** Cases that are judged at once. */
const width = 4;

/** Asks a judge about every case. Throws McpvalsError of kind `usage` before the first one, and `run/interrupted`. */
export async function calibrateJudge(input: CalibrationInput): Promise<CalibrationOutcome> {
  const { settings, cases, judge, env, dir, signal } = input;
  checkModel(judge, env);
  const trials = await trajectoriesOf(cases, input.runs);
  const askJudge = createGradersJudge(judge, { env, emit: () => 0, signal, modelMs });
  const context: KindContext = {
    dir,
    askJudge,
    readFile: readNamedFile,
    validateSchema: unused,
    runProgram: unused,
  };
  const problems = new Set<string>();
  const judged: JudgedCase[] = [];
  const judgeCase = async ({ label, trajectory }: LabelledTrial): Promise<void> => {
    try {
      const found = await prompt.grade(settings, trajectory, context);
      if (found.judge === undefined) problems.add(found.reason);
      judged.push({ label, verdict: found.verdict, judge: found.judge });
    } catch (error) {
      signal.throwIfAborted();
      problems.add(messageOf(error));
      judged.push({ label, verdict: "error" });
    }
  };
  const waiting = trials.values();
  const work = async (): Promise<void> => {
    for (const trial of waiting) await judgeCase(trial);
  };
  await Promise.all(Array.from({ length: width }, work));
  return { calibration: calibrate(judged), problems: [...problems] };
}

interface LabelledTrial {
  readonly label: "pass" | "fail";
  readonly trajectory: Trajectory;
}

async function trajectoriesOf(
  cases: readonly LabelledCase[],
  folder: string,
): Promise<readonly LabelledTrial[]> {
  const runs = new Map<string, StoredRun>();
  const trials: LabelledTrial[] = [];
  for (const one of cases) {
    const { verdict: label } = one;
    if ("task" in one) {
      trials.push({ label, trajectory: trialOfCase(one) });
      continue;
    }
    const run = runs.get(one.run) ?? (await readRun(folder, one.run));
    runs.set(one.run, run);
    const trial = run.plan.trials.find(({ id }) => id === one.trial);
    const task = run.plan.tasks.find(({ name }) => name === trial?.task);
    if (trial === undefined || task === undefined)
      throw new McpvalsError(
        "store/not-found",
        `the run ${one.run} has no trial ${JSON.stringify(one.trial)}`,
      );
    const events = run.events.filter((event) => event.trial === trial.id);
    trials.push({ label, trajectory: buildTrajectory(trial, taskInVariant(run.plan, task, trial), events) });
  }
  return trials;
}

/** The grader `prompt` only asks. */
async function unused(): Promise<never> {
  throw new Error("a judge runs and validates nothing");
}
