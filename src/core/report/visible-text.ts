/**
 * Makes text from servers and models safe to print on one line: control and escape characters, line breaks, direction
 * marks, characters that show nothing and broken surrogates are written out, such as `\x1b` or `\u202e`. The joiners
 * that emoji and some scripts are made with stay.
 */
export function visibleText(text: string): string {
  return text.replaceAll(unsafe, writtenOut);
}

/** The same for text of several lines: line breaks part lines, and tabs become spaces. */
export function visibleLines(text: string): string[] {
  return text.split(/\r\n|\n/u).map((line) => visibleText(line.replaceAll("\t", "  ")));
}

/**
 * C0, DEL and C1; soft hyphen; Arabic letter mark; Mongolian vowel separator; zero-width space, direction marks; line and
 * paragraph separators, embeddings; word joiner to isolates; BOM; annotations; tags and what else hides behind them; lone
 * surrogates.
 */
const unsafe =
  // oxlint-disable-next-line no-control-regex
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e0fff}\p{Surrogate}]/gu;

const named: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

function writtenOut(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  const hex = code.toString(16);
  if (code <= 0xff) return named[character] ?? `\\x${hex.padStart(2, "0")}`;
  return code <= 0xffff ? `\\u${hex.padStart(4, "0")}` : `\\u{${hex}}`;
}
