import { equalJson } from "../checks/json-difference.ts";
import type { Eval, ExtensionSpec, JsonObject, ServerSpec, Variant } from "../formats/model.ts";
import { lifetimeOf, summarizeAgent } from "../plan/plan.ts";
import type { ExtensionSummary, RunEnvironment } from "./result.ts";

/**
 * What ran where, for the result: agents only when one takes part; servers as they are in effect, with names of variables
 * and headers in the place of their values. The caller still has to remove secrets from it.
 */
export function runEnvironment(
  spec: Eval,
  versions: Pick<RunEnvironment, "mcpvals" | "node" | "platform">,
): RunEnvironment {
  const acts = spec.tasks.some((task) => task.turns.length > 0);
  const own = Object.entries(spec.taskServers ?? {}).filter(([, servers]) => Object.keys(servers).length > 0);
  return {
    ...versions,
    agents: acts ? spec.agents.map(summarizeAgent) : [],
    ...(spec.judge === undefined ? {} : { judge: { model: spec.judge.model } }),
    servers: describeServers(spec.servers),
    ...(own.length === 0 ? {} : { taskServers: mapTables(Object.fromEntries(own)) }),
    ...(spec.variants === undefined ? {} : { variants: describeVariants(spec.variants) }),
  };
}

type Servers = Readonly<Record<string, ServerSpec>>;

function describeServers(servers: Servers): JsonObject {
  return Object.fromEntries(Object.entries(servers).map(([name, server]) => [name, describeServer(server)]));
}

function mapTables(tables: Readonly<Record<string, Servers>>): JsonObject {
  return Object.fromEntries(
    Object.entries(tables).map(([task, servers]) => [task, describeServers(servers)]),
  );
}

/** Most tasks of a variant have the same servers, and a run can have many tasks. */
function describeVariants(variants: readonly Variant[]): JsonObject {
  const described = variants.map(({ name, servers }) => {
    const tables = Object.entries(servers).map(([task, table]) => [task, describeServers(table)] as const);
    const usual = tables[0]?.[1] ?? {};
    const others = tables.filter(([, table]) => !equalJson(table, usual));
    return [
      name,
      { servers: usual, ...(others.length === 0 ? {} : { tasks: Object.fromEntries(others) }) },
    ] as const;
  });
  return Object.fromEntries(described);
}

function describeServer(server: ServerSpec): JsonObject {
  return { ...describeTarget(server), ...describeUse(server) };
}

function describeTarget(server: ServerSpec): JsonObject {
  switch (server.transport) {
    case "stdio": {
      const { transport, command, args, env } = server;
      return { transport, command: [command, ...args].join(" "), variables: Object.keys(env).toSorted() };
    }
    case "mock": {
      const { tools, resources, prompts } = server.mock;
      return {
        transport: "mock",
        mock: { tools: Object.keys(tools), resources: resources.length, prompts: prompts.length },
      };
    }
    case "shttp":
    case "sse": {
      const { transport, url, headers, auth } = server;
      return {
        transport,
        url,
        headers: Object.keys(headers).toSorted(),
        ...(auth === undefined ? {} : { auth: auth.kind }),
      };
    }
  }
}

/** What is not as it usually is. */
function describeUse(server: ServerSpec): JsonObject {
  const { required, tools, rateLimit, faults, protocol } = server;
  return {
    lifetime: lifetimeOf(server),
    ...(required === undefined ? {} : { required }),
    ...(tools === undefined ? {} : { tools }),
    ...(rateLimit === undefined ? {} : { rateLimit: { ...rateLimit } }),
    ...(faults === undefined ? {} : { faults: faults.map((fault) => ({ ...fault })) }),
    ...(protocol === undefined ? {} : { protocol }),
  };
}

/** Which files of an extension are used, as far as that is known. */
export interface UsedFiles {
  readonly version?: string | undefined;
  readonly hash?: string | undefined;
}

/** The extensions of an eval's tasks, each once; `filesOf` tells which version of a package is used, and its hash. */
export function extensionSummaries(
  { tasks }: Pick<Eval, "tasks">,
  filesOf: (spec: ExtensionSpec) => UsedFiles,
): readonly ExtensionSummary[] {
  const all = tasks.flatMap(({ portable }) => Object.values(portable?.extensions ?? {}));
  const summaries = all.map((spec): ExtensionSummary => {
    const { version, hash } = filesOf(spec);
    return {
      name: spec.alias,
      package: spec.package,
      ...(version === undefined ? {} : { version }),
      ...(hash === undefined ? {} : { hash }),
      sandbox: spec.sandbox.kind,
    };
  });
  return [...new Map(summaries.map((summary) => [JSON.stringify(summary), summary])).values()];
}
