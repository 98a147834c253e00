import { basename, dirname, resolve } from "node:path";
import { type Diagnostic, McpvalsError } from "../core/errors/error.ts";
import type { ExtensionUse } from "../core/formats/task/extension-uses.ts";
import { readConfigServers, type ServerTable } from "../core/formats/config/server-tables.ts";
import { isSettingOfConfig, parseConfig, type ParsedEval } from "../core/formats/config/parse-config.ts";
import { configAgentProblems } from "../core/formats/config/config-task-plans.ts";
import type { ParsedStdioServer } from "../core/formats/config/server.ts";
import { placeProblems } from "../core/formats/problem.ts";
import { interpolate, type Interpolation } from "../core/formats/interpolate.ts";
import { asList, asObject, asText } from "../core/formats/json.ts";
import { type EvalExtensions, settingsOf } from "../core/formats/extension/eval-extensions.ts";
import type { Eval } from "../core/formats/model.ts";
import type { Secret } from "../core/trace/redact.ts";
import { agentTemplates, noTemplates } from "./agent-templates.ts";
import {
  completeStdio,
  type EnvironmentVariables,
  programCompleter,
  unsetInherited,
  variableNamed,
} from "./environment.ts";
import {
  extensionTableIn,
  extensionVariables,
  maskedUses,
  placeExtensions,
  unusedExtensionNotes,
} from "./extensions.ts";
import { FileProblems } from "./file-problems.ts";
import type { ConfigDocument } from "./read/document.ts";
import { collectSecrets, serversOfEval } from "./secrets/secrets.ts";
import { fixtureReader } from "./read-fixtures.ts";
import { loadMcpConfig, type McpConfigContext, type McpServers, noServers } from "./eval/load-mcp-config.ts";
import { shownFrom, type Surroundings } from "./surroundings.ts";
import { collectTasks, idleRubrics, parseTasks, sameNames, type TasksOfEval } from "./tasks/parse-tasks.ts";
import { joinVariants } from "./tasks/join-variants.ts";
import { tasksOfPatterns } from "./tasks/read-tasks.ts";

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
  /** What is valid but does not do what its author may think. */
  readonly notes: readonly string[];
  /** Why the judge that the files name cannot be asked, of kind `usage`: of interest only where a task asks it. */
  readonly judgeError?: McpvalsError;
  /** Steps that need extensions, by the names of their tasks. */
  readonly extensionUses: ReadonlyMap<string, readonly ExtensionUse[]>;
}

/** A config that was read. */
export interface OpenedConfig {
  readonly document: ConfigDocument;
  /** Absolute path; absent when the config was given as a value. */
  readonly file?: string;
}

/**
 * Checks and completes a config, and loads the tasks that it names. Throws one McpvalsError of kind `usage`, whose
 * `details.diagnostics` has everything that is wrong with any of the files.
 */
export async function loadConfig(
  { document, file }: OpenedConfig,
  surroundings: Surroundings,
): Promise<LoadedConfig> {
  const { environment, overrides, cwd } = surroundings;
  const dir = file === undefined ? resolve(cwd) : dirname(file);
  const found = interpolate(
    document.value,
    (name) => variableNamed(name, overrides) ?? variableNamed(name, environment),
    isSettingOfConfig,
  );
  const problems = new FileProblems();
  const others = await otherServers({ document, file }, { surroundings, problems });
  const provided = others.table;
  const { parsed, unset } = parse(document, found, { dir, surroundings, provided });
  if (!parsed.ok) problems.add(parsed.diagnostics, document.source);
  const extensions = placeExtensions(extensionTableIn(found.value), {
    dir,
    path: ["extensions"],
    locate: document.locate,
    environment,
  });
  const place = { dir, surroundings, provided };
  const tasks = await loadTasks(parsed, found, { ...place, problems, extensions });
  const spec = parsed.ok ? withSettings(withTasks(parsed.eval, tasks), extensions) : undefined;
  const templates = spec === undefined ? noTemplates : agentTemplates(asObject(found.value), spec);
  if (spec !== undefined) problems.add(rulesWithTasks(spec, document), document.source);
  problems.add(placeProblems(templates.problems, document.locate), document.source);
  const secrets = collectSecrets({
    document: found.value,
    variables: new Map([...found.variables, ...others.variables]),
    serverEnvironments: [
      ...tasks.variables,
      ...Object.values(extensions.declared).flatMap(extensionVariables),
    ],
    overrides,
    environment,
    servers: [...serversOfEval(spec), ...tasks.servers],
    agents: spec?.agents ?? [],
  });
  problems.throwIfAny(secrets);
  if (spec === undefined || !parsed.ok) throw new Error("a config was refused without a problem");
  return {
    eval: spec,
    dir,
    ...(file === undefined ? {} : { file }),
    env: { ...environment, ...overrides },
    overrides,
    secrets,
    notes: [...others.notes, ...parsed.notes, ...unset, ...templates.notes, ...tasks.notes],
    extensionUses: maskedUses(tasks.extensionUses, secrets),
  };
}

interface Place {
  readonly dir: string;
  readonly surroundings: Surroundings;
  /** Servers from outside. */
  readonly provided: ServerTable;
}

const tablesOfServers = ["server", "servers", "mcp_servers", "mocks", "mcp_mocks"];

/** The servers of the command line's file, for a config that has none. Throws `usage/invalid-option` for another one. */
async function otherServers(
  { document, file }: { readonly document: ConfigDocument; readonly file: string | undefined },
  context: McpConfigContext,
): Promise<McpServers> {
  const { mcpConfig, cwd } = context.surroundings;
  if (mcpConfig === undefined) return noServers;
  const root = asObject(document.value);
  if (tablesOfServers.every((key) => root[key] === undefined)) return loadMcpConfig(mcpConfig, context);
  throw ownServers(file === undefined ? "the config" : shownFrom(cwd, file));
}

/** The error for `--mcp-config` beside a file that says itself which servers there are. */
export function ownServers(shown: string): McpvalsError {
  return new McpvalsError(
    "usage/invalid-option",
    `${shown} has servers of its own, which --mcp-config does not replace`,
    { hint: "Leave out --mcp-config, or take the servers out of the file." },
  );
}

function parse(
  document: ConfigDocument,
  found: Interpolation,
  { dir, surroundings, provided }: Place,
): { readonly parsed: ParsedEval; readonly unset: readonly string[] } {
  const { environment, overrides, agents, judge, judgeModel } = surroundings;
  const unset: string[] = [];
  const parsed = parseConfig(found.value, {
    defaultName: basename(dir) || "config",
    locate: document.locate,
    earlier: found.problems,
    templates: found.templates,
    agents,
    ...(judge === undefined ? {} : { judge }),
    ...(judgeModel === undefined ? {} : { judgeModel }),
    completeStdio: (server, name) => {
      for (const note of unsetNotes(name, server, environment)) unset.push(note);
      return completeStdio(server, { dir, environment, overrides });
    },
    completeProgram: programCompleter({ dir, environment, overrides }),
    resolvePath: (path) => resolve(dir, path),
    readFixtures: fixtureReader(dir),
    provided,
  });
  return { parsed, unset: [...new Set(unset)] };
}

interface LoadingTasks extends Place {
  readonly problems: FileProblems;
  readonly extensions: EvalExtensions;
}

/** Tasks are looked at even when the config is wrong, so that everything is told at once. */
async function loadTasks(
  parsed: ParsedEval,
  found: Interpolation,
  { dir, surroundings, problems, extensions, provided }: LoadingTasks,
): Promise<TasksOfEval> {
  const root = asObject(found.value);
  const patterns = asList(root["tasks"]).flatMap((pattern) => asText(pattern) ?? []);
  const { files, notes } = await tasksOfPatterns(patterns, { dir, cwd: surroundings.cwd, problems });
  const named = Object.keys(readConfigServers(found.value, { provided }).written);
  const tasks = parseTasks(files, {
    surroundings,
    servers: named,
    ...(parsed.ok ? { provided: parsed.provided } : {}),
    inheritEnv: parsed.ok ? parsed.taskFiles.inheritEnv : [],
    extensions,
    problems,
  });
  const collected = collectTasks(tasks, { surroundings, problems });
  const unused = unusedExtensionNotes(extensions, collected.tasks);
  return { ...collected, notes: [...notes, ...collected.notes, ...unused] };
}

function withTasks(spec: Eval, { tasks, taskServers, variants }: TasksOfEval): Eval {
  if (tasks.length === 0) return spec;
  const all = { ...spec, tasks: [...spec.tasks, ...tasks], taskServers };
  return spec.variants === undefined ? all : { ...all, variants: joinVariants(spec.variants, variants) };
}

function withSettings(spec: Eval, extensions: EvalExtensions): Eval {
  const extensionSettings = settingsOf(extensions);
  return extensionSettings === undefined ? spec : { ...spec, extensionSettings };
}

function rulesWithTasks(spec: Eval, document: ConfigDocument): readonly Diagnostic[] {
  return [...sameNames(spec.tasks), ...idleRubrics(spec), ...configAgentProblems(spec, document.locate)];
}

function unsetNotes(name: string, server: ParsedStdioServer, environment: EnvironmentVariables): string[] {
  return unsetInherited(server, environment).map(
    (variable) => `server "${name}": inheritEnv names ${variable}, which is not set`,
  );
}
