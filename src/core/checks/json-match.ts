import type { Json, JsonObject } from "../formats/model.ts";
import { isJsonObject } from "../formats/json.ts";

/** Whether two JSON values are equal; the order of keys does not matter. */
export function equalJson(left: Json, right: Json): boolean {
  if (left === right) return true;
  if (Array.isArray(left) && Array.isArray(right)) return sameItems(left, right, equalJson);
  if (!isJsonObject(left) || !isJsonObject(right)) return false;
  const keys = Object.keys(left);
  return keys.length === Object.keys(right).length && hasKeys(left, right, equalJson);
}

/**
 * Whether `actual` contains `expected`: objects may have more keys than expected, at any depth; lists must have as
 * many items, each containing the expected one; everything else must be equal.
 */
export function containsJson(actual: Json, expected: Json): boolean {
  if (actual === expected) return true;
  if (Array.isArray(actual) && Array.isArray(expected)) return sameItems(actual, expected, containsJson);
  if (!isJsonObject(actual) || !isJsonObject(expected)) return false;
  return hasKeys(actual, expected, containsJson);
}

type Compare = (actual: Json, expected: Json) => boolean;

function sameItems(actual: readonly Json[], expected: readonly Json[], compare: Compare): boolean {
  return (
    actual.length === expected.length && actual.every((item, index) => compare(item, expected[index] ?? null))
  );
}

function hasKeys(actual: JsonObject, expected: JsonObject, compare: Compare): boolean {
  return Object.entries(expected).every(([key, value]) => {
    const own = Object.hasOwn(actual, key) ? actual[key] : undefined;
    return own !== undefined && compare(own, value);
  });
}
