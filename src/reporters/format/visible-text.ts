/**
 * Makes text from servers and models safe to print on one line: control and escape characters, line breaks, invisible
 * direction marks, tag characters and broken surrogates are written out, such as `\x1b` or `\u202e`.
 */
export function visibleText(text: string): string {
  return text.replaceAll(unsafe, writtenOut);
}

/** The same for text of several lines: line breaks part lines, and tabs become spaces. */
export function visibleLines(text: string): string[] {
  return text.split(/\r\n|\n/u).map((line) => visibleText(line.replaceAll("\t", "  ")));
}

/** C0, DEL and C1; Arabic letter mark, direction marks, separators, embeddings, isolates, BOM; tags; lone surrogates. */
const unsafe =
  // oxlint-disable-next-line no-control-regex
  /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}\p{Surrogate}]/gu;

const named: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

function writtenOut(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  const hex = code.toString(16);
  if (code <= 0xff) return named[character] ?? `\\x${hex.padStart(2, "0")}`;
  return code <= 0xffff ? `\\u${hex.padStart(4, "0")}` : `\\u{${hex}}`;
}
