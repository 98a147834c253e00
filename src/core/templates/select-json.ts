import { query } from "jsonpath-rfc9535";
import { McpvalsError } from "../errors/error.ts";
import type { Json } from "../formats/model.ts";

/** What a path leads to; `singular` when it can lead to one place at most, by its own form. */
export interface Selection {
  readonly values: readonly Json[];
  readonly singular: boolean;
}

/**
 * Reads a path in a JSON value (RFC 9535; a leading `.` or none is taken as `$.`). Throws `task/json-path` for a path
 * that is none.
 */
export function selectJson(value: Json, path: string): Selection {
  const complete = completePath(path);
  try {
    return {
      values: query(value as Parameters<typeof query>[0], complete) as Json[],
      singular: isSingular(complete),
    };
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

/** RFC 9535, section 2.3.5.1: a singular query has only names and indexes, one in each segment. */
function isSingular(path: string): boolean {
  return /^\$(?:\.[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*|\[\s*(?:-?\d+|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\s*\])*$/.test(
    path,
  );
}
