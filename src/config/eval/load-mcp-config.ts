import { dirname } from "node:path";
import { buildServer, type ParsedStdioServer } from "../../core/formats/config/build-server.ts";
import {
  type McpConfigServer,
  parseMcpConfigFile,
} from "../../core/formats/eval-file/parse-mcp-config-file.ts";
import { interpolate } from "../../core/formats/interpolate.ts";
import type { ServerSpec, StdioServerSpec } from "../../core/formats/model.ts";
import { type Locate, placeProblem } from "../../core/formats/problem.ts";
import { variableNamed } from "../environment.ts";
import type { FileProblems } from "../file-problems.ts";
import { readData } from "../read/read-document.ts";
import type { SourceText } from "../read/source-text.ts";
import { completeStdio } from "../server-environment.ts";
import { shownFrom, type Surroundings } from "../surroundings.ts";

/** Servers from outside an eval. */
export interface McpServers {
  readonly servers: Readonly<Record<string, ServerSpec>>;
  /** Variables that were put into the file. */
  readonly variables: ReadonlyMap<string, string>;
  readonly notes: readonly string[];
}

export const noServers: McpServers = { servers: {}, variables: new Map(), notes: [] };

export interface McpConfigContext {
  readonly surroundings: Surroundings;
  readonly problems: FileProblems;
}

/** Longest that the start of a server may take when its file says nothing of it. */
const startupTimeoutMs = 30_000;

/** Reads a file with `mcpServers`. What is wrong with it goes to the problems. */
export async function loadMcpConfig(file: string, context: McpConfigContext): Promise<McpServers> {
  const { surroundings, problems } = context;
  try {
    const shown = shownFrom(surroundings.cwd, file);
    const document = await readData(file, shown, { lenient: true });
    const { source, notes = [] } = document;
    const read = readServers(document.value, {
      ...context,
      locate: document.locate,
      dir: dirname(file),
      ...(source === undefined ? {} : { source }),
    });
    return { ...read, notes: [...notes, ...read.notes.map((note) => `${shown}: ${note}`)] };
  } catch (error) {
    problems.addError(error);
    return noServers;
  }
}

interface ServersContext extends McpConfigContext {
  readonly locate: Locate;
  /** The folder that `cwd` of a server starts from. */
  readonly dir: string;
  readonly source?: SourceText;
}

/** Reads a document with `mcpServers`. What is wrong with it goes to the problems. */
export function readServers(document: unknown, context: ServersContext): McpServers {
  const { surroundings, problems, locate, source } = context;
  const { overrides, environment } = surroundings;
  const found = interpolate(
    document,
    (name) => variableNamed(name, overrides) ?? variableNamed(name, environment),
  );
  problems.add(
    found.problems.map((problem) => placeProblem(problem, locate)),
    source,
  );
  if (found.problems.length > 0) return noServers;
  const parsed = parseMcpConfigFile(found.value, { locate });
  if (!parsed.ok) {
    problems.add(parsed.diagnostics, source);
    return noServers;
  }
  return {
    servers: Object.fromEntries(parsed.servers.map((each) => [each.name, build(each, context)])),
    variables: found.variables,
    notes: [...parsed.notes, ...parsed.servers.flatMap(allowListNotes)],
  };
}

function build({ name, server }: McpConfigServer, { surroundings, dir }: ServersContext): ServerSpec {
  return buildServer(name, server, {
    startupTimeoutMs,
    completeStdio: (stdio) => completeProgram(stdio, surroundings, dir),
  });
}

/** Such files are written for programs that start where the reader is. */
function completeProgram(
  server: ParsedStdioServer,
  { environment, overrides, cwd }: Surroundings,
  dir: string,
): Pick<StdioServerSpec, "cwd" | "env"> {
  return completeStdio(server, { dir: server.cwd === undefined ? cwd : dir, environment, overrides });
}

function allowListNotes({ name, allowedTools }: McpConfigServer): string[] {
  if (allowedTools === undefined || allowedTools === "all") return [];
  const tools = allowedTools.length === 0 ? "no tool" : allowedTools.join(", ");
  return [
    `server "${name}": agents are offered all of its tools, though only these are allowed without asking: ${tools}`,
  ];
}
