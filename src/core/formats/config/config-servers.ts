import { isJsonObject, type KeyPath } from "../json.ts";
import type { Json, JsonObject, ServerLifetime } from "../model.ts";
import type { Problem } from "../problem.ts";
import type { BuildServer } from "./build-server.ts";
import { type Fixtures, mockServers } from "./mock-tables.ts";
import {
  bothSpellings,
  layServers,
  noServers,
  parseServers,
  readOverlay,
  type ServerTable,
} from "./server-tables.ts";

/** A set of servers under a name. */
export interface VariantTable extends ServerTable {
  readonly name: string;
}

/** The servers of a config, and those of its variants. */
export interface ConfigServers extends ServerTable {
  /** Absent when it has none. */
  readonly variants?: readonly VariantTable[];
  /** What is wrong with `mcp_servers`, `mcp_mocks` and `variants`; the rest is left to the schema of the config. */
  readonly problems: readonly Problem[];
}

export interface ConfigServersOptions {
  /** Path of the object that has the tables. Default: the document itself. */
  readonly path?: KeyPath;
  /** Servers from outside, which those of the object win over. */
  readonly provided?: ServerTable;
  /** Servers from outside, which win over those of the object. */
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
    : layServers(noServers, overlay, { templates });
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
    const { problems, ...table } = layServers(base, overlay, { templates });
    return { table: { ...table, name }, problems };
  });
}

/** What an eval gives to its tasks, and what their own servers are laid over. */
export interface ProvidedServers {
  readonly base: ServerTable;
  /** Absent when the eval has none. */
  readonly variants?: readonly VariantTable[];
  readonly build: BuildServer;
  /** Lifetime of servers that set none. */
  readonly lifetime?: ServerLifetime;
}
