import type * as z from "zod";
import { type ParsedServer, serverSchema } from "../config/config-server-schema.ts";
import { formatKeyPath, isJsonObject, type KeyPath } from "../json.ts";
import type { Json, JsonObject } from "../model.ts";
import type { Problem } from "../problem.ts";
import { mostProblems, validate } from "../validate.ts";
import { problemsOfIssues } from "../zod-problems.ts";
import { plainServers } from "./merge-servers.ts";
import type { NormalizedServers } from "./normalize-mcp-servers.ts";

export interface ReadServers {
  /** Those that are valid, by name, in the order of the table. */
  readonly servers: Readonly<Record<string, ParsedServer>>;
  readonly problems: readonly Problem[];
}

export interface ReadServersOptions extends Pick<NormalizedServers, "written"> {
  /** Texts as written, by formatted path, of strings that variables went into. */
  readonly templates?: ReadonlyMap<string, string>;
}

/**
 * Checks the servers of a table that `normalizeMcpServers` gave, or that was merged of such, by the one schema of servers.
 * `written` places the problems: that of the table, or of the uppermost one.
 */
export function readMcpServers(table: JsonObject, options: ReadServersOptions): ReadServers {
  const read = Object.entries(plainServers(table)).map(([name, entry]) =>
    readServer(name, isJsonObject(entry) ? entry : {}, options),
  );
  const valid = read.flatMap(({ name, server }) => (server === undefined ? [] : [[name, server] as const]));
  return { servers: Object.fromEntries(valid), problems: read.flatMap(({ problems }) => problems) };
}

interface ReadServer {
  readonly name: string;
  readonly server?: ParsedServer;
  readonly problems: readonly Problem[];
}

function readServer(name: string, entry: JsonObject, options: ReadServersOptions): ReadServer {
  const unclear = kindProblem(name, entry, options);
  if (unclear !== undefined) return { name, problems: [unclear] };
  const { data, issues } = validate(serverSchema, completeServer(entry));
  const problems = describe(issues, { name, entry, options });
  return data === undefined ? { name, problems } : { name, server: data, problems };
}

/** What the entry leaves out: the transport, that a server is needed, that all tools are meant. */
function completeServer(entry: JsonObject): JsonObject {
  const { tools, ...rest } = entry;
  const isAll = Array.isArray(tools) && tools.length === 1 && tools[0] === "*";
  return {
    transport: entry["command"] === undefined ? "shttp" : "stdio",
    required: true,
    ...rest,
    ...(tools === undefined || isAll ? {} : { tools }),
  };
}

/** Exactly one of `command` and `url` says what a server is, unless it is a mock; and `type` must not say otherwise. */
function kindProblem(name: string, entry: JsonObject, { written }: ReadServersOptions): Problem | undefined {
  const { command, url, transport } = entry;
  const path = written([name]);
  const where = formatKeyPath(path);
  if (transport === "mock") return undefined;
  if (command !== undefined && url !== undefined) {
    const message = `${where} has both command and url, so that it is not clear what it is`;
    const hint = "Keep one of them; null removes one that is inherited.";
    return { code: "config/invalid-value", message, path: written([name, "url"]), at: "key", hint };
  }
  if (command === undefined && url === undefined) {
    const message = `missing key ${neededKey(transport)} in ${where}`;
    const hint = "A program to start has command; a server with an address has url.";
    return { code: "config/missing-key", message, path, at: "key", hint };
  }
  const isLocal = command !== undefined;
  if (transport === undefined || isLocal === (transport === "stdio")) return undefined;
  const message = `${where} has ${isLocal ? "command" : "url"}, which its type does not fit`;
  const hint = isLocal
    ? "A program's type is stdio."
    : "The type of a server with an address is http or sse.";
  return { code: "config/invalid-value", message, path: written([name, "transport"]), at: "value", hint };
}

function neededKey(transport: Json | undefined): string {
  if (transport === undefined) return '"command" or "url"';
  return transport === "stdio" ? '"command"' : '"url"';
}

interface Entry {
  readonly name: string;
  readonly entry: JsonObject;
  readonly options: ReadServersOptions;
}

/** Describes the schema's issues with the keys that the author wrote. */
function describe(issues: readonly z.core.$ZodIssue[], { name, entry, options }: Entry): Problem[] {
  const { written, templates } = options;
  const placed = issues.slice(0, mostProblems).map((issue) => {
    const own = issue.path.map((key) => (typeof key === "symbol" ? String(key) : key));
    const path = [...written([name, ...own])];
    if (issue.code !== "unrecognized_keys" || own.length > 0) return { ...issue, path };
    return { ...issue, path, keys: issue.keys.map((key) => String(written([name, key]).at(-1))) };
  });
  return problemsOfIssues(placed, asWritten(name, entry, written), templates);
}

/** A document that has the entry where messages say it is, with the keys that the author wrote. */
function asWritten(name: string, entry: JsonObject, written: (path: KeyPath) => KeyPath): Json {
  const keys = Object.entries(entry).map(([key, value]) => [String(written([name, key]).at(-1)), value]);
  const members: Json = Object.fromEntries(keys);
  return written([name]).reduceRight<Json>((inner, key) => ({ [key]: inner }), members);
}
