import { McpvalsError, messageOf } from "../errors/error.ts";
import { RE2JS } from "re2js";

/** A regular expression that takes time linear in the text, whatever the two are. */
export interface Pattern {
  /** Whether it is found anywhere in the text. */
  test(text: string): boolean;
}

/** Patterns that are kept compiled; steps that poll use the same few again and again. */
const mostKept = 100;
const kept = new Map<string, Pattern>();

/**
 * Compiles a regular expression of RE2's syntax, inline flags such as `(?i)` included. Throws McpvalsError `task/pattern`
 * for an invalid one, and for the empty one, which would be found in every text.
 */
export function compilePattern(source: string): Pattern {
  const known = kept.get(source);
  if (known !== undefined) return known;
  const pattern = compile(source);
  const [oldest] = kept.keys();
  if (kept.size >= mostKept && oldest !== undefined) kept.delete(oldest);
  kept.set(source, pattern);
  return pattern;
}

/**
 * Whether a pattern is found in every text, so that looking for it proves nothing: where it needs no character, at the
 * beginning of any text, at its end or anywhere. Throws as `compilePattern` does.
 */
export function isFoundInEveryText(source: string): boolean {
  compilePattern(source);
  try {
    return (
      anyText.test(source) ||
      (found(`a(?:${source})b`, "ab") && found(`-(?:${source})-`, "--")) ||
      (found(`(?:${source})b`, "b") && found(`(?:${source})-`, "-")) ||
      (found(`b(?:${source})`, "b") && found(`-(?:${source})`, "-"))
    );
  } catch {
    return false; // it cannot be a part of another one
  }
}

function found(whole: string, text: string): boolean {
  return compilePattern(whole).test(text);
}

/** Spellings of "any text, from its beginning to its end". */
const anyText = /^(?:\(\?[a-zA-Z]+\))?\^?\(?(?:\.|\[\\s\\S\]|\[\\S\\s\]|\[\\w\\W\])\*\??\)?\$?$/;

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
