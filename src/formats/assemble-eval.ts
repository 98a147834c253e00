import { homedir } from "node:os";
import { resolve } from "node:path";
import { type Diagnostic, formatLocation, McpvalsError, type SourceLocation } from "../base/error.ts";
import {
  buildAgents,
  checkAgentTemplates,
  chooseAgents,
  type CompleteProgram,
  type DeclaredAgents,
  promptNotes,
} from "../agents/declared-agents.ts";
import { checkPlans } from "./config/parse-config.ts";
import { suggestion } from "../base/did-you-mean.ts";
import {
  type EvalExtensions,
  type ExtensionPlaces,
  packageName,
  type ParsedExtensionTable,
  readExtensionTable,
  settingsOf,
  type ExtensionUse,
} from "../model/extension.ts";
import { settingLocation } from "../graders/declared.ts";
import { asObject, type KeyPath, valueAt, withoutUndefined } from "../base/json.ts";
import { type AgentSpec, modelId, defaultThreshold, defaultJudgeModel } from "../model/agent.ts";
import type { Eval, JudgeSpec } from "../model/eval.ts";
import type { GraderSpec, Task } from "../model/task.ts";
import { type Problem, problem } from "../base/problem.ts";
import { walkSteps } from "../model/step.ts";
import { builtInNames } from "../graders/kinds.ts";
import { thresholdProblem } from "../graders/thresholds.ts";
import type { Secret } from "../trace/redact.ts";
import type { EnvironmentVariables, LoadContext } from "./environment.ts";
import { type ConfigDocument, FileProblems } from "./read/document.ts";
import { collectSecrets, extensionVariables, graderVariables, maskSecrets } from "./secrets.ts";
import type { TasksOfEval } from "./tasks.ts";

/** An eval that is ready to run. */
export interface LoadedConfig {
  readonly eval: Eval;
  /** Absolute path of the file; absent when there is no single one. */
  readonly file?: string;
  /** Absolute paths of the modules of the user's own that the file imports. */
  readonly imports: readonly string[];
  /** The folder that relative paths of the config start from. */
  readonly dir: string;
  /** The environment with `env` on top. */
  readonly env: EnvironmentVariables;
  /** What was given as `env`. */
  readonly overrides: EnvironmentVariables;
  /** Values that must never be written. */
  readonly secrets: readonly Secret[];
  /** Notes on what is valid but may not do what its author expects. */
  readonly notes: readonly string[];
  /** Why the judge that the files name cannot be asked, of kind `usage`: of interest only where a task asks it. */
  readonly judgeError?: McpvalsError;
  /** Where the file names the models of its agents, its judge and its simulated users. */
  readonly modelPlaces?: ModelPlaces;
  /** Steps that need extensions, by the names of their tasks. */
  readonly extensionUses: ReadonlyMap<string, readonly ExtensionUse[]>;
}

/** Places of models. What a variable or the command line names has none. */
export interface ModelPlaces {
  /** By the names of the agents. */
  readonly agents: ReadonlyMap<string, SourceLocation>;
  readonly judge?: SourceLocation;
  readonly userModel?: SourceLocation;
}

/** What the files of an eval say, whatever their format: what a converter gives. */
export interface EvalParts {
  /** The eval without the tasks from files; absent when it could not be built, which is among the problems. */
  readonly spec: (Partial<Eval> & Pick<Eval, "name" | "servers" | "agents">) | undefined;
  /** Absolute path, when one file stands for the eval. */
  readonly file?: string | undefined;
  readonly dir: string;
  /** That file's document. */
  readonly document?: ConfigDocument;
  /** The agents that it declares, and the path of the object with their keys. */
  readonly agents?: DeclaredAgents & { readonly path?: KeyPath };
  readonly tasks: TasksOfEval;
  /** Absolute path of the file of prices that it names. */
  readonly prices?: string | undefined;
  /** What the eval says of extensions; absent: nothing. */
  readonly extensions?: EvalExtensions;
  /** A config with its variables replaced, valid or not: it may hold secrets that the eval does not. */
  readonly config?: unknown;
  /** Variables that were put into files. */
  readonly variables: ReadonlyMap<string, string>;
  /** Problems of the judge; they matter only to a run that asks it. */
  readonly judgeProblems?: readonly Problem[];
  readonly notes: readonly string[];
  readonly problems: FileProblems;
}

/** The tasks from files of an eval that has none. */
export const noTasks: TasksOfEval = {
  tasks: [],
  taskServers: {},
  variants: {},
  notes: [],
  variables: [],
  servers: [],
  extensionUses: new Map(),
};

/** Limits of an eval that sets none, in milliseconds. */
export const defaultLimits: Eval["limits"] = { trialMs: 300_000, callMs: 30_000, modelMs: 120_000 };

/**
 * Adds the tasks from files to an eval, applies the rules between its parts, and collects its secrets and notes. Throws one
 * McpvalsError of kind `usage` for all problems of all files.
 */
export function assembleEval(parts: EvalParts, loadContext: LoadContext): LoadedConfig {
  const { environment, overrides } = loadContext;
  const { file, dir, document, tasks, extensions, problems } = parts;
  const spec = parts.spec === undefined ? undefined : withTasks(parts.spec, parts);
  const ruleNotes = spec === undefined ? [] : checkEval(spec, parts, loadContext);
  const declared = Object.values(extensions?.declared ?? {});
  const secrets = collectSecrets({
    document: parts.config,
    variables: parts.variables,
    serverEnvironments: [
      ...tasks.variables,
      ...declared.flatMap(extensionVariables),
      ...(spec?.tasks ?? []).map((task) => graderVariables(task, { ...environment, ...overrides })),
    ],
    overrides,
    environment,
    servers: [...serversOf(spec), ...tasks.servers],
    judge: spec?.judge,
    userModel: spec?.userModel,
    agents: spec?.agents ?? [],
  });
  problems.throwIfAny(secrets);
  if (spec === undefined) throw new Error("an eval was refused without a problem");
  const ofJudge = new FileProblems();
  if (document !== undefined) ofJudge.addPlaced(parts.judgeProblems ?? [], document);
  const values = secrets.map(({ value }) => value);
  const masked = ({ frame, ...use }: ExtensionUse): ExtensionUse =>
    frame === undefined ? use : { ...use, frame: maskSecrets(frame, values) };
  return withoutUndefined({
    eval: spec,
    file,
    imports: document?.imports ?? [],
    dir,
    env: { ...environment, ...overrides },
    overrides,
    secrets,
    notes: [
      ...parts.notes,
      ...ruleNotes,
      ...tasks.notes,
      ...(extensions === undefined ? [] : unusedExtensionNotes(extensions, tasks.tasks)),
    ],
    judgeError: ofJudge.asError(secrets),
    modelPlaces: modelPlaces(spec, parts),
    extensionUses: new Map([...tasks.extensionUses].map(([task, uses]) => [task, uses.map(masked)])),
  });
}

/** Undefined without a file. */
function modelPlaces(
  { agents, judge, userModel }: Pick<Eval, "agents" | "judge" | "userModel">,
  { document, agents: { path = [] } = {} }: Pick<EvalParts, "document" | "agents">,
): ModelPlaces | undefined {
  if (document === undefined) return undefined;
  const placeOf = (model: string, paths: readonly KeyPath[]): SourceLocation | undefined => {
    const found = paths.find((each) => valueAt(document.value, each) === model);
    return found && document.locate({ path: found, at: "value" });
  };
  const ofAgents = agents.flatMap((agent) => {
    if (agent.type !== "model") return [];
    const keys = [["agents", agent.name, "model"], ["agents", agent.name], ["agent", "model"], ["agent"]];
    const place = placeOf(
      agent.model,
      keys.map((each) => [...path, ...each]),
    );
    return place === undefined ? [] : [[agent.name, place] as const];
  });
  const keysOfJudge = [["judge", "model"], ["judgeModel"], ["config", "judge_model"]];
  return withoutUndefined({
    agents: new Map(ofAgents),
    judge: judge && placeOf(judge.model, keysOfJudge),
    userModel:
      userModel &&
      placeOf(
        userModel.model,
        [["userModel"], ["userModel", "model"]].map((each) => [...path, ...each]),
      ),
  });
}

/** The eval with its tasks and its defaults. */
function withTasks(spec: NonNullable<EvalParts["spec"]>, { tasks, extensions }: EvalParts): Eval {
  return withoutUndefined({
    trials: 1,
    limits: defaultLimits,
    reporters: ["console"],
    ...withoutUndefined(spec),
    tasks: [...(spec.tasks ?? []), ...tasks.tasks],
    taskServers: tasks.tasks.length === 0 ? undefined : tasks.taskServers,
    variants: spec.variants?.map(({ name, servers }) => {
      return { name, servers: { ...servers, ...tasks.variants[name] } };
    }),
    extensionSettings: settingsOf(extensions),
  });
}

/** Checks the rules between all tasks and servers; adds to the problems of the parts, and gives notes. */
function checkEval(
  spec: Eval,
  { document, agents = {}, problems, tasks }: EvalParts,
  { sessions }: Pick<LoadContext, "sessions">,
): readonly string[] {
  problems.add([...duplicateTasks(spec.tasks), ...rubricsThatCannotFail(spec)]);
  const { servers, taskServers = {}, variants = [] } = spec;
  const ofVariants = variants.flatMap((variant) => Object.values(variant.servers));
  const tables = [servers, ...Object.values(taskServers), ...ofVariants];
  const names = [...new Set(tables.flatMap((table) => Object.keys(table)))];
  // Which servers there were in a session is not known.
  problems.add(graderProblems(spec.tasks, sessions === undefined ? names : undefined));
  const templates = checkAgentTemplates(agents, { path: agents.path ?? [], servers: names });
  if (document !== undefined) {
    // Plans for tasks that could not be read would look like plans for nothing.
    const plans = tasks.tasks.length === 0 || problems.found ? [] : checkPlans(agents, spec);
    const thresholds = spec.tasks.length === 0 || problems.found ? [] : wrongThresholds(spec, document);
    problems.addPlaced([...plans, ...templates.problems, ...thresholds], document);
  }
  return [...templates.notes, ...promptNotes(spec.agents)];
}

/** Thresholds with which nothing can be compared. */
function wrongThresholds({ thresholds = {}, tasks }: Eval, { value }: ConfigDocument): Problem[] {
  const path = Object.hasOwn(asObject(value), "config") ? ["config", "thresholds"] : ["thresholds"];
  return Object.entries(thresholds).flatMap(([name, threshold]) => {
    const wrong = thresholdProblem(name, threshold, tasks);
    if (wrong === undefined) return [];
    const { kind, message, hint } = wrong;
    const place =
      kind === "unknown"
        ? ({ code: "config/unknown-reference", at: "key" } as const)
        : ({ code: "config/invalid-value" } as const);
    return [problem([...path, name], message, { ...place, hint })];
  });
}

/** What is wrong with declared graders beside the tasks that they grade. */
function graderProblems(
  tasks: readonly Task[],
  servers: readonly string[] | undefined,
): readonly Diagnostic[] {
  return tasks.flatMap((task) =>
    (task.graders ?? []).flatMap((grader) => [
      ...namedAsBuiltIn(grader, task),
      ...(servers === undefined ? [] : unknownServers(grader, servers)),
    ]),
  );
}

/** Grades of one name could not be told apart, and a threshold of that name would be about both. */
function namedAsBuiltIn({ name, location }: GraderSpec, task: Task): readonly Diagnostic[] {
  if (!builtInNames(task).includes(name)) return [];
  const message = `the grader ${JSON.stringify(name)} has the name of a built-in grader`;
  const hint = "Give it another name.";
  return [withoutUndefined({ code: "config/duplicate-name" as const, message, hint, location })];
}

/** Servers that graders name must be there, else nothing that they say of them could be seen. */
function unknownServers(grader: GraderSpec, servers: readonly string[]): readonly Diagnostic[] {
  const { name, config, servers: wanted = [] } = grader;
  return wanted
    .filter((server) => !servers.includes(server))
    .map((server) => {
      const texts = [server, `mcp:${server}`].map((text) => JSON.stringify(text));
      const key = Object.keys(config).find((each) =>
        texts.some((text) => JSON.stringify(config[each]).includes(text)),
      );
      const location = settingLocation(grader, key ?? "");
      const message = `the grader ${JSON.stringify(name)}: no server is named ${JSON.stringify(server)}`;
      const hint = suggestion(server, servers, "servers");
      return withoutUndefined({ code: "config/unknown-reference" as const, message, hint, location });
    });
}

/** The servers of an eval, and those of its variants. Tasks in files of their own have templates in theirs, and are left out. */
function serversOf(spec: Eval | undefined): readonly Eval["servers"][string][] {
  if (spec === undefined) return [];
  const own = spec.tasks.filter(({ portable }) => portable === undefined).map(({ name }) => name);
  const tables = (spec.variants ?? []).flatMap(({ servers }) => own.map((task) => servers[task] ?? {}));
  return [spec.servers, ...tables].flatMap((table) => Object.values(table));
}

/** Tasks of a name that an earlier one has; those of workflows and tool tests are checked with their config. */
function duplicateTasks(tasks: readonly Task[]): Diagnostic[] {
  const first = new Map<string, Task>();
  return tasks.flatMap((task) => {
    const { name, location, portable } = task;
    const earlier = first.get(name);
    if (earlier === undefined) first.set(name, task);
    if (earlier === undefined || (portable ?? earlier.portable) === undefined) return [];
    const place =
      earlier.location === undefined ? "" : `The other is at ${formatLocation(earlier.location)}. `;
    const message = `two tasks are named ${JSON.stringify(name)}`;
    const hint = `${place}Rename one of them.`;
    return [withoutUndefined({ code: "config/duplicate-name" as const, message, hint, location })];
  });
}

/** Steps whose rubric nothing could fail, since the judge lets every score pass. */
function rubricsThatCannotFail({ tasks, judge }: Eval): Diagnostic[] {
  if (judge?.passThreshold !== 0) return [];
  return tasks.flatMap(({ name, verify, location }) =>
    [...walkSteps(verify)].flatMap((step) => {
      if (step.type !== "llm" || step.rubric === undefined) return [];
      const what = `the rubric of ${step.id} of the task ${JSON.stringify(name)}`;
      const message = `${what} could not fail: the judge's passThreshold is 0`;
      const hint = "Set the judge's passThreshold above 0.";
      return [withoutUndefined({ code: "config/checks-nothing" as const, message, hint, location })];
    }),
  );
}

/** What an eval's table of extensions gives to its tasks, with absolute paths. */
export function placeExtensions(
  table: ParsedExtensionTable | undefined,
  places: Omit<ExtensionPlaces, "resolvePath">,
  environment: EnvironmentVariables,
): EvalExtensions {
  const read = readExtensionTable(table, { ...places, resolvePath: (path) => resolve(places.dir, path) });
  const { cacheDir, ...settings } = read.settings;
  if (cacheDir === undefined || !/^~(?:[/\\]|$)/.test(cacheDir)) return read;
  const home = environment["HOME"] || environment["USERPROFILE"] || homedir();
  return { ...read, settings: { ...settings, cacheDir: resolve(home, `.${cacheDir.slice(1)}`) } };
}

/** Extensions of an eval that no step of its tasks uses: what such an entry says, a sandbox included, confines nothing. */
export function unusedExtensionNotes({ declared }: EvalExtensions, tasks: readonly Task[]): string[] {
  const specs = tasks.flatMap(({ portable }) => Object.values(portable?.extensions ?? {}));
  const used = new Set(
    specs.flatMap((spec) => [spec.alias, packageName(spec.package, (path) => resolve(spec.dir, path))]),
  );
  const unused = Object.entries(declared).filter(([name, entry]) => !used.has(name) && !used.has(entry.name));
  return unused.map(
    ([name]) => `no step uses the extension ${JSON.stringify(name)}, so its settings have no effect`,
  );
}

/** The agents that play: those asked for, else those that are declared, else the default one. An unknown name is a problem. */
export function requestedAgents(
  declared: DeclaredAgents,
  requested: readonly string[],
  { problems, complete }: { readonly problems: FileProblems; readonly complete: CompleteProgram },
): readonly AgentSpec[] {
  const choices = chooseAgents(declared, requested);
  for (const choice of choices) {
    if (choice.kind !== "unknown") continue;
    const message = `no agent is named ${JSON.stringify(choice.name)}`;
    problems.add([{ code: "config/unknown-reference", message, hint: choice.hint }]);
  }
  return buildAgents(choices, complete);
}

/** The judge that was asked for on the command line; undefined when none was. */
export function requestedJudge(
  { judge, judgeModel }: Pick<LoadContext, "judge" | "judgeModel">,
  passThreshold: number = defaultThreshold,
): JudgeSpec | undefined {
  if (judgeModel === undefined)
    return judge === true ? { model: `openai/${defaultJudgeModel}`, passThreshold } : undefined;
  return { model: modelId(judgeModel, "openai") ?? judgeModel, passThreshold };
}

/** The error for `--mcp-config` beside a file that says itself which servers there are; `shown` is the file in messages. */
export function ownServers(shown: string): McpvalsError {
  const message = `${shown} has servers of its own, which --mcp-config does not replace`;
  const hint = "Leave out --mcp-config, or take the servers out of the file.";
  return new McpvalsError("usage/invalid-option", message, { hint });
}
