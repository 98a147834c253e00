import { visibleColumns } from "../text/visible-text.ts";
import type { SourceLocation } from "./error.ts";

const widest = 100;
const contextBefore = 40;

/**
 * Shows the line of a place, the lines before and after it, and a marker under the place; what does not fit is cut off.
 * `lineAt` gives the text of a line, counting from 1. Gives undefined when the place has no line.
 */
export function codeFrame(
  lineAt: (line: number) => string | undefined,
  place: Pick<SourceLocation, "line" | "column">,
): string | undefined {
  const { line, column = 1 } = place;
  if (line === undefined) return undefined;
  const start = column > widest - 20 ? column - contextBefore : 0;
  const width = String(line + 1).length;
  const rows = [line - 1, line, line + 1].flatMap((number) => {
    const text = number < 1 ? undefined : lineAt(number);
    if (text === undefined) return [];
    const row = `${number === line ? ">" : " "} ${String(number).padStart(width)} | ${cut(text, start)}`;
    if (number !== line) return [row.trimEnd()];
    return [row.trimEnd(), `${" ".repeat(width + 2)} | ${marker(text, column, start)}`];
  });
  return rows.join("\n");
}

function cut(line: string, start: number): string {
  const shown = visibleColumns(line.slice(start, start + widest).replaceAll("\t", " "));
  const hasMore = line.length > start + widest;
  return `${start > 0 ? "…" : ""}${shown}${hasMore ? "…" : ""}`;
}

function marker(line: string, column: number, start: number): string {
  const indent = column - 1 - start + (start > 0 ? 1 : 0);
  const length = Math.min(tokenLength(line, column), Math.max(1, widest - indent));
  return " ".repeat(indent) + "^".repeat(length);
}

/** Length of the variable, quoted text or word at a column; 1 for anything else. */
function tokenLength(line: string, column: number): number {
  const token = /^(?:\$\{[^}]*\}|"(?:[^"\\]|\\.)*"|'[^']*'|[^\s,:{}[\]"']+)/.exec(
    line.slice(column - 1, column + 199),
  );
  return token?.[0].length ?? 1;
}
