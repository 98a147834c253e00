import type { ReporterOutput } from "../../core/report/reporter.ts";
import { withoutCommands } from "../../core/text/visible-text.ts";
import { cutToWidth, displayWidth, type Piece, type Style } from "../format/rows.ts";

const redrawMs = 100;
/** Finished lines that may wait for the next redraw. */
const maxPending = 500;

/** A few lines at the bottom of a terminal that are redrawn in place, with finished lines printed above them. */
export class LiveRegion {
  readonly #output: ReporterOutput;
  readonly #style: Style;
  readonly #content: () => readonly (readonly Piece[])[];
  readonly #stopTimer: () => void;
  readonly #stopNotices: (() => void) | undefined;
  #pending: string[] = [];
  /** Widths of the lines on the screen. */
  #drawn: number[] = [];
  #last = "";
  #stopped = false;

  /** Starts drawing what `content` gives, line by line, cut to the width of the terminal. */
  constructor(output: ReporterOutput, style: Style, content: () => readonly (readonly Piece[])[]) {
    this.#output = output;
    this.#style = style;
    this.#content = content;
    this.#stopTimer = output.every(redrawMs, () => this.#draw());
    this.#stopNotices = output.notices?.((text) => this.#notice(text));
  }

  /** Prints lines above the region, at the latest with the next redraw. */
  print(lines: readonly string[]): void {
    for (const line of lines) this.#pending.push(line);
    if (this.#pending.length >= maxPending) this.#draw();
  }

  /** Prints what waits, erases the region and ends. */
  stop(): void {
    if (this.#stopped) return;
    this.#stopped = true;
    this.#stopTimer();
    this.#stopNotices?.();
    const text = this.#erasure() + this.#takePending();
    this.#drawn = [];
    if (text !== "") this.#output.write(text);
  }

  /** Shows a notice at once: nobody knows whether there will be a next redraw. */
  #notice(text: string): void {
    for (const line of text.trim().split("\n")) this.#pending.push(line);
    this.#draw();
  }

  #draw(): void {
    if (this.#stopped) return;
    const width = this.#output.columns() - 1;
    const lines = this.#content().map((pieces) => paintCut(pieces, width, this.#style));
    const text = lines.map((line) => `${line.painted}\n`).join("");
    if (this.#pending.length === 0 && text === this.#last) return;
    const erasure = this.#erasure();
    this.#last = text;
    this.#drawn = lines.map((line) => line.width);
    this.#output.write(erasure + this.#takePending() + text);
  }

  #takePending(): string {
    const text = withoutCommands(this.#pending.map((line) => `${line}\n`).join(""));
    this.#pending = [];
    return text;
  }

  /** Goes up over what was drawn and clears it; a terminal made narrower since has wrapped those lines. */
  #erasure(): string {
    const columns = Math.max(1, this.#output.columns());
    const rows = this.#drawn.reduce((sum, width) => sum + Math.max(1, Math.ceil(width / columns)), 0);
    return rows === 0 ? "" : `\u001b[${rows}A\r\u001b[J`;
  }
}

function paintCut(
  pieces: readonly Piece[],
  width: number,
  style: Style,
): { readonly painted: string; readonly width: number } {
  let used = 0;
  let painted = "";
  for (const { text, tone } of pieces) {
    const cut = cutToWidth(text, width - used);
    used += displayWidth(cut);
    painted += style[tone ?? "plain"](cut);
    if (cut !== text) break;
  }
  return { painted, width: used };
}
