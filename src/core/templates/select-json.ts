import { McpvalsError } from "../errors/error.ts";
import type { KeyPath } from "../formats/json.ts";
import type { Json } from "../formats/model.ts";
import { type BoundedQuery, compileQuery, type Lookup, type WayEnd } from "./bounded-query.ts";

export type { Lookup, WayEnd } from "./bounded-query.ts";

/** What a path leads to; `singular` when it can lead to one place at most, by its own form. */
export interface Selection {
  readonly values: readonly Json[];
  /** Where each value stands. */
  readonly places: readonly KeyPath[];
  readonly singular: boolean;
}

/**
 * Reads a path in a JSON value (RFC 9535; a leading `.` or none is taken as `$.`). Throws `task/json-path` for a path
 * that is none, and for one that cannot be followed in this value.
 */
export function selectJson(value: Json, path: string): Selection {
  const query = failingAs("is no JSON path", path, () => compile(completePath(path)));
  const nodes = failingAs("cannot be followed", path, () => query.follow(value));
  return {
    values: nodes.map((node) => node.value as Json),
    places: nodes.map((node) => node.location),
    singular: query.singular,
  };
}

function failingAs<T>(what: string, path: string, work: () => T): T {
  try {
    return work();
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new McpvalsError("task/json-path", `${JSON.stringify(path)} ${what}: ${reason}`, {
      cause,
      hint: "Paths follow RFC 9535, such as $.items[0].name or $.items[?@.ready == true].",
    });
  }
}

/**
 * What is there where a path leads to nothing, or not to what it should: the values at the end of the longest part of the way
 * that leads anywhere, the first few of them. Throws as `selectJson`.
 */
export function nearestJson(value: Json, path: string): readonly Json[] {
  const query = failingAs("is no JSON path", path, () => compile(completePath(path)));
  return failingAs("cannot be followed", path, () => query.nearest(value));
}

/** How far the way of a path goes in a value in which it leads nowhere. Throws as `selectJson`. */
export function wayEnd(value: Json, path: string): WayEnd {
  const query = failingAs("is no JSON path", path, () => compile(completePath(path)));
  return failingAs("cannot be followed", path, () => query.end(value));
}

/** The names that a path looks for among others, in filters and lists of names. Throws as `selectJson`. */
export function lookupsIn(value: Json, path: string): readonly Lookup[] {
  const query = failingAs("is no JSON path", path, () => compile(completePath(path)));
  return failingAs("cannot be followed", path, () => query.lookups(value));
}

/** A path as RFC 9535 wants it, with `$` in front. */
export function completePath(path: string): string {
  const trimmed = path.trim();
  if (trimmed.startsWith("$")) return trimmed;
  if (trimmed === "" || trimmed === ".") return "$";
  return trimmed.startsWith(".") || trimmed.startsWith("[") ? `$${trimmed}` : `$.${trimmed}`;
}

/** Paths that are kept compiled; steps that poll use the same few again and again. */
const mostKept = 100;
const kept = new Map<string, BoundedQuery>();

function compile(path: string): BoundedQuery {
  const known = kept.get(path);
  if (known !== undefined) return known;
  const query = compileQuery(path);
  const [oldest] = kept.keys();
  if (kept.size >= mostKept && oldest !== undefined) kept.delete(oldest);
  kept.set(path, query);
  return query;
}
