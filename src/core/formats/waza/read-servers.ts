import { type Fixtures, mockServers } from "../config/mock-tables.ts";
import {
  type LayeredTable,
  layServers,
  noServers,
  parseServers,
  readOverlay,
  type ServerOverlay,
  type ServerTable,
} from "../config/server-tables.ts";
import { isJsonObject } from "../json.ts";
import { readMcpServers } from "../mcp-servers/read-mcp-servers.ts";
import type { LenientReader } from "../lenient-reader.ts";
import type { JsonObject } from "../model.ts";
import type { Problem } from "../problem.ts";
import { withoutUndefined } from "../without-undefined.ts";
import type { WazaEval, WazaVariant } from "./waza-eval.ts";

export interface ReadServersContext {
  readonly readFixtures: (path: string) => Fixtures;
  readonly templates: ReadonlyMap<string, string>;
}

/**
 * The servers of an eval, and the sets of them that `variants` make. A mock stands in the place of a server of its name, as in
 * that tool.
 */
export function readWazaServers(
  document: JsonObject,
  { readFixtures, templates }: ReadServersContext,
  reader: LenientReader,
): Pick<WazaEval, "servers" | "variants"> {
  const config = isJsonObject(document["config"]) ? document["config"] : {};
  const inConfig = readOverlay(pick(config), ["config"]);
  const atTop = readOverlay(pick(document), []);
  if (inConfig !== undefined && atTop !== undefined) reader.problem(twoTables);
  const overlay = atTop ?? inConfig;
  const declared = overlay === undefined ? { ...noServers, problems: [] } : declare(overlay, templates);
  const mocks = mockServers({ mcp_mocks: document["mcp_mocks"] ?? [] }, { path: [], readFixtures });
  const written = { ...declared.written, ...mocks.servers };
  const servers: ServerTable = { written, servers: { ...declared.servers, ...parseServers(mocks.servers) } };
  addAll([...declared.problems, ...mocks.problems], reader);
  const variants = readVariants(document["variants"], reader, { servers, templates });
  return withoutUndefined({ servers, variants });
}

const twoTables: Problem = {
  code: "config/invalid-value",
  message: "mcp_servers stands both in config and at the top",
  path: ["mcp_servers"],
  at: "key",
  hint: "Keep one of them: either is the table of the eval's servers.",
};

/** The servers of an overlay over nothing; one that lacks what a server needs is wrong, not one that nobody knows. */
function declare(overlay: ServerOverlay, templates: ReadonlyMap<string, string>): LayeredTable {
  const { problems, ...table } = layServers(noServers, overlay, { templates });
  const parts = Object.entries(overlay.table).filter(
    ([name, server]) => isJsonObject(server) && !Object.hasOwn(table.written, name),
  );
  const own = readMcpServers(Object.fromEntries(parts), { written: overlay.place, templates });
  return { ...table, problems: [...problems.filter((each) => !isPart(each)), ...own.problems] };
}

function isPart({ code, at }: Problem): boolean {
  return code === "config/unknown-reference" && at === "key";
}

/** Only this spelling is a table of servers here. */
function pick({ mcp_servers }: JsonObject): JsonObject {
  return mcp_servers === undefined || mcp_servers === null ? {} : { mcp_servers };
}

interface VariantContext {
  readonly servers: ServerTable;
  readonly templates: ReadonlyMap<string, string>;
}

function readVariants(
  variants: JsonObject[string] | undefined,
  reader: LenientReader,
  { servers, templates }: VariantContext,
): readonly WazaVariant[] | undefined {
  if (!isJsonObject(variants) || Object.keys(variants).length === 0) return undefined;
  const read = Object.entries(variants).map(([name, variant]): WazaVariant => {
    const path = ["variants", name];
    const overlay = isJsonObject(variant) ? readOverlay(pick(variant), path) : undefined;
    if (overlay === undefined) return { name, path };
    addAll(layServers(servers, overlay, { templates }).problems, reader);
    return { name, path, overlay };
  });
  if (read.every(({ overlay }) => overlay !== undefined))
    reader.note("only the variants run; to compare with the servers as they are, add NAME: {}", ["variants"]);
  return read;
}

function addAll(problems: readonly Problem[], reader: LenientReader): void {
  for (const problem of problems) reader.problem(problem);
}
