import { leavesNothing, withoutPaths } from "../formats/cannot-fail.ts";
import { didYouMean } from "../formats/did-you-mean.ts";
import { formatKeyPath, isJsonObject } from "../formats/json.ts";
import type { Json, JsonObject } from "../formats/model.ts";
import { previewJson, readJsonText } from "../formats/read-json.ts";
import type { JsonExpectation } from "../formats/step.ts";
import {
  completePath,
  type Lookup,
  lookupsIn,
  nearestJson,
  selectJson,
  wayEnd,
  type WayEnd,
} from "../templates/select-json.ts";
import type { Check } from "../trace/events.ts";
import { excerpt, outlinedJson, shownJson } from "./excerpt.ts";
import { containsJson, jsonDifference, type JsonDifference } from "./json-difference.ts";
import { compilePattern } from "../templates/pattern.ts";

/**
 * Looks at places in a JSON value: one check for each part of each expectation, named after the value, the place and the
 * part. A path that can lead to one place only is looked at there; for any other, `equals` and `contains` look at the list
 * of what it leads to, `matches` and `type` at every one of these, of which there must be some. Throws `task/json-path`
 * and `task/pattern`.
 */
export function checkJson(name: string, expectations: readonly JsonExpectation[], value: Json): Check[] {
  return expectations.flatMap((expectation) => checkPlace(name, expectation, value));
}

/** Looks at a text that must be JSON, as `checkJson` does. A text that is none is one failed check. */
export function checkJsonText(name: string, expectations: readonly JsonExpectation[], text: string): Check[] {
  const parsed = readJsonText(text);
  const passed = parsed.reason === undefined;
  if (passed && expectations.length > 0) return checkJson(name, expectations, parsed.value);
  const message = passed ? "it is JSON" : `it is not JSON: ${parsed.reason}`;
  const check = { name, passed, expected: "JSON", actual: excerpt(text), message };
  return [passed ? check : { ...check, unplaced: true }];
}

/** What a path leads to. */
interface Found {
  readonly path: string;
  readonly values: readonly Json[];
  /** What `equals` and `contains` look at; undefined when nothing is there. */
  readonly whole: Json | undefined;
  /** The words for a place inside the whole. */
  readonly placeOf: (inside: string) => string;
  /** What is there instead, for the reader: the last values along the path. */
  readonly instead: () => Json;
  /** Whether it is evidence that it selects nothing. */
  readonly absence: () => Absence;
}

type Part = Pick<Check, "passed" | "expected" | "actual" | "message" | "unplaced" | "doubt">;

function checkPlace(name: string, expectation: JsonExpectation, value: Json): Check[] {
  const found = find(expectation.path, value);
  const parts = partsOf(expectation, found);
  const { doubt = misspellingIn(value, found.path), ...absence } =
    found.values.length === 0 ? found.absence() : {};
  const evidence = { ...absence, ...(doubt === undefined ? {} : { doubt }) };
  return parts.map(([part, outcome]) => ({
    name: `${name} ${found.path} ${part}`,
    ...withEvidence(outcome, evidence),
  }));
}

/** An outcome that rests on an absent place, with whether that is evidence. */
function withEvidence(outcome: Part, { problem, doubt }: Absence): Part {
  if (problem !== undefined) {
    const message = outcome.passed ? problem : `${outcome.message}; ${problem}`;
    return { ...outcome, passed: false, message, unplaced: true };
  }
  return doubt === undefined ? outcome : { ...outcome, doubt };
}

function find(written: string, value: Json): Found {
  const path = completePath(written);
  const { values, singular } = selectJson(value, path);
  const selection = {
    path,
    values,
    instead: (): Json => insteadOf(value, path),
    absence: (): Absence => absenceAt(value, path),
  };
  if (singular) return { ...selection, whole: values[0], placeOf: (inside) => `${path}${inside}` };
  return {
    ...selection,
    whole: values,
    placeOf: (inside) => (inside === "" ? path : `${inside} of ${path}`),
  };
}

function insteadOf(value: Json, path: string): Json {
  const nearest = nearestJson(value, path);
  const [only] = nearest;
  return outlinedJson(nearest.length === 1 && only !== undefined ? only : nearest);
}

function partsOf(expectation: JsonExpectation, found: Found): (readonly [string, Part])[] {
  const { exists, equals, contains, matches, type, count } = expectation;
  const options = { placeOf: found.placeOf, ignorePaths: expectation.ignorePaths ?? [] };
  const loose = expectation.loose === true;
  const parts: (readonly [string, Part])[] = [];
  if (exists !== undefined) parts.push(["exists", existence(found, exists)]);
  if (equals !== undefined)
    parts.push([
      "equals",
      comparison(found, equals, (whole) => compareEquals(whole, equals, { ...options, loose })),
    ]);
  if (contains !== undefined)
    parts.push([
      "contains",
      comparison(found, contains, (whole) => compareContains(whole, contains, options)),
    ]);
  if (matches !== undefined) parts.push(["matches", everyMatches(found, matches)]);
  if (type !== undefined) parts.push(["type", everyIs(found, type)]);
  if (count !== undefined) parts.push(["count", counted(found, count)]);
  return parts.length > 0 ? parts : [["exists", existence(found, true)]];
}

function existence({ path, values, whole, instead }: Found, expected: boolean): Part {
  const actual = values.length > 0;
  const passed = actual === expected;
  const there = whole === undefined ? "" : ` is there: ${previewJson(whole)}`;
  const seen = actual ? `${path}${there}` : nothingAt(path);
  return {
    passed,
    expected,
    actual: passed || actual ? actual : instead(),
    message: passed ? seen : `${seen}, expected ${expected ? "something" : "nothing"} there`,
  };
}

function comparison(
  { path, whole, instead }: Found,
  expected: Json,
  compare: (whole: Json) => Comparison,
): Part {
  const shown = shownJson(expected);
  if (whole === undefined)
    return {
      passed: false,
      expected: shown,
      actual: instead(),
      message: `${nothingAt(path)}, ${wanted(expected)}`,
    };
  return { expected: shown, actual: shownJson(whole), ...compare(whole) };
}

function everyMatches(found: Found, pattern: string): Part {
  const compiled = compilePattern(pattern);
  const shown = previewJson(pattern);
  return every(found, `a text that matches ${shown}`, {
    expected: pattern,
    holds: (value) => typeof value === "string" && compiled.test(value),
    denial: (value) => (typeof value === "string" ? `does not match ${shown}` : "is no text"),
  });
}

function everyIs(found: Found, type: string): Part {
  return every(found, `of type ${type}`, {
    expected: type,
    holds: (value) => typeOf(value) === type,
    denial: (value) => `is of type ${typeOf(value)}, expected ${type}`,
  });
}

interface Condition {
  readonly expected: Json;
  readonly holds: (value: Json) => boolean;
  readonly denial: (value: Json) => string;
}

function every({ path, values, whole, instead }: Found, claim: string, condition: Condition): Part {
  const { expected, holds, denial } = condition;
  if (whole === undefined || values.length === 0) {
    const message = `${nothingAt(path)}, expected it to be ${claim}`;
    return { passed: false, expected, actual: instead(), message };
  }
  const actual = shownJson(whole);
  const bad = values.find((value) => !holds(value));
  if (bad === undefined) return { passed: true, expected, actual, message: `${path} is ${claim}` };
  return { passed: false, expected, actual, message: `${path}: ${previewJson(bad)} ${denial(bad)}` };
}

function counted({ path, values, whole, instead }: Found, expected: number): Part {
  const { length } = values;
  const places = length === 1 ? "1 place" : `${length} places`;
  const passed = length === expected;
  return {
    passed,
    expected,
    actual: passed ? length : whole === undefined || length === 0 ? instead() : outlinedJson(whole),
    message: `${path} leads to ${places}${passed ? "" : `, expected ${expected}`}`,
  };
}

function nothingAt(path: string): string {
  return `${path} leads to nothing`;
}

function wanted(expected: Json): string {
  return `expected ${previewJson(expected)}`;
}

function typeOf(value: Json): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "array" : typeof value;
}

/** Whether it is evidence that a path selects nothing. */
export interface Absence {
  /** Why it is no evidence: the parent is absent, or has no members. */
  readonly problem?: string;
  /** Why the path may be misspelt. */
  readonly doubt?: string;
}

/**
 * Decides whether it is evidence that a path (RFC 9535) selects nothing in a value: it is when the singular part of the path
 * exists, which of `$.a.b` and of `$.a[?@.b].c` is `$.a`. Throws `task/json-path`.
 */
function absenceAt(value: Json, path: string): Absence {
  if (path === "$") return {};
  const end = wayEnd(value, path);
  const near = nearestName(end);
  const meant = near === undefined ? "" : `; there is ${JSON.stringify(near)} there, did you mean that?`;
  const there = end.values.find((each) => each !== null) ?? (end.isOneWay ? end.values[0] : undefined);
  if (there === undefined) return {};
  if (!canHold(there, end.wants)) {
    const is = `${end.path} is ${previewJson(there, shownValue)}, which has no ${end.wants === "entry" ? "entries" : "members"}`;
    return { problem: `it proves nothing that ${path} leads to nothing: ${is}` };
  }
  if (!end.isSettled)
    return {
      problem: `it proves nothing that ${path} leads to nothing: ${end.missing} leads to nothing already${meant}`,
    };
  return near === undefined ? {} : { doubt: `${path} leads to nothing${meant}` };
}

const shownValue = 40;

function canHold(value: Json, wants: WayEnd["wants"]): boolean {
  if (wants === "entry") return Array.isArray(value);
  return wants === "member" ? isJsonObject(value) : typeof value === "object" && value !== null;
}

/** Shorter names are too often similar. */
const shortestName = 4;

/** Members of a value whose names are compared. */
const mostLooked = 200;

/** The name of an existing member that a missing name is probably a misspelling of. */
function nearestName({ values, names, wants }: WayEnd): string | undefined {
  // `..` looks for members of all that is below.
  const holders = wants === "some" ? [...values, ...values.flatMap(inside)] : values;
  for (const name of names) {
    const near = nearName({ name, holders });
    if (near !== undefined) return near;
  }
  return undefined;
}

/**
 * Reports a probable misspelling in a path, whatever it selects: a name in a filter or in a list of names that none of the
 * searched values has, while one has a similar name. Throws `task/json-path`.
 */
function misspellingIn(value: Json, path: string): string | undefined {
  for (const lookup of lookupsIn(value, path)) {
    const near = nearName(lookup);
    if (near !== undefined)
      return `${path} looks for ${JSON.stringify(lookup.name)}; there is ${JSON.stringify(near)} there, did you mean that?`;
  }
  return undefined;
}

function nearName({ name, holders }: Lookup): string | undefined {
  const present = new Set(
    holders.flatMap((holder) => (isJsonObject(holder) ? Object.keys(holder).slice(0, mostLooked) : [])),
  );
  if (present.has(name) || name.length < shortestName) return undefined;
  const near = didYouMean(name, present);
  // "user2" beside "user1" is another user.
  return near !== undefined && withoutDigits(near) !== withoutDigits(name) ? near : undefined;
}

function inside(value: Json): readonly Json[] {
  if (Array.isArray(value)) return value.slice(0, mostLooked);
  return isJsonObject(value) ? Object.values(value).slice(0, mostLooked) : [];
}

function withoutDigits(name: string): string {
  return name.replaceAll(/\d+/g, "#");
}

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
function compareEquals(
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
  return { passed: false, message: differenceMessage(difference, placeOf) };
}

/**
 * Whether a value contains another one: a text that text, an object all members at any depth, a list that member, or,
 * given a list, every member of it. Lists inside have as many entries as expected. Throws `task/json-path`.
 */
function compareContains(actual: Json, expected: Json, options: CompareOptions): Comparison {
  const { placeOf, ignorePaths } = options;
  if (leavesNothing(expected, ignorePaths)) return nothingLeft;
  const found = withoutPaths(actual, ignorePaths);
  const wanted = withoutPaths(expected, ignorePaths);
  const difference = absence(found, wanted);
  if (difference !== undefined) return { passed: false, message: differenceMessage(difference, placeOf) };
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

function here(messageFor: JsonDifference["messageFor"]): JsonDifference {
  return { pointer: "", depth: 0, messageFor };
}

function differenceMessage(
  { pointer, messageFor }: JsonDifference,
  placeOf: CompareOptions["placeOf"],
): string {
  return messageFor(placeOf(pathOf(pointer)));
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
