import { basename, dirname, resolve } from "node:path";
import {
  type ConfigParts,
  isSettingOfConfig,
  parseConfig,
  type ParsedEval,
} from "../core/formats/config/parse-config.ts";
import type { ServerTable } from "../core/formats/config/server-tables.ts";
import { interpolate, type Interpolation } from "../core/formats/interpolate.ts";
import { asObject } from "../core/formats/json.ts";
import { assembleEval, type EvalParts, type LoadedConfig } from "./assemble-eval.ts";
import {
  completeStdio,
  lookupIn,
  programCompleter,
  shownFrom,
  type LoadContext,
  unsetInherited,
} from "./environment.ts";
import { fixtureReader, loadMcpConfig, type McpServers, noServers } from "./servers.ts";
import { placeExtensions } from "./extensions.ts";
import { FileProblems } from "./file-problems.ts";
import type { ConfigDocument } from "./read/document.ts";
import { ownServers } from "./requested.ts";
import { collectTasks, noTasks, parseTasks } from "./tasks/parse-tasks.ts";
import { tasksOfPatterns } from "./tasks/read-tasks.ts";

/** A config that was read. */
interface OpenedConfig {
  readonly document: ConfigDocument;
  /** Absolute path; absent when the config was given as a value. */
  readonly file?: string;
}

/**
 * Checks and completes a config, and loads the tasks that it names. Throws one McpvalsError of kind `usage`, whose
 * `details.diagnostics` has all problems of the config; when its parts can be read, of its tasks too.
 */
export async function loadConfig(opened: OpenedConfig, loadContext: LoadContext): Promise<LoadedConfig> {
  const { document, file } = opened;
  const { cwd } = loadContext;
  const dir = file === undefined ? resolve(cwd) : dirname(file);
  const found = interpolate(document.value, lookupIn(loadContext), isSettingOfConfig);
  const problems = new FileProblems();
  const context = { ...opened, dir, loadContext, problems };
  const others = await otherServers(context);
  const { parsed, unset } = parse(found, others.table, context);
  if (!parsed.ok) problems.add(parsed.diagnostics, document.source);
  const parts = parsed.ok ? parsed : parsed.parts;
  return assembleEval(
    {
      spec: parts?.eval,
      file,
      dir,
      document,
      agents: parts?.agents ?? {},
      ...(parts === undefined ? { tasks: noTasks } : await tasksOf(parts, context)),
      config: found.value,
      variables: new Map([...found.variables, ...others.variables]),
      notes: [...others.notes, ...(parts?.notes ?? []), ...unset],
      problems,
    },
    loadContext,
  );
}

interface Context extends OpenedConfig {
  readonly dir: string;
  readonly loadContext: LoadContext;
  readonly problems: FileProblems;
}

const serverTables = ["server", "servers", "mcp_servers", "mocks", "mcp_mocks"];

/** The servers of the command line's file, for a config that has none. Throws `usage/invalid-option` for another one. */
async function otherServers({ document, file, ...context }: Context): Promise<McpServers> {
  const { mcpConfig, cwd } = context.loadContext;
  if (mcpConfig === undefined) return noServers;
  const root = asObject(document.value);
  if (serverTables.every((key) => root[key] === undefined)) return loadMcpConfig(mcpConfig, context);
  throw ownServers(file === undefined ? "the config" : shownFrom(cwd, file));
}

function parse(
  found: Interpolation,
  provided: ServerTable,
  { document, dir, loadContext }: Context,
): { readonly parsed: ParsedEval; readonly unset: readonly string[] } {
  const { environment, overrides, agents, judge, judgeModel } = loadContext;
  const unset = new Set<string>();
  const parsed = parseConfig(found.value, {
    defaultName: basename(dir) || "config",
    locate: document.locate,
    earlier: found.problems,
    templates: found.templates,
    agents,
    ...(judge === undefined ? {} : { judge }),
    ...(judgeModel === undefined ? {} : { judgeModel }),
    completeStdio: (server, name) => {
      for (const variable of unsetInherited(server, environment))
        unset.add(`server "${name}": inheritEnv names ${variable}, which is not set`);
      return completeStdio(server, { dir, environment, overrides });
    },
    completeProgram: programCompleter({ dir, environment, overrides }),
    resolvePath: (path) => resolve(dir, path),
    readFixtures: fixtureReader(dir),
    provided,
  });
  return { parsed, unset: [...unset] };
}

/** The tasks that a config names. */
async function tasksOf(
  { taskFiles, provided, extensions: table }: ConfigParts,
  { document, dir, loadContext, problems }: Context,
): Promise<Pick<EvalParts, "tasks" | "extensions">> {
  const { environment, cwd } = loadContext;
  const extensions = placeExtensions(table, {
    dir,
    path: ["extensions"],
    locate: document.locate,
    environment,
  });
  const { files, notes } = await tasksOfPatterns(taskFiles.patterns, { dir, cwd, problems });
  const parsed = parseTasks(files, {
    loadContext,
    provided,
    inheritEnv: taskFiles.inheritEnv,
    extensions,
    problems,
  });
  const tasks = collectTasks(parsed, { loadContext, problems });
  return { tasks: { ...tasks, notes: [...notes, ...tasks.notes] }, extensions };
}
