import { basename, dirname, extname, resolve } from "node:path";
import { checkAssertedServers, parseEvalFile } from "../../core/formats/eval-file/parse-eval-file.ts";
import type { EvalFile } from "../../core/formats/eval-file/eval-file.ts";
import { buildServer } from "../../core/formats/config/build-server.ts";
import type { ServerSpec } from "../../core/formats/model.ts";
import { assembleEval } from "../assemble-eval.ts";
import { FileProblems } from "../file-problems.ts";
import type { LoadedConfig } from "../load-config.ts";
import { plainDocument } from "../read/plain-document.ts";
import { completeStdio } from "../server-environment.ts";
import type { OpenedFile } from "../sources/open-sources.ts";
import type { Surroundings } from "../surroundings.ts";
import { collectTasks } from "../tasks/parse-tasks.ts";
import { evalAgents } from "./eval-agents.ts";
import type { EvalContext } from "./eval-context.ts";
import { evalJudge } from "./eval-judge.ts";
import { evalTasks } from "./eval-tasks.ts";
import { loadMcpConfig, type McpServers, noServers, readServers } from "./load-mcp-config.ts";
import { mcpVariables } from "./mcp-variables.ts";

/** Loads a file of kind Eval and everything that it names. Throws one error for all that is wrong with any of the files. */
export async function loadEval(opened: OpenedFile, surroundings: Surroundings): Promise<LoadedConfig> {
  const { document, path } = opened;
  const problems = new FileProblems();
  const json = plainDocument(document, "the eval", problems);
  problems.throwIfAny([]);
  const parsed = parseEvalFile(json, { locate: document.locate });
  if (!parsed.ok) {
    problems.add(parsed.diagnostics, document.source);
    problems.throwIfAny([]);
    throw new Error("an eval was refused without a problem");
  }
  const file = parsed.eval;
  const context: EvalContext = { ...opened, file, dir: dirname(path), surroundings, problems };
  const provided = await evalServers(context);
  const agents = await evalAgents(context);
  const judge = await evalJudge(context);
  const servers = Object.keys(provided.servers);
  const { parsed: files, notes } = await evalTasks(context, servers);
  const own = files.flatMap((each) => Object.keys(each.servers));
  problems.add(checkAssertedServers(file, [...servers, ...own], document.locate), document.source);
  return assembleEval(
    {
      name: file.name ?? basename(path, extname(path)),
      file: path,
      dir: dirname(path),
      servers: provided.servers,
      agents: agents.agents,
      judge: judge.judge,
      tasks: collectTasks(files, { surroundings, problems }),
      trials: file.runs,
      concurrency: file.parallel,
      trialMs: file.limits.timeoutMs,
      variables: provided.variables,
      notes: [
        ...(document.notes ?? []),
        ...parsed.notes.map((note) => `${opened.shown}: ${note}`),
        ...provided.notes,
        ...agents.notes,
        ...judge.notes,
        ...notes,
      ],
      problems,
    },
    surroundings,
  );
}

/** The servers of the command line's file, else those of the eval's, else that of `MCP_…` variables; its own win. */
async function evalServers(context: EvalContext): Promise<McpServers> {
  const { file, surroundings } = context;
  const own = ownServers(file, context);
  const others = await otherServers(context, Object.keys(own).length > 0);
  const isAsked = surroundings.mcpConfig !== undefined;
  return { ...others, servers: isAsked ? { ...own, ...others.servers } : { ...others.servers, ...own } };
}

async function otherServers(context: EvalContext, hasOwn: boolean): Promise<McpServers> {
  const { file, dir, surroundings, problems } = context;
  if (surroundings.mcpConfig !== undefined) {
    return loadMcpConfig(surroundings.mcpConfig, { surroundings, problems });
  }
  if (file.mcpConfigFile !== undefined) {
    return loadMcpConfig(resolve(dir, file.mcpConfigFile), { surroundings, problems });
  }
  const variables = hasOwn ? undefined : mcpVariables(surroundings, problems);
  if (variables === undefined) return noServers;
  return readServers(variables, {
    surroundings,
    problems,
    locate: () => ({ file: "MCP_ variables" }),
    dir: surroundings.cwd,
  });
}

function ownServers(file: EvalFile, { dir, surroundings }: EvalContext): Record<string, ServerSpec> {
  const { environment, overrides } = surroundings;
  const built = Object.entries(file.servers).map(([name, server]) => {
    const starting = {
      startupTimeoutMs: 30_000,
      completeStdio: (stdio: Parameters<typeof completeStdio>[0]) =>
        completeStdio(stdio, { dir, environment, overrides }),
    };
    return [name, buildServer(name, server, starting)] as const;
  });
  return Object.fromEntries(built);
}
