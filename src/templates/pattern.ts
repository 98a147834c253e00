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

/** Compiles a pattern that a whole text is searched for. Throws McpvalsError also for one that is found in every text, so that it could not fail. */
export function compileTextPattern(source: string): void {
  if (!isFoundInEveryText(source)) return;
  throw new McpvalsError("config/checks-nothing", `${JSON.stringify(source)} is found in every text`, {
    hint: "Leave it out, or write what has to be there; .+ is found in all that is not empty.",
  });
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
