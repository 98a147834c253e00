import { existsSync, writeFileSync } from "node:fs";
import type { JudgeSpec } from "../core/formats/model.ts";
import {
  calibrate,
  type Calibration,
  calibrationFileSchema,
  type JudgedCase,
  type LabelledCase,
  labelsSchema,
  trialOfCase,
} from "../core/grade/judge/calibration.ts";
import { prompt, type PromptSettings } from "../core/grade/prompt.ts";
import type { KindContext } from "../core/grade/grader.ts";
import { McpvalsError, messageOf } from "../core/errors/error.ts";
import { taskInVariant } from "../core/plan/plan.ts";
import { buildTrajectory, type Trajectory } from "../core/trace/trajectory.ts";
import { judgeName } from "../core/grade/graders.ts";
import { eventsOf, type JudgeRecord } from "../core/trace/events.ts";
import { createGradersJudge, createJudge, createStepJudge, judgeOf } from "../graders/judge.ts";
import type { LoadedConfig } from "../load/assemble-eval.ts";
import { readNamedFile } from "../graders/workspace-files.ts";
import { checkModel } from "../models/resolve-model.ts";
import { readRun, type StoredRun } from "../store/run-folder.ts";
import type { JsonObject } from "../core/formats/json.ts";
import { validate } from "../core/formats/problem.ts";
import { problemsOfIssues } from "../core/formats/zod-problems.ts";
import { FileProblems, parseJson, valueDocument } from "../load/read/document.ts";
import { endingOf, readData, readDataText } from "../load/read/read-files.ts";

/** What asks the judge: a grader `prompt`, the grader of workflows, or a criterion of a step `llm`. */
export type JudgeUse =
  | {
      readonly kind: "prompt";
      readonly settings: PromptSettings;
      /** Absolute path of the folder that files in the settings are relative to. */
      readonly dir: string;
    }
  | { readonly kind: typeof judgeName }
  | { readonly kind: "contains" | "exact" }
  | { readonly kind: "rubric"; readonly rubric: string };

export interface CalibrationInput {
  readonly use: JudgeUse;
  readonly cases: readonly LabelledCase[];
  readonly judge: JudgeSpec;
  readonly env: Readonly<Record<string, string>>;
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

/** The judge that is asked: that of a config, which has the wanted model already, or another one. Throws `config/no-judge`. */
export function judgeOfUse(
  use: JudgeUse,
  loaded: Pick<LoadedConfig, "eval" | "judgeError"> | undefined,
  judgeModel: string | undefined,
): JudgeSpec {
  const spec = loaded?.eval.judge;
  const ofGrader = use.kind === "prompt" ? use.settings.model : undefined;
  const model = judgeModel === undefined ? ofGrader : spec === undefined ? judgeModel : undefined;
  if (model !== undefined || spec !== undefined) return judgeOf(spec, model);
  if (loaded?.judgeError !== undefined) throw loaded.judgeError;
  throw new McpvalsError("config/no-judge", "no model is named that is to be calibrated", {
    hint: "Give --judge PROVIDER/MODEL or --config FILE, or set config.model in the file.",
  });
}

/** Longest that one request to the judge may take. */
const modelMs = 120_000;
/** Cases that are judged at once. */
const width = 4;

/** Asks a judge about every case. Throws McpvalsError of kind `usage` before the first one, and `run/interrupted`. */
export async function calibrateJudge(input: CalibrationInput): Promise<CalibrationOutcome> {
  const { cases, judge, env, signal } = input;
  checkModel(judge, env);
  const trials = await trajectoriesOf(cases, input.runs);
  const ask = judgeFor(input);
  const problems = new Set<string>();
  const judged: JudgedCase[] = [];
  const judgeCase = async ({ label, ...trial }: LabelledTrial): Promise<void> => {
    try {
      const found = await ask(trial);
      if (found.judge === undefined) problems.add(found.reason);
      judged.push({ label, judge: found.judge });
    } catch (error) {
      signal.throwIfAborted();
      problems.add(messageOf(error));
      judged.push({ label });
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
  readonly reference?: string | undefined;
}

/** What is said of a trial; without `judge` the reason says why there is no verdict. */
type AskAbout = (
  trial: Omit<LabelledTrial, "label">,
) => Promise<{ readonly reason: string; readonly judge?: JudgeRecord | undefined }>;

/** Asks as a run would, so that the judge has the same instructions. */
function judgeFor({ use, judge, env, signal }: CalibrationInput): AskAbout {
  const options = { env, emit: () => 0, signal, modelMs };
  const outside = { readFile: readNamedFile, validateSchema: unused, runProgram: unused };
  const askJudge = createGradersJudge(judge, options);
  switch (use.kind) {
    case "prompt": {
      const context: KindContext = { ...outside, dir: use.dir, askJudge };
      const settings = { ...use.settings, model: undefined, second_model: undefined };
      return async ({ trajectory }) => prompt.grade(settings, trajectory, context);
    }
    case judgeName: {
      const grader = createJudge(judge, options);
      return async ({ trajectory }) => grader.grade(trajectory, { ...outside, askJudge });
    }
    default: {
      const askOfStep = createStepJudge(judge, options);
      return async ({ trajectory, reference }) => {
        const wanted = use.kind === "rubric" ? use.rubric : reference;
        const input = eventsOf(trajectory.events, "agent.message").at(-1)?.text ?? "";
        if (wanted === undefined) return { reason: `a case has no reference, which "${use.kind}" needs` };
        if (input.trim() === "") return { reason: "the agent said nothing" };
        const told = trajectory.task.turns.map(({ user }) => user).join("\n\n");
        return askOfStep({ kind: use.kind, reference: wanted, prompt: told, input }, signal);
      };
    }
  }
}

async function trajectoriesOf(
  cases: readonly LabelledCase[],
  folder: string,
): Promise<readonly LabelledTrial[]> {
  const runs = new Map<string, StoredRun>();
  const trials: LabelledTrial[] = [];
  for (const one of cases) {
    const { verdict: label, reference } = one;
    if ("task" in one) {
      trials.push({ label, reference, trajectory: trialOfCase(one) });
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
    const { plan } = run;
    trials.push({
      label,
      reference,
      trajectory: buildTrajectory(trial, taskInVariant(plan, task, trial), events),
    });
  }
  return trials;
}

/** These graders only ask. */
async function unused(): Promise<never> {
  throw new Error("a judge runs and validates nothing");
}

export interface Labels {
  readonly config: JsonObject;
  readonly cases: readonly LabelledCase[];
}

/**
 * Reads labels: YAML or JSON with `cases`, or a list of cases; or JSON Lines with a case a line. Throws McpvalsError of kind
 * `usage`.
 */
export async function readLabels(file: string, shown: string): Promise<Labels> {
  if (!existsSync(file)) throw new McpvalsError("config/not-found", `there is no file ${shown}`);
  const read =
    endingOf(file) === "jsonl" ? valueDocument(linesOf(file, shown), shown) : await readData(file, shown);
  const document = Array.isArray(read.value) ? { ...read, value: { cases: read.value as unknown } } : read;
  const { data, issues } = validate(labelsSchema, document.value);
  const problems = new FileProblems();
  problems.addPlaced(problemsOfIssues(issues, document.value), document);
  problems.throwIfAny([]);
  if (data === undefined) throw new Error("labels were refused without a problem");
  return { config: data.config ?? {}, cases: data.cases };
}

function linesOf(file: string, shown: string): readonly unknown[] {
  const lines = readDataText(file, shown).text.split("\n");
  return lines.flatMap((line, index) => {
    if (line.trim() === "") return [];
    try {
      return [parseJson(line)];
    } catch (error) {
      throw new McpvalsError("config/syntax", `${shown}:${index + 1} is not JSON: ${messageOf(error)}`);
    }
  });
}

/** Reads the calibrations of judges in a file; none when there is no such file. Throws McpvalsError of kind `usage`. */
export async function readCalibrations(file: string): Promise<readonly Calibration[]> {
  if (!existsSync(file)) return [];
  const { data } = validate(calibrationFileSchema, (await readData(file, file)).value);
  if (data !== undefined) return data.judges;
  throw new McpvalsError("config/invalid-value", `${file} has no calibrations of judges`, {
    hint: "Remove it, and write it again with mcpvals judge calibrate.",
  });
}

/** Writes a calibration into a file, in the place of an earlier one of the same judge. */
export async function writeCalibration(file: string, calibration: Calibration): Promise<void> {
  const all = new Map((await readCalibrations(file)).map((one) => [keyOf(one), one]));
  all.set(keyOf(calibration), calibration);
  const text = JSON.stringify({ schema: "mcpvals.calibration/1", judges: [...all.values()] }, undefined, 2);
  try {
    writeFileSync(file, `${text}\n`);
  } catch (error) {
    throw new McpvalsError("store/unwritable", `${file} could not be written: ${messageOf(error)}`);
  }
}

function keyOf({ model, prompt, threshold, votes }: Calibration): string {
  return JSON.stringify([model, prompt, threshold, votes]);
}
