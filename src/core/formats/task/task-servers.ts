import { readOverlay } from "../config/server-tables.ts";
import { isJsonObject } from "../json.ts";
import type { Json, JsonObject } from "../model.ts";

/** How the servers of a task stand, read from a document that may be wrong. */
export interface ServerNames {
  /** Servers of its own. */
  readonly own: readonly string[];
  /** Those that a trial starts: the eval's and its own, without the ones taken away. */
  readonly started: readonly string[];
  /** Those that steps may name: also the ones that the eval must provide. */
  readonly known: readonly string[];
  /** Those that it `requires`. */
  readonly required: readonly string[];
}

/** Reads the names of a task's servers. */
export function serverNames(spec: JsonObject, provided: readonly string[]): ServerNames {
  const table = readOverlay(spec, ["spec"])?.table ?? {};
  const declared = Object.entries(table).filter(([, server]) => typeof server !== "boolean");
  const inherited = table["inherit"] === false ? [] : provided;
  const own = declared.filter(([, server]) => server !== null).map(([name]) => name);
  const removed = declared.filter(([, server]) => server === null).map(([name]) => name);
  const started = [...new Set([...inherited, ...own])].filter((name) => !removed.includes(name));
  const required = Array.isArray(spec["requires"]) ? spec["requires"].flatMap(requiredServer) : [];
  return { own, started, known: [...new Set([...started, ...required])], required };
}

function requiredServer(requirement: Json): string[] {
  const name = isJsonObject(requirement) ? requirement["server"] : undefined;
  return typeof name === "string" ? [name] : [];
}
