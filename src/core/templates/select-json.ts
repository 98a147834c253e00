import {
  type FilterFunction,
  FunctionExpressionType,
  JSONPathEnvironment,
  type JSONPathQuery,
} from "json-p3";
import { McpvalsError } from "../errors/error.ts";
import type { KeyPath } from "../formats/key-path.ts";
import type { Json } from "../formats/model.ts";
import { compilePattern } from "./pattern.ts";

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
  try {
    const query = compile(completePath(path));
    const nodes = query.query(value as Parameters<JSONPathQuery["query"]>[0]);
    return { values: nodes.values() as Json[], places: nodes.locations(), singular: query.singularQuery() };
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new McpvalsError("task/json-path", `${JSON.stringify(path)} is no JSON path: ${reason}`, {
      cause,
      hint: "Paths follow RFC 9535, such as $.items[0].name or $.items[?@.ready == true].",
    });
  }
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
const kept = new Map<string, JSONPathQuery>();
/** Documents are at most so deep; more would exhaust the stack. */
const deepest = 2000;
let environment: JSONPathEnvironment | undefined;

function compile(path: string): JSONPathQuery {
  const known = kept.get(path);
  if (known !== undefined) return known;
  environment ??= createEnvironment();
  const query = environment.compile(path);
  const [oldest] = kept.keys();
  if (kept.size >= mostKept && oldest !== undefined) kept.delete(oldest);
  kept.set(path, query);
  return query;
}

/** The library's own `match` and `search` use an engine that a pattern could hang. */
function createEnvironment(): JSONPathEnvironment {
  const created = new JSONPathEnvironment({ maxRecursionDepth: deepest });
  created.functionRegister.set(
    "match",
    patternFunction((pattern) => String.raw`\A(?:${pattern})\z`),
  );
  created.functionRegister.set(
    "search",
    patternFunction((pattern) => pattern),
  );
  return created;
}

function patternFunction(complete: (pattern: string) => string): FilterFunction {
  return {
    argTypes: [FunctionExpressionType.ValueType, FunctionExpressionType.ValueType],
    returnType: FunctionExpressionType.LogicalType,
    call: (text: unknown, pattern: unknown) =>
      typeof text === "string" && typeof pattern === "string" && compilePattern(complete(pattern)).test(text),
  };
}
