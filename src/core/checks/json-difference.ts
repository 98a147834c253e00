import { isJsonObject, type Json, type JsonObject } from "../formats/json.ts";
import { previewJson } from "../formats/read-json.ts";

const longestKey = 80;

/** The first place where a value is not as expected. */
export interface JsonDifference {
  /** JSON pointer (RFC 6901) into the value; "" is the value itself. */
  readonly pointer: string;
  /** How far the value is as expected, in levels; half a one for an object without the key. */
  readonly depth: number;
  /** The message about the difference, given the words for the place. */
  readonly messageFor: (place: string) => string;
}

/** `contain`: objects may have more keys than expected, at any depth. */
export type MatchMode = "equal" | "contain";

/**
 * The first difference between a value and the expected one, undefined when it is as expected: objects have every
 * expected key with such a value, in any order; lists have as many items; everything else is equal.
 */
export function jsonDifference(actual: Json, expected: Json, mode: MatchMode): JsonDifference | undefined {
  if (actual === expected) return undefined;
  if (Array.isArray(actual) && Array.isArray(expected)) return listDifference(actual, expected, mode);
  if (isJsonObject(actual) && isJsonObject(expected)) return objectDifference(actual, expected, mode);
  return here((place) => `${place} is ${previewJson(actual)}, expected ${previewJson(expected)}`);
}

function listDifference(
  actual: readonly Json[],
  expected: readonly Json[],
  mode: MatchMode,
): JsonDifference | undefined {
  if (actual.length !== expected.length) {
    const entries = actual.length === 1 ? "1 entry" : `${actual.length} entries`;
    return here((place) => `${place} has ${entries}, expected ${expected.length}`);
  }
  for (const [index, item] of actual.entries()) {
    const found = jsonDifference(item, expected[index] ?? null, mode);
    if (found !== undefined) return below(String(index), found);
  }
  return undefined;
}

function objectDifference(
  actual: JsonObject,
  expected: JsonObject,
  mode: MatchMode,
): JsonDifference | undefined {
  for (const [key, value] of Object.entries(expected)) {
    const own = Object.hasOwn(actual, key) ? actual[key] : undefined;
    if (own === undefined)
      return { pointer: pointerTo(key), depth: 0.5, messageFor: (place) => `${place} is missing` };
    const found = jsonDifference(own, value, mode);
    if (found !== undefined) return below(key, found);
  }
  if (mode === "contain") return undefined;
  const more = Object.keys(actual).find((key) => !Object.hasOwn(expected, key));
  const surplus = here((place) => `${place} is not expected`);
  return more === undefined ? undefined : below(more, surplus);
}

/** JSON pointer to a member; a key that is very long is cut. */
export function pointerTo(key: string): string {
  return `/${key.slice(0, longestKey).replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

/** A difference of a value as a whole. */
export function here(messageFor: JsonDifference["messageFor"]): JsonDifference {
  return { pointer: "", depth: 0, messageFor };
}

function below(key: string, { pointer, depth, messageFor }: JsonDifference): JsonDifference {
  return { pointer: `${pointerTo(key)}${pointer}`, depth: depth + 1, messageFor };
}

/** Whether two JSON values are equal; the order of keys does not matter. */
export function equalJson(left: Json, right: Json): boolean {
  return jsonDifference(left, right, "equal") === undefined;
}

/**
 * Whether `actual` contains `expected`: objects may have more keys than expected, at any depth; lists must have as
 * many items, each containing the expected one; everything else must be equal.
 */
export function containsJson(actual: Json, expected: Json): boolean {
  return jsonDifference(actual, expected, "contain") === undefined;
}
