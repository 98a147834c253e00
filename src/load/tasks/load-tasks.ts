import { buildServers } from "../../core/formats/config/server.ts";
import { noExtensions } from "../../core/formats/extension/eval-extensions.ts";
import { assembleEval } from "../assemble-eval.ts";
import { serverBuilder } from "../eval/eval-servers.ts";
import { loadMcpConfig, type McpServers, noServers } from "../eval/load-mcp-config.ts";
import type { LoadedConfig } from "../load-config.ts";
import { programCompleter } from "../environment.ts";
import { requestedAgents, requestedJudge } from "../requested-agents.ts";
import type { Source } from "../sources/find-sources.ts";
import type { OpenedSources } from "../sources/open-sources.ts";
import type { Surroundings } from "../surroundings.ts";
import { collectTasks, parseTasks } from "./parse-tasks.ts";
import { withoutRepeats } from "./read-tasks.ts";
import { basename, dirname } from "node:path";

/** Makes an eval of tasks that were named one by one, by folder or by glob. Throws everything that is wrong with them. */
export async function loadTasks(
  sources: readonly Source[],
  { tasks: files, notes, problems }: OpenedSources,
  surroundings: Surroundings,
): Promise<LoadedConfig> {
  const { mcpConfig, agents, cwd } = surroundings;
  const provided: McpServers =
    mcpConfig === undefined ? noServers : await loadMcpConfig(mcpConfig, { surroundings, problems });
  const build = serverBuilder({ dir: cwd, surroundings });
  const parsed = parseTasks(withoutRepeats(files), {
    surroundings,
    servers: Object.keys(provided.table.written),
    provided: { base: provided.table, build },
    inheritEnv: [],
    extensions: noExtensions,
    problems,
  });
  const [only] = sources.length === 1 ? sources : [];
  return assembleEval(
    {
      name: only?.name ?? (basename(cwd) || "tasks"),
      ...placeOf(only, cwd),
      servers: buildServers(provided.table.servers, build),
      agents: requestedAgents([], agents, {
        problems,
        complete: programCompleter({ ...surroundings, dir: cwd }),
      }),
      judge: requestedJudge(surroundings),
      tasks: collectTasks(parsed, { surroundings, problems }),
      variables: provided.variables,
      notes: [...notes, ...provided.notes],
      problems,
    },
    surroundings,
  );
}

function placeOf(only: Source | undefined, cwd: string): Pick<LoadedConfig, "file" | "dir"> {
  if (only === undefined) return { dir: cwd };
  return only.kind === "file" ? { file: only.path, dir: dirname(only.path) } : { dir: only.dir };
}
