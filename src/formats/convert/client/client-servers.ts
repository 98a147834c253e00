import { homedir } from "node:os";
import { basename, dirname, resolve, sep } from "node:path";
import { parseEnv } from "node:util";
import { McpvalsError, messageOf } from "../../../base/error.ts";
import { nameKey } from "../../../model/fields.ts";
import { noServers as noTable, type ServerTable } from "../../config/server-tables.ts";
import { suggestion } from "../../../base/did-you-mean.ts";
import {
  type ClientInput,
  clientTableKey,
  type McpConfigServer,
  parseMcpConfigFile,
  readClientTable,
} from "./client-file.ts";
import type { Problem } from "../../../base/problem.ts";
import { interpolate, type LookupVariable } from "../../../base/read-json.ts";
import { asObject, isJsonObject, withoutUndefined, type Json, type JsonObject } from "../../../base/json.ts";
import { readRegularFile } from "../../../base/files.ts";
import {
  type EnvironmentVariables,
  type LoadContext,
  lookupIn,
  displayPath,
  variableNamed,
} from "../../environment.ts";
import type { ConfigDocument, FileProblems } from "../../read/document.ts";
import { readData } from "../../read/read-files.ts";

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

interface McpConfigContext extends ServersContext {
  /** The only server that is meant; absent: all. */
  readonly only?: string | undefined;
  /** Absolute path of the folder in which programs without `cwd` start; absent: where the reader is. */
  readonly start?: string;
}

/** Reads a file with the servers of an MCP client. Its problems are added to those of the context. */
export async function loadMcpConfig(file: string, context: McpConfigContext): Promise<McpServers> {
  try {
    const shown = displayPath(context.loadContext.cwd, file);
    const document = await readData(file, shown, { lenient: true });
    return await readServers(document, { ...context, shown, dir: dirname(file), project: projectOf(file) });
  } catch (error) {
    context.problems.addError(error);
    return noServers;
  }
}

/** The folder of the project that a client's file belongs to: several clients have theirs in a hidden folder of it. */
export function projectOf(file: string): string {
  const dir = dirname(file);
  return basename(dir).startsWith(".") ? dirname(dir) : dir;
}

interface Place {
  /** The document's name in notes. */
  readonly shown: string;
  /** The folder that `cwd` of a server starts from. */
  readonly dir: string;
  /** The folder that clients call `${workspaceFolder}`. */
  readonly project: string;
}

/** Reads a document with servers of a client. Its problems are added to those of the context. */
async function readServers(document: ConfigDocument, context: McpConfigContext & Place): Promise<McpServers> {
  const { loadContext, problems, shown, dir, project, only, start = loadContext.cwd } = context;
  const { locate, notes = [] } = document;
  if (only !== undefined) requireServer(only, Object.keys(placeholders(document.value).written), shown);
  const { document: table, inputs, spell } = readClientTable(document.value, only);
  const lookup = clientLookup(project, loadContext);
  const answers = await askInputs(inputs, interpolate(table, lookup, { spell }).problems, loadContext);
  const found = interpolate(table, (name) => answers.get(name) ?? lookup(name), { spell });
  problems.addPlaced(
    found.problems.map((each) => withInputHint(each, inputs)),
    document,
  );
  const parsed = parseMcpConfigFile(found.value, { locate, lookup });
  if (!parsed.ok) {
    if (found.problems.length === 0) problems.add(parsed.diagnostics, document.source);
    return { ...noServers, table: placeholders(found.value), notes };
  }
  const placed = parsed.servers.map(({ name, server, envFile }) => {
    if (server.transport !== "stdio") return [name, server] as const;
    // Such files are written for programs that start where the reader is.
    const cwd = server.cwd === undefined ? start : resolve(dir, server.cwd);
    const env = envFile === undefined ? {} : readEnvFile(resolve(project, envFile), name);
    return [name, { ...server, cwd, env: { ...env, ...server.env } }] as const;
  });
  const servers = Object.fromEntries(placed);
  const passwords = inputs.flatMap(({ variable, isPassword }) => {
    const value = isPassword ? found.variables.get(variable) : undefined;
    return value === undefined ? [] : [[`${variable} (password)`, value] as const];
  });
  return {
    table: { written: servers as JsonObject, servers },
    variables: new Map([...found.variables, ...passwords]),
    notes: [
      ...notes,
      ...parsed.notes,
      ...parsed.servers.flatMap(allowListNotes).map((note) => `${shown}: ${note}`),
    ],
  };
}

/** Throws McpvalsError `config/unknown-reference` when no server has a name; `shown` says where it was looked for. */
export function requireServer(name: string, names: readonly string[], shown: string): void {
  if (names.includes(name)) return;
  const message = `${shown}: no server is named ${JSON.stringify(name)}`;
  throw new McpvalsError("config/unknown-reference", message, { hint: suggestion(name, names, "servers") });
}

/** Gives the value of a variable, or of one of the names that VS Code and Cursor have for folders. */
function clientLookup(project: string, loadContext: LoadContext): LookupVariable {
  const folders: Readonly<Record<string, string>> = {
    workspaceFolder: project,
    workspaceFolderBasename: basename(project),
    userHome: homedir(),
    pathSeparator: sep,
  };
  return (name) => (Object.hasOwn(folders, name) ? folders[name] : lookupIn(loadContext)(name));
}

/** Asks the person at the terminal, if there is one, for the inputs that the servers need and no variable gives. */
async function askInputs(
  inputs: readonly ClientInput[],
  unset: readonly Problem[],
  { ask }: LoadContext,
): Promise<ReadonlyMap<string, string>> {
  const answers = new Map<string, string>();
  if (ask === undefined) return answers;
  for (const input of inputs)
    if (unset.some(({ text }) => text === `\${${input.variable}`))
      answers.set(input.variable, await ask(input));
  return answers;
}

/** VS Code knows no default but that of the input. */
function withInputHint(problem: Problem, inputs: readonly ClientInput[]): Problem {
  const variable = inputs.find((input) => problem.text === `\${${input.variable}`)?.variable;
  if (variable === undefined) return problem;
  const hint = `Set ${variable}, pass --env ${variable}=VALUE, or give the input a default.`;
  return { ...problem, hint };
}

/** The variables in a file of lines `NAME=VALUE`. Throws McpvalsError `config/unreadable`. */
function readEnvFile(file: string, server: string): EnvironmentVariables {
  try {
    return withoutUndefined(parseEnv(readRegularFile(file, maxEnvFileSize).toString("utf8")));
  } catch (cause) {
    const message = `server "${server}": its envFile ${file} cannot be read: ${messageOf(cause)}`;
    throw new McpvalsError("config/unreadable", message, { cause });
  }
}

/** In bytes. */
const maxEnvFileSize = 1024 * 1024;

/** Servers that nothing is known of but their names, so that what uses them is not wrong as well. */
function placeholders(document: unknown): ServerTable {
  const servers = asObject(asObject(document)[clientTableKey(document)]);
  const names = Object.keys(servers).filter((name) => nameKey.safeParse(name).success);
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
export async function serversOfVariables(context: ServersContext): Promise<McpServers> {
  const { cwd, overrides, environment } = context.loadContext;
  const read: Read = (name) =>
    variableNamed(name, overrides) ?? (variableNamed(name, environment) || undefined);
  try {
    const server = serverOfVariables(read);
    if (server === undefined) return noServers;
    const enableAllTools = !["false", "0"].includes(read("MCP_ENABLE_ALL_TOOLS") ?? "true");
    const value = { mcpServers: { [read("MCP_SERVER_NAME") ?? "default"]: { ...server, enableAllTools } } };
    const shown = "MCP_ variables";
    const document = { value, locate: () => ({ file: shown }) };
    return await readServers(document, { ...context, shown, dir: cwd, project: cwd });
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
