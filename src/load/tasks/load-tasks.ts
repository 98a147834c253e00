import { basename, dirname } from "node:path";
import { buildServers } from "../../core/formats/config/server.ts";
import { noExtensions } from "../../core/formats/extension/extension-table-schema.ts";
import { withoutUndefined } from "../../core/formats/json.ts";
import { assembleEval, defaultLimits, type LoadedConfig } from "../assemble-eval.ts";
import { programCompleter, type LoadContext } from "../environment.ts";
import { requestedAgents, requestedJudge } from "../requested.ts";
import { loadMcpConfig, type McpServers, noServers, serverBuilder } from "../servers.ts";
import type { Source } from "../sources/find-sources.ts";
import type { OpenedSources } from "../sources/open-sources.ts";
import { collectTasks, parseTasks } from "./parse-tasks.ts";
import { withoutRepeats } from "./read-tasks.ts";

/** Makes an eval of tasks that were named one by one, by folder or by glob. Throws one error for all their problems. */
export async function loadTasks(
  sources: readonly Source[],
  { tasks: files, notes, problems }: OpenedSources,
  loadContext: LoadContext,
): Promise<LoadedConfig> {
  const { mcpConfig, agents, cwd } = loadContext;
  const provided: McpServers =
    mcpConfig === undefined ? noServers : await loadMcpConfig(mcpConfig, { loadContext, problems });
  const build = serverBuilder({ dir: cwd, loadContext });
  const parsed = parseTasks(withoutRepeats(files), {
    loadContext,
    provided: { base: provided.table, build },
    inheritEnv: [],
    extensions: noExtensions,
    problems,
  });
  const [only] = sources.length === 1 ? sources : [];
  const complete = programCompleter({ ...loadContext, dir: cwd });
  return assembleEval(
    {
      spec: withoutUndefined({
        name: only?.name ?? (basename(cwd) || "tasks"),
        servers: buildServers(provided.table.servers, build),
        agents: requestedAgents({}, agents, { problems, complete }),
        tasks: [],
        judge: requestedJudge(loadContext),
        trials: 1,
        limits: defaultLimits,
        reporters: ["console"],
      }),
      ...placeOf(only, cwd),
      tasks: collectTasks(parsed, { loadContext, problems }),
      variables: provided.variables,
      notes: [...notes, ...provided.notes],
      problems,
    },
    loadContext,
  );
}

function placeOf(only: Source | undefined, cwd: string): Pick<LoadedConfig, "file" | "dir"> {
  if (only === undefined) return { dir: cwd };
  return only.kind === "file" ? { file: only.path, dir: dirname(only.path) } : { dir: only.dir };
}
