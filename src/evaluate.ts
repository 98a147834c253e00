import { McpvalsError } from "./core/errors/error.ts";
import type { Config } from "./core/formats/config/config-schema.ts";
import { suggestion } from "./core/formats/did-you-mean.ts";
import { parseDuration } from "./core/formats/duration.ts";
import { withoutUndefined } from "./core/formats/json.ts";
import type { RunResult } from "./core/report/result.ts";
import { load } from "./load/load.ts";
import { prepare } from "./run/prepare.ts";
import { run } from "./run/run.ts";

/**
 * Evaluates MCP servers as a config says, and prints nothing.
 *
 * @param sources A config; or the path of a file, folder or glob, or a list of paths: one config, one Eval, or tasks.
 * @returns The result document. Failures, errors and interruption are in it, not thrown.
 * @throws McpvalsError of kind `usage` for a config or option that is wrong; its `details.diagnostics` has every problem.
 */
export async function evaluate(
  sources: string | readonly string[] | Config,
  options: EvaluateOptions = {},
): Promise<RunResult> {
  checkSources(sources);
  checkEvaluateOptions(options);
  const { cwd = process.cwd(), env = {}, agents = [], llm, judge, mcpConfig, allowOutside = false } = options;
  const { strict = false, bail = false, frozen = false, releasesUrl, output, signal } = options;
  const loaded = await load({
    sources: typeof sources === "string" ? [sources] : sources,
    cwd,
    env,
    agents,
    judge: llm === true ? true : undefined,
    judgeModel: judge,
    mcpConfig,
    allowOutside,
  });
  const { result, failures } = await run(prepare(loaded, options), {
    cwd,
    strict,
    allowOutside,
    bail,
    frozen,
    ...withoutUndefined({ releasesUrl, output, signal }),
  });
  const [failure] = failures;
  if (failure !== undefined) throw failure.error;
  return result;
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
export interface EvaluateOptions {
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
  /** Attempts of each task. */
  readonly trials?: number;
  /** Trials at once. */
  readonly concurrency?: number;
  /** Let a language model judge workflows too. */
  readonly llm?: boolean;
  /** Model of the judge; overrides the files. */
  readonly judge?: string;
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
  /** Stop after the first trial that does not pass. */
  readonly bail?: boolean;
  /** Folder that keeps the runs, or false to keep nothing. Default: `.mcpvals/runs` below `cwd`. */
  readonly output?: string | false;
  /** Aborting stops the run after cleanup; the verdict of the result is then `interrupted`. */
  readonly signal?: AbortSignal;
}

type Check = readonly [isRight: (value: unknown) => boolean, expected: string];

const isText = (value: unknown): boolean => typeof value === "string";
const isBoolean = (value: unknown): boolean => typeof value === "boolean";
const isTexts = (value: unknown): boolean => Array.isArray(value) && value.every(isText);
const isLabels = (value: unknown): boolean =>
  Array.isArray(value) && value.every((each) => typeof each === "string" && each.indexOf("=") > 0);
const wholeNumber = (most: number): Check => [
  (value) => Number.isInteger(value) && Number(value) >= 1 && Number(value) <= most,
  `a whole number from 1 to ${most}`,
];

const checks: { readonly [K in keyof Required<EvaluateOptions>]: Check } = {
  cwd: [isText, "the path of a folder"],
  agents: [isTexts, "a list of names"],
  tasks: [isTexts, "a list of names or globs"],
  tags: [isTexts, "a list of tags"],
  labels: [isLabels, "a list of texts KEY=VALUE"],
  difficulties: [isTexts, "a list of difficulties"],
  variants: [isTexts, "a list of names"],
  trials: wholeNumber(10_000),
  concurrency: wholeNumber(1024),
  llm: [isBoolean, "true or false"],
  judge: [isText, "the id of a model"],
  mcpConfig: [isText, "the path of a file"],
  allowOutside: [isBoolean, "true or false"],
  strict: [isBoolean, "true or false"],
  frozen: [isBoolean, "true or false"],
  releasesUrl: [isText, "the URL of an API that lists releases"],
  env: [
    (value) => typeof value === "object" && value !== null && Object.values(value).every(isText),
    "an object of texts",
  ],
  timeoutMs: [
    (value) => typeof value === "number" && parseDuration(value) !== undefined,
    "a number of milliseconds above zero",
  ],
  bail: [isBoolean, "true or false"],
  output: [(value) => value === false || isText(value), "the path of a folder, or false"],
  signal: [(value) => value instanceof AbortSignal, "an AbortSignal"],
};

/** Checks options of callers without TypeScript. Throws `usage/invalid-option`. */
function checkEvaluateOptions(options: EvaluateOptions): void {
  const known: Readonly<Record<string, Check>> = checks;
  for (const [name, value] of Object.entries(options)) {
    const check = Object.hasOwn(known, name) ? known[name] : undefined;
    if (check === undefined) {
      throw new McpvalsError("usage/invalid-option", `evaluate has no option "${name}"`, {
        hint: suggestion(name, Object.keys(known), "options"),
      });
    }
    const [isRight, expected] = check;
    if (value !== undefined && !isRight(value)) {
      throw new McpvalsError("usage/invalid-option", `the option ${name} of evaluate must be ${expected}`);
    }
  }
}
