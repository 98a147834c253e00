/** Breaks a line at spaces so that no piece is wider than `width` columns; words that are longer are cut. */
export function wrapText(line: string, width: number): string[] {
  if (line.length * 2 <= width || displayWidth(line) <= width) return [line];
  const room = Math.max(width, 8);
  const pieces: string[] = [];
  let rest = line;
  while (displayWidth(rest) > room) {
    const [head, tail] = splitAtWidth(rest, room);
    const space = tail.startsWith(" ") ? head.length : head.lastIndexOf(" ");
    const indent = rest.length - rest.trimStart().length;
    const end = space > indent ? space : head.length;
    pieces.push(rest.slice(0, end).trimEnd());
    rest = rest.slice(end).trimStart();
  }
  return rest === "" ? pieces : [...pieces, rest];
}

/** Characters of one column that combine with nothing: ASCII, Latin, Greek, Cyrillic, dashes and quotes. */
const plain =
  /^[\u0020-\u007e\u00a1-\u00ac\u00ae-\u02ff\u0370-\u0482\u048a-\u052f\u2010-\u2027\u2030-\u205e]*$/u;
const nothing = /^[\p{Mark}\p{Default_Ignorable_Code_Point}]*$/u;
const emoji = /\p{Emoji_Presentation}|\u{fe0f}/u;
/** East Asian wide and full-width blocks (Unicode Standard Annex #11), in broad strokes. */
const wide =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97c\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{17000}-\u{18cff}\u{1b000}-\u{1b2ff}\u{20000}-\u{3fffd}]/u;

/** Made on first use: it takes 10 ms. */
let segmenter: Intl.Segmenter | undefined;

function graphemesOf(text: string): Intl.Segments {
  segmenter ??= new Intl.Segmenter(undefined, { granularity: "grapheme" });
  return segmenter.segment(text);
}

/** How many terminal columns a text without control characters takes. */
export function displayWidth(text: string): number {
  if (plain.test(text)) return text.length;
  let width = 0;
  for (const { segment } of graphemesOf(text)) width += graphemeWidth(segment);
  return width;
}

/** Cuts a text to at most `width` columns; what was cut off ends in `…`. */
export function cutToWidth(text: string, width: number): string {
  if (text.length <= width && plain.test(text)) return text;
  if (displayWidth(text) <= width) return text;
  return width < 1 ? "" : `${splitAtWidth(text, width - 1)[0]}…`;
}

/** Parts a text so that the first part takes at most `width` columns. */
export function splitAtWidth(text: string, width: number): [head: string, tail: string] {
  if (plain.test(text)) return [text.slice(0, Math.max(width, 0)), text.slice(Math.max(width, 0))];
  let used = 0;
  for (const { segment, index } of graphemesOf(text)) {
    used += graphemeWidth(segment);
    if (used > width) return [text.slice(0, index), text.slice(index)];
  }
  return [text, ""];
}

/** Fills a text with spaces on the right up to `width` columns. */
export function padToWidth(text: string, width: number): string {
  return text + " ".repeat(Math.max(0, width - displayWidth(text)));
}

function graphemeWidth(grapheme: string): number {
  if (nothing.test(grapheme)) return 0;
  return emoji.test(grapheme) || wide.test(grapheme) ? 2 : 1;
}
