import { basename, dirname, resolve } from "node:path";
import { isSettingOfConfig, parseConfig } from "../core/formats/config/parse-config.ts";
import { interpolate } from "../core/formats/read-json.ts";
import { asObject, withoutUndefined } from "../core/formats/json.ts";
import { assembleEval, type LoadedConfig, ownServers, placeExtensions } from "./assemble-eval.ts";
import {
  completeStdio,
  type LoadContext,
  lookupIn,
  programCompleter,
  shownFrom,
  unsetInherited,
} from "./environment.ts";
import { FileProblems } from "./problems.ts";
import type { ConfigDocument } from "./read/document.ts";
import { tasksOfPatterns } from "./read/read-files.ts";
import { fixtureReader, loadMcpConfig, noServers } from "./servers.ts";
import { collectTasks, noTasks, parseTasks } from "./tasks.ts";

/** A config that was read. */
interface OpenedConfig {
  readonly document: ConfigDocument;
  /** Absolute path; absent when the config was given as a value. */
  readonly file?: string;
}

const serverTables = ["server", "servers", "mcp_servers", "mocks", "mcp_mocks"];

/**
 * Checks and completes a config, and loads the tasks that it names. Throws one McpvalsError of kind `usage`, whose
 * `details.diagnostics` has all problems of the config; when its parts can be read, of its tasks too.
 */
export async function loadConfig(
  { document, file }: OpenedConfig,
  loadContext: LoadContext,
): Promise<LoadedConfig> {
  const { cwd, environment, overrides, agents, judge, judgeModel, mcpConfig } = loadContext;
  const dir = file === undefined ? resolve(cwd) : dirname(file);
  const found = interpolate(document.value, lookupIn(loadContext), isSettingOfConfig);
  const problems = new FileProblems();
  const root = asObject(document.value);
  if (mcpConfig !== undefined && serverTables.some((key) => root[key] !== undefined))
    throw ownServers(file === undefined ? "the config" : shownFrom(cwd, file));
  const others =
    mcpConfig === undefined ? noServers : await loadMcpConfig(mcpConfig, { loadContext, problems });
  const unset = new Set<string>();
  const parsed = parseConfig(found.value, {
    defaultName: basename(dir) || "config",
    locate: document.locate,
    earlier: found.problems,
    templates: found.templates,
    agents,
    ...withoutUndefined({ judge, judgeModel }),
    completeStdio: (server, name) => {
      for (const variable of unsetInherited(server, environment))
        unset.add(`server "${name}": inheritEnv names ${variable}, which is not set`);
      return completeStdio(server, { dir, environment, overrides });
    },
    completeProgram: programCompleter({ dir, environment, overrides }),
    resolvePath: (path) => resolve(dir, path),
    readFixtures: fixtureReader(dir),
    provided: others.table,
  });
  if (!parsed.ok) problems.add(parsed.diagnostics, document.source);
  const parts = parsed.ok ? parsed : parsed.parts;
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
  if (parts === undefined) return assembleEval({ ...common, tasks: noTasks }, loadContext);
  const places = { dir, path: ["extensions"], locate: document.locate };
  const extensions = placeExtensions(parts.extensions, places, environment);
  const { provided, taskFiles } = parts;
  const { files, notes } = await tasksOfPatterns(taskFiles.patterns, { dir, cwd, problems });
  const { inheritEnv } = taskFiles;
  const ofFiles = parseTasks(files, { loadContext, provided, inheritEnv, extensions, problems });
  const tasks = collectTasks(ofFiles, { loadContext, problems });
  return assembleEval(
    { ...common, tasks: { ...tasks, notes: [...notes, ...tasks.notes] }, extensions },
    loadContext,
  );
}
