import picocolors from "picocolors";
import { quoteBar } from "./visible-text.ts";

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

/** A line of text that is safe to print, and what it means. */
export interface Piece {
  readonly text: string;
  readonly tone?: Tone | undefined;
  /** How many characters at the start are painted in `leadTone` instead. */
  readonly lead?: number;
  readonly leadTone?: Tone;
}

/** A labelled fact under a verdict: `call  echo {"message":"hi"}`. */
export interface Row {
  readonly label: string;
  readonly pieces: readonly Piece[];
  /** A remark behind the last line, such as an event's number. */
  readonly note?: string | undefined;
  /** Whether it stays on one line, cut where it does not fit. */
  readonly cut?: boolean;
}

/** Where lines are painted: in which style, and how wide they may be; Infinity never wraps. */
export interface Page {
  readonly style: Style;
  readonly width: number;
}

const labelWidth = 10;

/** Rows as lines, labels in one column. */
export function paintRows(rows: readonly Row[], indent: number, page: Page): string[] {
  return rows.flatMap((row) => paintRow(row, indent, page));
}

/** A paragraph as lines, those after the first `hang` columns further in. */
export function paintText(piece: Piece, indent: number, page: Page, hang = 0): string[] {
  const { style } = page;
  const paint = style[piece.tone ?? "plain"];
  const [first = "", ...others] = wrapText(piece.text, page.width - indent - hang);
  const { lead = 0, leadTone = "plain" } = piece;
  return [
    " ".repeat(indent) + (lead > 0 ? style[leadTone](first.slice(0, lead)) : "") + paint(first.slice(lead)),
    ...others.map((line) => " ".repeat(indent + hang) + paint(line)),
  ];
}

/** Short texts side by side with dots between them, on as many lines as they need. */
export function paintFlow(pieces: readonly Piece[], indent: number, { style, width }: Page): string[] {
  const rows: Piece[][] = [];
  let room = 0;
  for (const piece of pieces) {
    const columns = displayWidth(piece.text);
    const row = rows.at(-1);
    if (row !== undefined && columns + 3 <= room) {
      row.push(piece);
      room -= columns + 3;
    } else {
      rows.push([piece]);
      room = width - indent - columns;
    }
  }
  const paint = ({ text, tone }: Piece): string => style[tone ?? "plain"](text);
  return rows.map((row) => " ".repeat(indent) + row.map(paint).join(style.dim(" · ")));
}

function paintRow(row: Row, indent: number, { style, width }: Page): string[] {
  // Of several lines only the first would stand behind our label.
  const bar = row.pieces.length > 1 ? quoteBar : "";
  const room = width - indent - labelWidth - bar.length;
  const lines = row.pieces.flatMap(({ text, tone }) =>
    (row.cut === true ? [cutToWidth(text, room)] : wrapText(text, room)).map((line) => ({
      text: line,
      paint: style[tone ?? "plain"],
    })),
  );
  const last = lines.at(-1);
  const note = row.note === undefined ? "" : `  (${row.note})`;
  const noteFits = last !== undefined && displayWidth(last.text + note) <= room;
  const painted = lines.map((line, index) => {
    const label = padToWidth(index === 0 ? row.label : "", labelWidth);
    const remark = noteFits && line === last ? style.dim(note) : "";
    return `${" ".repeat(indent)}${style.dim(label + bar)}${line.paint(line.text)}${remark}`.trimEnd();
  });
  return noteFits || note === "" || row.cut === true
    ? painted
    : [...painted, " ".repeat(indent + labelWidth) + style.dim(note.trim())];
}

/** What a piece of text means; the style says how that looks. */
export type Tone = "plain" | "dim" | "strong" | "good" | "bad" | "warn";

/** Paints text; without colours every tone leaves the text as it is. */
export type Style = Readonly<Record<Tone, (text: string) => string>> & {
  /** A space, the text and a space on the tone's colour, for the one word that matters most. */
  readonly badge: (tone: Tone, text: string) => string;
};

/** The style for a place that shows colours or not. */
export function createStyle(colors: boolean): Style {
  const paint = picocolors.createColors(colors);
  const tones: Record<Tone, (text: string) => string> = {
    plain: (text) => text,
    dim: paint.dim,
    strong: paint.bold,
    good: paint.green,
    bad: paint.red,
    warn: paint.yellow,
  };
  return {
    ...tones,
    badge: (tone, text) => paint.bold(paint.inverse(tones[tone](` ${text} `))),
  };
}
