import type { TextExpectation } from "../formats/step.ts";
import { previewJson } from "../formats/read-json.ts";
import type { Check } from "../trace/events.ts";
import { excerpt } from "./excerpt.ts";
import { checkJsonText } from "./json-expectation.ts";
import { compilePattern } from "../templates/pattern.ts";

/**
 * Looks at a text: one check for each part of what is expected of it, named after the text and the part. Line ends after
 * the last line do not count for `equals`; an expected text that is empty is contained in the empty text only. Throws
 * `task/pattern` and `task/json-path`.
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
    message: passed ? "it is as expected" : differenceMessage(found, wanted),
  };
}

function checkContains(name: string, wanted: string, text: string): Check {
  const at = text.indexOf(wanted);
  const passed = wanted === "" ? text === "" : at !== -1;
  const near = passed ? at : text.toLowerCase().indexOf(wanted.toLowerCase());
  return {
    name: `${name} contains`,
    passed,
    expected: excerpt(wanted),
    actual: excerpt(text, Math.max(0, near)),
    message: passed ? `it contains ${previewJson(wanted)}` : absenceMessage(text, wanted, near),
  };
}

function absenceMessage(text: string, wanted: string, near: number): string {
  if (wanted === "") return "it is not empty, expected nothing";
  if (text === "") return `it is empty, expected it to contain ${previewJson(wanted)}`;
  const otherCase = near === -1 ? "" : ", only in another case";
  return `it does not contain ${previewJson(wanted)}${otherCase}`;
}

function checkMatches(name: string, pattern: string, text: string): Check {
  const passed = compilePattern(pattern).test(text);
  const shown = previewJson(pattern);
  const missing = `${text === "" ? "it is empty and" : "it"} does not match ${shown}`;
  return {
    name: `${name} matches`,
    passed,
    expected: excerpt(pattern),
    actual: excerpt(text),
    message: passed ? `it matches ${shown}` : missing,
  };
}

function withoutLineEnds(text: string): string {
  let end = text.length;
  while (end > 0 && text[end - 1] === "\n") end -= text[end - 2] === "\r" ? 2 : 1;
  return text.slice(0, end);
}

function firstDifference(left: string, right: string): number {
  const length = Math.min(left.length, right.length);
  for (let at = 0; at < length; at += 1) if (left[at] !== right[at]) return at;
  return length;
}

/** What fits a line of a report. */
const shortText = 80;

function differenceMessage(found: string, wanted: string): string {
  if (isShort(found) && isShort(wanted))
    return `it is ${JSON.stringify(found)}, expected ${JSON.stringify(wanted)}`;
  const [there, due] = [found.split("\n"), wanted.split("\n")];
  const index = there.findIndex((line, number) => line !== due[number]);
  const sizes = there.length === due.length ? "" : ` (it has ${lines(there)}, expected ${due.length})`;
  return `${lineDifference(there, due, index === -1 ? there.length : index)}${sizes}`;
}

/** What is told of the first line that differs; `index` counts from 0. */
function lineDifference(there: readonly string[], due: readonly string[], index: number): string {
  const [is, wanted] = [there[index], due[index]];
  if (is === undefined) return `it ends before line ${index + 1}, expected ${previewJson(wanted, shortText)}`;
  if (wanted === undefined) return `line ${index + 1} is ${previewJson(is, shortText)}, expected the end`;
  if (isShort(is) && isShort(wanted))
    return `line ${index + 1} is ${JSON.stringify(is)}, expected ${JSON.stringify(wanted)}`;
  const at = firstDifference(is, wanted);
  return `line ${index + 1} differs at column ${at + 1}: there is ${rest(is, at)}, expected ${rest(wanted, at)}`;
}

function lines(all: readonly string[]): string {
  return all.length === 1 ? "1 line" : `${all.length} lines`;
}

function isShort(text: string): boolean {
  return text.length <= shortText && !text.includes("\n");
}

/** What a line has from a place on. */
function rest(line: string, at: number): string {
  return at >= line.length ? "its end" : previewJson(line.slice(at), shortText);
}
