import type { Json } from "../formats/model.ts";
import { previewJson, readJsonText } from "../formats/read-json.ts";
import type { JsonExpectation } from "../formats/step.ts";
import { completePath, nearestJson, selectJson } from "../templates/select-json.ts";
import type { Check } from "../trace/events.ts";
import { type Absence, absenceAt, slipIn } from "./absence.ts";
import { compareContains, compareEquals, type Comparison } from "./compare-json.ts";
import { excerpt, outlinedJson, shownJson } from "./excerpt.ts";
import { compilePattern } from "./pattern.ts";

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
  /** What is there instead, for the reader: the value, or the values, that the way ends at. */
  readonly instead: () => Json;
  /** What it is worth that it leads to nothing. */
  readonly absence: () => Absence;
}

type Part = Pick<Check, "passed" | "expected" | "actual" | "message" | "unplaced" | "doubt">;

function checkPlace(name: string, expectation: JsonExpectation, value: Json): Check[] {
  const found = find(expectation.path, value);
  const parts = partsOf(expectation, found);
  const { doubt = slipIn(value, found.path), ...absence } = found.values.length === 0 ? found.absence() : {};
  const worth = { ...absence, ...(doubt === undefined ? {} : { doubt }) };
  return parts.map(([part, outcome]) => ({
    name: `${name} ${found.path} ${part}`,
    ...weighed(outcome, worth),
  }));
}

/** An outcome that rests on a place that is not there, with what that is worth. */
function weighed(outcome: Part, { problem, doubt }: Absence): Part {
  if (problem !== undefined) {
    const message = outcome.passed ? problem : `${outcome.message}; ${problem}`;
    return { ...outcome, passed: false, message, unplaced: true };
  }
  return doubt === undefined ? outcome : { ...outcome, doubt };
}

function find(written: string, value: Json): Found {
  const path = completePath(written);
  const { values, singular } = selectJson(value, path);
  const told = {
    path,
    values,
    instead: (): Json => insteadOf(value, path),
    absence: (): Absence => absenceAt(value, path),
  };
  if (singular) return { ...told, whole: values[0], placeOf: (inside) => `${path}${inside}` };
  return {
    ...told,
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
