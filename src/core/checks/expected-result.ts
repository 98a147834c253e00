import type { Json, JsonObject } from "../formats/model.ts";
import { isJsonObject } from "../formats/json.ts";
import type { Check } from "../trace/events.ts";
import { containsJson, equalJson } from "./json-match.ts";
import { resultText } from "./result-text.ts";

const numberTolerance = 1e-4;

/**
 * Compares a `CallToolResult` with the `expectedResult` of a tool test:
 *
 * - text: the result's text contains it, ignoring case;
 * - number: the structured value, or else the last number in the text, within 0.0001;
 * - boolean or null: the structured value, or else the text read as JSON;
 * - list: the structured value, or else the text read as JSON, is equal to it;
 * - object: the structured value (or the text read as JSON) contains it: every key given is there with a value that
 *   contains the expected one; lists inside must have equal length. An object with `content`, `structuredContent` or
 *   `isError` is compared with the whole result in the same way;
 * - `{$equals: VALUE}`: exactly that value, nothing more; `{$contains: TEXT}`: the text or a list contains it.
 */
export function checkExpectedResult(expected: Json, result: JsonObject): Check {
  const outcome = compare(expected, result);
  return { name: "result", expected, ...outcome };
}

type Outcome = Pick<Check, "passed" | "actual" | "message">;

function compare(expected: Json, result: JsonObject): Outcome {
  if (typeof expected === "string") return compareText(expected, result);
  if (typeof expected === "number") return compareNumber(expected, result);
  if (!isJsonObject(expected)) return compareValue(expected, result, equalJson, "equal");
  const operator = operatorOf(expected);
  if (operator?.name === "$equals") return compareValue(operator.value, result, equalJson, "equal");
  if (operator?.name === "$contains") return compareContains(operator.value, result);
  if (isWholeResult(expected)) {
    const passed = containsJson(result, expected);
    return {
      passed,
      actual: result,
      message: describe(passed, "the whole result contains what was expected"),
    };
  }
  return compareValue(expected, result, containsJson, "contain");
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
  const text = resultText(result);
  const passed = text.toLowerCase().includes(expected.toLowerCase());
  return {
    passed,
    actual: text,
    message: describe(passed, `the text contains ${JSON.stringify(expected)}`),
  };
}

function compareNumber(expected: number, result: JsonObject): Outcome {
  const candidates = numbersOf(result);
  const found = candidates.at(-1);
  if (found === undefined) {
    return {
      passed: false,
      actual: resultText(result),
      message: `expected the number ${expected}, found no number`,
    };
  }
  const passed = Math.abs(found - expected) <= numberTolerance;
  const where = candidates.length > 1 ? "the last number in the text" : "the number found";
  return { passed, actual: found, message: `${where} is ${found}, expected ${expected}` };
}

/** The numbers that a result states: its structured value when that is one, else every number in its text, in order. */
function numbersOf(result: JsonObject): number[] {
  const structured = primitiveOf(result["structuredContent"]);
  if (typeof structured === "number") return [structured];
  const matches = resultText(result).match(/(?<![\w.])[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?:[eE][-+]?\d+)?/g) ?? [];
  return matches.map((text) => Number(text.replaceAll(",", "")));
}

/** Servers wrap a plain value as `{result: VALUE}`, since structured content must be an object. */
function primitiveOf(structured: Json | undefined): Json | undefined {
  if (!isJsonObject(structured)) return structured;
  const values = Object.values(structured);
  return values.length === 1 ? values[0] : undefined;
}

type Matcher = (actual: Json, expected: Json) => boolean;

function compareValue(
  expected: Json,
  result: JsonObject,
  matches: Matcher,
  verb: "equal" | "contain",
): Outcome {
  const candidates = valuesOf(result);
  if (candidates.length === 0) {
    const actual = resultText(result);
    return {
      passed: false,
      actual,
      message: "the result has no structured content and its text is not JSON",
    };
  }
  const match = candidates.find((candidate) => matches(candidate, expected));
  const passed = match !== undefined;
  const actual = passed ? match : (candidates[0] ?? null);
  const claim =
    verb === "equal" ? "the result equals what was expected" : "the result contains what was expected";
  return { passed, actual, message: describe(passed, claim) };
}

/** Values that a result may be compared by: its structured content, the plain value inside that, its text as JSON. */
function valuesOf(result: JsonObject): Json[] {
  const structured = result["structuredContent"];
  if (structured !== undefined) {
    const inner = isJsonObject(structured) && "result" in structured ? primitiveOf(structured) : undefined;
    return inner === undefined ? [structured] : [structured, inner];
  }
  const parsed = parseJson(resultText(result));
  return parsed === undefined ? [] : [parsed];
}

function compareContains(expected: Json, result: JsonObject): Outcome {
  if (typeof expected === "string") {
    const text = compareText(expected, result);
    if (text.passed) return text;
  }
  return compareValue(expected, result, containsItem, "contain");
}

function containsItem(actual: Json, expected: Json): boolean {
  if (Array.isArray(actual)) return actual.some((item: Json) => containsJson(item, expected));
  return typeof actual !== "string" && containsJson(actual, expected);
}

function parseJson(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    // Text that is not JSON is an ordinary answer, not an error: there is just no value to compare.
    return undefined;
  }
}

function describe(passed: boolean, claim: string): string {
  return passed ? claim : `not true: ${claim}`;
}
