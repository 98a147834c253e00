import { parseTemplate, taskRoots } from "../../templates/template.ts";
import { buildServer, buildServers, type ParsedServer } from "../config/server.ts";
import {
  mergeServerTables,
  noServers,
  saysKind,
  type ServerOverlay,
  type ServerTable,
} from "../config/server-tables.ts";
import { isJsonObject, type JsonObject, withoutUndefined } from "../json.ts";
import type { ServerSpec } from "../model.ts";
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
 * Merges the `servers` of a task over those of the eval, and over those of each of its variants. An entry that says what it is
 * (`command`, `url`, `mock`) is a server of the task's own; another one changes the eval's server of that name, and none where
 * a variant lacks that server.
 */
export function mergeTaskServers(overlay: ServerOverlay | undefined, options: ParseTaskOptions): TaskServers {
  const { provided } = options;
  const base = mergeOver(provided?.base ?? noServers, overlay, options);
  const variants = provided?.variants?.map(
    ({ name, ...table }) => [name, mergeOver(table, overlay, options)] as const,
  );
  const problems = [...base.problems, ...(variants ?? []).flatMap(([, variant]) => variant.problems)];
  return withoutUndefined({
    own: base.own,
    variants: variants && Object.fromEntries(variants.map(([name, { all }]) => [name, all])),
    problems: [...new Map(problems.map((problem) => [problem.message, problem])).values()],
  });
}

interface Merged {
  /** Those that the overlay touches. */
  readonly own: Servers;
  readonly all: Servers;
  readonly problems: readonly Problem[];
}

function mergeOver(base: ServerTable, overlay: ServerOverlay | undefined, options: ParseTaskOptions): Merged {
  const { provided } = options;
  const inherited = provided === undefined ? {} : buildServers(base.servers, provided.build);
  if (overlay === undefined) return { own: {}, all: inherited, problems: [] };
  // What is removed or changed has to be there.
  const isThere = (name: string): boolean => Object.hasOwn(base.written, name);
  const entries = Object.entries(overlay.table).filter(
    ([name, entry]) => typeof entry === "boolean" || saysKind(entry) || isThere(name),
  );
  const changes = new Map(
    entries.flatMap(([name, entry]) => (isJsonObject(entry) ? [[name, entry] as const] : [])),
  );
  const table = Object.fromEntries(
    entries.map(([name, entry]) => [name, isJsonObject(entry) ? checkable(entry) : entry]),
  );
  const { servers, problems } = mergeServerTables(base, { ...overlay, table });
  const all = Object.entries(servers).map(([name, server]): readonly [string, ServerSpec] => {
    const entry = changes.get(name);
    const below = entry === undefined ? inherited[name] : undefined;
    return [name, below ?? buildOwn(name, server, entry ?? {}, options)];
  });
  const own = all.filter(([name]) => changes.has(name));
  return { own: Object.fromEntries(own), all: Object.fromEntries(all), problems };
}

/** Paths of the task's own start from its folder, others from the eval's. */
function buildOwn(
  name: string,
  server: ParsedServer,
  entry: JsonObject,
  { completeStdio, resolvePath, provided }: ParseTaskOptions,
): ServerSpec {
  if (saysKind(entry)) {
    const lifetime = provided?.lifetime;
    const starting = { completeStdio, startupTimeoutMs: 30_000, lifetime, resolvePath };
    const spec = buildServer(name, server, starting);
    const { url } = entry;
    return "url" in spec && typeof url === "string" ? { ...spec, url } : spec;
  }
  if (provided === undefined) throw new Error(`nothing is known of the server that is changed: ${name}`);
  if (server.transport === "mock" || typeof entry["cwd"] !== "string") return provided.build(name, server);
  const { cwd } = completeStdio({ env: {}, inheritEnv: [], cwd: entry["cwd"] }, name);
  return provided.build(name, { ...server, cwd });
}

/** An entry of a server with a valid address in place of one with templates. */
function checkable(entry: JsonObject): JsonObject {
  const { url } = entry;
  const own = saysKind(entry) ? { inherit: false } : {};
  if (typeof url !== "string") return { ...entry, ...own };
  const parts = parseTemplate(url, (root) => taskRoots.some((each) => each === root));
  const sample =
    typeof parts[0] === "object"
      ? "http://127.0.0.1/"
      : parts.map((part) => (typeof part === "string" ? part : "1")).join("");
  return { ...entry, url: parts.every((part) => typeof part === "string") ? url : sample, ...own };
}
