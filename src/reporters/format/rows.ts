import type { Style, Tone } from "./style.ts";
import { quoteBar } from "../../core/text/visible-text.ts";
import { displayWidth, padToWidth } from "./display-width.ts";
import { wrapText } from "./wrap-text.ts";

/** A line of text that is safe to print, and what it means. */
export interface Piece {
  readonly text: string;
  readonly tone?: Tone;
  /** How many characters at the start are painted in `leadTone` instead. */
  readonly lead?: number;
  readonly leadTone?: Tone;
}

/** A labelled fact under a verdict: `call  echo {"message":"hi"}`. */
export interface Row {
  readonly label: string;
  readonly pieces: readonly Piece[];
  /** A remark behind the last line, such as an event's number. */
  readonly note?: string;
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
    wrapText(text, room).map((line) => ({ text: line, paint: style[tone ?? "plain"] })),
  );
  const last = lines.at(-1);
  const note = row.note === undefined ? "" : `  (${row.note})`;
  const noteFits = last !== undefined && displayWidth(last.text + note) <= room;
  const painted = lines.map((line, index) => {
    const label = padToWidth(index === 0 ? row.label : "", labelWidth);
    const remark = noteFits && line === last ? style.dim(note) : "";
    return `${" ".repeat(indent)}${style.dim(label + bar)}${line.paint(line.text)}${remark}`.trimEnd();
  });
  return noteFits || note === ""
    ? painted
    : [...painted, " ".repeat(indent + labelWidth) + style.dim(note.trim())];
}
