import { existsSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import type { JudgeSpec } from "../model/eval.ts";
import {
  calibrate,
  calibrationFileSchema,
  type JudgedCase,
  type LabelledCase,
  labelsSchema,
  trialOfCase,
} from "../graders/judge/calibration.ts";
import { prompt, type PromptSettings } from "../graders/prompt.ts";
import type { KindContext } from "../graders/grader.ts";
import { McpvalsError, messageOf } from "../base/error.ts";
import { taskOf } from "../model/plan.ts";
import { buildTrajectory, finalMessage, type Trajectory } from "../trace/trajectory.ts";
import { judgeName, judgeOf, llmJudge } from "../graders/judge/llm-judge.ts";
import { createJudge, createStepJudge } from "../graders/judge/judge.ts";
import type { LoadedConfig } from "../formats/assemble-eval.ts";
import { readNamedFile } from "../graders/workspace-files.ts";
import { checkModel } from "../agents/models/resolve-model.ts";
import { readRun, type StoredRun } from "../store/run-folder.ts";
import { suggestion } from "../base/did-you-mean.ts";
import {
  canonicalJson,
  formatKeyPath,
  type Json,
  type JsonObject,
  type KeyPath,
  withoutUndefined,
} from "../base/json.ts";
import { type Locate, problem, type Problem, validate } from "../base/problem.ts";
import { problemsOfIssues } from "../model/zod-problems.ts";
import { type ConfigDocument, FileProblems, parseJson, type SourceText } from "../formats/read/document.ts";
import { endingOf, readData, readDataText } from "../formats/read/read-files.ts";
import type { Calibration } from "../model/calibration.ts";
import type { JudgeRecord } from "../model/grade.ts";

/** Which questions are calibrated: of a grader `prompt`, of the grader of workflows, or of a criterion of a step `llm`. */
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
  readonly labels: Labels;
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

/** The judge to calibrate: that of a config, which has the wanted model already, or another one. Throws `config/no-judge`. */
export function judgeOfUse(
  use: JudgeUse,
  loaded: Pick<LoadedConfig, "eval" | "judgeError"> | undefined,
  judgeModel: string | undefined,
): JudgeSpec {
  const spec = loaded?.eval.judge;
  let model = use.kind === "prompt" ? use.settings.model : undefined;
  if (judgeModel !== undefined) model = spec === undefined ? judgeModel : undefined;
  if (model !== undefined || spec !== undefined) return judgeOf(spec, model);
  if (loaded?.judgeError !== undefined) throw loaded.judgeError;
  throw new McpvalsError("config/no-judge", "no model is named that is to be calibrated", {
    hint: "Give --judge PROVIDER/MODEL or --config FILE, or set config.model in the file.",
  });
}

/** Time limit of a request to the judge. */
const modelMs = 120_000;
/** Maximum number of cases that are judged at once. */
const maxAtOnce = 4;

/** Asks a judge about every case. Throws McpvalsError of kind `usage` before the first one, and `run/interrupted`. */
export async function calibrateJudge(input: CalibrationInput): Promise<CalibrationOutcome> {
  const { judge, env, signal } = input;
  checkModel(judge, env);
  const trials = await trialsOf(input);
  const ask = judgeFor(input);
  const problems = new Set<string>();
  const judged: JudgedCase[] = [];
  const judgeCase = async ({ label, ...trial }: LabelledTrial): Promise<void> => {
    const task = taskOfCase(trial.trajectory);
    try {
      const found = await ask(trial);
      if (found.judge === undefined) problems.add(found.reason);
      judged.push({ task, label, judge: found.judge });
    } catch (error) {
      signal.throwIfAborted();
      problems.add(messageOf(error));
      judged.push({ task, label });
    }
  };
  const waiting = trials.values();
  const work = async (): Promise<void> => {
    for (const trial of waiting) await judgeCase(trial);
  };
  await Promise.all(Array.from({ length: maxAtOnce }, work));
  signal.throwIfAborted();
  return { calibration: calibrate(judged), problems: [...problems] };
}

/** Equal for cases with the same prompts, whether they are in words or on record; of a task without prompts its name. */
function taskOfCase({ task: { name, turns } }: Trajectory): string {
  return turns.length === 0 ? name : JSON.stringify(turns.map(({ user }) => user));
}

interface LabelledTrial {
  readonly label: "pass" | "fail";
  readonly trajectory: Trajectory;
  readonly reference?: string | undefined;
}

/** Asks about a trial. Without `judge` the reason says why there is no verdict. */
type AskAbout = (
  trial: Omit<LabelledTrial, "label">,
) => Promise<{ readonly reason: string; readonly judge?: JudgeRecord | undefined }>;

/** Asks as a run does, with the same instructions. */
function judgeFor({ use, judge, env, signal }: CalibrationInput): AskAbout {
  const accounts = { most: maxAtOnce, limits: new Map() };
  const options = { env, emit: () => 0, signal, modelMs, accounts };
  const outside = { readFile: readNamedFile, validateSchema: unused, runProgram: unused };
  const askJudge = createJudge(judge, options);
  switch (use.kind) {
    case "prompt": {
      const context: KindContext = { ...outside, dir: use.dir, askJudge };
      const settings = { ...use.settings, model: undefined, second_model: undefined };
      return async ({ trajectory }) => prompt.grade(settings, trajectory, context);
    }
    case judgeName: {
      const context: KindContext = { ...outside, dir: "", askJudge };
      return async ({ trajectory }) => llmJudge.grade(judge, trajectory, context);
    }
    default: {
      const askOfStep = createStepJudge(judge, options);
      return async ({ trajectory, reference }) => {
        const wanted = use.kind === "rubric" ? use.rubric : reference;
        const input = finalMessage(trajectory)?.text ?? "";
        if (wanted === undefined) return { reason: `a case has no reference, which "${use.kind}" needs` };
        if (input.trim() === "") return { reason: "the agent said nothing" };
        const prompt = trajectory.turns.map(({ user }) => user).join("\n\n");
        return askOfStep({ kind: use.kind, reference: wanted, prompt, input }, signal);
      };
    }
  }
}

/** The trials that the cases contain or name. Throws one McpvalsError for all cases that cannot be used. */
async function trialsOf({ labels, use, runs }: CalibrationInput): Promise<readonly LabelledTrial[]> {
  const named = new Map<string, StoredRun | McpvalsError>();
  const known = new Map<string, { readonly label: string; readonly index: number }>();
  const problems: Problem[] = [];
  const trials: LabelledTrial[] = [];
  // Only these show the judge the reference.
  const isCompared = use.kind === "contains" || use.kind === "exact";
  for (const [index, one] of labels.cases.entries()) {
    const { verdict: label, reference } = one;
    const path = ["cases", index];
    let presented: PresentedTrial;
    if ("task" in one) {
      const calls = one.calls.map(withoutUndefined);
      presented = { identity: [one.task, one.answer, calls], trajectory: trialOfCase(one) };
    } else {
      const run = named.get(one.run) ?? (await readNamedRun(runs, one.run));
      named.set(one.run, run);
      const found = run instanceof McpvalsError ? noRun(run, one.run, path) : recordedTrial(run, one, path);
      if ("message" in found) {
        problems.push(found);
        continue;
      }
      presented = found;
    }
    const key = canonicalJson([presented.identity, isCompared ? (reference ?? null) : null]);
    const first = known.get(key);
    if (first === undefined) known.set(key, { label, index });
    else if (first.label !== label) {
      const message = `cases[${index}] is the same as cases[${first.index}], with the opposite verdict`;
      const alsoAt = ["cases", first.index, "verdict"];
      const hint = "Decide on one verdict, and remove the other case.";
      problems.push(problem([...path, "verdict"], message, { alsoAt, hint }));
    }
    trials.push({ label, reference, trajectory: presented.trajectory });
  }
  refuseLabels(problems, labels);
  return trials;
}

interface PresentedTrial {
  /** Equal for equal cases. */
  readonly identity: Json;
  readonly trajectory: Trajectory;
}

/** The trial of a run that a case names, or the problem. */
function recordedTrial(
  { plan, events: all, folder }: StoredRun,
  { run, trial: id }: { readonly run: string; readonly trial: string },
  path: KeyPath,
): PresentedTrial | Problem {
  const trial = plan.trials.find((each) => each.id === id);
  if (trial === undefined) {
    const ids = plan.trials.map((each) => each.id);
    const details = { code: "store/not-found", hint: suggestion(id, ids, "trials") } as const;
    return problem([...path, "trial"], `the run ${run} has no trial ${JSON.stringify(id)}`, details);
  }
  const events = all.filter((event) => event.trial === id);
  const trajectory = buildTrajectory(trial, taskOf(trial, plan), events);
  return { identity: [resolve(folder), id], trajectory };
}

function noRun({ code, message, details }: McpvalsError, run: string, path: KeyPath): Problem {
  return problem([...path, "run"], message, { code, hint: details.hint, sameAs: run });
}

/** A run that a case names, or the error. */
async function readNamedRun(folder: string, name: string): Promise<StoredRun | McpvalsError> {
  try {
    return await readRun(folder, name);
  } catch (error) {
    if (error instanceof McpvalsError && error.kind === "usage") return error;
    throw error;
  }
}

/** Graders that ask a judge need nothing else. */
async function unused(): Promise<never> {
  throw new Error("a judge runs and validates nothing");
}

export interface Labels {
  readonly config: JsonObject;
  readonly cases: readonly LabelledCase[];
  /** The file as an object with `config` and `cases`, for the places of problems. */
  readonly document: ConfigDocument;
}

/**
 * Reads labels: YAML or JSON with `cases`, or a list of cases; or JSON Lines with a case a line. Throws McpvalsError of kind
 * `usage`.
 */
export async function readLabels(file: string, shown: string): Promise<Labels> {
  if (!existsSync(file)) throw new McpvalsError("config/not-found", `there is no file ${shown}`);
  const read =
    endingOf(file) === "jsonl" ? linesDocument(readDataText(file, shown)) : await readData(file, shown);
  const document = Array.isArray(read.value) ? casesDocument(read) : read;
  const { data, issues } = validate(labelsSchema, document.value);
  refuseLabels(problemsOfIssues(issues, document.value), { document });
  if (data === undefined) throw new Error("labels were refused without a problem");
  return { config: data.config ?? {}, cases: data.cases, document };
}

/** Throws one McpvalsError for all problems of labels, with their places; returns when there are none. */
export function refuseLabels(problems: readonly Problem[], { document }: Pick<Labels, "document">): void {
  const found = new FileProblems();
  found.addPlaced(problems, document);
  found.throwIfAny();
}

/** A list of cases as the object that has it in `cases`. */
function casesDocument(list: ConfigDocument): ConfigDocument {
  const locate: Locate = (place) => {
    const location = list.locate({ ...place, path: place.path.slice(1) });
    return location && { ...location, path: formatKeyPath(place.path) };
  };
  return { ...list, value: { cases: list.value }, locate };
}

/** JSON Lines as a list; the place of every part is its line. */
function linesDocument(source: SourceText): ConfigDocument {
  const offsets: number[] = [];
  const value: unknown[] = [];
  let offset = 0;
  for (const line of source.text.split("\n")) {
    if (line.trim() !== "") {
      try {
        value.push(parseJson(line));
      } catch (error) {
        const { line: number } = source.location(offset);
        throw new McpvalsError("config/syntax", `${source.file}:${number} is not JSON: ${messageOf(error)}`);
      }
      offsets.push(offset);
    }
    offset += line.length + 1;
  }
  return { value, source, locate: ({ path: [index] }) => source.location(offsets[Number(index)] ?? 0) };
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

/** Writes a calibration into a file, replacing an earlier one of the same judge. */
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
