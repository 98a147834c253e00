import picomatch from "picomatch";
import type { LoadedConfig } from "../formats/assemble-eval.ts";
import { type Diagnostic, McpvalsError, type SourceLocation } from "../base/error.ts";
import { suggestion } from "../base/did-you-mean.ts";
import { settingLocation, workspaceTypes } from "../graders/declared.ts";
import { withoutUndefined } from "../base/json.ts";
import type { Budget, Eval, Thresholds, UntilDecided } from "../model/eval.ts";
import { type GraderSpec, type Requirement, simulatedUserOf, type Task } from "../model/task.ts";
import type { AgentSpec, ModelSpec } from "../model/agent.ts";
import { usesJudge } from "../model/step.ts";
import { canBeJudged } from "../graders/judge/llm-judge.ts";
import { graderKinds } from "../graders/kinds.ts";
import { decidableThresholds } from "../report/decisions.ts";
import { decidesFailures } from "../report/gates.ts";
import { canBeMissed, thresholdProblem } from "../graders/thresholds.ts";
import type { Attack } from "../model/server.ts";
import { applyOverrides } from "../model/plan.ts";
import { FileProblems } from "../formats/read/document.ts";
import { presetNamed } from "../agents/programs/presets.ts";
import { checkModel, locateModel } from "../agents/models/resolve-model.ts";
import { findProgram, runningPlatform } from "../process/environment.ts";
import type { ValidateSchema } from "../expect/tool-result.ts";
import type { PrepareOptions } from "../extensions/prepare-extensions.ts";
import type { PreparedExtensions } from "../extensions/host/extension-process.ts";
import type { PrepareContext } from "../graders/grader.ts";
import { judgesOfGraders } from "./grade-trial.ts";

/** Filters of tasks and variants. One entry of each list has to fit; of labels, one for each key. Empty or absent: any. */
export interface Filters {
  /** Names or globs. */
  readonly tasks?: readonly string[] | undefined;
  readonly tags?: readonly string[] | undefined;
  /** `KEY=VALUE`. */
  readonly labels?: readonly string[] | undefined;
  readonly difficulties?: readonly string[] | undefined;
  /** Whole names. Unknown ones are allowed. */
  readonly names?: ReadonlySet<string> | undefined;
  /** Names. */
  readonly variants?: readonly string[] | undefined;
}

/** What a caller may change about a loaded config; undefined leaves it as it is. */
export interface Selection extends Filters {
  readonly trials?: number | undefined;
  readonly concurrency?: number | undefined;
  readonly timeoutMs?: number | undefined;
  /** To go on until it is decided. */
  readonly until?: UntilDecided | undefined;
  /** Override those of the eval. */
  readonly thresholds?: Thresholds | undefined;
  /** Its members override those of the eval; null: there is none. */
  readonly budget?: Budget | null | undefined;
  /** Absent: nothing is attacked. */
  readonly attacks?: readonly Attack[] | undefined;
}

/** Applies a selection to a loaded config. Throws `usage/no-match` when a filter or the name of a threshold matches nothing. */
export function prepare(loaded: LoadedConfig, selection: Selection): LoadedConfig {
  const { trials, concurrency, timeoutMs, until } = selection;
  const variants = variantFilter(selection.variants, loaded.eval.variants);
  const selects = taskFilter(selection, loaded.eval.tasks);
  const { tasks, thresholds: declared } = loaded.eval;
  const thresholds = thresholdsOf(
    selection.thresholds,
    declared,
    tasks.filter((task) => selects?.(task) !== false),
  );
  const overrides = withoutUndefined({
    trials,
    until,
    concurrency,
    timeoutMs,
    selects,
    variants,
    thresholds,
    budget: selection.budget,
    attacks: selection.attacks,
  });
  if (selection.attacks !== undefined) requireAgents(loaded.eval, selects);
  const filter = filterText(selection);
  const spec = applyOverrides(loaded.eval, overrides);
  if (until !== undefined) requireQuestion(spec);
  return { ...loaded, eval: filter === "" ? spec : { ...spec, filter } };
}

/** Refuses attacks where no agent acts. Throws `usage/no-match`. */
function requireAgents({ tasks }: Eval, selects: (task: Task) => boolean = () => true): void {
  const selected = tasks.filter(selects);
  if (selected.length === 0 || selected.some(({ turns }) => turns.length > 0)) return;
  throw new McpvalsError("usage/no-match", "--attack: there is no agent to attack, only tests of tools", {
    hint: "Attacks are for workflows and for tasks with a prompt, which an agent plays. `npx mcpvals check --security` looks at a server.",
  });
}

/** Refuses to go on until it is decided where nothing is to be decided. Throws `usage/invalid-option`. */
function requireQuestion({ variants = [], tasks, agents, thresholds = {} }: Eval): void {
  const acting = tasks.some(({ turns }) => turns.length > 0) ? agents.length : 0;
  if (variants.length > 1 || acting > 1 || decidableThresholds(thresholds).length > 0) return;
  throw new McpvalsError("usage/invalid-option", "--until decided: there is nothing to decide", {
    hint: "Run two variants or two agents, to find out which is better, or give a threshold: --threshold passRate=0.8.",
  });
}

/** The filters as flags. Runs with the same text have the same tasks. */
function filterText({ tasks = [], tags = [], labels = [], difficulties = [], names }: Filters): string {
  const flags = { task: [...tasks, ...(names ?? [])], tag: tags, label: labels, difficulty: difficulties };
  return Object.entries(flags)
    .flatMap(([name, values]) => values.map((value) => `--${name} ${value}`))
    .join(" ");
}

/**
 * Refuses graders that need a workspace in workflows without one: only tasks from files, workflows with fixtures and agents that are
 * programs have one.
 * Throws one McpvalsError of kind `usage` for all.
 */
export function requireWorkspaces({
  eval: { tasks, agents },
  secrets,
}: Pick<LoadedConfig, "eval" | "secrets">): void {
  const lacking = agents.find(({ type }) => type !== "command" && type !== "acp");
  if (lacking === undefined) return;
  const problems = new FileProblems();
  for (const { form, workspace, graders = [] } of tasks) {
    if (form !== "workflow" || workspace !== undefined) continue;
    for (const { name, type, location } of graders) {
      if (!workspaceTypes.has(type)) continue;
      const message = `the grader ${JSON.stringify(name)} needs a workspace, which a workflow of the agent ${JSON.stringify(lacking.name)} does not have`;
      const hint =
        "Give the workflow fixtures, make it a task in a file of its own, or use an agent of type command or acp.";
      problems.add([withoutUndefined({ code: "config/invalid-value" as const, message, hint, location })]);
    }
  }
  problems.throwIfAny(secrets);
}

/**
 * The thresholds for the selected tasks, without those of graders that only other tasks have. Undefined without any. Throws
 * McpvalsError of kind `usage` for a wanted one that nothing can be compared with, and for thresholds with which the run could not
 * fail.
 */
function thresholdsOf(
  wanted: Thresholds | undefined,
  declared: Thresholds | undefined,
  tasks: readonly Task[],
): Thresholds | undefined {
  for (const [name, threshold] of Object.entries(wanted ?? {})) {
    const wrong = thresholdProblem(name, threshold, tasks);
    if (wrong === undefined) continue;
    const { kind, message, hint } = wrong;
    throw new McpvalsError(kind === "unknown" ? "usage/no-match" : "usage/invalid-option", message, { hint });
  }
  if (declared === undefined && wanted === undefined) return undefined;
  const known = Object.entries(declared ?? {}).filter(
    ([name, threshold]) => thresholdProblem(name, threshold, tasks) === undefined,
  );
  const thresholds: Thresholds = { ...Object.fromEntries(known), ...wanted };
  const names = Object.entries(thresholds);
  const deciding = names.find(([name]) => decidesFailures(name))?.[0];
  if (deciding !== undefined && !names.some(([name, value]) => canBeMissed(name, value, tasks)))
    throw new McpvalsError(
      "config/checks-nothing",
      `with the threshold ${deciding} 0 this run could not fail`,
      {
        hint: "It leaves the decision to the other thresholds: give one that can be missed, such as score: 0.8.",
      },
    );
  return thresholds;
}

/** Undefined when no name was given. Throws `usage/no-match` for an unknown name. */
function variantFilter(
  wanted: Filters["variants"] = [],
  variants: Eval["variants"] = [],
): readonly string[] | undefined {
  const known = variants.map(({ name }) => name);
  const unknown = wanted.find((name) => !known.includes(name));
  if (unknown === undefined) return wanted.length === 0 ? undefined : wanted;
  throw noMatch(`no variant is named "${unknown}"`, [unknown, known, "variants"]);
}

function noMatch(message: string, meant: Parameters<typeof suggestion>): McpvalsError {
  return new McpvalsError("usage/no-match", message, { hint: suggestion(...meant) });
}

type Matches = (task: Task) => boolean;

/**
 * Makes the filter of `--task`, `--tag`, `--label` and `--difficulty`; undefined without any. Throws `usage/no-match` for a value that
 * no task has, and when no task fits all of them.
 */
export function taskFilter(filters: Filters, tasks: readonly Task[]): Matches | undefined {
  const { tasks: patterns = [], tags = [], labels = [], difficulties = [], names } = filters;
  const all: Matches[] = [];
  if (patterns.length > 0) all.push(taskSelector(patterns, tasks));
  if (tags.length > 0) all.push(valueSelector("tag", tags, tasks));
  // Labels of one key are alternatives, those of different keys must all fit.
  const byKey = Map.groupBy(labels, (label) => label.slice(0, label.indexOf("=")));
  for (const values of byKey.values()) all.push(valueSelector("label", values, tasks));
  if (difficulties.length > 0) all.push(valueSelector("difficulty", difficulties, tasks));
  if (names !== undefined) all.push(({ name }) => names.has(name));
  if (all.length === 0) return undefined;
  const matches: Matches = (task) => all.every((each) => each(task));
  if (!tasks.some(matches)) {
    throw new McpvalsError("usage/no-match", "no task matches all filters", {
      hint: "Leave out one of --task, --tag, --label and --difficulty; mcpvals list shows what tasks have.",
    });
  }
  return matches;
}

/**
 * Makes the filter of `--task`: a task is kept when its name is one of the patterns, or matches one as a glob, where `*`
 * does not reach across the `/` between a suite and its tests (other slashes in names are letters to it) and a pattern
 * without `/` also names a whole suite or a test's own title. Throws `usage/no-match` for a pattern that matches no task.
 */
export function taskSelector(patterns: readonly string[], tasks: readonly Task[]): Matches {
  const matchers = patterns.map((pattern): Matches => {
    // The same on every system: a backslash is never a separator.
    const options = { dot: true, nonegate: true, windows: false };
    const isMatch = pattern === "" ? () => false : picomatch(pattern, options);
    const matches: Matches = (task) => namesOf(task).some((name) => name === pattern || isMatch(name));
    if (tasks.some(matches)) return matches;
    const names = tasks.map((task) => task.name);
    throw noMatch(`no task matches "${pattern}"`, [pattern, names, "tasks"]);
  });
  return (task) => matchers.some((matches) => matches(task));
}

/** A name without slashes, so that a glob reads it as one part of a path. */
function plain(name: string): string {
  return name.replaceAll("/", "\u2215");
}

function namesOf({ name, suite }: Task): readonly string[] {
  if (suite === undefined) return [name, plain(name)];
  const title = name.slice(suite.length + 1);
  return [name, suite, title, plain(suite), plain(title), `${plain(suite)}/${plain(title)}`];
}

/** The values that filters compare, with their plurals for hints. */
const values = {
  tag: { plural: "tags", of: ({ portable }: Task) => portable?.tags ?? [] },
  label: {
    plural: "labels",
    of: ({ portable }: Task) =>
      Object.entries(portable?.labels ?? {}).map(([key, value]) => `${key}=${value}`),
  },
  difficulty: { plural: "difficulties", of: ({ portable }: Task) => portable?.difficulty ?? [] },
};

function valueSelector(
  what: keyof typeof values,
  wanted: readonly string[],
  tasks: readonly Task[],
): Matches {
  const { plural, of } = values[what];
  const valuesOf = (task: Task): readonly string[] => [of(task)].flat();
  const known = new Set(tasks.flatMap(valuesOf));
  const unknown = wanted.find((value) => !known.has(value));
  if (unknown === undefined) return (task) => valuesOf(task).some((value) => wanted.includes(value));
  throw noMatch(`no task has the ${what} "${unknown}"`, [unknown, [...known], plural]);
}

/** What the requirements of tasks are checked against. */
export interface Provided {
  readonly eval: Eval;
  readonly env: Readonly<Record<string, string>>;
}

/** A task with a set of servers; without a variant, those of the eval. */
export interface TaskInVariant {
  readonly task: string;
  readonly variant: string | undefined;
}

/** Gives the requirements of a task that are not met, as phrases. */
export type MissingRequirements = (of: TaskInVariant) => readonly string[];

/** Checks the requirements of all tasks, in each of the eval's variants. */
export async function missingRequirements(
  provided: Provided,
  tasks: readonly Task[],
): Promise<MissingRequirements> {
  const missing = new Map<string, readonly string[]>();
  for (const task of tasks) {
    for (const variant of provided.eval.variants?.map(({ name }) => name) ?? [undefined]) {
      const requires = task.portable?.requires ?? [];
      const problems = requires.map((requirement) => problemOf(requirement, provided, task, variant));
      const found = (await Promise.all(problems)).filter((problem) => problem !== undefined);
      missing.set(keyOf({ task: task.name, variant }), [...new Set(found)]);
    }
  }
  return (of) => missing.get(keyOf(of)) ?? [];
}

function keyOf({ task, variant }: TaskInVariant): string {
  return JSON.stringify([task, variant ?? null]);
}

function listOf(known: object, none: string): string {
  const names = Object.keys(known);
  return names.length === 0 ? none : `there are ${names.join(", ")}`;
}

/** Accepted names of platforms, with Node's name for each. */
const platforms: Readonly<Record<string, string>> = {
  linux: "linux",
  macos: "darwin",
  darwin: "darwin",
  windows: "win32",
  win32: "win32",
};

/** A requirement that is not met, as a phrase; undefined: it is met. */
async function problemOf(
  { kind, name = "" }: Requirement & { readonly name?: string },
  { eval: spec, env }: Provided,
  task: Task,
  variant: string | undefined,
): Promise<string | undefined> {
  const quoted = JSON.stringify(name);
  const { dir = "", extensions = {} } = task.portable ?? {};
  switch (kind) {
    case "command": {
      if ((await findProgram(name, { env, cwd: dir })) !== undefined) return undefined;
      const where = /[/\\]/.test(name) ? "is not an executable file" : "is not on PATH";
      return `the command ${quoted}, which ${where}`;
    }
    case "env": {
      const value = Object.hasOwn(env, name) ? env[name] : undefined;
      if (value === undefined) return `the variable ${name}, which is not set`;
      return value === "" ? `the variable ${name}, which is empty` : undefined;
    }
    case "server": {
      const known =
        variant === undefined
          ? { ...spec.servers, ...spec.taskServers?.[task.name] }
          : (spec.variants?.find((each) => each.name === variant)?.servers[task.name] ?? {});
      if (Object.hasOwn(known, name)) return undefined;
      const where =
        variant === undefined ? "is not configured" : `the variant ${JSON.stringify(variant)} does not have`;
      return `the server ${quoted}, which ${where} (${listOf(known, "no servers are configured")})`;
    }
    case "platform": {
      const running = runningPlatform();
      const asked = name.toLowerCase();
      if ((Object.hasOwn(platforms, asked) ? platforms[asked] : asked) === running) return undefined;
      const here = Object.entries(platforms).find(([, platform]) => platform === running)?.[0] ?? running;
      return `the platform ${quoted}, and this is ${here}`;
    }
    case "judge":
      return spec.judge === undefined ? "a judge, and none is configured" : undefined;
    case "extension": {
      if (Object.hasOwn(extensions, name)) return undefined;
      const known = listOf(extensions, "there are none");
      return `the extension ${quoted}, which is not configured (${known})`;
    }
  }
}

/** The parts of a loaded config that concern extensions. */
export type ExtensionsInput = Pick<
  LoadedConfig,
  "eval" | "env" | "overrides" | "dir" | "secrets" | "extensionUses"
>;

/** Options of the extensions of a run. */
export interface ExtensionsOptions {
  /** Absolute path of the working folder. */
  readonly cwd: string;
  /** Whether extensions that the lock does not name are refused, and the lock is left as it is. */
  readonly frozen?: boolean;
  /** Base URL of the API that lists releases; default: from the eval or the environment. */
  readonly releasesUrl?: string;
  /** Called before the first trial with notes about the extensions. */
  readonly onNote?: (note: string) => void;
  /** Called before the first trial when something slow begins. */
  readonly onProgress?: (message: string) => void;
}

/** Prepares the extensions of an eval's tasks. Throws as `prepareExtensions` does. */
export async function extensionsOf(
  loaded: ExtensionsInput,
  { cwd, frozen = false, releasesUrl, onNote, onProgress }: ExtensionsOptions,
  parts: Pick<PrepareOptions, "validateSchema" | "signal">,
): Promise<PreparedExtensions> {
  if (!declaresExtensions(loaded)) return noExtensions;
  const given = { ...parts, cwd, frozen, ...withoutUndefined({ onProgress }) };
  const prepared = await loadExtensions(loaded, given, releasesUrl);
  for (const note of prepared.notes) onNote?.(note);
  return prepared;
}

/**
 * Checks the steps that use extensions, without executing, fetching or writing anything. Returns notes. Throws one McpvalsError of
 * kind `usage` with all problems.
 */
export async function checkExtensions(loaded: ExtensionsInput, cwd: string): Promise<readonly string[]> {
  if (loaded.extensionUses.size === 0 && !declaresExtensions(loaded)) return [];
  const { SchemaValidator } = await import("../graders/schema-validator.ts");
  await using validator = new SchemaValidator();
  const validateSchema: ValidateSchema = (schema, value) => validator.validate(schema, value);
  const { signal } = new AbortController();
  return (await loadExtensions(loaded, { validateSchema, signal, cwd, lookOnly: true })).notes;
}

function declaresExtensions({ eval: { tasks } }: ExtensionsInput): boolean {
  return tasks.some(({ portable }) => Object.keys(portable?.extensions ?? {}).length > 0);
}

const noExtensions: PreparedExtensions = {
  notes: [],
  of(spec) {
    throw new Error(`an extension was not prepared: ${spec.package}`);
  },
};

/** The code is loaded only for runs whose tasks use extensions, since that is slow. */
async function loadExtensions(
  {
    eval: { tasks, extensionSettings: settings },
    env,
    overrides,
    dir,
    secrets,
    extensionUses,
  }: ExtensionsInput,
  options: Omit<PrepareOptions, "tasks" | "uses" | "dir" | "secrets" | "places" | "given">,
  releasesUrl?: string,
): Promise<PreparedExtensions> {
  const { prepareExtensions } = await import("../extensions/prepare-extensions.ts");
  const { extensionPlaces } = await import("../extensions/resolve/resolver.ts");
  const places = extensionPlaces({ options: { releasesUrl }, settings, env });
  return prepareExtensions({
    ...options,
    tasks,
    uses: extensionUses,
    dir,
    secrets,
    places,
    given: overrides,
  });
}

type Loaded = Pick<LoadedConfig, "eval" | "env" | "secrets" | "modelPlaces" | "judgeError">;

/** Whether a verify step of a task asks the judge. */
export function asksInSteps({ tasks }: Pick<Eval, "tasks">): boolean {
  return tasks.some((task) => usesJudge(task.verify));
}

/**
 * Refuses models that cannot be asked: of agents, the judge, graders and simulated users, each at its place. Returns whether a judge may be asked. Throws
 * `judgeError` if graders ask a judge, unless `mayBeNone`.
 */
export async function checkModels(
  { eval: spec, env, judgeError, secrets, modelPlaces }: Loaded,
  options?: { readonly mayBeNone?: boolean },
): Promise<boolean> {
  const hasAgents = spec.tasks.some((task) => task.turns.length > 0);
  const problems = new FileProblems();
  const unpriced = await unpricedModels(spec);
  const check = (model: ModelSpec, place?: SourceLocation): void => {
    try {
      checkModel(model, env);
      unpriced?.(model);
    } catch (error) {
      problems.addError(error, place);
    }
  };
  for (const agent of hasAgents ? spec.agents : []) {
    if (agent.type === "model") check(agent, modelPlaces?.agents.get(agent.name));
    else if (limitsTurns(spec) && !isCounted(agent)) problems.add([uncountedTurns(agent.name)]);
  }
  const hasJudgeSteps = asksInSteps(spec);
  if ((hasAgents || hasJudgeSteps) && spec.judge !== undefined) check(spec.judge, modelPlaces?.judge);
  const asked = judgesOfGraders(spec, judgeError, options);
  for (const { judge, location } of asked) check(judge, location ?? modelPlaces?.judge);
  const played = spec.tasks.filter((task) => simulatedUserOf(task)?.kind === "model");
  if (played.length > 0 && spec.userModel !== undefined) check(spec.userModel, modelPlaces?.userModel);
  else if (options?.mayBeNone !== true) for (const task of played) problems.add([noUserModel(task)]);
  problems.throwIfAny(secrets);
  const isJudged = hasJudgeSteps || (hasAgents && spec.judgesStepsOnly !== true);
  return asked.length > 0 || (spec.judge !== undefined && isJudged);
}

function noUserModel({ name, location }: Task): Diagnostic {
  const message = `no model plays the simulated user of ${JSON.stringify(name)}`;
  const hint = "Set userModel in a config or an Eval, or pass --user-model MODEL.";
  return withoutUndefined({ code: "config/no-user-model" as const, message, hint, location });
}

function limitsTurns({ limits, tasks }: Eval): boolean {
  return [limits, ...tasks.map((task) => task.limits)].some((each) => each?.maxTurns !== undefined);
}

/** Whether somebody counts how often an agent asks its model. */
function isCounted(agent: AgentSpec): boolean {
  if (agent.type !== "acp" && agent.type !== "command") return true;
  if (agent.modelProxy !== undefined) return true;
  return agent.type === "command" && presetNamed(agent.output)?.headless.tellsRequests === true;
}

function uncountedTurns(name: string): Diagnostic {
  const message = `limits.maxTurns cannot be kept: nobody counts how often the agent ${JSON.stringify(name)} asks its model`;
  const hint = "Set modelProxy for it, or limit maxToolCalls or maxTokens instead.";
  return { code: "config/invalid-value", message, hint };
}

/** Gives a function that throws `config/unknown-price` for a model whose cost would not count for a budget; undefined without one of money. */
async function unpricedModels({
  budget,
  prices,
  limits,
  tasks,
}: Pick<Eval, "budget" | "prices" | "limits" | "tasks">): Promise<((model: ModelSpec) => void) | undefined> {
  const isLimited = [limits, ...tasks.map((task) => task.limits)].some((each) => each?.maxCost !== undefined);
  if (budget?.cost === undefined && !isLimited) return undefined;
  const what = budget?.cost === undefined ? "limit" : "budget";
  const { priceOf } = await import("../model/prices.ts");
  return ({ model }) => {
    if (prices !== undefined && priceOf(model, prices) !== undefined) return;
    throw new McpvalsError("config/unknown-price", `there is a ${what} of money, and no price for ${model}`, {
      hint: "Add it to the file of prices: --prices FILE, or `prices` of a config or an Eval.",
    });
  };
}

/** The error of a judge without a key, by the names of the tasks that would ask it. */
export async function judgesWithoutKey({
  eval: spec,
  env,
}: Pick<Loaded, "eval" | "env">): Promise<ReadonlyMap<string, McpvalsError>> {
  const errors = new Map<string, McpvalsError>();
  for (const task of spec.tasks) {
    const isAsked = usesJudge(task.verify) || (spec.judgesStepsOnly !== true && canBeJudged(task));
    const declared = judgesOfGraders({ ...spec, tasks: [task] }, undefined, { mayBeNone: true });
    const ofEval = isAsked && spec.judge !== undefined ? [spec.judge] : [];
    for (const judge of [...ofEval, ...declared.map((each) => each.judge)]) {
      try {
        locateModel(judge, env);
      } catch (error) {
        if (!(error instanceof McpvalsError)) throw error;
        errors.set(task.name, error);
      }
    }
  }
  return errors;
}

/** Maximum number of graders that are tried at once. */
const maxAtOnce = 4;

/**
 * Tries the settings of the graders of all tasks, each once. Throws one McpvalsError of kind `usage` for all that are wrong. Problems of
 * the environment, such as a missing program, are left to the trials.
 */
export async function prepareGraders(
  { eval: spec, env, secrets }: Loaded,
  { validateSchema, signal }: Pick<PrepareContext, "validateSchema"> & { readonly signal: AbortSignal },
): Promise<void> {
  const declared = spec.tasks.flatMap(({ graders = [] }) => graders);
  if (declared.length === 0) return;
  const { environmentOf, runProgram } = await import("../graders/run-program.ts");
  const { readNamedFile } = await import("../graders/workspace-files.ts");
  const context: Omit<PrepareContext, "dir"> = {
    validateSchema,
    runProgram: (program) => runProgram(program, { env, signal }),
    findProgram: ({ command, ...program }) =>
      findProgram(command, { env: environmentOf(program, env), cwd: program.cwd }),
    readFile: readNamedFile,
  };
  const distinct = new Map(declared.map((each) => [JSON.stringify({ ...each, name: "" }), each]));
  const waiting = [...distinct.values()].entries();
  const diagnostics: Diagnostic[][] = [];
  const work = async (): Promise<void> => {
    for (const [index, grader] of waiting) {
      const { dir, config, type } = grader;
      const tried = Object.entries(graderKinds[type]?.prepare?.(config, { ...context, dir }) ?? {});
      const outcomes = await Promise.allSettled(tried.map(([, outcome]) => outcome));
      diagnostics[index] = outcomes.flatMap((outcome, number) => {
        if (outcome.status === "fulfilled") return [];
        const error: unknown = outcome.reason;
        if (!(error instanceof McpvalsError) || error.kind === "interrupted") throw error;
        const isWrong = error.code === "grader/broken" || error.code === "grader/timeout";
        return isWrong ? [diagnosticOf(grader, tried[number]?.[0] ?? "", error)] : [];
      });
    }
  };
  await Promise.all(Array.from({ length: maxAtOnce }, work));
  const problems = new FileProblems();
  // In the order of the files.
  problems.add(diagnostics.flat());
  problems.throwIfAny(secrets);
}

/** `key` is that of the wrong setting. */
function diagnosticOf(grader: GraderSpec, key: string, { code, message, details }: McpvalsError): Diagnostic {
  const isLate = code === "grader/timeout";
  return withoutUndefined({
    code: "config/invalid-value" as const,
    message: `the grader ${JSON.stringify(grader.name)}: ${isLate ? "when it was tried before the run, " : ""}${message}`,
    location: settingLocation(grader, key),
    hint: isLate
      ? "Its code must not wait while it is loaded. If it needs longer, raise the timeout of the grader."
      : details.hint,
  });
}

/** {@link checkModels} and {@link prepareGraders} for files that are only checked. */
export async function checkGraders(loaded: Loaded): Promise<void> {
  await checkModels(loaded, { mayBeNone: true });
  if (loaded.eval.tasks.every(({ graders = [] }) => graders.length === 0)) return;
  const { SchemaValidator } = await import("../graders/schema-validator.ts");
  await using validator = new SchemaValidator();
  const { signal } = new AbortController();
  await prepareGraders(loaded, { validateSchema: validator.validate.bind(validator), signal });
}
