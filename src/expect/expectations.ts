import { McpvalsError } from "../base/error.ts";
import { didYouMean } from "../base/did-you-mean.ts";
import {
  asObject,
  formatKeyPath,
  isJsonObject,
  type Json,
  mapTexts,
  valueAt,
  withoutUndefined,
} from "../base/json.ts";
import { previewJson, readJsonText } from "../base/read-json.ts";
import type { JsonExpectation, TextExpectation } from "../model/step.ts";
import type { Expander } from "../templates/expand.ts";
import { compilePattern, isFoundInEveryText } from "../templates/pattern.ts";
import { inEqualText, inIgnoredPath, inJsonPath, inPattern } from "../templates/places.ts";
import {
  completePath,
  type Lookup,
  lookupsIn,
  membersOf,
  selectJson,
  wayEnd,
  type WayEnd,
} from "../templates/select-json.ts";
import type { Check } from "../model/event.ts";
import { containsJson, here, jsonDifference, type JsonDifference } from "./json-difference.ts";

/**
 * Replaces the templates in a text expectation. Values from outside are escaped in patterns and paths. Throws
 * `task/untrusted-value` where that is impossible, and `task/unfit-value` for an expected part that became empty.
 */
export function expandTextExpectation(expectation: TextExpectation, expander: Expander): TextExpectation {
  const { equals, contains, matches, json } = expectation;
  return withoutUndefined({
    equals: equals === undefined ? undefined : expander.placed(equals, inEqualText),
    contains: contains?.map((text) => expander.wanted(text)),
    matches: matches?.map((pattern) => expandPattern(pattern, expander)),
    json: json && expandJsonExpectations(json, expander),
  });
}

/** Replaces the templates in JSON expectations, including their paths. */
export function expandJsonExpectations(
  expectations: readonly JsonExpectation[],
  expander: Expander,
): readonly JsonExpectation[] {
  return expectations.map((expectation) => {
    const { path, equals, contains, matches, ignorePaths } = expectation;
    return withoutUndefined({
      ...expectation,
      path: expander.placed(path, inJsonPath),
      equals: equals === undefined ? undefined : expander.json(equals),
      contains: contains === undefined ? undefined : expandWanted(contains, expander),
      matches: matches === undefined ? undefined : expandPattern(matches, expander),
      ignorePaths: ignorePaths?.map((each) => expander.placed(each, inIgnoredPath)),
    });
  });
}

/** Replaces the templates in an expected result. Only `$equals` may become empty: anything else is contained. */
export function expandResultExpectation(expected: Json, expander: Expander): Json {
  return "$equals" in asObject(expected) ? expander.json(expected) : expandWanted(expected, expander);
}

/** Throws `task/unfit-value` for a pattern that its templates made one that is found in every text. */
function expandPattern(template: string, expander: Expander): string {
  const pattern = expander.placed(template, inPattern);
  if (pattern === template || (pattern !== "" && !isFoundInEveryText(pattern))) return pattern;
  throw new McpvalsError(
    "task/unfit-value",
    `${template} gives the pattern ${JSON.stringify(pattern)}, which is found in every text`,
  );
}

/** Expands every text in it, at any depth. Throws `task/unfit-value` for one that became empty. */
function expandWanted(contains: Json, expander: Expander): Json {
  return mapTexts(contains, (text) => {
    const value = expander.json(text);
    return typeof value === "string" ? expander.wanted(text) : value;
  });
}

/**
 * Checks a text: one check for each expected part, named after the text and the part. `equals` ignores line ends after the last
 * line; an empty expected text is contained in the empty text only. Throws `task/pattern` and `task/json-path`.
 */
export function checkText(name: string, expectation: TextExpectation, text: string): Check[] {
  const { equals, contains = [], matches = [], json } = expectation;
  return [
    ...(equals === undefined ? [] : [checkEquals(name, equals, text)]),
    ...contains.map((wanted) => checkContains(name, wanted, text)),
    ...matches.map((pattern) => checkMatches(name, pattern, text)),
    ...(json === undefined ? [] : checkJsonText(`${name} json`, json, text)),
  ];
}

function checkEquals(name: string, expected: string, text: string): Check {
  const wanted = withoutLineEnds(expected);
  const found = withoutLineEnds(text);
  const passed = found === wanted;
  const at = passed ? 0 : firstDifference(found, wanted);
  return {
    name: `${name} equals`,
    passed,
    expected: excerpt(wanted, at),
    actual: excerpt(found, at),
    message: passed ? "it is as expected" : textDifference(found, wanted),
  };
}

function checkContains(name: string, wanted: string, text: string): Check {
  const at = text.indexOf(wanted);
  const passed = wanted === "" ? text === "" : at !== -1;
  const near = passed ? at : text.toLowerCase().indexOf(wanted.toLowerCase());
  const preview = previewJson(wanted);
  let message = `it contains ${preview}`;
  if (!passed) {
    message = `it does not contain ${preview}${near === -1 ? "" : ", only in another case"}`;
    if (text === "") message = `it is empty, expected it to contain ${preview}`;
    if (wanted === "") message = "it is not empty, expected nothing";
  }
  const actual = excerpt(text, Math.max(0, near));
  return { name: `${name} contains`, passed, expected: excerpt(wanted), actual, message };
}

function checkMatches(name: string, pattern: string, text: string): Check {
  const passed = compilePattern(pattern).test(text);
  const claim = passed ? "it matches" : `${text === "" ? "it is empty and" : "it"} does not match`;
  const message = `${claim} ${previewJson(pattern)}`;
  return { name: `${name} matches`, passed, expected: excerpt(pattern), actual: excerpt(text), message };
}

/** A text without the line ends after its last line. */
export function withoutLineEnds(text: string): string {
  let end = text.length;
  while (end > 0 && text[end - 1] === "\n") end -= text[end - 2] === "\r" ? 2 : 1;
  return text.slice(0, end);
}

function firstDifference(left: string, right: string): number {
  const length = Math.min(left.length, right.length);
  for (let at = 0; at < length; at += 1) if (left[at] !== right[at]) return at;
  return length;
}

/** Maximum length of a text in a line of a report. */
const maxLineLength = 80;

function isShort(text: string): boolean {
  return text.length <= maxLineLength && !text.includes("\n");
}

function preview(text: string): string {
  return previewJson(text, maxLineLength);
}

/** The difference of two texts: the texts themselves where they are short, else the first line that differs. */
function textDifference(found: string, wanted: string): string {
  if (isShort(found) && isShort(wanted)) return `it is ${preview(found)}, expected ${preview(wanted)}`;
  const [lines, expectedLines] = [found.split("\n"), wanted.split("\n")];
  const differing = lines.findIndex((line, index) => line !== expectedLines[index]);
  const index = differing === -1 ? lines.length : differing;
  const [line, expected] = [lines[index], expectedLines[index]];
  const { length } = lines;
  const sizes =
    length === expectedLines.length
      ? ""
      : ` (it has ${length === 1 ? "1 line" : `${length} lines`}, expected ${expectedLines.length})`;
  if (line === undefined)
    return `it ends before line ${index + 1}, expected ${preview(expected ?? "")}${sizes}`;
  if (expected === undefined) return `line ${index + 1} is ${preview(line)}, expected the end${sizes}`;
  if (isShort(line) && isShort(expected))
    return `line ${index + 1} is ${preview(line)}, expected ${preview(expected)}${sizes}`;
  const at = firstDifference(line, expected);
  const rest = (of: string): string => (at >= of.length ? "its end" : preview(of.slice(at)));
  return `line ${index + 1} differs at column ${at + 1}: there is ${rest(line)}, expected ${rest(expected)}${sizes}`;
}

/** Checks a text that must be JSON, as `checkJson` does. A text that is not JSON gives one failed check. */
function checkJsonText(name: string, expectations: readonly JsonExpectation[], text: string): Check[] {
  const parsed = readJsonText(text);
  const passed = parsed.reason === undefined;
  if (passed && expectations.length > 0) return checkJson(name, expectations, parsed.value);
  const message = passed ? "it is JSON" : `it is not JSON: ${parsed.reason}`;
  const check = { name, passed, expected: "JSON", actual: excerpt(text), message };
  return [passed ? check : { ...check, evidence: "pathMissing" }];
}

/**
 * Checks places in a JSON value: one check for each part of each expectation, named after the value, the place and the
 * part. For a path that can lead to several places, `equals` and `contains` compare the list of values; `matches` and `type` check
 * each value, and at least one must exist. Throws `task/json-path` and `task/pattern`.
 */
export function checkJson(name: string, expectations: readonly JsonExpectation[], value: Json): Check[] {
  return expectations.flatMap((expectation) => {
    const found = find(expectation.path, value);
    const parts = partsOf(expectation, found);
    const { problem, doubt = misspellingIn(value, found.path) } =
      found.values.length === 0 ? absenceAt(value, found.path) : {};
    return parts.map(([part, outcome]): Check => {
      const check = { name: `${name} ${found.path} ${part}`, ...outcome };
      if (problem === undefined) return doubt === undefined ? check : { ...check, doubt };
      const message = outcome.passed ? problem : `${outcome.message}; ${problem}`;
      return { ...check, passed: false, message, evidence: "pathMissing" };
    });
  });
}

/** The values at a path. */
interface Found {
  readonly path: string;
  readonly values: readonly Json[];
  /** What `equals` and `contains` compare: the value, or the list of values; undefined for a single path without a value. */
  readonly whole: Json | undefined;
  /** Names a place inside the whole, such as `.a[0]`; "" is the whole itself. */
  readonly placeOf: (inside: string) => string;
  /** What to show when the path leads to nothing: the last values along it. */
  readonly instead: () => Json;
}

type Part = Pick<Check, "passed" | "expected" | "actual" | "message">;

function find(written: string, value: Json): Found {
  const path = completePath(written);
  const { values, singular } = selectJson(value, path);
  return {
    path,
    values,
    whole: singular ? values[0] : values,
    placeOf(inside) {
      if (singular) return `${path}${inside}`;
      return inside === "" ? path : `${inside} of ${path}`;
    },
    instead() {
      const nearest = wayEnd(value, path).values;
      const [only] = nearest;
      return outlinedJson(nearest.length === 1 && only !== undefined ? only : nearest);
    },
  };
}

function partsOf(expectation: JsonExpectation, found: Found): [string, Part][] {
  const { exists, equals, contains, matches, type, count, ignorePaths = [] } = expectation;
  const parts: [string, Part][] = [];
  if (exists !== undefined) parts.push(["exists", existence(found, exists)]);
  if (equals !== undefined) {
    const isEqual = (left: Json, right: Json): JsonDifference | undefined =>
      expectation.loose === true && haveSameText(left, right)
        ? undefined
        : jsonDifference(left, right, "equal");
    parts.push(["equals", compared(found, equals, ignorePaths, isEqual, "is as expected")]);
  }
  if (contains !== undefined) {
    const claim = `contains ${previewJson(contains)}`;
    parts.push(["contains", compared(found, contains, ignorePaths, absence, claim)]);
  }
  if (matches !== undefined) {
    const compiled = compilePattern(matches);
    const pattern = previewJson(matches);
    const matching = every(found, matches, `a text that matches ${pattern}`, (value) => {
      if (typeof value !== "string") return "is not a string";
      return compiled.test(value) ? undefined : `does not match ${pattern}`;
    });
    parts.push(["matches", matching]);
  }
  if (type !== undefined) {
    const typed = every(found, type, `of type ${type}`, (value) =>
      typeOf(value) === type ? undefined : `is of type ${typeOf(value)}, expected ${type}`,
    );
    parts.push(["type", typed]);
  }
  if (count !== undefined) parts.push(["count", counted(found, count)]);
  return parts.length > 0 ? parts : [["exists", existence(found, true)]];
}

function existence({ path, values, whole, instead }: Found, expected: boolean): Part {
  const actual = values.length > 0;
  const passed = actual === expected;
  const there = whole === undefined ? "" : ` is there: ${previewJson(whole)}`;
  const seen = actual ? `${path}${there}` : `${path} leads to nothing`;
  return {
    passed,
    expected,
    actual: passed || actual ? actual : instead(),
    message: passed ? seen : `${seen}, expected ${expected ? "something" : "nothing"} there`,
  };
}

/**
 * Compares the value at a path with the expected one, both without the places in `ignorePaths` (RFC 9535). The message names the
 * first difference.
 */
function compared(
  { path, whole, placeOf, instead }: Found,
  expected: Json,
  ignorePaths: readonly string[],
  differenceOf: (actual: Json, expected: Json) => JsonDifference | undefined,
  claim: string,
): Part {
  const shown = displayJson(expected);
  if (whole === undefined) {
    const message = `${path} leads to nothing, expected ${previewJson(expected)}`;
    return { passed: false, expected: shown, actual: instead(), message };
  }
  const actual = displayJson(whole);
  if (leavesNothing(expected, ignorePaths)) {
    const message = "ignorePaths excludes everything that is expected, so that nothing is compared";
    return { passed: false, expected: shown, actual, message };
  }
  const difference = differenceOf(withoutPaths(whole, ignorePaths), withoutPaths(expected, ignorePaths));
  const message =
    difference === undefined
      ? `${placeOf("")} ${claim}`
      : difference.messageFor(placeOf(pathOf(difference.pointer)));
  return { passed: difference === undefined, expected: shown, actual, message };
}

/** Checks every value at a path. `denial` gives what is wrong with a value, `claim` what it must be. */
function every(
  { path, values, whole, instead }: Found,
  expected: Json,
  claim: string,
  denial: (value: Json) => string | undefined,
): Part {
  if (whole === undefined || values.length === 0) {
    const message = `${path} leads to nothing, expected it to be ${claim}`;
    return { passed: false, expected, actual: instead(), message };
  }
  const bad = values.find((value) => denial(value) !== undefined);
  const message =
    bad === undefined ? `${path} is ${claim}` : `${path}: ${previewJson(bad)} ${denial(bad) ?? ""}`;
  return { passed: bad === undefined, expected, actual: displayJson(whole), message };
}

function counted({ path, values, whole, instead }: Found, expected: number): Part {
  const { length } = values;
  const places = length === 1 ? "1 place" : `${length} places`;
  const message = `${path} leads to ${places}`;
  if (length === expected) return { passed: true, expected, actual: length, message };
  const actual = whole === undefined || length === 0 ? instead() : outlinedJson(whole);
  return { passed: false, expected, actual, message: `${message}, expected ${expected}` };
}

function typeOf(value: Json): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "array" : typeof value;
}

/** Whether two values have the same text, such as 5 and "5". Lists and objects do not. */
function haveSameText(...values: readonly Json[]): boolean {
  const [left, right] = values.map((each) =>
    typeof each === "object" && each !== null ? each : String(each),
  );
  return typeof left === "string" && left === right;
}

/**
 * How a value fails to contain another one; undefined: it contains it. A text contains its parts, an object its members, at any
 * depth, a list its entries: one, or, given a list, every one of these. Lists inside must have equal length.
 */
function absence(actual: Json, expected: Json): JsonDifference | undefined {
  if (typeof actual === "string" && typeof expected === "string") {
    if (expected === "" ? actual === "" : actual.includes(expected)) return undefined;
    return here(
      (place) => `${place} is ${previewJson(actual)}, which does not contain ${previewJson(expected)}`,
    );
  }
  if (!Array.isArray(actual)) return jsonDifference(actual, expected, "contain");
  const has = (wanted: Json): boolean => actual.some((item: Json) => containsJson(item, wanted));
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

/** A JSON pointer as a part of a JSON path. */
function pathOf(pointer: string): string {
  const keys = pointer
    .split("/")
    .slice(1)
    .map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"));
  const path = formatKeyPath(keys.map((key) => (/^(?:0|[1-9]\d*)$/.test(key) ? Number(key) : key)));
  return path === "" || path.startsWith("[") ? path : `.${path}`;
}

/** Whether the absence of a value at a path is evidence. */
interface Absence {
  /** Why it is not: the parent is absent, or has no members. */
  readonly problem?: string;
  /** Why the path may be misspelt. */
  readonly doubt?: string;
}

/**
 * Decides whether it is evidence that a path (RFC 9535) selects nothing: it is if the parent exists, which is `$.a` for `$.a.b` and
 * for `$.a[?@.b].c`. Throws `task/json-path`.
 */
function absenceAt(value: Json, path: string): Absence {
  if (path === "$") return {};
  const { values, wants, names, isOneWay, isSettled, path: reached, missing } = wayEnd(value, path);
  const parent = values.find((each) => each !== null) ?? (isOneWay ? values[0] : undefined);
  if (parent === undefined) return {};
  // `..` looks for members of all that is below.
  const holders = wants === "some" ? [...values, ...values.flatMap(membersOf)] : values;
  const near = names.map((name) => similarKey({ name, holders })).find((key) => key !== undefined);
  const meant = near === undefined ? "" : `; there is ${JSON.stringify(near)} there, did you mean that?`;
  const proves = `the absence of ${path} proves nothing:`;
  if (!canHold(parent, wants)) {
    const lacks = wants === "entry" ? "entries" : "members";
    return { problem: `${proves} ${reached} is ${previewJson(parent, 40)}, which has no ${lacks}` };
  }
  if (!isSettled) return { problem: `${proves} ${missing} leads to nothing already${meant}` };
  return near === undefined ? {} : { doubt: `${path} leads to nothing${meant}` };
}

function canHold(value: Json, wants: WayEnd["wants"]): boolean {
  if (wants === "entry") return Array.isArray(value);
  return wants === "member" ? isJsonObject(value) : typeof value === "object" && value !== null;
}

/**
 * A probable misspelling in a path: a name in a filter or in a list of names that none of the searched values has, while one has a
 * similar name. Throws `task/json-path`.
 */
function misspellingIn(value: Json, path: string): string | undefined {
  for (const lookup of lookupsIn(value, path)) {
    const near = similarKey(lookup);
    if (near !== undefined)
      return `${path} looks for ${JSON.stringify(lookup.name)}; there is ${JSON.stringify(near)} there, did you mean that?`;
  }
  return undefined;
}

/** Shorter names are too often similar. */
const minNameLength = 4;

/** The key of an existing member that a missing name is probably a misspelling of. */
function similarKey({ name, holders }: Lookup): string | undefined {
  const present = new Set(holders.flatMap((holder) => (isJsonObject(holder) ? Object.keys(holder) : [])));
  if (present.has(name) || name.length < minNameLength) return undefined;
  const near = didYouMean(name, present);
  // "user2" beside "user1" is another user.
  return near !== undefined && withoutDigits(near) !== withoutDigits(name) ? near : undefined;
}

function withoutDigits(name: string): string {
  return name.replaceAll(/\d+/g, "#");
}

/** Maximum length of an excerpt, in characters. */
const maxExcerptLength = 1000;
/** How far a cut may move so that it does not split a word: the redactor would not recognise a part of a secret. */
const maxWordLength = 300;

/** A text as evidence; of a long one the part around a position, with `…` where it is cut. */
export function excerpt(text: string, at = 0): string {
  if (text.length <= maxExcerptLength) return text;
  const from = Math.min(Math.max(0, at - maxExcerptLength / 2), text.length - maxExcerptLength);
  const to = from + maxExcerptLength;
  const after = text.slice(from, from + maxWordLength).search(/\s/);
  const before = text.slice(to - maxWordLength, to).search(/\s\S*$/);
  const start = from === 0 || after === -1 ? from : from + after;
  const end = to === text.length || before === -1 ? to : to - maxWordLength + before + 1;
  return `${start === 0 ? "" : "…"}${text.slice(start, end)}${end === text.length ? "" : "…"}`.toWellFormed();
}

/** A JSON value as evidence; of a large one the beginning of its JSON, as a text. */
function displayJson(value: Json): Json {
  if (typeof value === "string") return excerpt(value);
  const shown = previewJson(value, maxExcerptLength);
  return shown.length > maxExcerptLength ? shown : value;
}

/** Limits of `outlinedJson`: a value that is shown whole, and a member that is, in characters of their JSON; number of members. */
const maxOutlineLength = 400;
const maxMemberLength = 60;
const maxMembers = 12;

/** A JSON value whose keys are of interest; of a large one the members, of long members only the sizes. */
function outlinedJson(value: Json): Json {
  if (typeof value === "string") return excerpt(value);
  if (typeof value !== "object" || value === null || isShorter(value, maxOutlineLength)) return value;
  const entries = Object.entries(value);
  const shown = entries.slice(0, maxMembers).map(([key, member]): [string, Json] => [key, sized(member)]);
  const rest = `${entries.length - maxMembers} more`;
  if (entries.length > maxMembers) shown.push(["…", rest]);
  return Array.isArray(value) ? shown.map(([, member]) => member) : Object.fromEntries(shown);
}

/** A long member becomes its size. */
function sized(member: Json): Json {
  if (typeof member === "string")
    return member.length > maxMemberLength ? `a text of ${member.length} characters` : member;
  if (typeof member !== "object" || member === null || isShorter(member, maxMemberLength)) return member;
  const { length } = Object.keys(member);
  return Array.isArray(member) ? `a list of ${length}` : `an object of ${length}`;
}

function isShorter(value: Json, characters: number): boolean {
  return previewJson(value, characters).length <= characters;
}

/** The members at some paths, by the object or list that has them, and whether a path leads to the value itself. */
function membersAt(
  value: Json,
  paths: readonly string[],
): { readonly isWhole: boolean; readonly isTaken: (holder: object, key: string | number) => boolean } {
  const places = paths.flatMap((path) => selectJson(value, path).places);
  const taken = Map.groupBy(places, (place) => valueAt(value, place.slice(0, -1)));
  const keys = new Map(
    [...taken].map(([holder, all]) => [holder, new Set(all.map((place) => place.at(-1)))]),
  );
  return {
    isWhole: places.some((place) => place.length === 0),
    isTaken: (holder, key) => keys.get(holder)?.has(Array.isArray(holder) ? Number(key) : key) === true,
  };
}

/** A JSON value without the members and entries at some paths (RFC 9535). Throws `task/json-path`. */
function withoutPaths(value: Json, paths: readonly string[]): Json {
  if (paths.length === 0) return value;
  const { isTaken } = membersAt(value, paths);
  const copy = (each: Json): Json => {
    if (typeof each !== "object" || each === null) return each;
    const rest = Object.entries(each).filter(([key]) => !isTaken(each, key));
    const members = rest.map(([key, member]) => [key, copy(member)] as const);
    return Array.isArray(each) ? members.map(([, member]) => member) : Object.fromEntries(members);
  };
  return copy(value);
}

/**
 * Whether nothing is left to compare in a value without the places at some paths: the value itself is taken out, or every text,
 * number, and empty list or object in it. Throws `task/json-path`.
 */
export function leavesNothing(value: Json, paths: readonly string[]): boolean {
  if (paths.length === 0) return false;
  const { isWhole, isTaken } = membersAt(value, paths);
  const isGone = (each: Json): boolean =>
    typeof each === "object" &&
    each !== null &&
    Object.keys(each).length > 0 &&
    Object.entries(each).every(([key, member]) => isTaken(each, key) || isGone(member));
  return isWhole || isGone(value);
}
