import { resolve } from "node:path";
import { McpvalsError } from "../../core/errors/error.ts";
import { buildServer, type BuildServer, buildServers } from "../../core/formats/config/server.ts";
import { type ProvidedServers, readConfigServers } from "../../core/formats/config/server-tables.ts";
import type { JsonObject, ServerLifetime, ServerSpec } from "../../core/formats/model.ts";
import { placeProblems } from "../../core/formats/problem.ts";
import { withoutUndefined } from "../../core/formats/json.ts";
import { completeStdio, variableNamed } from "../environment.ts";
import type { FileProblems } from "../file-problems.ts";
import { fixtureReader } from "../read-fixtures.ts";
import type { Surroundings } from "../surroundings.ts";
import type { EvalContext } from "./eval-context.ts";
import { loadMcpConfig, type McpServers, noServers, readServers } from "./load-mcp-config.ts";

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

type Read = (name: string) => string | undefined;

/**
 * The one server that variables describe, as a file with `mcpServers` would: `MCP_COMMAND` with `MCP_ARGS` and
 * `MCP_ENV`, else `MCP_URL`, else `MCP_HOST`, `MCP_PORT` and `MCP_PATH`. Undefined when none of them is set.
 */
function mcpVariables(
  { overrides, environment }: Surroundings,
  problems: FileProblems,
): JsonObject | undefined {
  const read: Read = (name) =>
    variableNamed(name, overrides) ?? (variableNamed(name, environment) || undefined);
  try {
    const server = readServer(read);
    if (server === undefined) return undefined;
    const all = !["false", "0"].includes(read("MCP_ENABLE_ALL_TOOLS") ?? "true");
    return { mcpServers: { [read("MCP_SERVER_NAME") ?? "default"]: { ...server, enableAllTools: all } } };
  } catch (error) {
    problems.addError(error);
    return undefined;
  }
}

function readServer(read: Read): JsonObject | undefined {
  const command = read("MCP_COMMAND");
  if (command !== undefined) return { command, args: readArgs(read), env: readObject("MCP_ENV", read) };
  const url = read("MCP_URL") ?? addressOf(read);
  return url === undefined ? undefined : { url, headers: readObject("MCP_HEADERS", read) };
}

function addressOf(read: Read): string | undefined {
  const [host, port] = [read("MCP_HOST"), read("MCP_PORT")];
  if (host === undefined && port === undefined) return undefined;
  const path = read("MCP_PATH") ?? "/mcp";
  return `http://${host ?? "localhost"}${port === undefined ? "" : `:${port}`}${path.startsWith("/") ? "" : "/"}${path}`;
}

/** A JSON list, or texts with commas between them. */
function readArgs(read: Read): readonly string[] {
  const text = read("MCP_ARGS");
  if (text === undefined) return [];
  if (!text.trimStart().startsWith("[")) return text.split(",").map((arg) => arg.trim());
  const value = parseJson("MCP_ARGS", text);
  if (Array.isArray(value)) return value.map(String);
  throw wrong("MCP_ARGS", "a JSON list");
}

function readObject(name: string, read: Read): JsonObject {
  const text = read(name);
  if (text === undefined) return {};
  const value = parseJson(name, text);
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as JsonObject;
  throw wrong(name, "a JSON object");
}

function parseJson(name: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw wrong(name, "JSON", cause);
  }
}

function wrong(name: string, wanted: string, cause?: unknown): McpvalsError {
  return new McpvalsError("config/invalid-value", `the variable ${name} must hold ${wanted}`, { cause });
}
