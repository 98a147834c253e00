import type { Json } from "../formats/model.ts";
import { jsonDifference } from "./json-difference.ts";

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
