import type * as z from "zod";
import { suggestion } from "../did-you-mean.ts";
import { formatKeyPath, isJsonObject, type KeyPath } from "../json.ts";
import type { Json, JsonObject } from "../model.ts";
import { mostProblems, type Problem, validate } from "../problem.ts";
import { problemsOfIssues } from "../zod-problems.ts";
import { type ParsedServer, serverSchema, serverShapes } from "./server.ts";

/** Keys of `mcp_servers` entries that a config calls otherwise, with the config's name. */
const aliases: ReadonlyMap<string, string> = new Map([
  ["working_dir", "cwd"],
  ["workingDir", "cwd"],
  ["workdir", "cwd"],
  ["startup_timeout_ms", "startupTimeout"],
  ["capture_stderr", "captureStderr"],
  ["rate_limit", "rateLimit"],
  ["inherit_env", "inheritEnv"],
  ["max_message_bytes", "maxMessageBytes"],
]);

/** Names of transports in `type` and `transport`, with the config's name; without case, `-` and `_`. */
export const transports: ReadonlyMap<string, string> = new Map([
  ["stdio", "stdio"],
  ["local", "stdio"],
  ["http", "shttp"],
  ["streamablehttp", "shttp"],
  ["shttp", "shttp"],
  ["sse", "sse"],
  ["mock", "mock"],
]);

/** Names to suggest for an unknown type. */
export const typeNames: readonly string[] = [
  "stdio",
  "local",
  "http",
  "streamable-http",
  "sse",
  "remote",
  "mock",
];

/** Every key that an entry may have, in its own spelling first. */
export const entryKeys: readonly string[] = [
  ...new Set([
    "type",
    "command",
    "args",
    "env",
    "cwd",
    "url",
    "transport",
    "headers",
    "tools",
    "startup_timeout_ms",
    "lifetime",
    "required",
    "capture_stderr",
    ...Object.keys(serverShapes),
    ...aliases.keys(),
  ]),
];

/** The config's name of a key. */
export function canonicalKey(key: string): string {
  return aliases.get(key) ?? key;
}

/** A table of `mcp_servers` with the keys of a config's `servers`. */
export interface NormalizedServers {
  /**
   * The servers, and null and `inherit: false` as they were written: what `mergeServers` takes. Once merged, and made plain,
   * `completeServers` makes a config's `servers` of it.
   */
  readonly table: JsonObject;
  /** Problems of names, keys and types; the schema of servers finds the others. */
  readonly problems: readonly Problem[];
  /** The path in the document of a path in `table`. */
  readonly written: (path: KeyPath) => KeyPath;
}

/**
 * Renames the keys and types of an `mcp_servers` table as in a config: `workingDir` is `cwd`, `type: http`
 * is `transport: shttp`. `path` says where in the document the table stands. Entries may lack parts that a table below has.
 */
export function normalizeMcpServers(document: Json | undefined, path: KeyPath): NormalizedServers {
  const state: State = { problems: [], renamed: new Map() };
  const written = (place: KeyPath): KeyPath => [...path, ...writtenPath(place, state.renamed)];
  if (document === undefined || document === null) return { table: {}, problems: [], written };
  if (!isJsonObject(document)) {
    state.problems.push(invalid("must be an object: servers by name", path));
    return { table: {}, problems: state.problems, written };
  }
  const members = Object.entries(document).flatMap(([name, entry]) =>
    readEntry(name, entry, { path: [...path, name], state }),
  );
  return { table: Object.fromEntries(members), problems: state.problems, written };
}

interface State {
  readonly problems: Problem[];
  /** Keys as written, by server and the config's name. */
  readonly renamed: Map<string, string>;
}

interface Place {
  readonly path: KeyPath;
  readonly state: State;
}

/** `__proto__` is no key that objects keep. */
const namePattern = /^(?!__proto__$)[A-Za-z0-9_-]+$/;

function readEntry(name: string, entry: Json, place: Place): [string, Json][] {
  const { path, state } = place;
  if (name === "inherit") {
    if (typeof entry === "boolean") return [[name, entry]];
    const message = `${formatKeyPath(path)} must be true or false; no server can have this name`;
    state.problems.push({ code: "config/invalid-value", message, path, at: "value" });
    return [];
  }
  if (!namePattern.test(name)) {
    const message = `the name of a server must be of letters, digits, _ and -, not ${JSON.stringify(name.slice(0, 80))}`;
    state.problems.push({ code: "config/invalid-value", message, path, at: "key" });
    return [];
  }
  if (entry === null) return [[name, null]];
  if (!isJsonObject(entry)) {
    state.problems.push(invalid("must be an object, or null to remove the server", path));
    return [];
  }
  return [[name, renameKeys(name, entry, place)]];
}

function renameKeys(name: string, entry: JsonObject, place: Place): JsonObject {
  const members = new Map<string, Json>();
  for (const [key, value] of Object.entries(entry)) {
    const canonical = key === "type" ? "transport" : canonicalKey(key);
    if (key !== "inherit" && !entryKeys.includes(key)) refuseKey(key, place);
    else if (members.has(canonical) && key !== "type" && key !== "transport")
      refuseDuplicate(key, place.state.renamed.get(settingKey(name, canonical)) ?? canonical, place);
    else if (canonical !== "transport") {
      members.set(canonical, value);
      place.state.renamed.set(settingKey(name, canonical), key);
    }
  }
  const transport = readTransport(entry, place);
  if (transport === undefined) return Object.fromEntries(members);
  place.state.renamed.set(settingKey(name, "transport"), entry["type"] === undefined ? "transport" : "type");
  return Object.fromEntries([["transport", transport], ...members]);
}

function refuseKey(key: string, { path, state }: Place): void {
  state.problems.push({
    code: "config/unknown-key",
    message: `unknown key ${JSON.stringify(key.slice(0, 80))} in ${formatKeyPath(path)}`,
    path: [...path, key],
    at: "key",
    hint: usualKeys.get(key) ?? suggestion(key, entryKeys, "keys"),
  });
}

/** Keys of other tools without an equivalent key, with what to write instead. */
const usualKeys: ReadonlyMap<string, string> = new Map([
  ["timeout", "How long the start may take is startup_timeout_ms, in milliseconds."],
  ["disabled", "Leave the server out, or write null for it where it is inherited."],
  ["alwaysAllow", "The tools that an agent may use are tools."],
  ["allowedTools", "The tools that an agent may use are tools."],
  ["allowed_tools", "The tools that an agent may use are tools."],
]);

function refuseDuplicate(key: string, first: string, { path, state }: Place): void {
  const message = `${key} and ${first} in ${formatKeyPath(path)} are the same setting`;
  const hint = "Keep one of them.";
  state.problems.push({ code: "config/duplicate-name", message, path: [...path, key], at: "key", hint });
}

interface Said {
  readonly transport: string | null;
}

/** What `type` and `transport` say together; `remote` leaves it to `transport`. Undefined: neither says anything. */
function readTransport(entry: JsonObject, { path, state }: Place): Json | undefined {
  const found = (["type", "transport"] as const).flatMap((key): Said[] => {
    const value = entry[key];
    if (value === undefined) return [];
    if (value === null) return [{ transport: null }];
    const word = typeof value === "string" ? value.toLowerCase().replaceAll(/[-_\s]/g, "") : "";
    if (key === "type" && word === "remote") return [];
    const transport = transports.get(word);
    if (transport !== undefined) return [{ transport }];
    const hint = suggestion(typeof value === "string" ? value : "", typeNames, "types");
    const problem = invalid("is not a type of server", [...path, key]);
    state.problems.push({ ...problem, hint });
    return [];
  });
  const [first, second] = found;
  if (first === undefined) return entry["type"] === undefined ? undefined : remoteOr(entry);
  if (second === undefined || second.transport === first.transport) return first.transport;
  const message = `type and transport in ${formatKeyPath(path)} contradict each other`;
  state.problems.push({ code: "config/invalid-value", message, path: [...path, "transport"], at: "value" });
  return first.transport;
}

function remoteOr({ type }: JsonObject): Json | undefined {
  return typeof type === "string" && type.toLowerCase() === "remote" ? "shttp" : undefined;
}

function invalid(predicate: string, path: KeyPath): Problem {
  return { code: "config/invalid-value", message: `${formatKeyPath(path)} ${predicate}`, path, at: "value" };
}

function settingKey(server: string | number, key: string | number): string {
  return JSON.stringify([server, key]);
}

function writtenPath([server, key, ...rest]: KeyPath, renamed: ReadonlyMap<string, string>): KeyPath {
  if (server === undefined) return [];
  if (key === undefined) return [server];
  return [server, renamed.get(settingKey(server, key)) ?? key, ...rest];
}

/** The key that, with `false`, makes a table start empty; a boolean, so never a server or a variable. */
const marker = "inherit";

/** Members of a server that are one value: what they hold is data, in which null and `inherit` mean nothing. */
const whole: ReadonlySet<string> = new Set(["mock"]);

/**
 * Merges one `mcp_servers` table over another: tables are merged by key, everything else is replaced, `null` removes what is
 * below, and a table with `inherit: false` takes nothing from below. The result keeps nulls and markers, so it can be merged over
 * others: the merge is associative, and `{}` changes nothing. `plainServers` gives the final table.
 */
export function mergeServers(base: JsonObject, overlay: JsonObject): JsonObject {
  return mergeTables(base, overlay, 0);
}

/** The final table: without removed members and markers. */
export function plainServers(table: JsonObject): JsonObject {
  return plainTable(table, 0);
}

/** Depth 0 is the table of servers, 1 a server. */
function mergeTables(base: JsonObject, overlay: JsonObject, depth: number): JsonObject {
  if (overlay[marker] === false) return overlay;
  const members = [...new Set([...Object.keys(base), ...Object.keys(overlay)])].map((key): [string, Json] => [
    key,
    mergeMember(base, overlay, { key, depth }),
  ]);
  const table = Object.fromEntries(members);
  return base[marker] === false ? { ...table, [marker]: false } : table;
}

interface MemberPlace {
  readonly key: string;
  readonly depth: number;
}

function mergeMember(base: JsonObject, overlay: JsonObject, { key, depth }: MemberPlace): Json {
  const below = Object.hasOwn(base, key) ? base[key] : undefined;
  const above = Object.hasOwn(overlay, key) ? overlay[key] : undefined;
  if (above === undefined) return below ?? null;
  if (below === undefined || isWhole(key, depth) || !isJsonObject(above)) return above;
  // A table over something that is none hides it, also from tables that are laid below later.
  return isJsonObject(below) ? mergeTables(below, above, depth + 1) : { ...above, [marker]: false };
}

function plainTable(table: JsonObject, depth: number): JsonObject {
  const members = Object.entries(table)
    .filter(([key, value]) => value !== null && !(key === marker && typeof value === "boolean"))
    .map(([key, value]): [string, Json] => [
      key,
      isJsonObject(value) && !isWhole(key, depth) ? plainTable(value, depth + 1) : value,
    ]);
  return Object.fromEntries(members);
}

function isWhole(key: string, depth: number): boolean {
  return depth === 1 && whole.has(key);
}

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

/** Fills in the transport and `required`, and leaves out `tools` that name all. */
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
