import type { Json, JsonObject } from "../formats/model.ts";
import { isJsonObject } from "../formats/json.ts";
import type { Check } from "../trace/events.ts";
import { containsJson, equalJson } from "./json-match.ts";
import { numbersInText } from "./numbers-in-text.ts";
import { resultText, structuredContent } from "./result-text.ts";

const numberTolerance = 1e-4;

/**
 * Compares a `CallToolResult` with the `expectedResult` of a tool test. The value of a result is its structured content,
 * or the only member of that, since servers must wrap plain values (`{"result": 8}`); without structured content it is
 * the text read as JSON. Expected is a
 *
 * - text: the result's text contains it, ignoring case; the empty text: there is none;
 * - number: the structured value, or else the last number in the text (see `numbersInText`), within 0.0001;
 * - boolean, null or list: the value equals it;
 * - object: the value contains it: every key given is there with a value that contains the expected one; lists inside
 *   must have equal length. An object with a list `content`, `structuredContent` or `isError` may also be contained in
 *   the whole result;
 * - `{$equals: VALUE}`: the value, or the text, is exactly that, nothing more; `{$contains: VALUE}`: the text, the list
 *   or the object contains it.
 */
export function checkExpectedResult(expected: Json, result: JsonObject): Check {
  return { name: "result", expected, ...compare(expected, result) };
}

type Outcome = Pick<Check, "passed" | "actual" | "message">;

function compare(expected: Json, result: JsonObject): Outcome {
  if (typeof expected === "string") return compareText(expected, result);
  if (typeof expected === "number") return compareNumber(expected, result);
  const values = valuesOf(result);
  if (!isJsonObject(expected)) return compareValues(values, result, isEqualTo(expected));
  const operator = operatorOf(expected);
  if (operator?.name === "$equals") return compareExactly(operator.value, result);
  if (operator?.name === "$contains") return compareContains(operator.value, result);
  const candidates = isWholeResult(expected) ? [result, ...values] : values;
  return compareValues(candidates, result, {
    claim: containsClaim,
    holds: (value) => containsJson(value, expected),
  });
}

function operatorOf(expected: JsonObject): { name: string; value: Json } | undefined {
  const [entry, ...others] = Object.entries(expected);
  if (entry === undefined || others.length > 0) return undefined;
  const [name, value] = entry;
  return name === "$equals" || name === "$contains" ? { name, value } : undefined;
}

function isWholeResult(expected: JsonObject): boolean {
  return Array.isArray(expected["content"]) || "structuredContent" in expected || "isError" in expected;
}

function compareText(expected: string, result: JsonObject): Outcome {
  const actual = resultText(result);
  if (expected === "") return { ...outcome(actual === "", "the text is empty"), actual };
  const passed = actual.toLowerCase().includes(expected.toLowerCase());
  return { ...outcome(passed, `the text contains ${JSON.stringify(expected)}`), actual };
}

function compareNumber(expected: number, result: JsonObject): Outcome {
  const numbers = numbersOf(result);
  const found = numbers.at(-1);
  if (found === undefined) {
    const actual = resultText(result);
    return { passed: false, actual, message: `expected the number ${expected}, found no number` };
  }
  const passed = Math.abs(found - expected) <= numberTolerance;
  const where = numbers.length > 1 ? "the last number in the text" : "the number found";
  return { passed, actual: found, message: `${where} is ${found}, expected ${expected}` };
}

/** The structured value when that is a number, else every number in the text, in order. */
function numbersOf(result: JsonObject): number[] {
  const structured = structuredValues(result).find((value) => typeof value === "number");
  return structured === undefined ? numbersInText(spacedText(result)) : [structured];
}

/** In JSON without spaces, commas would look like those between thousands. */
function spacedText(result: JsonObject): string {
  const text = resultText(result);
  if (parseJson(text) === undefined) return text;
  let quoted = false;
  return text.replaceAll(/\\.|"|,/g, (token) => {
    if (token === '"') quoted = !quoted;
    return token === "," && !quoted ? ", " : token;
  });
}

interface Condition {
  readonly claim: string;
  readonly holds: (value: Json) => boolean;
}

const containsClaim = "the result contains what was expected";

function isEqualTo(expected: Json): Condition {
  return { claim: "the result equals what was expected", holds: (value) => equalJson(value, expected) };
}

function compareValues(values: readonly Json[], result: JsonObject, { claim, holds }: Condition): Outcome {
  const [first, ...others] = values;
  if (first === undefined) {
    const message = "the result has no structured content and its text is not JSON";
    return { passed: false, actual: resultText(result), message };
  }
  const match = [first, ...others].find(holds);
  return { ...outcome(match !== undefined, claim), actual: match === undefined ? first : match };
}

function compareExactly(expected: Json, result: JsonObject): Outcome {
  const values = typeof expected === "string" ? [...valuesOf(result), resultText(result)] : valuesOf(result);
  return compareValues(values, result, isEqualTo(expected));
}

function compareContains(expected: Json, result: JsonObject): Outcome {
  const values = valuesOf(result);
  if (typeof expected === "string") {
    const text = compareText(expected, result);
    if (text.passed || !values.some(Array.isArray)) return text;
  }
  const claim = containsClaim;
  return compareValues(values, result, { claim, holds: (value) => containsItem(value, expected) });
}

function containsItem(value: Json, expected: Json): boolean {
  if (Array.isArray(value)) return value.some((item: Json) => containsJson(item, expected));
  return containsJson(value, expected);
}

/** Values that a result may be compared by. */
function valuesOf(result: JsonObject): Json[] {
  const structured = structuredValues(result);
  if (structured.length > 0) return structured;
  const parsed = parseJson(resultText(result));
  return parsed === undefined ? [] : [parsed];
}

function structuredValues(result: JsonObject): Json[] {
  const structured = structuredContent(result);
  if (structured === undefined) return [];
  const members = isJsonObject(structured) ? Object.values(structured) : [];
  return members.length === 1 ? [structured, ...members] : [structured];
}

function parseJson(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    // Text that is not JSON is an ordinary answer, not an error: there is just no value to compare.
    return undefined;
  }
}

function outcome(passed: boolean, claim: string): Pick<Outcome, "passed" | "message"> {
  return { passed, message: passed ? claim : `not true: ${claim}` };
}
