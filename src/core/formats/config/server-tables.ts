import { suggestion } from "../did-you-mean.ts";
import { formatKeyPath, isJsonObject, type KeyPath } from "../json.ts";
import type { Json, JsonObject, ServerLifetime } from "../model.ts";
import { type Problem, validate } from "../problem.ts";
import { mergeServers, normalizeMcpServers, plainServers, readMcpServers } from "./mcp-servers.ts";
import { type Fixtures, mockServers } from "./mock.ts";
import { type BuildServer, type ParsedServer, serverSchema, serverShapes, shapesOfKinds } from "./server.ts";

/** A table of servers by name: as written, for overlays to change, and as parsed. */
export interface ServerTable {
  /** In the spelling of a config. */
  readonly written: JsonObject;
  /** Those that are valid. */
  readonly servers: Readonly<Record<string, ParsedServer>>;
}

/** An overlay changes a table of servers: `null` removes a server, `inherit: false` starts with an empty table. */
export interface ServerOverlay {
  /** In the spelling of a config. */
  readonly table: JsonObject;
  /** Problems of the table by itself. */
  readonly problems: readonly Problem[];
  /** The path in the document of a path in the table. */
  readonly place: (path: KeyPath) => KeyPath;
  /** Whether new servers are `required` unless they say otherwise. */
  readonly isRequired: boolean;
}

export interface MergedTable extends ServerTable {
  readonly problems: readonly Problem[];
}

export interface MergeOptions {
  /** Texts as written, by formatted path, of strings that variables went into. */
  readonly templates?: ReadonlyMap<string, string> | undefined;
}

export const noServers: ServerTable = { written: {}, servers: {} };

/**
 * Reads `servers` or `mcp_servers` of `container` as an overlay; `path` is that of the container. Undefined when it has
 * neither.
 */
export function readOverlay(container: JsonObject, path: KeyPath): ServerOverlay | undefined {
  const { servers, mcp_servers: others } = container;
  if (servers === undefined && others === undefined) return undefined;
  if (servers === undefined) {
    const { table, problems, written } = normalizeMcpServers(others, [...path, "mcp_servers"]);
    return { table, problems, place: written, isRequired: true };
  }
  const at = [...path, "servers"];
  const twice = others === undefined ? [] : [bothSpellings([...path, "mcp_servers"])];
  const { table, problems } = plainOverlay(servers, at);
  const place = (inner: KeyPath): KeyPath => [...at, ...inner];
  return { table, problems: [...twice, ...problems], place, isRequired: false };
}

function bothSpellings(path: KeyPath): Problem {
  const message = "servers and mcp_servers cannot both be given";
  const hint = "They are two spellings of one table; keep one of them.";
  return { code: "config/invalid-value", message, path, at: "key", hint };
}

function plainOverlay(
  servers: Json,
  path: KeyPath,
): { readonly table: JsonObject; readonly problems: Problem[] } {
  if (!isJsonObject(servers))
    return { table: {}, problems: [invalid("must be an object: servers by name", path)] };
  const entries = Object.entries(servers);
  const wrong = entries.filter(([name, server]) => !isRight(name, server));
  return {
    table: Object.fromEntries(
      entries
        .filter(([name, server]) => isRight(name, server))
        .map(([name, server]) => [name, usualTransport(server)]),
    ),
    problems: wrong.map(([name]) =>
      invalid("must be an object, or null to take the server away", [...path, name]),
    ),
  };
}

function isRight(name: string, server: Json): boolean {
  return server === null || isJsonObject(server) || (name === "inherit" && typeof server === "boolean");
}

function invalid(predicate: string, path: KeyPath): Problem {
  return { code: "config/invalid-value", message: `${formatKeyPath(path)} ${predicate}`, path, at: "value" };
}

/** Merges an overlay over servers. Problems of servers that the overlay does not change are left out. */
export function mergeServerTables(
  base: ServerTable,
  overlay: ServerOverlay,
  { templates }: MergeOptions = {},
): MergedTable {
  const below = overlay.table["inherit"] === false ? {} : base.written;
  const unknown = unknownServers(below, overlay);
  const lost = new Set(unknown.map(({ name }) => name));
  const table = Object.fromEntries(Object.entries(overlay.table).filter(([name]) => !lost.has(name)));
  const fitting = withoutOtherKinds(base.written, table);
  const written = mapServers(plainServers(mergeServers(fitting, table)), (server, name) => ({
    ...transportOf(server),
    ...(overlay.isRequired && !Object.hasOwn(below, name) ? { required: true } : {}),
    ...server,
  }));
  const touched = Object.fromEntries(Object.entries(written).filter(([name]) => Object.hasOwn(table, name)));
  const own = readMcpServers(touched, {
    written: overlay.place,
    ...(templates === undefined ? {} : { templates }),
  });
  return {
    written,
    servers: parseServers(written),
    problems: [...overlay.problems, ...unknown.map(({ problem }) => problem), ...own.problems],
  };
}

/** The servers of a table that are valid. */
export function parseServers(written: JsonObject): Readonly<Record<string, ParsedServer>> {
  const valid = Object.entries(written).flatMap(([name, server]) => {
    const { data } = validate(serverSchema, server);
    return data === undefined ? [] : [[name, data] as const];
  });
  return Object.fromEntries(valid);
}

/** The transport that a command or an address implies. */
function transportOf({ command, url, mock }: JsonObject): JsonObject {
  if (command !== undefined) return { transport: "stdio" };
  if (url !== undefined) return { transport: "shttp" };
  return mock === undefined ? {} : { transport: "mock" };
}

interface Unknown {
  readonly name: string;
  readonly problem: Problem;
}

/** Entries that remove or change a server that does not exist. */
function unknownServers(below: JsonObject, { table, place }: ServerOverlay): Unknown[] {
  const known = Object.keys(below);
  const lost = Object.entries(table).filter(
    ([name, server]) => !Object.hasOwn(below, name) && (server === null || isPart(server)),
  );
  return lost.map(([name, server]) => ({
    name,
    problem: {
      code: "config/unknown-reference",
      message: `no server is named ${JSON.stringify(name.slice(0, 80))}`,
      path: place([name]),
      at: server === null ? "value" : "key",
      hint: [suggestion(name, known, "servers"), ...(server === null ? [] : [newServerHint])].join(" "),
    },
  }));
}

const newServerHint = "A new one needs command, url or mock.";

/** Whether an entry leaves open what kind of server it is. */
function isPart(server: Json): boolean {
  return (
    isJsonObject(server) && ["command", "url", "mock", "transport"].every((key) => server[key] === undefined)
  );
}

function mapServers(table: JsonObject, change: (server: JsonObject, name: string) => JsonObject): JsonObject {
  const servers = Object.entries(table).flatMap(([name, server]) =>
    isJsonObject(server) ? [[name, change(server, name)] as const] : [],
  );
  return Object.fromEntries(servers);
}

/**
 * A table of servers without the keys that do not fit the overlay: where an entry of the overlay says what kind of server it is,
 * keys that only other kinds have, and their transport, are removed. Both tables have the keys of a config.
 */
function withoutOtherKinds(base: JsonObject, overlay: JsonObject): JsonObject {
  const servers = Object.entries(base).map(([name, server]): [string, Json] => {
    const above = Object.hasOwn(overlay, name) ? overlay[name] : undefined;
    const kinds = isJsonObject(above) ? kindsSaid(above) : undefined;
    return [name, kinds === undefined || !isJsonObject(server) ? server : fitting(server, kinds)];
  });
  return Object.fromEntries(servers);
}

type Kind = keyof typeof shapesOfKinds;

function isKind(value: Json | undefined): value is Kind {
  return typeof value === "string" && Object.hasOwn(shapesOfKinds, value);
}

/** The possible kinds of an entry; undefined when it names none, or an unknown one. */
function kindsSaid({ transport, command, url, mock }: JsonObject): readonly Kind[] | undefined {
  if (isKind(transport)) return [transport];
  if (isSaid(transport)) return undefined;
  if (isSaid(command)) return ["stdio"];
  if (isSaid(url)) return ["shttp", "sse"];
  return isSaid(mock) ? ["mock"] : undefined;
}

/** Null removes a key. */
function isSaid(value: Json | undefined): boolean {
  return value !== undefined && value !== null;
}

function fitting(server: JsonObject, kinds: readonly Kind[]): JsonObject {
  const members = Object.entries(server).filter(([key, value]) => {
    if (key === "transport") return !isKind(value) || kinds.includes(value);
    return !Object.hasOwn(serverShapes, key) || kinds.some((kind) => Object.hasOwn(shapesOfKinds[kind], key));
  });
  return Object.fromEntries(members);
}

/**
 * A server with the transport as a config names it: `http` is `shttp`, and `type` is another name of `transport`. Other values are
 * left to the schema.
 */
function usualTransport(server: Json): Json {
  if (!isJsonObject(server)) return server;
  const { type, transport, ...rest } = server;
  if (transport === "http" && type === undefined) return { ...server, transport: "shttp" };
  if (transport !== undefined || typeof type !== "string" || !types.includes(type)) return server;
  return { transport: type === "http" ? "shttp" : type, ...rest };
}

const types = ["stdio", "http", "shttp", "sse"];

/** An object with `server` or `servers`, in which every transport is named as in a config. */
export function withUsualTransports(container: Json): Json {
  if (!isJsonObject(container)) return container;
  const { server, servers } = container;
  return {
    ...container,
    ...(server === undefined ? {} : { server: usualTransport(server) }),
    ...(isJsonObject(servers) ? { servers: usualTable(servers) } : {}),
  };
}

function usualTable(servers: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(servers).map(([name, server]) => [name, usualTransport(server)]));
}

/** A set of servers under a name. */
export interface VariantTable extends ServerTable {
  readonly name: string;
}

/** The servers of a config, and those of its variants. */
export interface ConfigServers extends ServerTable {
  /** Absent when it has none. */
  readonly variants?: readonly VariantTable[];
  /** Problems of `mcp_servers`, `mcp_mocks` and `variants`; the schema of the config finds the others. */
  readonly problems: readonly Problem[];
}

export interface ConfigServersOptions {
  /** Path of the object that has the tables. Default: the document itself. */
  readonly path?: KeyPath;
  /** Servers from outside; those of the object override them. */
  readonly provided?: ServerTable;
  /** Servers from outside that override those of the object. */
  readonly winning?: ServerTable;
  readonly readFixtures?: ((path: string) => Fixtures) | undefined;
  /** Texts as written, by formatted path, of strings that variables went into. */
  readonly templates?: ReadonlyMap<string, string> | undefined;
}

/** Reads `server`, `servers`, `mcp_servers`, `mocks`, `mcp_mocks` and `variants`. Never fails. */
export function readConfigServers(document: Json, options: ConfigServersOptions = {}): ConfigServers {
  const { path = [], provided = noServers, winning = noServers, readFixtures } = options;
  const container = isJsonObject(document) ? document : {};
  const declared = declaredServers(container, options);
  const mocks = mockServers(container, { path, readFixtures });
  const written = { ...provided.written, ...declared.written, ...mocks.servers, ...winning.written };
  const base: ServerTable = { written, servers: parseServers(written) };
  const variants = readVariants(container["variants"], base, { ...options, path: [...path, "variants"] });
  return {
    ...base,
    ...(variants === undefined ? {} : { variants: variants.map(({ table }) => table) }),
    problems: [
      ...declared.problems,
      ...mocks.problems,
      ...(variants ?? []).flatMap(({ problems }) => problems),
    ],
  };
}

interface Declared {
  readonly written: JsonObject;
  readonly problems: readonly Problem[];
}

function declaredServers(container: JsonObject, { path = [], templates }: ConfigServersOptions): Declared {
  const { server, servers, mcp_servers: others } = container;
  if (others !== undefined && (server !== undefined || servers !== undefined)) {
    return { written: tableOf(container), problems: [bothSpellings([...path, "mcp_servers"])] };
  }
  if (others === undefined) return { written: tableOf(container), problems: [] };
  const overlay = readOverlay({ mcp_servers: others }, path);
  return overlay === undefined
    ? { written: {}, problems: [] }
    : mergeServerTables(noServers, overlay, { templates });
}

function tableOf({ server, servers }: JsonObject): JsonObject {
  if (server !== undefined) return { default: server };
  return isJsonObject(servers) ? servers : {};
}

interface ReadVariant {
  readonly table: VariantTable;
  readonly problems: readonly Problem[];
}

function readVariants(
  variants: Json | undefined,
  base: ServerTable,
  { path = [], templates }: ConfigServersOptions,
): ReadVariant[] | undefined {
  if (!isJsonObject(variants) || Object.keys(variants).length === 0) return undefined;
  return Object.entries(variants).map(([name, variant]) => {
    const overlay = readOverlay(isJsonObject(variant) ? variant : {}, [...path, name]);
    if (overlay === undefined) return { table: { ...base, name }, problems: [] };
    const { problems, ...table } = mergeServerTables(base, overlay, { templates });
    return { table: { ...table, name }, problems };
  });
}

/** The servers that an eval gives to its tasks, and over which their own are merged. */
export interface ProvidedServers {
  readonly base: ServerTable;
  /** Absent when the eval has none. */
  readonly variants?: readonly VariantTable[];
  readonly build: BuildServer;
  /** Lifetime of servers that set none. */
  readonly lifetime?: ServerLifetime;
}
