import { isJsonObject } from "../json.ts";
import type { Json, JsonObject } from "../model.ts";

/** The key that, with `false`, makes a table start empty; a boolean, so never a server or a variable. */
const marker = "inherit";

/** Members of a server that are one value: what they hold is data, in which null and `inherit` mean nothing. */
const whole: ReadonlySet<string> = new Set(["mock"]);

/**
 * Lays one `mcp_servers` table over another: tables are merged by key, everything else is replaced, `null` removes what is
 * below, and a table with `inherit: false` takes nothing from below. What it gives is a table of the same kind, so nulls and
 * markers are still in it and it can be laid over others: the merge is associative, and `{}` changes nothing. Use
 * `plainServers` for what remains in the end.
 */
export function mergeServers(base: JsonObject, overlay: JsonObject): JsonObject {
  return mergeTables(base, overlay, 0);
}

/** What a table says once nothing is laid over it any more: without what was removed, and without markers. */
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

interface Place {
  readonly key: string;
  readonly depth: number;
}

function mergeMember(base: JsonObject, overlay: JsonObject, { key, depth }: Place): Json {
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
