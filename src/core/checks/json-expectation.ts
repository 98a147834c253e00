import { didYouMean } from "../formats/did-you-mean.ts";
import { formatKeyPath, isJsonObject, type Json } from "../formats/json.ts";
import { previewJson, readJsonText } from "../formats/read-json.ts";
import type { JsonExpectation } from "../formats/step.ts";
import { compilePattern } from "../templates/pattern.ts";
import {
  completePath,
  leavesNothing,
  type Lookup,
  lookupsIn,
  type PathEnd,
  pathEnd,
  selectJson,
  withoutPaths,
} from "../templates/select-json.ts";
import type { Check } from "../trace/events.ts";
import { excerpt, outlinedJson, shownJson } from "./excerpt.ts";
import { containsJson, jsonDifference, type JsonDifference } from "./json-difference.ts";

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
  /** The words for a place inside the whole, given as `.a[0]`; "" is the whole itself. */
  readonly placeOf: (inside: string) => string;
  /** Where nothing is there, what is there instead, for the reader. */
  readonly instead: Json;
}

type Part = Pick<Check, "passed" | "expected" | "actual" | "message">;

function checkPlace(name: string, expectation: JsonExpectation, value: Json): Check[] {
  const path = completePath(expectation.path);
  const { values, singular } = selectJson(value, path);
  const end = values.length === 0 ? pathEnd(value, path) : undefined;
  const [first = null, ...others] = end?.values ?? [];
  const found: Found = {
    path,
    values,
    whole: singular ? values[0] : values,
    placeOf: (inside) => (singular || inside === "" ? `${path}${inside}` : `${inside} of ${path}`),
    instead: outlinedJson(others.length === 0 ? first : [first, ...others]),
  };
  const { problem, doubt = misspellingIn(value, path) } = end === undefined ? {} : absenceAt(end, path);
  return partsOf(expectation, found).map(([part, outcome]) => ({
    name: `${name} ${path} ${part}`,
    ...outcome,
    ...(problem === undefined
      ? {}
      : {
          message: outcome.passed ? problem : `${outcome.message}; ${problem}`,
          passed: false,
          unplaced: true,
        }),
    ...(doubt === undefined || problem !== undefined ? {} : { doubt }),
  }));
}

function partsOf(expectation: JsonExpectation, found: Found): (readonly [string, Part])[] {
  const { exists, equals, contains, matches, type, count } = expectation;
  const parts: (readonly [string, Part])[] = [];
  if (exists !== undefined) parts.push(["exists", existence(found, exists)]);
  if (equals !== undefined) parts.push(["equals", comparison(found, equals, expectation, equalsDifference)]);
  if (contains !== undefined)
    parts.push(["contains", comparison(found, contains, expectation, containsDifference)]);
  if (matches !== undefined) {
    const compiled = compilePattern(matches);
    const shown = previewJson(matches);
    const denial = (value: Json): string | undefined => {
      if (typeof value !== "string") return "is no text";
      return compiled.test(value) ? undefined : `does not match ${shown}`;
    };
    parts.push(["matches", every(found, matches, { claim: `a text that matches ${shown}`, denial })]);
  }
  if (type !== undefined) {
    const denial = (value: Json): string | undefined =>
      typeOf(value) === type ? undefined : `is of type ${typeOf(value)}, expected ${type}`;
    parts.push(["type", every(found, type, { claim: `of type ${type}`, denial })]);
  }
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
    actual: passed || actual ? actual : instead,
    message: passed ? seen : `${seen}, expected ${expected ? "something" : "nothing"} there`,
  };
}

interface Condition {
  /** What every value must be. */
  readonly claim: string;
  /** Why a value is not. */
  readonly denial: (value: Json) => string | undefined;
}

function every({ path, values, whole, instead }: Found, expected: Json, { claim, denial }: Condition): Part {
  if (whole === undefined || values.length === 0) {
    const message = `${nothingAt(path)}, expected it to be ${claim}`;
    return { passed: false, expected, actual: instead, message };
  }
  const bad = values.find((value) => denial(value) !== undefined);
  const passed = bad === undefined;
  const message = passed ? `${path} is ${claim}` : `${path}: ${previewJson(bad)} ${denial(bad) ?? ""}`;
  return { passed, expected, actual: shownJson(whole), message };
}

function counted({ path, values, whole, instead }: Found, expected: number): Part {
  const { length } = values;
  const passed = length === expected;
  const places = `leads to ${length === 1 ? "1 place" : `${length} places`}`;
  return {
    passed,
    expected,
    actual: passed ? length : whole === undefined || length === 0 ? instead : outlinedJson(whole),
    message: `${path} ${places}${passed ? "" : `, expected ${expected}`}`,
  };
}

function nothingAt(path: string): string {
  return `${path} leads to nothing`;
}

function typeOf(value: Json): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "array" : typeof value;
}

/** Compares what a path leads to, without ignored places, with the expected value. */
function comparison(
  { path, whole, placeOf, instead }: Found,
  expected: Json,
  { ignorePaths = [], loose }: JsonExpectation,
  differenceOf: typeof equalsDifference | typeof containsDifference,
): Part {
  const shown = shownJson(expected);
  if (whole === undefined) {
    const message = `${nothingAt(path)}, expected ${previewJson(expected)}`;
    return { passed: false, expected: shown, actual: instead, message };
  }
  const part = { expected: shown, actual: shownJson(whole) };
  if (leavesNothing(expected, ignorePaths)) {
    const message = "ignorePaths leaves out all that is expected, so that nothing is left to compare";
    return { ...part, passed: false, message };
  }
  const difference = differenceOf(
    withoutPaths(whole, ignorePaths),
    withoutPaths(expected, ignorePaths),
    loose === true,
  );
  if (difference !== undefined)
    return { ...part, passed: false, message: difference.messageFor(placeOf(pathOf(difference.pointer))) };
  const claim = differenceOf === equalsDifference ? "is as expected" : `contains ${previewJson(expected)}`;
  return { ...part, passed: true, message: `${placeOf("")} ${claim}` };
}

/** `loose`: values that are printed alike are equal, such as 5 and "5". */
function equalsDifference(actual: Json, expected: Json, loose: boolean): JsonDifference | undefined {
  const isPrintedAlike =
    loose && ![actual, expected].some(isStructure) && String(actual) === String(expected);
  return isPrintedAlike ? undefined : jsonDifference(actual, expected, "equal");
}

/**
 * Whether a value contains another one: a text that text, an object all members at any depth, a list that member, or,
 * given a list, every member of it. Lists inside have as many entries as expected.
 */
function containsDifference(actual: Json, expected: Json): JsonDifference | undefined {
  const here = (messageFor: JsonDifference["messageFor"]): JsonDifference => ({
    pointer: "",
    depth: 0,
    messageFor,
  });
  if (typeof actual === "string" && typeof expected === "string") {
    if (expected === "" ? actual === "" : actual.includes(expected)) return undefined;
    return here(
      (place) => `${place} is ${previewJson(actual)}, which does not contain ${previewJson(expected)}`,
    );
  }
  if (!Array.isArray(actual)) return jsonDifference(actual, expected, "contain");
  const lacks = (wanted: Json): boolean => !actual.some((item: Json) => containsJson(item, wanted));
  if (!lacks(expected)) return undefined;
  const missing = Array.isArray(expected) ? expected.find(lacks) : expected;
  if (missing === undefined && Array.isArray(expected) && expected.length > 0) return undefined;
  const shown = previewJson(missing ?? expected);
  return here((place) =>
    actual.length === 0
      ? `${place} has no entries, expected one that contains ${shown}`
      : `no entry of ${place} (${actual.length} in all) contains ${shown}`,
  );
}

/** Whether it is a list or an object. */
function isStructure(value: Json): boolean {
  return typeof value === "object" && value !== null;
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

/** Whether it is evidence that a path selects nothing. */
interface Absence {
  /** Why it is no evidence: the parent is absent, or has no members. */
  readonly problem?: string;
  /** Why the path may be misspelt. */
  readonly doubt?: string;
}

const shownValue = 40;

/**
 * Decides whether it is evidence that a path (RFC 9535) selects nothing in a value: it is when the singular part of the path
 * exists, which of `$.a.b` and of `$.a[?@.b].c` is `$.a`.
 */
function absenceAt(end: PathEnd, path: string): Absence {
  const near = nearestName(end);
  const meant = near === undefined ? "" : `; there is ${JSON.stringify(near)} there, did you mean that?`;
  const there = end.values.find((each) => each !== null) ?? (end.isOneWay ? end.values[0] : undefined);
  if (there === undefined) return {};
  const unproven = `it proves nothing that ${path} leads to nothing:`;
  const canHold = {
    entry: Array.isArray(there),
    member: isJsonObject(there),
    some: isStructure(there),
  }[end.wants];
  if (!canHold) {
    const lacks = `which has no ${end.wants === "entry" ? "entries" : "members"}`;
    return { problem: `${unproven} ${end.path} is ${previewJson(there, shownValue)}, ${lacks}` };
  }
  if (!end.isSettled) return { problem: `${unproven} ${end.missing} leads to nothing already${meant}` };
  return near === undefined ? {} : { doubt: `${path} leads to nothing${meant}` };
}

/** Shorter names are too often similar. */
const shortestName = 4;

/** Members of a value whose names are compared. */
const mostLooked = 200;

/** The name of an existing member that a missing name is probably a misspelling of. */
function nearestName({ values, names, wants }: PathEnd): string | undefined {
  // `..` looks for members of all that is below.
  const inside = values.flatMap((value) =>
    typeof value === "object" && value !== null ? Object.values(value).slice(0, mostLooked) : [],
  );
  const holders = wants === "some" ? [...values, ...inside] : values;
  return names.map((name) => nearName({ name, holders })).find((near) => near !== undefined);
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
  const withoutDigits = (text: string): string => text.replaceAll(/\d+/g, "#");
  // "user2" beside "user1" is another user.
  return near !== undefined && withoutDigits(near) !== withoutDigits(name) ? near : undefined;
}
