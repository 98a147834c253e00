import type { McpvalsError } from "../core/errors/error.ts";
import { checkAgentTemplates, promptNotes } from "../core/formats/agent-templates.ts";
import type { DeclaredAgents } from "../core/formats/config/agent.ts";
import { checkPlans } from "../core/formats/config/check-config.ts";
import { type EvalExtensions, settingsOf } from "../core/formats/extension/extension-table-schema.ts";
import { type KeyPath, withoutUndefined } from "../core/formats/json.ts";
import type { Eval } from "../core/formats/model.ts";
import { placeProblems, type Problem } from "../core/formats/problem.ts";
import type { ExtensionUse } from "../core/formats/task/task-options.ts";
import type { Secret } from "../core/trace/redact.ts";
import type { EnvironmentVariables, LoadContext } from "./environment.ts";
import { extensionVariables, maskedUses, unusedExtensionNotes } from "./extensions.ts";
import { FileProblems } from "./file-problems.ts";
import type { ConfigDocument } from "./read/document.ts";
import { collectSecrets } from "./secrets/secrets.ts";
import { rubricsThatCannotFail, duplicateTasks, type TasksOfEval } from "./tasks/parse-tasks.ts";

/** An eval that is ready to run. */
export interface LoadedConfig {
  readonly eval: Eval;
  /** Absolute path of the file; absent when there is no single one. */
  readonly file?: string;
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
  /** Steps that need extensions, by the names of their tasks. */
  readonly extensionUses: ReadonlyMap<string, readonly ExtensionUse[]>;
}

/** What an eval is assembled from. */
export interface EvalParts {
  /** The eval without the tasks from files; absent when it could not be built, which is among the problems. */
  readonly spec: Eval | undefined;
  /** Absolute path, when one file stands for the eval. */
  readonly file?: string | undefined;
  readonly dir: string;
  /** That file's document. */
  readonly document?: ConfigDocument;
  /** The agents that it declares, and the path of the object with their keys. */
  readonly agents?: DeclaredAgents & { readonly path?: KeyPath };
  readonly tasks: TasksOfEval;
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

/** Limits of an eval that sets none, in milliseconds. */
export const defaultLimits: Eval["limits"] = { trialMs: 300_000, callMs: 30_000, modelMs: 120_000 };

/**
 * Adds the tasks from files to an eval, applies the rules between its parts, and collects its secrets and notes. Throws one
 * McpvalsError of kind `usage` for all problems of all files.
 */
export function assembleEval(parts: EvalParts, loadContext: LoadContext): LoadedConfig {
  const { environment, overrides } = loadContext;
  const { file, dir, document, tasks, extensions, problems, judgeProblems = [] } = parts;
  const spec = parts.spec === undefined ? undefined : withTasks(parts.spec, parts);
  const rules = spec === undefined ? noRules : checkEval(spec, parts);
  const secrets = collectSecrets({
    document: parts.config,
    variables: parts.variables,
    serverEnvironments: [
      ...tasks.variables,
      ...Object.values(extensions?.declared ?? {}).flatMap(extensionVariables),
    ],
    overrides,
    environment,
    servers: [...serversOfEval(spec), ...tasks.servers],
    judge: spec?.judge,
    agents: spec?.agents ?? [],
  });
  problems.throwIfAny(secrets);
  if (spec === undefined) throw new Error("an eval was refused without a problem");
  const ofJudge = new FileProblems();
  if (document !== undefined) ofJudge.add(placeProblems(judgeProblems, document.locate), document.source);
  return withoutUndefined({
    eval: spec,
    file,
    dir,
    env: { ...environment, ...overrides },
    overrides,
    secrets,
    notes: [
      ...parts.notes,
      ...rules.notes,
      ...tasks.notes,
      ...(extensions === undefined ? [] : unusedExtensionNotes(extensions, tasks.tasks)),
    ],
    judgeError: ofJudge.asError(secrets),
    extensionUses: maskedUses(tasks.extensionUses, secrets),
  });
}

function withTasks(spec: Eval, { tasks, extensions }: EvalParts): Eval {
  const variants = spec.variants?.map(({ name, servers }) => ({
    name,
    servers: { ...servers, ...tasks.variants[name] },
  }));
  return withoutUndefined({
    ...spec,
    tasks: [...spec.tasks, ...tasks.tasks],
    taskServers: tasks.tasks.length === 0 ? undefined : tasks.taskServers,
    variants,
    extensionSettings: settingsOf(extensions),
  });
}

const noRules = { notes: [] };

/** Checks the rules between all tasks and servers; adds to the problems of the parts. */
function checkEval(
  spec: Eval,
  { document, agents = {}, problems, tasks }: EvalParts,
): { readonly notes: readonly string[] } {
  problems.add([...duplicateTasks(spec.tasks), ...rubricsThatCannotFail(spec)]);
  const { path = [] } = agents;
  const templates = checkAgentTemplates(agents, { path, servers: serverNames(spec) });
  if (document !== undefined) {
    // Plans for tasks that could not be read would look like plans for nothing.
    const plans = tasks.tasks.length === 0 || problems.found ? [] : checkPlans(agents, spec);
    problems.add(placeProblems([...plans, ...templates.problems], document.locate), document.source);
  }
  return { notes: [...templates.notes, ...promptNotes(spec.agents)] };
}

/** The names of all servers that some trial may have. */
function serverNames({ servers, taskServers = {}, variants = [] }: Eval): readonly string[] {
  const tables = [
    servers,
    ...Object.values(taskServers),
    ...variants.flatMap((variant) => Object.values(variant.servers)),
  ];
  return [...new Set(tables.flatMap((table) => Object.keys(table)))];
}

/** The servers of an eval, and those of its variants. Tasks in files of their own have templates in theirs, and are left out. */
function serversOfEval(spec: Eval | undefined): readonly Eval["servers"][string][] {
  if (spec === undefined) return [];
  const { servers, variants = [], tasks } = spec;
  const own = tasks.filter(({ portable }) => portable === undefined).map(({ name }) => name);
  const tables = variants.flatMap((variant) => own.map((task) => variant.servers[task] ?? {}));
  return [servers, ...tables].flatMap((table) => Object.values(table));
}
