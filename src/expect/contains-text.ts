import { secretMarks } from "../base/secret-marks.ts";
import { dashes, plainText } from "../base/visible-text.ts";
import type { ExpectedState } from "../model/fields.ts";
import { compilePattern } from "../templates/pattern.ts";

/** Of Unicode's private use: marks are translated to these characters, so that only the same mark matches. */
const firstPrivate = 0xf_0000;

/**
 * Whether a text contains another, ignoring case and invisible characters, such as terminal colours. The mark of a secret matches
 * the same mark only, not the word "secret".
 */
export function containsText(text: string, wanted: string): boolean {
  const [where, what] = comparables(text, wanted);
  return where.includes(what);
}

/**
 * Whether a text contains another as {@link containsText} does, where a number at the start or end of the other must be a whole number
 * in the text: "5" is in "5.0", and not in "15", "0.5", "5.2" or "-5".
 */
export function statesText(text: string, wanted: string): boolean {
  const [where, what] = comparables(text, wanted);
  for (let at = where.indexOf(what); at !== -1; at = where.indexOf(what, at + 1))
    if (isWhole(where, at, at + what.length)) return true;
  return false;
}

/** Whether a text contains another as {@link containsText} does, without a letter, digit or `_` beside it. */
function containsWord(text: string, wanted: string): boolean {
  const [where, what] = comparables(text, wanted);
  for (let at = where.indexOf(what); at !== -1; at = where.indexOf(what, at + 1)) {
    const [before, after] = [where.slice(Math.max(0, at - 2), at), where.slice(at + what.length)];
    if (!/[\p{L}\p{N}_]$/u.test(before) && !/^[\p{L}\p{N}_]/u.test(after.slice(0, 2))) return true;
  }
  return false;
}

/** Characters before a number that belong to it: a digit, a decimal point, or a sign. */
const goesBefore = new RegExp(String.raw`\p{N}\.?$|(?:^|[^\w.])\.$|(?:^|[^\w)\]])[${dashes}]$`, "u");
/** Characters after a number that belong to it; zeros after a decimal point change nothing. */
const goesOn = /^(?:\p{N}|\.(?!0+(?!\d))\p{N})/u;
/** Maximum number of decimals that are read. */
const maxDecimals = 400;

function isWhole(text: string, start: number, end: number): boolean {
  const found = text.slice(start, end);
  if (/^\d/.test(found) && goesBefore.test(text.slice(Math.max(0, start - 2), start))) return false;
  if (!/\d$/.test(found)) return true;
  // 1.2.3 is not a number, so a point after decimals does not continue one.
  const hasDecimals = /\d\.\d+$/.test(found.slice(-maxDecimals));
  return !(hasDecimals ? /^\p{N}/u : goesOn).test(text.slice(end, end + maxDecimals));
}

/** Invisible characters count only where the other text has nothing else, and would be in every text without them. */
function comparables(text: string, wanted: string): readonly [where: string, what: string] {
  const what = plainText(wanted);
  if (what.trim() === "") return [comparable(text), comparable(wanted)];
  return [comparable(plainText(text)), comparable(what)];
}

function comparable(text: string): string {
  return text.replaceAll(secretMarks, seal).toLowerCase();
}

function seal(mark: string): string {
  const sealed = Array.from(mark, (character) =>
    String.fromCodePoint(firstPrivate + (character.codePointAt(0) ?? 0)),
  );
  return sealed.join("");
}

/** The parts of an expected state; a text alone must be contained. */
export function stateParts(state: string | ExpectedState): ExpectedState {
  return typeof state === "string" ? { contains: state } : state;
}

/** Whether a text meets all parts of an expected state. Invisible characters are ignored. Throws `task/pattern`. */
export function meetsState(text: string, state: string | ExpectedState): boolean {
  const { contains, equals, matches, wholeWord = false } = stateParts(state);
  const plain = plainText(text);
  return (
    (contains === undefined || (wholeWord ? containsWord : statesText)(text, contains)) &&
    (equals === undefined || plain.trim() === equals.trim()) &&
    (matches === undefined || compilePattern(matches).test(plain))
  );
}

/** An expected state as a predicate, such as `contains "42"`. */
export function describeState(state: string | ExpectedState): string {
  const { contains, equals, matches, wholeWord = false } = stateParts(state);
  const how = wholeWord ? "contains the word" : "contains";
  return [
    ...(contains === undefined ? [] : [`${how} ${JSON.stringify(contains)}`]),
    ...(equals === undefined ? [] : [`equals ${JSON.stringify(equals)}`]),
    ...(matches === undefined ? [] : [`matches ${JSON.stringify(matches)}`]),
  ].join(" and ");
}
