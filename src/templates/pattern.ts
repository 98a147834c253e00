import { McpvalsError, messageOf } from "../base/error.ts";
import { RE2JS } from "re2js";

/** A regular expression that takes time linear in the text, whatever the two are. */
export interface Pattern {
  /** Whether it is found anywhere in the text. */
  test(text: string): boolean;
}

/** What was made of a text, kept for the last hundred texts: steps that poll use the same few again and again. */
export function madeOnce<T>(kept: Map<string, T>, text: string, make: (text: string) => T): T {
  const known = kept.get(text);
  if (known !== undefined) return known;
  const made = make(text);
  const [oldest] = kept.keys();
  if (kept.size === 100 && oldest !== undefined) kept.delete(oldest);
  kept.set(text, made);
  return made;
}

const patterns = new Map<string, Pattern>();

/**
 * Compiles a regular expression of RE2's syntax, inline flags such as `(?i)` included. Throws McpvalsError `task/pattern`
 * for an invalid one, and for the empty one, which would be found in every text.
 */
export function compilePattern(source: string): Pattern {
  return madeOnce(patterns, source, compile);
}

/** Has what a pattern may look for, or look for the absence of. */
const anyText = String.raw`ERROR Error error FAIL fail null \uE000 !"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\]^_abcdefghijklmnopqrstuvwxyz{|}~`;

/** Whether a pattern is found in the empty text as well as in any other one, so that it proves nothing. Throws as `compilePattern` does. */
export function isFoundInEveryText(source: string): boolean {
  const pattern = compilePattern(source);
  return pattern.test("") && pattern.test(anyText);
}

function compile(source: string): Pattern {
  if (source === "") throw refused(source, "it is empty and would be found in every text");
  try {
    return RE2JS.compile(source);
  } catch (cause) {
    throw refused(source, messageOf(cause), cause);
  }
}

function refused(source: string, reason: string, cause?: unknown): McpvalsError {
  return new McpvalsError("task/pattern", `${JSON.stringify(source)} is not a valid RE2 pattern: ${reason}`, {
    ...(cause === undefined ? {} : { cause }),
    hint: "Patterns have RE2 syntax: no look-around, no back-references.",
  });
}

/**
 * A regular expression of ECMAScript with the flag `u` that takes time linear in the text; undefined where RE2 cannot express it.
 * `source` must be valid.
 */
export function compileEcmaPattern(source: string): Pattern | undefined {
  const translated = inRe2(source);
  if (translated === undefined) return undefined;
  try {
    return RE2JS.compile(translated);
  } catch {
    return undefined; // look-around, a back-reference, a large number of repetitions
  }
}

/** The characters that `\s` stands for in ECMAScript, as members of a class. */
const space = String.raw`\t-\r \x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}`;

const tokenInClass = /\\u\{(?<point>[^}]*)\}|\\u(?<unit>[^]{4})|\\[^]|[^]/uy;
/** Outside of a class, also the beginning of one and that of a group. */
const token = /\\u\{(?<point>[^}]*)\}|\\u(?<unit>[^]{4})|\\[^]|\[\^?\]?|\(\?<(?![=!])[^>]*>|\(\?[^:<]|[^]/uy;

/** A pattern of ECMAScript in RE2's syntax; undefined where that has another meaning. */
function inRe2(source: string): string | undefined {
  let isInClass = false;
  let translated = "";
  for (let at = 0; at < source.length;) {
    const next: RegExp = isInClass ? tokenInClass : token;
    next.lastIndex = at;
    const { 0: text = "", groups: { point, unit = point } = {} } = next.exec(source) ?? {};
    if (text === "") return undefined;
    const code = unit === undefined ? (text.codePointAt(0) ?? 0) : Number.parseInt(unit, 16);
    // Both know properties of characters from their own version of Unicode.
    if (/^\\p/i.test(text)) return undefined;
    // Half of a pair, which a text in UTF-8 does not have.
    if (code >= 0xd800 && code <= 0xdfff) return undefined;
    const now = unit === undefined ? (isInClass ? inClass(text) : outsideClass(text)) : `\\x{${unit}}`;
    if (now === undefined) return undefined;
    translated += now;
    isInClass = isInClass ? text !== "]" : text.startsWith("[");
    at += text.length;
  }
  return translated;
}

function inClass(text: string): string | undefined {
  if (text === String.raw`\S`) return undefined;
  if (text === String.raw`\s`) return space;
  return text === "[" ? String.raw`\[` : text;
}

function outsideClass(text: string): string | undefined {
  if (text === ".") return String.raw`[^\n\r\x{2028}\x{2029}]`;
  if (text === String.raw`\s`) return `[${space}]`;
  if (text === String.raw`\S`) return `[^${space}]`;
  // A class that is empty or has everything; flags of a group.
  if (/^(?:\[\^?\]|\(\?[^<:])/.test(text)) return undefined;
  return text.startsWith("(?<") ? "(" : text;
}
