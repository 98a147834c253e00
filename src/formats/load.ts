import { standInFor } from "../servers/replay/marked-texts.ts";
import { serverBuilder } from "./server-builder.ts";
import { basename, dirname, resolve } from "node:path";
import {
  graderTypesAt,
  type OpenedFile,
  type OpenedSources,
  openSources,
  type TaskFile,
  tasksOfPatterns,
  withoutRepeats,
} from "./read/read-files.ts";
import { McpvalsError } from "../base/error.ts";
import type { Config } from "./config/config-schema.ts";
import { type ConfigParts, isSettingOfConfig, parseConfig } from "./config/parse-config.ts";
import type { Eval } from "../model/eval.ts";
import type { Prices } from "../model/prices.ts";
import { userModelOf } from "../model/agent.ts";
import { simulatedUserOf } from "../model/task.ts";
import { buildServers } from "../model/server.ts";
import { noExtensions } from "../model/extension.ts";
import { type Problem, problem } from "../base/problem.ts";
import { interpolate } from "../base/read-json.ts";
import { asObject, type KeyPath, withoutUndefined } from "../base/json.ts";
import {
  assembleEval,
  type EvalParts,
  type LoadedConfig,
  noTasks,
  ownServers,
  placeExtensions,
  requestedAgents,
  requestedJudge,
} from "./assemble-eval.ts";
import {
  completeStdio,
  environment as readEnvironment,
  type EnvironmentVariables,
  type LoadContext,
  lookupIn,
  programCompleter,
  displayPath,
  unsetInherited,
} from "./environment.ts";
import { type ConfigDocument, FileProblems, valueDocument } from "./read/document.ts";
import { loadMcpConfig, noServers } from "./convert/client/client-servers.ts";
import { findSources, type Source } from "./sources.ts";
import type { TaskContext, TasksOfEval } from "./tasks.ts";

/** What is loaded, and how; what is absent is as the members of {@link LoadContext} say, or empty, or false. */
export interface LoadOptions extends Partial<Omit<LoadContext, "overrides" | "cwd">> {
  /**
   * Files, folders and globs: one config, one Eval or eval of waza, or any number of tasks; none: the nearest config from `cwd` upwards.
   * Or the config itself.
   */
  readonly sources: readonly string[] | Config;
  /** Absolute path of the folder that everything starts from. */
  readonly cwd: string;
  /** Variables over those of the environment. */
  readonly env?: EnvironmentVariables;
}

const defaultTimeoutMs = 30_000;

/**
 * Finds, reads, checks and completes the files to evaluate. Throws one McpvalsError of kind `usage`, whose
 * `details.diagnostics` has all problems of all files, and the signal's reason.
 */
export async function load(options: LoadOptions): Promise<LoadedConfig> {
  const loadContext = contextOf(options);
  const parts = withRequestedUser(await partsOf(options.sources, loadContext), loadContext);
  const { prices: file = parts.prices, cwd } = loadContext;
  if (file === undefined || parts.spec === undefined) return withUserModels(assembleEval(parts, loadContext));
  const { readPrices } = await import("./prices.ts");
  const prices = await readPrices(file, { cwd, problems: parts.problems });
  const spec = { ...parts.spec, ...withoutUndefined({ prices }) };
  const unpriced =
    prices === undefined ? [] : await unpricedNotes(spec, { prices, shown: displayPath(cwd, file) });
  return withUserModels(assembleEval({ ...parts, spec, notes: [...parts.notes, ...unpriced] }, loadContext));
}

function withRequestedUser(parts: EvalParts, { userModel }: LoadContext): EvalParts {
  return userModel === undefined || parts.spec === undefined
    ? parts
    : { ...parts, spec: { ...parts.spec, userModel: userModelOf(userModel) } };
}

/** Says in tasks which model plays their users, since another one makes another task of them. */
async function withUserModels(loaded: LoadedConfig): Promise<LoadedConfig> {
  const { userModel, tasks } = loaded.eval;
  if (userModel === undefined) return loaded;
  if (!tasks.some((task) => simulatedUserOf(task)?.kind === "model"))
    return {
      ...loaded,
      notes: [...loaded.notes, "userModel has no effect: no task has a simulated user with a goal"],
    };
  const { withUserModel } = await import("../agents/simulated-user.ts");
  return { ...loaded, eval: { ...loaded.eval, tasks: tasks.map((task) => withUserModel(task, userModel)) } };
}

function contextOf(options: LoadOptions): LoadContext {
  const { sources: _, env = {}, ...given } = options;
  const { cwd, signal, mcpConfig, prices } = given;
  signal?.throwIfAborted();
  return {
    environment: given.environment ?? readEnvironment(),
    agents: [],
    lookOnly: false,
    allowOutside: false,
    timeoutMs: defaultTimeoutMs,
    ...withoutUndefined(given),
    overrides: env,
    mcpConfig: mcpConfig === undefined ? undefined : resolve(cwd, mcpConfig),
    prices: prices === undefined ? undefined : resolve(cwd, prices),
  };
}

/** Models of which it will not be known what they cost. */
async function unpricedNotes(
  { agents = [], judge, userModel }: Pick<Partial<Eval>, "agents" | "judge" | "userModel">,
  { prices, shown }: { readonly prices: Prices; readonly shown: string },
): Promise<readonly string[]> {
  const { priceOf } = await import("../model/prices.ts");
  const used = [...agents, judge, userModel].filter((each) => each !== undefined);
  const models = new Set(used.flatMap((each) => ("model" in each ? (each.model ?? []) : [])));
  return [...models]
    .filter((model) => priceOf(model, prices) === undefined)
    .map((model) => `${shown} has no price for ${model}, so its cost is unknown`);
}

/** Finds and reads the files, and converts them: each format says the same parts of an eval. */
async function partsOf(sources: LoadOptions["sources"], loadContext: LoadContext): Promise<EvalParts> {
  // A config given as a value is copied before anything is waited for: its owner may change it from then on.
  if (!isList(sources)) return readConfig({ document: valueDocument(sources, "(config)") }, loadContext);
  const found = findSources(sources, loadContext);
  const opened = await openSources(found, loadContext);
  loadContext.signal?.throwIfAborted();
  const [other] = opened.others;
  if (other === undefined) return readTasksAlone(found, opened, loadContext);
  if (found.length > 1) throw notAlone(other);
  switch (other.kind) {
    case "config":
      return readConfig({ document: other.document, file: other.path }, loadContext);
    case "Eval":
      return (await import("./convert/eval/convert-eval.ts")).convertEval(other, loadContext);
    case "waza":
      return (await import("./convert/waza/convert-waza.ts")).convertWaza(other, loadContext);
    case "Agent":
      throw new McpvalsError("usage/invalid-option", `${other.shown} is an agent, which has nothing to run`, {
        location: { file: other.shown },
        hint: "Name tasks, or an Eval that names this agent.",
      });
  }
}

function isList(sources: LoadOptions["sources"]): sources is readonly string[] {
  return Array.isArray(sources);
}

function notAlone({ kind, shown }: OpenedFile): McpvalsError {
  const what = { config: "a config", Eval: "an Eval", waza: "an eval", Agent: "an agent", Task: "a task" };
  return new McpvalsError(
    "usage/invalid-option",
    `several sources are named, and ${shown} is ${what[kind]}`,
    {
      hint: "Only tasks can be run together; name a config or an Eval alone.",
    },
  );
}

interface OpenedConfig {
  readonly document: ConfigDocument;
  /** Absolute path; absent when the config was given as a value. */
  readonly file?: string;
}

const serverTables = ["server", "servers", "mocks"];

/**
 * Checks and completes a config, and loads the tasks that it names. Throws one McpvalsError of kind `usage`, whose
 * `details.diagnostics` has all problems of the config; when its parts can be read, of its tasks too.
 */
async function readConfig({ document, file }: OpenedConfig, loadContext: LoadContext): Promise<EvalParts> {
  const { cwd, environment, overrides, agents, judge, judgeModel, mcpConfig, lookOnly } = loadContext;
  const dir = file === undefined ? resolve(cwd) : dirname(file);
  const found = interpolate(document.value, lookupIn(loadContext), {
    mayBeAbsent: isSettingOfConfig,
    standIn: loadContext.isReplayed === true ? standInFor : undefined,
  });
  const problems = new FileProblems();
  const root = asObject(document.value);
  // A config that only says how servers are checked is valid; it has nothing to run.
  const serversOnly = loadContext.serversOnly ?? (lookOnly && root["check"] !== undefined);
  if (mcpConfig !== undefined && serverTables.some((key) => root[key] !== undefined))
    throw ownServers(file === undefined ? "the config" : displayPath(cwd, file));
  const others =
    mcpConfig === undefined ? noServers : await loadMcpConfig(mcpConfig, { loadContext, problems });
  const unset = new Set<string>();
  const parsed = parseConfig(found.value, {
    defaultName: basename(dir) || "config",
    locate: document.locate,
    earlier: found.problems,
    templates: found.templates,
    agents,
    serversOnly,
    ...withoutUndefined({ judge, judgeModel }),
    completeStdio: (server, name) => {
      for (const variable of unsetInherited(server, environment))
        unset.add(`server "${name}": inheritEnv names ${variable}, which is not set`);
      return completeStdio(server, { dir, environment, overrides });
    },
    completeProgram: programCompleter({ dir, environment, overrides }),
    resolvePath: (path) => resolve(dir, path),
    provided: others.table,
    graderTypes: graderTypesAt(dir, document.locate),
    sessions: loadContext.sessions,
  });
  if (!parsed.ok) problems.add(parsed.diagnostics, document.source);
  const given = parsed.ok ? parsed : parsed.parts;
  const parts = given && (await withFiles(given, { dir, document, problems, loadContext }));
  for (const list of ["disable", "enable"] as const)
    problems.addPlaced(await unknownCodes(list, parts?.eval.check?.[list] ?? []), document);
  const accepted = parts?.eval.check?.accepted ?? [];
  const codes = accepted.map(({ code }) => code);
  problems.addPlaced(await unknownCodes("accepted", codes), document);
  const common = {
    spec: parts?.eval,
    file,
    dir,
    document,
    agents: parts?.agents ?? {},
    config: found.value,
    variables: new Map([...found.variables, ...others.variables]),
    notes: [...others.notes, ...(parts?.notes ?? []), ...unset],
    problems,
  };
  if (parts === undefined) return { ...common, tasks: noTasks };
  const places = { dir, path: ["extensions"], locate: document.locate };
  const extensions = placeExtensions(parts.extensions, places, environment);
  const { provided, taskFiles, prices } = parts;
  const { files, notes } = await tasksOfPatterns(taskFiles.patterns, { dir, cwd, problems });
  const { inheritEnv, graders } = taskFiles;
  const context = { loadContext, provided, inheritEnv, extensions, graders, problems };
  const tasks = await readTasks(files, context);
  return { ...common, tasks: { ...tasks, notes: [...notes, ...tasks.notes] }, extensions, prices };
}

interface FilesContext {
  readonly dir: string;
  readonly document: ConfigDocument;
  readonly problems: FileProblems;
  readonly loadContext: LoadContext;
}

/** Checks the fixtures of workflows, and gives agents their skills. Few configs have any, so that the code is loaded then. */
async function withFiles(
  parts: ConfigParts,
  { dir, document, problems, loadContext }: FilesContext,
): Promise<ConfigParts> {
  const { eval: spec, skills: folders } = parts;
  const flows = spec.tasks.filter(({ form }) => form === "workflow");
  if (flows.some(({ workspace }) => workspace !== undefined)) {
    const { checkFixtures } = await import("./task/parse-task.ts");
    const { taskFiles } = await import("./tasks.ts");
    const files = taskFiles(dir, loadContext);
    for (const [index, { workspace }] of flows.entries()) {
      const wrong = checkFixtures(workspace?.fixtures ?? [], ["workflows", index, "fixtures"], files);
      problems.addPlaced(wrong, document);
    }
  }
  if (folders === undefined) return parts;
  const { withSkills } = await import("./convert/eval/convert-eval.ts");
  const path = ["skills"];
  const pathOf = (index: number): KeyPath => [...path, index];
  const skills = { folders, dir, problems, document, loadContext, path, pathOf };
  const agents = spec.agents.map((agent) => withSkills(agent, undefined, skills));
  return { ...parts, eval: { ...spec, agents } };
}

/** Codes in a list of the section `check` that no finding has. */
async function unknownCodes(
  list: "disable" | "enable" | "accepted",
  codes: readonly string[],
): Promise<readonly Problem[]> {
  if (codes.length === 0) return [];
  const { unknownCode } = await import("../check/catalogue.ts");
  return codes.flatMap((code, index) => {
    const unknown = unknownCode(code);
    if (unknown === undefined) return [];
    const details = { code: "config/unknown-reference", hint: unknown.hint } as const;
    const path = ["check", list, index, ...(list === "accepted" ? ["code"] : [])];
    return problem(path, unknown.message, details);
  });
}

/** What files of tasks give to an eval; without any, what reads tasks is not loaded. */
async function readTasks(files: readonly TaskFile[], context: TaskContext): Promise<TasksOfEval> {
  if (files.length === 0) return noTasks;
  const { collectTasks, parseTasks } = await import("./tasks.ts");
  return collectTasks(await parseTasks(files, context), context);
}

/** Makes an eval of tasks that were named one by one, by folder or by glob. Throws one error for all their problems. */
async function readTasksAlone(
  sources: readonly Source[],
  { tasks: files, notes, problems }: OpenedSources,
  loadContext: LoadContext,
): Promise<EvalParts> {
  const { mcpConfig, agents, cwd } = loadContext;
  const provided =
    mcpConfig === undefined ? noServers : await loadMcpConfig(mcpConfig, { loadContext, problems });
  const build = serverBuilder({ dir: cwd, loadContext });
  const tasks = await readTasks(withoutRepeats(files), {
    loadContext,
    provided: { base: provided.table, build },
    inheritEnv: [],
    extensions: noExtensions,
    problems,
  });
  const only = sources.length === 1 ? sources[0] : undefined;
  const complete = programCompleter({ ...loadContext, dir: cwd });
  return {
    spec: {
      name: only?.name ?? (basename(cwd) || "tasks"),
      servers: buildServers(provided.table.servers, build),
      agents: requestedAgents({}, agents, { problems, complete }),
      ...withoutUndefined({ judge: requestedJudge(loadContext) }),
    },
    file: only?.kind === "file" ? only.path : undefined,
    dir: only === undefined ? cwd : only.kind === "file" ? dirname(only.path) : only.dir,
    tasks,
    variables: provided.variables,
    notes: [...notes, ...provided.notes],
    problems,
  };
}

/** Gives the config back as it is; it is there so that editors check and complete it. */
export function defineConfig(config: Config): Config {
  return config;
}
