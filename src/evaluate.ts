import { McpvalsError } from "./base/error.ts";
import type { Config } from "./formats/config/config-schema.ts";
import { withoutUndefined } from "./base/json.ts";
import type { LoadedConfig } from "./formats/assemble-eval.ts";
import { load } from "./formats/load.ts";
import { prepare } from "./run/prepare.ts";
import { type RecordingFlags, recordingOf, run, type RunOptions, type RunOutcome } from "./run/run.ts";
import { suggestion } from "./base/did-you-mean.ts";
import { parseDuration } from "./base/duration.ts";
import { type Budget, budgetModel } from "./model/eval.ts";
import type { Plan } from "./model/plan.ts";
import type { RunResult } from "./model/result.ts";
import type { TraceEvent } from "./model/event.ts";
import { readTrace, type ToolCall } from "./trace/trajectory.ts";
import { consoleReporter } from "./report/console.ts";

/** The evidence of a trial's verdict. */
export interface TrialEvidence {
  /** The cited tool calls, of a trial that did not pass also the first and last ones, with their arguments and results. */
  readonly calls: readonly ToolCall[];
  /** The recorded events that its grades cite, with those that belong to them. */
  readonly events: readonly TraceEvent[];
}

/** The result document of a run, with its plan and evidence. */
export interface Evaluation extends RunResult {
  /** The run folder; absent when nothing was written. */
  readonly folder?: string;
  readonly plan: Plan;
  /**
   * By trial id: of the first hundred trials that passed and the first hundred that did not. Long texts are cut off where all
   * evidence together would be too large; the run folder has everything.
   */
  readonly evidence: Readonly<Record<string, TrialEvidence>>;
}

/** The evaluation that a run gives. Throws the first error of writing it down. */
export function evaluationOf({ result, plan, evidence, folder, failures }: RunOutcome): Evaluation {
  const [failure] = failures;
  if (failure !== undefined) throw failure.error;
  return {
    ...result,
    ...withoutUndefined({ folder }),
    plan,
    evidence: Object.fromEntries(
      [...evidence].map(([id, events]) => [id, { calls: readTrace(events).calls, events }]),
    ),
  };
}

/** The report of a run as `mcpvals` prints it: each trial, findings, failures with their evidence, the verdict. */
export function formatReport(
  evaluation: Evaluation,
  { colors = false, columns = 80 }: { readonly colors?: boolean; readonly columns?: number } = {},
): string {
  const { plan, evidence, folder, ...result } = evaluation;
  const { id, startedAt, environment } = result;
  const written: string[] = [];
  const reporter = consoleReporter({
    write: (text) => void written.push(text),
    isTerminal: false,
    colors,
    columns: () => columns,
    now: Date.now,
    every: () => () => undefined,
  });
  const events = Object.entries(evidence).map(([trial, kept]) => [trial, kept.events] as const);
  void reporter.onRunStart?.({ id, plan, startedAt, environment, ...withoutUndefined({ folder }) });
  for (const trial of result.trials) void reporter.onTrialEnd?.(trial);
  void reporter.onRunEnd?.({ result, evidence: new Map(events) });
  return written.join("");
}

/** Whether the value of an option is right, and what it must be otherwise. */
export type OptionCheck = readonly [isRight: (value: unknown) => boolean, expected: string];

/** The check of each option of a function of the library. */
export type OptionChecks<Options> = { readonly [K in keyof Required<Options>]: OptionCheck };

export const isText = (value: unknown): value is string => typeof value === "string";
export const isTexts = (value: unknown): boolean => Array.isArray(value) && value.every(isText);

export const yesOrNo: OptionCheck = [(value) => typeof value === "boolean", "true or false"];

export const milliseconds: OptionCheck = [
  (value) => typeof value === "number" && parseDuration(value) !== undefined,
  "a number of milliseconds above zero",
];

/** Options that several functions have. */
export const commonChecks = {
  cwd: [isText, "the path of a folder"],
  env: [
    (value: unknown) => typeof value === "object" && value !== null && Object.values(value).every(isText),
    "an object of texts",
  ],
  output: [(value: unknown) => value === false || isText(value), "the path of a folder, or false"],
  signal: [(value: unknown) => value instanceof AbortSignal, "an AbortSignal"],
} as const satisfies Readonly<Record<string, OptionCheck>>;

/** Checks the options of a function, for callers without TypeScript. Throws `usage/invalid-option`. */
export function checkOptions<Options extends object>(
  caller: string,
  options: Options,
  checks: OptionChecks<Options>,
): void {
  const known: Readonly<Record<string, OptionCheck>> = checks;
  for (const [name, value] of Object.entries(options)) {
    const check = Object.hasOwn(known, name) ? known[name] : undefined;
    if (check === undefined) {
      throw new McpvalsError("usage/invalid-option", `${caller} has no option "${name}"`, {
        hint: suggestion(name, Object.keys(known), "options"),
      });
    }
    const [isRight, expected] = check;
    if (value !== undefined && !isRight(value)) {
      throw new McpvalsError("usage/invalid-option", `the option ${name} of ${caller} must be ${expected}`);
    }
  }
}

/**
 * Evaluates MCP servers as a config says, and prints nothing.
 *
 * @param sources A config; or the path of a file, folder or glob, or a list of paths: one config, one Eval, or tasks.
 * @returns The result document, with its evidence and the run folder. Failures, errors and interruption are in it, not thrown.
 * @throws McpvalsError of kind `usage` for a config or option that is wrong; its `details.diagnostics` has every problem.
 */
export async function evaluate(
  sources: string | readonly string[] | Config,
  options: EvaluateOptions = {},
): Promise<Evaluation> {
  const { loaded, runOptions } = await prepareEvaluation(sources, options);
  return evaluationOf(await run(loaded, runOptions));
}

/** What `evaluate` runs, and how. */
export interface PreparedEvaluation {
  readonly loaded: LoadedConfig;
  readonly runOptions: RunOptions;
}

/** Checks the arguments of `evaluate`, and loads what they name. Throws as `evaluate`. */
export async function prepareEvaluation(
  sources: string | readonly string[] | Config,
  options: EvaluateOptions,
): Promise<PreparedEvaluation> {
  checkSources(sources);
  checkOptions("evaluate", options, optionChecks);
  const {
    cwd = process.cwd(),
    env = {},
    agents = [],
    llm,
    judge,
    userModel,
    mcpConfig,
    allowOutside = false,
  } = options;
  const { strict = false, bail, frozen = false, releasesUrl, output, signal, prices } = options;
  const loaded = await load({
    sources: typeof sources === "string" ? [sources] : sources,
    cwd,
    env,
    agents,
    judge: llm === true ? true : undefined,
    judgeModel: judge,
    userModel,
    mcpConfig,
    prices,
    allowOutside,
    isReplayed: options.replay !== undefined,
  });
  const recording = recordingOf(options);
  const attack = options.attack === false ? undefined : options.attack;
  if (attack !== undefined && recording !== undefined)
    throw new McpvalsError(
      "usage/invalid-option",
      "the option attack of evaluate cannot be used with a recording",
      {
        hint: "Leave out record, replay, replayServers and replayModels.",
      },
    );
  const attacks = attack && (await (await import("./formats/attacks.ts")).readAttacks(attack, cwd));
  const prepared = prepare(loaded, { ...options, attacks });
  const { budget } = prepared.eval;
  const given = withoutUndefined({ bail, releasesUrl, output, signal, recording, budget });
  return {
    loaded: prepared,
    runOptions: { cwd, strict, allowOutside, frozen, keepPassed: true, ...given },
  };
}

/** Otherwise a config that is undefined by mistake would load the nearest config file. */
function checkSources(sources: unknown): void {
  const isList = Array.isArray(sources);
  if (isList && (sources.length === 0 || !sources.every(isText)))
    throw new McpvalsError("usage/invalid-option", "evaluate takes a list of one or more paths");
  if (isText(sources) || typeof sources === "object") return;
  const message = `evaluate takes a config or the path of one, not a value of type ${typeof sources}`;
  throw new McpvalsError("usage/invalid-option", message);
}

/** Options of `evaluate`, the same as the flags of `mcpvals run`. */
export interface EvaluateOptions extends RecordingFlags {
  /** Folder that relative paths start from. Default: the process's working folder. */
  readonly cwd?: string;
  /** Agents of the config, model ids, `oracle` or `null`; replaces the selection of the config. */
  readonly agents?: readonly string[];
  /** Names or globs of the tasks to run. */
  readonly tasks?: readonly string[];
  /** Tags; a task must have at least one of them. */
  readonly tags?: readonly string[];
  /** Labels as `KEY=VALUE`; for each key, a task must have one of the values. */
  readonly labels?: readonly string[];
  /** Difficulties; a task must have one of them. */
  readonly difficulties?: readonly string[];
  /** Names of variants of the servers to run. */
  readonly variants?: readonly string[];
  /** Attacks on the agents, through what servers return: true for all that are built in, or names and files as for `--attack`. Default: none. */
  readonly attack?: boolean | readonly string[];
  /** Attempts of each task. */
  readonly trials?: number;
  /** Trials at once. Default: as for `concurrency` in a config. */
  readonly concurrency?: number;
  /** Let a language model judge workflows too. */
  readonly llm?: boolean;
  /** Model of the judge; overrides the files. */
  readonly judge?: string;
  /** Model that plays simulated users; overrides the files. */
  readonly userModel?: string;
  /** File with `mcpServers`, for tasks and Evals. */
  readonly mcpConfig?: string;
  /** Allow paths of tasks outside their folders. */
  readonly allowOutside?: boolean;
  /** Report tasks with unmet requirements as errors instead of skipping them. */
  readonly strict?: boolean;
  /** Use only extensions in the lock, and do not change it. */
  readonly frozen?: boolean;
  /** Base URL of the API that lists releases of extensions. Default: from the eval, else GitHub. */
  readonly releasesUrl?: string;
  /** Variables for the config; they override those of the process. */
  readonly env?: Readonly<Record<string, string>>;
  /** Time limit of a trial, in milliseconds. */
  readonly timeoutMs?: number;
  /** Lowest values with which the run passes, of measurements the highest, by name; they override those of the config. */
  readonly thresholds?: Readonly<Record<string, number>>;
  /** What the run may use; its members override those of the config. When it is used up, no further trial begins. */
  readonly budget?: Budget;
  /** File with what models cost; overrides the one that the config names. */
  readonly prices?: string;
  /** Stop after the first trial that does not pass. */
  readonly bail?: boolean;
  /** Folder that keeps the runs, or false to keep nothing. Default: `.mcpvals/runs` below `cwd`. */
  readonly output?: string | false;
  /** Aborting stops the run after cleanup; the verdict of the result is then `interrupted`. */
  readonly signal?: AbortSignal;
}

const isLabels = (value: unknown): boolean =>
  Array.isArray(value) && value.every((each) => typeof each === "string" && each.indexOf("=") > 0);
const wholeNumber = (most: number): OptionCheck => [
  (value) => Number.isInteger(value) && Number(value) >= 1 && Number(value) <= most,
  `a whole number from 1 to ${most}`,
];

const isThresholds = (value: unknown): boolean =>
  typeof value === "object" &&
  value !== null &&
  Object.values(value).every((each) => typeof each === "number" && each >= 0 && each < Infinity);

const optionChecks: OptionChecks<EvaluateOptions> = {
  ...commonChecks,
  agents: [isTexts, "a list of names"],
  tasks: [isTexts, "a list of names or globs"],
  tags: [isTexts, "a list of tags"],
  labels: [isLabels, "a list of texts KEY=VALUE"],
  difficulties: [isTexts, "a list of difficulties"],
  variants: [isTexts, "a list of names"],
  attack: [
    (value) => typeof value === "boolean" || (isTexts(value) && (value as readonly string[]).length > 0),
    "true or false, or a list of names of attacks and files",
  ],
  trials: wholeNumber(10_000),
  concurrency: wholeNumber(1024),
  llm: yesOrNo,
  judge: [isText, "the id of a model"],
  userModel: [isText, "the id of a model"],
  mcpConfig: [isText, "the path of a file"],
  allowOutside: yesOrNo,
  strict: yesOrNo,
  frozen: yesOrNo,
  releasesUrl: [isText, "the URL of an API that lists releases"],
  timeoutMs: milliseconds,
  thresholds: [isThresholds, "an object of numbers from 0"],
  budget: [
    (value) => budgetModel.safeParse(value).success,
    "an object with cost, tokens, calls or timeMs, each a number above 0",
  ],
  prices: [isText, "the path of a file"],
  bail: yesOrNo,
  record: [isText, "the path of a folder"],
  replay: [isText, "the path of a folder"],
  replayServers: [isText, "the path of a folder"],
  replayModels: [isText, "the path of a folder"],
};
