import { readdirSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { McpvalsError } from "../core/errors/error.ts";
import { nameKey } from "../core/formats/config/config-fields.ts";
import type { Fixtures } from "../core/formats/config/mock.ts";
import { noServers as noTable, type ServerTable } from "../core/formats/config/server-tables.ts";
import { buildServer, type BuildServer, type ParsedServer } from "../core/formats/config/server.ts";
import { type McpConfigServer, parseMcpConfigFile } from "../core/formats/eval-file/parse-mcp-config-file.ts";
import { interpolate } from "../core/formats/interpolate.ts";
import { asObject, isJsonObject } from "../core/formats/json.ts";
import type { Json, JsonObject, ServerLifetime } from "../core/formats/model.ts";
import { type Locate, placeProblem } from "../core/formats/problem.ts";
import { readRegularFile } from "../files/read-file.ts";
import { completeStdio, lookupIn, shownFrom, type LoadContext, variableNamed } from "./environment.ts";
import type { FileProblems } from "./file-problems.ts";
import { readData } from "./read/read-document.ts";
import type { SourceText } from "./read/source-text.ts";

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
  const options = {
    startupTimeoutMs,
    lifetime,
    resolvePath: (path: string) => resolve(dir, path),
    completeStdio: (stdio: Parameters<typeof completeStdio>[0]) =>
      completeStdio(stdio, { dir, environment, overrides }),
  };
  return (name, server) => buildServer(name, server, options);
}

/** Servers from outside an eval. */
export interface McpServers {
  readonly table: ServerTable;
  /** Variables that were put into the file. */
  readonly variables: ReadonlyMap<string, string>;
  readonly notes: readonly string[];
}

export const noServers: McpServers = { table: noTable, variables: new Map(), notes: [] };

export interface McpConfigContext {
  readonly loadContext: LoadContext;
  readonly problems: FileProblems;
}

/** Reads a file with `mcpServers`. Its problems are added to those of the context. */
export async function loadMcpConfig(file: string, context: McpConfigContext): Promise<McpServers> {
  const { loadContext, problems } = context;
  try {
    const shown = shownFrom(loadContext.cwd, file);
    const document = await readData(file, shown, { lenient: true });
    const { source, notes = [] } = document;
    const read = readServers(document.value, {
      ...context,
      shown,
      locate: document.locate,
      dir: dirname(file),
      ...(source === undefined ? {} : { source }),
    });
    return { ...read, notes: [...notes, ...read.notes] };
  } catch (error) {
    problems.addError(error);
    return noServers;
  }
}

interface ServersContext extends McpConfigContext {
  /** The document in notes that have no place in it. */
  readonly shown: string;
  readonly locate: Locate;
  /** The folder that `cwd` of a server starts from. */
  readonly dir: string;
  readonly source?: SourceText;
}

/** Reads a document with `mcpServers`. Its problems are added to those of the context. */
export function readServers(document: unknown, context: ServersContext): McpServers {
  const { loadContext, problems, shown, locate, source } = context;
  const found = interpolate(document, lookupIn(loadContext));
  problems.add(
    found.problems.map((problem) => placeProblem(problem, locate)),
    source,
  );
  const parsed = parseMcpConfigFile(found.value, { locate });
  if (!parsed.ok) {
    if (found.problems.length === 0) problems.add(parsed.diagnostics, source);
    return { ...noServers, table: placeholders(found.value) };
  }
  return {
    table: tableOf(parsed.servers, context),
    variables: found.variables,
    notes: [...parsed.notes, ...parsed.servers.flatMap(allowListNotes).map((note) => `${shown}: ${note}`)],
  };
}

/** Such files are written for programs that start where the reader is. */
function tableOf(found: readonly McpConfigServer[], { loadContext, dir }: ServersContext): ServerTable {
  const placed = found.map(({ name, server }): readonly [string, ParsedServer] => {
    if (server.transport !== "stdio") return [name, server];
    const cwd = server.cwd === undefined ? loadContext.cwd : resolve(dir, server.cwd);
    return [name, { ...server, cwd }];
  });
  const servers = Object.fromEntries(placed);
  return { written: servers as JsonObject, servers };
}

/** Servers that nothing is known of but their names, so that what uses them is not wrong as well. */
function placeholders(document: unknown): ServerTable {
  const { mcpServers, servers } = asObject(document);
  const names = Object.keys(asObject(mcpServers ?? servers)).filter(
    (name) => nameKey.safeParse(name).success,
  );
  return { written: Object.fromEntries(names.map((name) => [name, placeholder])), servers: {} };
}

const placeholder = { transport: "shttp", url: "http://127.0.0.1/" };

function allowListNotes({ name, server: { tools } }: McpConfigServer): string[] {
  if (tools === undefined) return [];
  if (tools.length === 0) return [`server "${name}": agents are given none of its tools (enableAllTools)`];
  return [`server "${name}": agents are given only these of its tools (alwaysAllow): ${tools.join(", ")}`];
}

type Read = (name: string) => string | undefined;

/**
 * The one server that variables describe, as a file with `mcpServers` would: `MCP_COMMAND` with `MCP_ARGS` and
 * `MCP_ENV`, else `MCP_URL`, else `MCP_HOST`, `MCP_PORT` and `MCP_PATH`. Undefined when none of them is set.
 */
export function mcpVariables(
  { overrides, environment }: LoadContext,
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
      const tools = filesIn(folder).flatMap((file) => Object.entries(toolsIn(file)));
      return { ok: true, tools: Object.fromEntries(tools) };
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      if ("code" in error && error.code === "ENOENT")
        return { ok: false, reason: `there is no folder ${path}` };
      return { ok: false, reason: `${path}: ${error.message}` };
    }
  };
}

function filesIn(folder: string): readonly string[] {
  const files = readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(".json"))
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((file) => !file.slice(folder.length).split(/[/\\]/).slice(0, -1).some(isHidden))
    .toSorted();
  if (files.length > mostFiles) throw new Error(`it has more than ${mostFiles} JSON files`);
  return files;
}

function isHidden(name: string): boolean {
  return name.startsWith(".");
}

function toolsIn(file: string): JsonObject {
  const value = parsed(file);
  if (!isJsonObject(value)) throw new Error(`${basename(file)} is not a JSON object`);
  const { tools } = value;
  const isBundle = isJsonObject(tools) && Object.keys(tools).length > 0;
  return isBundle ? tools : { [basename(file, ".json")]: value };
}

function parsed(file: string): Json {
  try {
    return JSON.parse(readRegularFile(file, largestFile).toString("utf8")) as Json;
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`${basename(file)}: ${reason}`, { cause });
  }
}
