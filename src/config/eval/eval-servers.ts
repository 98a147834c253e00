import { resolve } from "node:path";
import { buildServer, buildServers, type BuildServer } from "../../core/formats/config/build-server.ts";
import { readConfigServers } from "../../core/formats/config/config-servers.ts";
import type { ProvidedServers } from "../../core/formats/config/provided-servers.ts";
import type { ServerLifetime, ServerSpec } from "../../core/formats/model.ts";
import { placeProblems } from "../../core/formats/place-problems.ts";
import { withoutUndefined } from "../../core/formats/without-undefined.ts";
import { fixtureReader } from "../read-fixtures.ts";
import { completeStdio } from "../server-environment.ts";
import type { Surroundings } from "../surroundings.ts";
import type { EvalContext } from "./eval-context.ts";
import { loadMcpConfig, type McpServers, noServers, readServers } from "./load-mcp-config.ts";
import { mcpVariables } from "./mcp-variables.ts";

export interface EvalServers extends Pick<McpServers, "variables" | "notes"> {
  readonly servers: Readonly<Record<string, ServerSpec>>;
  readonly provided: ProvidedServers;
}

const startupTimeoutMs = 30_000;

/**
 * The servers of the command line's file, else those of the eval's, else that of `MCP_…` variables; the eval's own win over
 * all but the first. Its variants are laid over all of them.
 */
export async function evalServers(context: EvalContext): Promise<EvalServers> {
  const { file, dir, surroundings, problems, document } = context;
  const { tables, serverLifetime } = file;
  const readFixtures = fixtureReader(dir);
  const hasOwn = ["servers", "mcp_servers", "mocks", "mcp_mocks"].some((key) => tables[key] !== undefined);
  const others = await otherServers(context, hasOwn);
  const isAsked = surroundings.mcpConfig !== undefined;
  const which = isAsked ? "winning" : "provided";
  const read = readConfigServers(tables, { path: ["config"], readFixtures, [which]: others.table });
  problems.add(placeProblems(read.problems, document.locate), document.source);
  const build = serverBuilder({ dir, surroundings, lifetime: serverLifetime });
  const { variants, ...base } = read;
  return {
    servers: buildServers(base.servers, build),
    provided: withoutUndefined({ base, variants, build, lifetime: serverLifetime }),
    variables: others.variables,
    notes: others.notes,
  };
}

/** Makes what builds the servers of files in a folder. */
export function serverBuilder({
  dir,
  surroundings: { environment, overrides },
  lifetime,
}: {
  readonly dir: string;
  readonly surroundings: Surroundings;
  readonly lifetime?: ServerLifetime | undefined;
}): BuildServer {
  const options = {
    startupTimeoutMs,
    lifetime,
    resolvePath: (path: string) => resolve(dir, path),
    completeStdio: (stdio: Parameters<typeof completeStdio>[0]) =>
      completeStdio(stdio, { dir, environment, overrides }),
  };
  return (name, server) => buildServer(name, server, options);
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
    shown: "MCP_ variables",
    locate: () => ({ file: "MCP_ variables" }),
    dir: surroundings.cwd,
  });
}
