import { formatKeyPath } from "../formats/json.ts";
import type { Json, JsonObject } from "../formats/model.ts";
import { previewJson } from "../formats/read-json.ts";
import { jsonDifference, type JsonDifference } from "./json-difference.ts";
import { containsJson } from "./json-match.ts";
import { leavesNothing, withoutPaths } from "../formats/cannot-fail.ts";

export interface Comparison {
  readonly passed: boolean;
  readonly message: string;
}

export interface CompareOptions {
  /** The words for a place inside the value, given as `.a[0]`; "" is the value itself. */
  readonly placeOf: (inside: string) => string;
  /** RFC 9535 paths inside the value that are left out on both sides. */
  readonly ignorePaths: readonly string[];
}

const nothingLeft: Comparison = {
  passed: false,
  message: "ignorePaths leaves out all that is expected, so that nothing is left to compare",
};

/**
 * Whether a value is another one; the message names the first difference. `loose`: also when both are printed alike,
 * such as 5 and "5". Throws `task/json-path`.
 */
export function compareEquals(
  actual: Json,
  expected: Json,
  options: CompareOptions & { readonly loose: boolean },
): Comparison {
  const { placeOf, ignorePaths, loose } = options;
  if (leavesNothing(expected, ignorePaths)) return nothingLeft;
  const found = withoutPaths(actual, ignorePaths);
  const wanted = withoutPaths(expected, ignorePaths);
  const difference = jsonDifference(found, wanted, "equal");
  if (difference === undefined || (loose && isPrintedAlike(found, wanted)))
    return { passed: true, message: `${placeOf("")} is as expected` };
  return { passed: false, message: told(difference, placeOf) };
}

/**
 * Whether a value contains another one: a text that text, an object all members at any depth, a list that member, or,
 * given a list, every member of it. Lists inside have as many entries as expected. Throws `task/json-path`.
 */
export function compareContains(actual: Json, expected: Json, options: CompareOptions): Comparison {
  const { placeOf, ignorePaths } = options;
  if (leavesNothing(expected, ignorePaths)) return nothingLeft;
  const found = withoutPaths(actual, ignorePaths);
  const wanted = withoutPaths(expected, ignorePaths);
  const difference = absence(found, wanted);
  if (difference !== undefined) return { passed: false, message: told(difference, placeOf) };
  return { passed: true, message: `${placeOf("")} contains ${previewJson(expected)}` };
}

function absence(actual: Json, expected: Json): JsonDifference | undefined {
  if (typeof actual === "string" && typeof expected === "string") return absentText(actual, expected);
  if (Array.isArray(actual)) return absentMember(actual, expected);
  return jsonDifference(actual, expected, "contain");
}

function absentText(actual: string, expected: string): JsonDifference | undefined {
  if (expected === "" ? actual === "" : actual.includes(expected)) return undefined;
  return here(
    (place) => `${place} is ${previewJson(actual)}, which does not contain ${previewJson(expected)}`,
  );
}

function absentMember(actual: readonly Json[], expected: Json): JsonDifference | undefined {
  const has = (wanted: Json): boolean => actual.some((item) => containsJson(item, wanted));
  if (has(expected)) return undefined;
  const missing = Array.isArray(expected) ? expected.find((wanted: Json) => !has(wanted)) : expected;
  if (missing === undefined && Array.isArray(expected) && expected.length > 0) return undefined;
  const shown = previewJson(missing ?? expected);
  return here((place) =>
    actual.length === 0
      ? `${place} has no entries, expected one that contains ${shown}`
      : `no entry of ${place} (${actual.length} in all) contains ${shown}`,
  );
}

function here(tell: JsonDifference["tell"]): JsonDifference {
  return { pointer: "", depth: 0, tell };
}

function told({ pointer, tell }: JsonDifference, placeOf: CompareOptions["placeOf"]): string {
  return tell(placeOf(pathOf(pointer)));
}

/** A JSON pointer as it is written in a path. */
function pathOf(pointer: string): string {
  const keys = pointer
    .split("/")
    .slice(1)
    .map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"));
  const path = formatKeyPath(keys.map((key) => (/^(?:0|[1-9]\d*)$/.test(key) ? Number(key) : key)));
  return path === "" || path.startsWith("[") ? path : `.${path}`;
}

/** Lists and objects that are not equal are not printed alike either. */
function isPrintedAlike(left: Json, right: Json): boolean {
  if (isStructure(left) || isStructure(right)) return false;
  return String(left) === String(right);
}

function isStructure(value: Json): value is JsonObject | readonly Json[] {
  return typeof value === "object" && value !== null;
}
