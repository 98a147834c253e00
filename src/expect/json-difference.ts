import { isJsonObject, type Json, type JsonObject } from "../base/json.ts";
import { previewJson } from "../base/read-json.ts";

const maxKeyLength = 80;

/** A difference between a value and the expected one. */
export interface JsonDifference {
  /** JSON pointer (RFC 6901) into the value; "" is the value itself. */
  readonly pointer: string;
  /** At which level of nesting it differs; a missing key counts half a level. */
  readonly depth: number;
  /** The message about the difference at a place of this name. */
  readonly messageFor: (place: string) => string;
}

/** `contain`: objects may have more keys than expected, at any depth. */
export type MatchMode = "equal" | "contain";

/**
 * The first difference between a value and the expected one, undefined when it is as expected: objects have every
 * expected key with such a value, in any order; lists have as many items; everything else is equal.
 */
export function jsonDifference(actual: Json, expected: Json, mode: MatchMode): JsonDifference | undefined {
  return jsonDifferences(actual, expected, mode, 1)[0];
}

/** The first differences, at most `limit`; a list with more or fewer items is one as a whole. */
export function jsonDifferences(
  actual: Json,
  expected: Json,
  mode: MatchMode,
  limit: number,
): readonly JsonDifference[] {
  if (actual === expected) return [];
  if (Array.isArray(actual) && Array.isArray(expected)) return listDifferences(actual, expected, mode, limit);
  if (isJsonObject(actual) && isJsonObject(expected)) return objectDifferences(actual, expected, mode, limit);
  return [here((place) => `${place} is ${previewJson(actual)}, expected ${previewJson(expected)}`)];
}

function listDifferences(
  actual: readonly Json[],
  expected: readonly Json[],
  mode: MatchMode,
  limit: number,
): readonly JsonDifference[] {
  if (actual.length !== expected.length) {
    const entries = actual.length === 1 ? "1 entry" : `${actual.length} entries`;
    return [here((place) => `${place} has ${entries}, expected ${expected.length}`)];
  }
  const found: JsonDifference[] = [];
  for (const [index, item] of actual.entries()) {
    const inside = jsonDifferences(item, expected[index] ?? null, mode, limit - found.length);
    for (const each of inside) found.push(below(String(index), each));
    if (found.length >= limit) break;
  }
  return found;
}

function objectDifferences(
  actual: JsonObject,
  expected: JsonObject,
  mode: MatchMode,
  limit: number,
): readonly JsonDifference[] {
  const found: JsonDifference[] = [];
  for (const [key, value] of Object.entries(expected)) {
    const own = Object.hasOwn(actual, key) ? actual[key] : undefined;
    if (own === undefined)
      found.push({ pointer: pointerTo(key), depth: 0.5, messageFor: (place) => `${place} is missing` });
    else
      for (const each of jsonDifferences(own, value, mode, limit - found.length))
        found.push(below(key, each));
    if (found.length >= limit) return found;
  }
  if (mode === "contain") return found;
  for (const key of Object.keys(actual)) {
    if (Object.hasOwn(expected, key)) continue;
    found.push(
      below(
        key,
        here((place) => `${place} is not expected`),
      ),
    );
    if (found.length >= limit) break;
  }
  return found;
}

/** JSON pointer to a member; a key that is very long is cut. */
export function pointerTo(key: string): string {
  return `/${key.slice(0, maxKeyLength).replaceAll("~", "~0").replaceAll("/", "~1")}`;
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

/**
 * A longest common subsequence of two lists, as pairs of positions (dynamic programming, Wagner and Fischer 1974). Among
 * equally good matches it takes the one that has the earliest items of the first list.
 */
export function commonSequence<A, B>(
  first: readonly A[],
  second: readonly B[],
  isEqual: (a: A, b: B) => boolean,
): (readonly [number, number])[] {
  const width = second.length + 1;
  const lengths = new Uint32Array((first.length + 1) * width);
  const at = (row: number, column: number): number => lengths[row * width + column] ?? 0;
  for (const [row, a] of [...first.entries()].toReversed()) {
    for (let column = second.length - 1; column >= 0; column -= 1) {
      lengths[row * width + column] = isEqual(a, second[column] as B)
        ? at(row + 1, column + 1) + 1
        : Math.max(at(row + 1, column), at(row, column + 1));
    }
  }
  const pairs: (readonly [number, number])[] = [];
  let column = 0;
  for (const [row, a] of first.entries()) {
    while (
      column < second.length &&
      !isEqual(a, second[column] as B) &&
      at(row + 1, column) <= at(row, column + 1)
    )
      column += 1;
    if (column < second.length && isEqual(a, second[column] as B)) pairs.push([row, column++]);
  }
  return pairs;
}
