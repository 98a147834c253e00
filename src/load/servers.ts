import { readdirSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { McpvalsError, messageOf } from "../core/errors/error.ts";
import { nameKey } from "../core/formats/config/config-fields.ts";
import { buildServer, type BuildServer, type Fixtures } from "../core/formats/config/server.ts";
import { noServers as noTable, type ServerTable } from "../core/formats/config/server-tables.ts";
import { type McpConfigServer, parseMcpConfigFile } from "../core/formats/eval-file/parse-mcp-config-file.ts";
import { interpolate } from "../core/formats/read-json.ts";
import { asObject, isJsonObject } from "../core/formats/json.ts";
import type { Json, JsonObject, ServerLifetime } from "../core/formats/model.ts";
import { readRegularFile } from "../files/files.ts";
import { completeStdio, type LoadContext, lookupIn, shownFrom, variableNamed } from "./environment.ts";
import type { FileProblems } from "./problems.ts";
import type { ConfigDocument } from "./read/document.ts";
import { readData } from "./read/read-document.ts";

const startupTimeoutMs = 30_000;

/** Creates the function that builds the servers of files in a folder. */
export function serverBuilder({
  dir,
  loadContext: { environment, overrides },
  lifetime,
}: {
  readonly dir: string;
  readonly loadContext: LoadContext;
  readonly lifetime?: ServerLifetime | undefined;
}): BuildServer {
  return (name, server) =>
    buildServer(name, server, {
      startupTimeoutMs,
      lifetime,
      resolvePath: (path) => resolve(dir, path),
      completeStdio: (stdio) => completeStdio(stdio, { dir, environment, overrides }),
    });
}

/** Servers from outside an eval. */
export interface McpServers {
  readonly table: ServerTable;
  /** Variables that were put into the file. */
  readonly variables: ReadonlyMap<string, string>;
  readonly notes: readonly string[];
}

export const noServers: McpServers = { table: noTable, variables: new Map(), notes: [] };

interface ServersContext {
  readonly loadContext: LoadContext;
  readonly problems: FileProblems;
}

/** Reads a file with `mcpServers`. Its problems are added to those of the context. */
export async function loadMcpConfig(file: string, context: ServersContext): Promise<McpServers> {
  try {
    const shown = shownFrom(context.loadContext.cwd, file);
    const document = await readData(file, shown, { lenient: true });
    return readServers(document, { ...context, shown, dir: dirname(file) });
  } catch (error) {
    context.problems.addError(error);
    return noServers;
  }
}

/**
 * Reads a document with `mcpServers`; `shown` is its name in notes, and `dir` the folder that `cwd` of a server starts from. Its
 * problems are added to those of the context.
 */
function readServers(
  document: ConfigDocument,
  { loadContext, problems, shown, dir }: ServersContext & { readonly shown: string; readonly dir: string },
): McpServers {
  const { locate, notes = [] } = document;
  const found = interpolate(document.value, lookupIn(loadContext));
  problems.addPlaced(found.problems, document);
  const parsed = parseMcpConfigFile(found.value, { locate });
  if (!parsed.ok) {
    if (found.problems.length === 0) problems.add(parsed.diagnostics, document.source);
    return { ...noServers, table: placeholders(found.value), notes };
  }
  const placed = parsed.servers.map(({ name, server }) => {
    if (server.transport !== "stdio") return [name, server] as const;
    // Such files are written for programs that start where the reader is.
    const cwd = server.cwd === undefined ? loadContext.cwd : resolve(dir, server.cwd);
    return [name, { ...server, cwd }] as const;
  });
  const servers = Object.fromEntries(placed);
  return {
    table: { written: servers as JsonObject, servers },
    variables: found.variables,
    notes: [
      ...notes,
      ...parsed.notes,
      ...parsed.servers.flatMap(allowListNotes).map((note) => `${shown}: ${note}`),
    ],
  };
}

/** Servers that nothing is known of but their names, so that what uses them is not wrong as well. */
function placeholders(document: unknown): ServerTable {
  const { mcpServers, servers } = asObject(document);
  const names = Object.keys(asObject(mcpServers ?? servers)).filter(
    (name) => nameKey.safeParse(name).success,
  );
  const placeholder = { transport: "shttp", url: "http://127.0.0.1/" };
  return { written: Object.fromEntries(names.map((name) => [name, placeholder])), servers: {} };
}

function allowListNotes({ name, server: { tools } }: McpConfigServer): string[] {
  if (tools === undefined) return [];
  if (tools.length === 0) return [`server "${name}": agents are given none of its tools (enableAllTools)`];
  return [`server "${name}": agents are given only these of its tools (alwaysAllow): ${tools.join(", ")}`];
}

type Read = (name: string) => string | undefined;

/**
 * The one server that variables describe, as a file with `mcpServers` would: `MCP_COMMAND` with `MCP_ARGS` and
 * `MCP_ENV`, else `MCP_URL`, else `MCP_HOST`, `MCP_PORT` and `MCP_PATH`. Its problems are added to those of the context.
 */
export function serversOfVariables(context: ServersContext): McpServers {
  const { cwd, overrides, environment } = context.loadContext;
  const read: Read = (name) =>
    variableNamed(name, overrides) ?? (variableNamed(name, environment) || undefined);
  try {
    const server = serverOfVariables(read);
    if (server === undefined) return noServers;
    const enableAllTools = !["false", "0"].includes(read("MCP_ENABLE_ALL_TOOLS") ?? "true");
    const value = { mcpServers: { [read("MCP_SERVER_NAME") ?? "default"]: { ...server, enableAllTools } } };
    const shown = "MCP_ variables";
    return readServers({ value, locate: () => ({ file: shown }) }, { ...context, shown, dir: cwd });
  } catch (error) {
    context.problems.addError(error);
    return noServers;
  }
}

function serverOfVariables(read: Read): JsonObject | undefined {
  const command = read("MCP_COMMAND");
  if (command !== undefined) return { command, args: argsOf(read), env: objectOf("MCP_ENV", read) };
  const [host, port] = [read("MCP_HOST"), read("MCP_PORT")];
  const path = (read("MCP_PATH") ?? "/mcp").replace(/^(?!\/)/, "/");
  const address = `http://${host ?? "localhost"}${port === undefined ? "" : `:${port}`}${path}`;
  const url = read("MCP_URL") ?? ((host ?? port) === undefined ? undefined : address);
  return url === undefined ? undefined : { url, headers: objectOf("MCP_HEADERS", read) };
}

/** A JSON list, or texts with commas between them. */
function argsOf(read: Read): readonly string[] {
  const text = read("MCP_ARGS");
  if (text === undefined) return [];
  if (!text.trimStart().startsWith("[")) return text.split(",").map((arg) => arg.trim());
  const value = jsonOf("MCP_ARGS", text);
  if (Array.isArray(value)) return value.map(String);
  throw wrongVariable("MCP_ARGS", "a JSON list");
}

function objectOf(name: string, read: Read): JsonObject {
  const value = jsonOf(name, read(name) ?? "{}");
  if (isJsonObject(value)) return value;
  throw wrongVariable(name, "a JSON object");
}

function jsonOf(name: string, text: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch (cause) {
    throw wrongVariable(name, "JSON", cause);
  }
}

function wrongVariable(name: string, wanted: string, cause?: unknown): McpvalsError {
  return new McpvalsError("config/invalid-value", `the variable ${name} must hold ${wanted}`, { cause });
}

/** Largest file of fixtures, in bytes. */
const largestFile = 4 * 1024 * 1024;
/** Most files of a folder and those in it. */
const mostFiles = 1000;

/**
 * Creates the reader of mock tools in a folder, relative to `dir`: of each JSON file in it, and in the folders in it that
 * are not hidden, the tools under `tools`, else the one tool that the file is named after. Later files win, in the order
 * of their names.
 */
export function fixtureReader(dir: string): (path: string) => Fixtures {
  return (path) => {
    try {
      const folder = resolve(dir, path);
      if (!statSync(folder).isDirectory()) return { ok: false, reason: `${path} is not a folder` };
      const files = readdirSync(folder, { withFileTypes: true, recursive: true })
        .filter((entry) => entry.isFile() && entry.name.endsWith(".json"))
        .filter(({ parentPath }) => !/[/\\]\./.test(parentPath.slice(folder.length)))
        .map((entry) => join(entry.parentPath, entry.name))
        .toSorted();
      if (files.length > mostFiles) throw new Error(`it has more than ${mostFiles} JSON files`);
      const tools = files.flatMap((file) => Object.entries(toolsIn(file)));
      return { ok: true, tools: Object.fromEntries(tools) };
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      const isAbsent = "code" in error && error.code === "ENOENT";
      return { ok: false, reason: isAbsent ? `there is no folder ${path}` : `${path}: ${error.message}` };
    }
  };
}

function toolsIn(file: string): JsonObject {
  const value = parsedFile(file);
  if (!isJsonObject(value)) throw new Error(`${basename(file)} is not a JSON object`);
  const { tools } = value;
  const isBundle = isJsonObject(tools) && Object.keys(tools).length > 0;
  return isBundle ? tools : { [basename(file, ".json")]: value };
}

function parsedFile(file: string): Json {
  try {
    return JSON.parse(readRegularFile(file, largestFile).toString("utf8")) as Json;
  } catch (cause) {
    const reason = messageOf(cause);
    throw new Error(`${basename(file)}: ${reason}`, { cause });
  }
}
