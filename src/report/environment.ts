import { equalJson } from "../expect/json-difference.ts";
import { type JsonObject, mapValues, withoutUndefined } from "../base/json.ts";
import type { AgentSpec } from "../model/agent.ts";
import type { Eval, Variant } from "../model/eval.ts";
import { type ExtensionSpec, simulatedUserOf } from "../model/task.ts";
import type { ServerProgramSpec, ServerSpec } from "../model/server.ts";
import { actingAgents, lifetimeOf, type ServerTable, summarizeAgent } from "../model/plan.ts";
import type { ExtensionSummary, RunEnvironment } from "../model/result.ts";

/**
 * What ran where, for the result: agents only when one takes part; servers as they are in effect, with names of variables
 * and headers in the place of their values. The caller still has to remove secrets from it.
 */
export function runEnvironment(
  spec: Eval,
  versions: Pick<RunEnvironment, "mcpvals" | "node" | "platform">,
): RunEnvironment {
  const { judge, userModel, servers, taskServers = {}, variants } = spec;
  const own = Object.entries(taskServers).filter(([, table]) => Object.keys(table).length > 0);
  return withoutUndefined({
    ...versions,
    agents: actingAgents(spec).map(summarizeAgent),
    judge: judge && { model: judge.model },
    userModel:
      userModel && spec.tasks.some((task) => simulatedUserOf(task)?.kind === "model")
        ? { model: userModel.model }
        : undefined,
    servers: describeServers(servers),
    taskServers:
      own.length === 0
        ? undefined
        : Object.fromEntries(own.map(([task, table]) => [task, describeServers(table)])),
    variants: variants && Object.fromEntries(variants.map(describeVariant)),
  });
}

/**
 * What decides how an agent acts, with names of variables and headers in the place of their values, and nothing that another shell
 * changes. The caller still has to remove secrets from it.
 */
export function agentSettings(agent: AgentSpec): object {
  if (agent.type === "model") {
    const { apiKey: _, headers = {}, ...settings } = agent;
    return { ...settings, headers: Object.keys(headers).toSorted() };
  }
  if (agent.type !== "acp" && agent.type !== "command") return agent;
  const { env: _, userHome: __, ...settings } = agent;
  return settings;
}

function describeServers(servers: ServerTable): JsonObject {
  return mapValues(servers, (server) => ({ ...describeTarget(server), ...describeUse(server) }));
}

/** Most tasks of a variant have the same servers, and a run can have many tasks. */
function describeVariant({ name, servers }: Variant): readonly [string, JsonObject] {
  const tables = Object.entries(servers).map(([task, table]) => [task, describeServers(table)] as const);
  const usual = tables[0]?.[1] ?? {};
  const others = tables.filter(([, table]) => !equalJson(table, usual));
  const tasks = others.length === 0 ? undefined : Object.fromEntries(others);
  return [name, withoutUndefined({ servers: usual, tasks })];
}

function describeProgram({ command, args, env }: ServerProgramSpec): JsonObject {
  return { command: [command, ...args].join(" "), variables: Object.keys(env).toSorted() };
}

function describeTarget(server: ServerSpec): JsonObject {
  const { transport } = server;
  switch (transport) {
    case "stdio": {
      return { transport, ...describeProgram(server) };
    }
    case "mock": {
      const { tools, resources, prompts } = server.mock;
      const mock = { tools: Object.keys(tools), resources: resources.length, prompts: prompts.length };
      return { transport, mock };
    }
    case "shttp":
    case "sse": {
      const { url, program, headers, auth } = server;
      const names = Object.keys(headers).toSorted();
      const started = program === undefined ? {} : describeProgram(program);
      return withoutUndefined({
        transport,
        url,
        ...started,
        headers: names,
        auth: auth?.kind,
      });
    }
  }
}

/** The lifetime, and what is configured besides. */
function describeUse(server: ServerSpec): JsonObject {
  const { required, tools, rateLimit, maxConcurrent, faults, protocol } = server;
  return withoutUndefined({
    lifetime: lifetimeOf(server),
    required,
    tools,
    rateLimit: rateLimit && { ...rateLimit },
    maxConcurrent,
    faults: faults?.map((fault) => ({ ...fault })),
    protocol,
  });
}

/** The extensions of an eval's tasks, each once; `filesOf` tells which version of a package is used, and its hash, if known. */
export function extensionSummaries(
  { tasks }: Pick<Eval, "tasks">,
  filesOf: (spec: ExtensionSpec) => {
    readonly version?: string | undefined;
    readonly hash?: string | undefined;
  },
): readonly ExtensionSummary[] {
  const all = tasks.flatMap(({ portable }) => Object.values(portable?.extensions ?? {}));
  const summaries = all.map((spec): ExtensionSummary => {
    const { version, hash } = filesOf(spec);
    const { alias: name, package: from, sandbox } = spec;
    return withoutUndefined({ name, package: from, version, hash, sandbox: sandbox.kind });
  });
  return [...new Map(summaries.map((summary) => [JSON.stringify(summary), summary])).values()];
}
