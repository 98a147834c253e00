import { dirname, resolve } from "node:path";
import { nameKey } from "../../core/formats/config/config-fields.ts";
import type { ParsedServer } from "../../core/formats/config/server.ts";
import { noServers as noTable, type ServerTable } from "../../core/formats/config/server-tables.ts";
import {
  type McpConfigServer,
  parseMcpConfigFile,
} from "../../core/formats/eval-file/parse-mcp-config-file.ts";
import { interpolate } from "../../core/formats/interpolate.ts";
import { asObject } from "../../core/formats/json.ts";
import type { JsonObject } from "../../core/formats/model.ts";
import { type Locate, placeProblem } from "../../core/formats/problem.ts";
import { variableNamed } from "../environment.ts";
import type { FileProblems } from "../file-problems.ts";
import { readData } from "../read/read-document.ts";
import type { SourceText } from "../read/source-text.ts";
import { shownFrom, type Surroundings } from "../surroundings.ts";

/** Servers from outside an eval. */
export interface McpServers {
  readonly table: ServerTable;
  /** Variables that were put into the file. */
  readonly variables: ReadonlyMap<string, string>;
  readonly notes: readonly string[];
}

export const noServers: McpServers = { table: noTable, variables: new Map(), notes: [] };

export interface McpConfigContext {
  readonly surroundings: Surroundings;
  readonly problems: FileProblems;
}

/** Reads a file with `mcpServers`. What is wrong with it goes to the problems. */
export async function loadMcpConfig(file: string, context: McpConfigContext): Promise<McpServers> {
  const { surroundings, problems } = context;
  try {
    const shown = shownFrom(surroundings.cwd, file);
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

/** Reads a document with `mcpServers`. What is wrong with it goes to the problems. */
export function readServers(document: unknown, context: ServersContext): McpServers {
  const { surroundings, problems, shown, locate, source } = context;
  const { overrides, environment } = surroundings;
  const found = interpolate(
    document,
    (name) => variableNamed(name, overrides) ?? variableNamed(name, environment),
  );
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
function tableOf(found: readonly McpConfigServer[], { surroundings, dir }: ServersContext): ServerTable {
  const placed = found.map(({ name, server }): readonly [string, ParsedServer] => {
    if (server.transport !== "stdio") return [name, server];
    const cwd = server.cwd === undefined ? surroundings.cwd : resolve(dir, server.cwd);
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
