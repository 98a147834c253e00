interface Range {
  readonly start: number;
  readonly end: number;
}

/**
 * Puts another JSON value in the place of the one at a path of keys, and leaves every other character of the text as it
 * was. Gives the same text when there is no such value. Of keys that are there twice the last one counts, as for
 * `JSON.parse`. The text has to be well-formed.
 */
export function replaceInJson(text: string, path: readonly string[], json: string): string {
  let range: Range | undefined = { start: skipSpace(text, 0), end: text.length };
  for (const key of path) {
    range = memberOf(text, range.start, key);
    if (range === undefined) return text;
  }
  return text.slice(0, range.start) + json + text.slice(range.end);
}

/** Where the value of a key stands in the object that begins at `start`. */
function memberOf(text: string, start: number, wanted: string): Range | undefined {
  if (text[start] !== "{") return undefined;
  let found: Range | undefined;
  let at = skipSpace(text, start + 1);
  while (text[at] === '"') {
    const keyEnd = skipString(text, at);
    const value = skipSpace(text, skipSpace(text, keyEnd) + 1);
    const end = skipValue(text, value);
    if (JSON.parse(text.slice(at, keyEnd)) === wanted) found = { start: value, end };
    at = skipSpace(text, end);
    if (text[at] === ",") at = skipSpace(text, at + 1);
  }
  return found;
}

const space = /[ \t\r\n]*/y;
const scalar = /[^\s,\]}]*/y;
/** Anything in an array or object that neither opens nor closes one, nor begins a string. */
const filling = /[^"{}[\]]*/y;

function skipSpace(text: string, at: number): number {
  return skip(space, text, at);
}

function skipString(text: string, start: number): number {
  let quote = start;
  do quote = text.indexOf('"', quote + 1);
  while (quote !== -1 && isEscaped(text, quote));
  return quote === -1 ? text.length : quote + 1;
}

function isEscaped(text: string, at: number): boolean {
  let first = at;
  while (text[first - 1] === "\\") first -= 1;
  return (at - first) % 2 === 1;
}

function skipValue(text: string, start: number): number {
  if (text[start] === '"') return skipString(text, start);
  if (text[start] !== "{" && text[start] !== "[") return skip(scalar, text, start);
  let levels = 0;
  let at = start;
  do {
    const sign = text[at];
    if (sign === '"') at = skipString(text, at);
    else {
      levels += sign === "{" || sign === "[" ? 1 : -1;
      at += 1;
    }
    if (levels > 0) at = skip(filling, text, at);
  } while (levels > 0 && at < text.length);
  return at;
}

/** Where the pattern ends that begins at a place; the end of the text when it does not fit, so that nothing goes on for ever. */
function skip(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : text.length;
}
