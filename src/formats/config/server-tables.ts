import { suggestion } from "../../base/did-you-mean.ts";
import {
  formatKeyPath,
  isJsonObject,
  type Json,
  type JsonObject,
  type KeyPath,
  mapValues,
} from "../../base/json.ts";
import { maxProblems, type Problem, problem, problemAt, validate } from "../../base/problem.ts";
import { problemsOfIssues } from "../../model/zod-problems.ts";
import {
  type BuildServer,
  type ParsedServer,
  programKeys,
  type ServerLifetime,
  serverSchema,
  serverShapes,
  shapesOfKinds,
} from "../../model/server.ts";

/** Servers by name: as written, so that others can be merged over them, and as parsed. */
export interface ServerTable {
  /** With the keys of a config. */
  readonly written: JsonObject;
  /** Those that are valid. */
  readonly servers: Readonly<Record<string, ParsedServer>>;
}

/** A table that is merged over another: `null` removes a server, `inherit: false` starts with an empty table. */
export interface ServerOverlay {
  /** With the keys of a config. */
  readonly table: JsonObject;
  /** Problems of names, keys and types; the schema of servers finds the others. */
  readonly problems: readonly Problem[];
  /** The path in the document of a path in the table. */
  readonly place: (path: KeyPath) => KeyPath;
  /** Whether new servers are `required` unless they say otherwise. */
  readonly isRequired: boolean;
}

export interface MergedTable extends ServerTable {
  readonly problems: readonly Problem[];
}

/** Texts as written, by formatted path, of strings that variables went into. */
type Templates = ReadonlyMap<string, string> | undefined;

export const noServers: ServerTable = { written: {}, servers: {} };

/** Whether null or another value is given; null removes a key. */
function isGiven(value: Json | undefined): boolean {
  return value !== undefined && value !== null;
}

/** The `servers` of an object at `path`; undefined when it has none. */
export function readOverlay({ servers }: JsonObject, path: KeyPath): ServerOverlay | undefined {
  if (servers === undefined) return undefined;
  const at = [...path, "servers"];
  const problems: Problem[] = [];
  const table = new Map<string, Json>();
  if (!isJsonObject(servers)) problems.push(problemAt(at, "must be an object: servers by name"));
  for (const [name, server] of Object.entries(isJsonObject(servers) ? servers : {})) {
    if (server === null || isJsonObject(server) || (name === "inherit" && typeof server === "boolean"))
      table.set(name, defaultTransport(server));
    else problems.push(problemAt([...at, name], "must be an object, or null to take the server away"));
  }
  return {
    table: Object.fromEntries(table),
    problems,
    place: (inner) => [...at, ...inner],
    isRequired: false,
  };
}

/** A server with the transport as a config names it: `http` is `shttp`, and `type` is another name of `transport`. */
function defaultTransport(server: Json): Json {
  if (!isJsonObject(server)) return server;
  const { type, transport, ...rest } = server;
  if (transport === "http" && type === undefined) return { ...server, transport: "shttp" };
  if (transport !== undefined || typeof type !== "string") return server;
  if (!["stdio", "http", "shttp", "sse"].includes(type)) return server;
  return { transport: type === "http" ? "shttp" : type, ...rest };
}

/** An object with `server` or `servers`, in which every transport is named as in a config. */
export function withUsualTransports(container: Json): Json {
  if (!isJsonObject(container)) return container;
  const { server, servers } = container;
  return {
    ...container,
    ...(server === undefined ? {} : { server: defaultTransport(server) }),
    ...(isJsonObject(servers) ? { servers: mapValues(servers, defaultTransport) } : {}),
  };
}

/**
 * Merges one table of servers over another: maps are merged by key, everything else is replaced, `null` removes what is
 * below, and a map with `inherit: false` takes nothing from below. The result keeps nulls and `inherit`, so it can be merged over
 * others: the merge is associative, and `{}` changes nothing. `plainServers` gives the final table.
 */
export function mergeServers(base: JsonObject, overlay: JsonObject): JsonObject {
  return mergeMaps(base, overlay, 0);
}

/** Depth 0 is the table of servers, 1 a server, whose `mock` is one value. */
function mergeMaps(base: JsonObject, overlay: JsonObject, depth: number): JsonObject {
  if (overlay["inherit"] === false) return overlay;
  const keys = new Set([...Object.keys(base), ...Object.keys(overlay)]);
  const members = [...keys].map((key): [string, Json] => {
    const below = Object.hasOwn(base, key) ? base[key] : undefined;
    const above = Object.hasOwn(overlay, key) ? overlay[key] : undefined;
    if (above === undefined) return [key, below ?? null];
    if (below === undefined || isMock(key, depth) || !isJsonObject(above)) return [key, above];
    // A map over something else hides it, also from tables that this one is merged over later.
    return [key, isJsonObject(below) ? mergeMaps(below, above, depth + 1) : { ...above, inherit: false }];
  });
  const table = Object.fromEntries(members);
  return base["inherit"] === false ? { ...table, inherit: false } : table;
}

function isMock(key: string, depth: number): boolean {
  return depth === 1 && key === "mock";
}

/** The final table: without removed members and `inherit`. */
export function plainServers(table: JsonObject, depth = 0): JsonObject {
  const members = Object.entries(table)
    .filter(([key, value]) => value !== null && !(key === "inherit" && typeof value === "boolean"))
    .map(([key, value]): [string, Json] => [
      key,
      isJsonObject(value) && !isMock(key, depth) ? plainServers(value, depth + 1) : value,
    ]);
  return Object.fromEntries(members);
}

/**
 * Merges an overlay over servers. Problems of servers that the overlay does not change are left out. Without `base` the overlay
 * is the whole table: an entry that lacks what a server needs is then an incomplete server, not a change of an unknown one.
 */
export function mergeServerTables(
  base: ServerTable | undefined,
  overlay: ServerOverlay,
  templates?: Templates,
): MergedTable {
  const { place } = overlay;
  const below = overlay.table["inherit"] === false ? {} : (base?.written ?? {});
  const problems = [...overlay.problems];
  const changes: [string, Json][] = [];
  for (const [name, entry] of Object.entries(overlay.table)) {
    const isChange = entry === null || (base !== undefined && isJsonObject(entry) && !saysKind(entry));
    if (isChange && !Object.hasOwn(below, name)) problems.push(unknownServer(name, entry, below, place));
    else changes.push([name, entry]);
  }
  const table = Object.fromEntries(changes);
  const fitting = mapValues(base?.written ?? {}, (server, name) =>
    isJsonObject(server)
      ? withoutOtherKinds(server, Object.hasOwn(table, name) ? table[name] : null)
      : server,
  );
  const written: [string, Json][] = [];
  const servers: [string, ParsedServer][] = [];
  for (const [name, server] of Object.entries(plainServers(mergeServers(fitting, table)))) {
    if (!isJsonObject(server)) continue;
    const isNew = !Object.hasOwn(below, name);
    const { command, url, mock } = server;
    const implied =
      url !== undefined ? "shttp" : command !== undefined ? "stdio" : mock === undefined ? undefined : "mock";
    const whole = {
      ...(implied === undefined ? {} : { transport: implied }),
      ...(overlay.isRequired && isNew ? { required: true } : {}),
      ...server,
    };
    written.push([name, whole]);
    const { data, problems: own } = readServer(name, whole, { place, templates });
    if (data !== undefined) servers.push([name, data]);
    if (Object.hasOwn(table, name)) problems.push(...own);
  }
  return { written: Object.fromEntries(written), servers: Object.fromEntries(servers), problems };
}

export function saysKind(entry: Json): boolean {
  return (
    isJsonObject(entry) && ["command", "url", "mock", "transport"].some((key) => entry[key] !== undefined)
  );
}

function unknownServer(name: string, entry: Json, below: JsonObject, place: ServerOverlay["place"]): Problem {
  const known = suggestion(name, Object.keys(below), "servers");
  return problem(place([name]), `no server is named ${JSON.stringify(name.slice(0, 80))}`, {
    code: "config/unknown-reference",
    at: entry === null ? "value" : "key",
    hint: entry === null ? known : `${known} A new one needs command, url or mock.`,
  });
}

type Kind = keyof typeof shapesOfKinds;

function isKind(value: Json | undefined): value is Kind {
  return typeof value === "string" && Object.hasOwn(shapesOfKinds, value);
}

/**
 * A server without its transport and the keys that no kind of server has which the entry above can mean. A program over stdio
 * is not the one that serves at a URL above it.
 */
function withoutOtherKinds(server: JsonObject, above: Json | undefined): JsonObject {
  const { transport, command, url, mock } = isJsonObject(above) ? above : {};
  const isListening = isGiven(server["command"]) && isGiven(server["url"]);
  let kinds: readonly Kind[];
  if (isKind(transport)) kinds = [transport];
  else if (isGiven(transport)) return server;
  else if (isGiven(command) && !isListening && !isGiven(url)) kinds = ["stdio"];
  else if (isGiven(command) || isGiven(url)) kinds = ["shttp", "sse"];
  else if (isGiven(mock)) kinds = ["mock"];
  else return server;
  const members = Object.entries(server).filter(([key, value]) => {
    if (key === "transport") return !isKind(value) || kinds.includes(value);
    if (programKeys.includes(key) && !isListening && !kinds.includes("stdio")) return false;
    return !Object.hasOwn(serverShapes, key) || kinds.some((kind) => Object.hasOwn(shapesOfKinds[kind], key));
  });
  return Object.fromEntries(members);
}

/** The servers of a table that are valid. */
export function parseServers(written: JsonObject): Readonly<Record<string, ParsedServer>> {
  const valid = Object.entries(written).flatMap(([name, server]) => {
    const { data } = validate(serverSchema, server);
    return data === undefined ? [] : [[name, data] as const];
  });
  return Object.fromEntries(valid);
}

/** Reads a whole server; its problems name the keys that the author wrote. */
function readServer(
  name: string,
  server: JsonObject,
  { place, templates }: Pick<ServerOverlay, "place"> & { readonly templates: Templates },
): { readonly data?: ParsedServer; readonly problems: readonly Problem[] } {
  const unclear = kindProblem(name, server, place);
  if (unclear !== undefined) return { problems: [unclear] };
  const { data, issues } = validate(serverSchema, server);
  if (data !== undefined) return { data, problems: [] };
  const keyOf = (key: string): string => String(place([name, key]).at(-1));
  const placed = issues.slice(0, maxProblems).map((issue) => {
    const own = issue.path.map((key) => (typeof key === "symbol" ? String(key) : key));
    const path = [...place([name, ...own])];
    const isUnknown = issue.code === "unrecognized_keys" && own.length === 0;
    return isUnknown ? { ...issue, path, keys: issue.keys.map(keyOf) } : { ...issue, path };
  });
  const members = Object.fromEntries(Object.entries(server).map(([key, value]) => [keyOf(key), value]));
  const document = place([name]).reduceRight<Json>((inner, key) => ({ [key]: inner }), members);
  return { problems: problemsOfIssues(placed, document, templates) };
}

/** `command` or `url`, or both, say what a server is, unless it is a mock; and its transport must fit. */
function kindProblem(name: string, server: JsonObject, place: ServerOverlay["place"]): Problem | undefined {
  const { command, url, transport } = server;
  if (transport === "mock") return undefined;
  const path = place([name]);
  const where = formatKeyPath(path);
  if (command === undefined && url === undefined) {
    const needed =
      transport === undefined ? '"command" or "url"' : transport === "stdio" ? '"command"' : '"url"';
    const message = `missing key ${needed} in ${where}`;
    const hint = "A program to start has command; a server with an address has url.";
    return problem(path, message, { code: "config/missing-key", at: "key", hint });
  }
  const isLocal = url === undefined;
  if (transport === undefined || isLocal === (transport === "stdio")) return undefined;
  const message = `${where}: ${isLocal ? "command" : "url"} does not fit its type`;
  const hint = isLocal
    ? "A program's type is stdio."
    : "The type of a server with an address is http or sse.";
  return problem(place([name, "transport"]), message, { hint });
}

/** A set of servers under a name. */
export interface VariantTable extends ServerTable {
  readonly name: string;
}

export interface ConfigServers extends ServerTable {
  /** Absent when it has none. */
  readonly variants?: readonly VariantTable[];
  /** Problems of `variants`; the schema of the config finds the others. */
  readonly problems: readonly Problem[];
}

export interface ConfigServersOptions {
  /** Path of the object that has the tables. Default: the document itself. */
  readonly path?: KeyPath;
  /** Servers from outside; those of the object override them. */
  readonly provided?: ServerTable;
  /** Servers from outside that override those of the object. */
  readonly winning?: ServerTable;
  readonly templates?: Templates;
}

/** Reads `server`, `servers`, `mocks` and `variants`. Never fails. */
export function readConfigServers(document: Json, options: ConfigServersOptions = {}): ConfigServers {
  const { path = [], provided = noServers, winning = noServers, templates } = options;
  const { server, servers, mocks, variants: sets } = isJsonObject(document) ? document : {};
  const declared = server !== undefined ? { default: server } : isJsonObject(servers) ? servers : {};
  const written = { ...provided.written, ...declared, ...asServers(mocks), ...winning.written };
  const base: ServerTable = { written, servers: parseServers(written) };
  if (!isJsonObject(sets) || Object.keys(sets).length === 0) return { ...base, problems: [] };
  const problems: Problem[] = [];
  const variants = Object.entries(sets).map(([name, variant]): VariantTable => {
    const overlay = readOverlay(isJsonObject(variant) ? variant : {}, [...path, "variants", name]);
    if (overlay === undefined) return { ...base, name };
    const { problems: own, ...table } = mergeServerTables(base, overlay, templates);
    problems.push(...own);
    return { ...table, name };
  });
  return { ...base, variants, problems };
}

/** Mocks by the names of servers, as servers. */
export function asServers(mocks: Json | undefined): JsonObject {
  return mapValues(isJsonObject(mocks) ? mocks : {}, (mock) => ({ transport: "mock", mock }));
}

/** The servers that an eval gives to its tasks; those of the tasks are merged over them. */
export interface ProvidedServers {
  readonly base: ServerTable;
  /** Absent when the eval has none. */
  readonly variants?: readonly VariantTable[];
  readonly build: BuildServer;
  /** Lifetime of servers that set none. */
  readonly lifetime?: ServerLifetime;
}
