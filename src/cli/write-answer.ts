import { visibleText } from "../core/text/visible-text.ts";
import { displayWidth, padToWidth } from "../reporters/format/display-width.ts";
import { writeJson, writeOut } from "./terminal.ts";

/** An answer in both of its forms. Lines are safe to print. */
export interface Answer {
  readonly json: unknown;
  readonly lines: readonly string[];
}

/** Writes an answer to stdout, as JSON when that was asked for. */
export function writeAnswer(
  { json, lines }: Answer,
  { json: wantsJson = false }: { readonly json?: boolean },
): void {
  if (wantsJson) writeJson(json, 2);
  else if (lines.length > 0) writeOut(lines.join("\n"));
}

/** Rows as lines that are safe to print, their cells in columns. */
export function columns(written: readonly (readonly string[])[]): string[] {
  const rows = written.map((row) => row.map((cell) => visibleText(cell)));
  const widths: number[] = [];
  for (const row of rows)
    for (const [index, cell] of row.entries())
      widths[index] = Math.max(widths[index] ?? 0, displayWidth(cell));
  return rows.map((row) =>
    row
      .map((cell, index) => padToWidth(cell, widths[index] ?? 0))
      .join("  ")
      .trimEnd(),
  );
}

/** A size for people: `512 B`, `3.4 kB`, `12.0 MB`. */
export function formatBytes(bytes: number): string {
  const units = ["B", "kB", "MB", "GB"];
  let value = bytes;
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit] ?? ""}`;
}
