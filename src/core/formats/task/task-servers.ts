import { parseTemplate, taskRoots } from "../../templates/template.ts";
import { buildServer, buildServers, type ParsedServer } from "../config/server.ts";
import {
  mergeServerTables,
  noServers,
  saysKind,
  type ServerOverlay,
  type ServerTable,
} from "../config/server-tables.ts";
import { isJsonObject } from "../json.ts";
import type { Json, JsonObject, ServerSpec } from "../model.ts";
import type { Problem } from "../problem.ts";
import type { ParseTaskOptions } from "./task-options.ts";

type Servers = Readonly<Record<string, ServerSpec>>;

export interface TaskServers {
  /** Those that the task declares, or that it changes. */
  readonly own: Servers;
  /** All servers that it starts, by variant of the eval; absent when there are none. */
  readonly variants?: Readonly<Record<string, Servers>>;
  readonly problems: readonly Problem[];
}

/**
 * Lays the `servers` of a task over those of the eval, and over those of each of its variants. An entry that says what it is
 * (`command`, `url`, `mock`) is a server of the task's own; another one changes the eval's server of that name, and none where
 * a variant lacks that server.
 */
export function mergeTaskServers(overlay: ServerOverlay | undefined, options: ParseTaskOptions): TaskServers {
  const { provided } = options;
  const base = lay(overlay, provided?.base ?? noServers, options);
  const variants = provided?.variants?.map(({ name, ...table }) => ({
    name,
    ...lay(overlay, table, options),
  }));
  const problems = [...base.problems, ...(variants ?? []).flatMap((variant) => variant.problems)];
  return {
    own: base.own,
    ...(variants === undefined
      ? {}
      : { variants: Object.fromEntries(variants.map(({ name, all }) => [name, all])) }),
    problems: [...new Map(problems.map((problem) => [problem.message, problem])).values()],
  };
}

interface Laid {
  /** Those that the overlay touches. */
  readonly own: Servers;
  readonly all: Servers;
  readonly problems: readonly Problem[];
}

function lay(overlay: ServerOverlay | undefined, base: ServerTable, options: ParseTaskOptions): Laid {
  const { provided } = options;
  const inherited = provided === undefined ? {} : buildServers(base.servers, provided.build);
  if (overlay === undefined) return { own: {}, all: inherited, problems: [] };
  const table = fitting(overlay.table, base.written);
  const { servers, problems } = mergeServerTables(base, { ...overlay, table: sampled(table) });
  const built = Object.entries(servers).map(([name, server]): readonly [string, ServerSpec] => {
    const entry = table[name];
    const below = inherited[name];
    if (!isJsonObject(entry) && below !== undefined) return [name, below];
    return [name, buildOwn(name, server, { entry: isJsonObject(entry) ? entry : {}, options })];
  });
  const own = built.filter(([name]) => isJsonObject(table[name]));
  return { own: Object.fromEntries(own), all: Object.fromEntries(built), problems };
}

/** The entries that mean something here: what is taken away or changed has to be there. */
function fitting(table: JsonObject, below: JsonObject): JsonObject {
  const isThere = (name: string): boolean => table["inherit"] !== false && Object.hasOwn(below, name);
  return Object.fromEntries(
    Object.entries(table)
      .filter(([name, entry]) => typeof entry === "boolean" || saysKind(entry) || isThere(name))
      .map(([name, entry]) => [
        name,
        isJsonObject(entry) && saysKind(entry) ? { ...entry, inherit: false } : entry,
      ]),
  );
}

interface OwnServer {
  /** As written. */
  readonly entry: JsonObject;
  readonly options: ParseTaskOptions;
}

const defaultStartupMs = 30_000;

/** Paths of the task's own start from its folder, others from the eval's. */
function buildOwn(name: string, server: ParsedServer, { entry, options }: OwnServer): ServerSpec {
  const { completeStdio, resolvePath, provided } = options;
  const { url } = entry;
  if (saysKind(entry)) {
    const starting = {
      completeStdio,
      startupTimeoutMs: defaultStartupMs,
      lifetime: provided?.lifetime,
      resolvePath,
    };
    const spec = buildServer(name, server, starting);
    return "url" in spec && typeof url === "string" ? { ...spec, url } : spec;
  }
  if (provided === undefined) throw new Error(`nothing is known of the server that is changed: ${name}`);
  const isMoved = server.transport === "stdio" && typeof entry["cwd"] === "string";
  return provided.build(name, isMoved ? { ...server, cwd: completeStdio(server, name).cwd } : server);
}

/** Addresses are checked with something in the place of their templates. */
function sampled(table: JsonObject): JsonObject {
  const entries = Object.entries(table).map(([name, server]): [string, Json] => {
    const url = isJsonObject(server) ? server["url"] : undefined;
    return [
      name,
      isJsonObject(server) && typeof url === "string" ? { ...server, url: sampleAddress(url) } : server,
    ];
  });
  return Object.fromEntries(entries);
}

/** An address with something in the place of every template. */
function sampleAddress(url: string): string {
  const parts = parseTemplate(url, (root) => taskRoots.some((each) => each === root));
  if (parts.every((part) => typeof part === "string")) return url;
  if (typeof parts[0] !== "string") return "http://127.0.0.1/";
  return parts.map((part) => (typeof part === "string" ? part : "1")).join("");
}
