import type { Json } from "../../src/extension-sdk/index.ts";
import type { Table } from "./database.ts";
import { isJsonObject } from "./json-object.ts";
import type { ExpectedRow } from "./rows.ts";

/** A row of a message: `-` is expected and not there, `+` is there and not expected. */
export interface Line {
  readonly mark: "-" | "+" | " ";
  readonly row: ExpectedRow;
}

const mostLines = 20;
const mostColumns = 12;
const widestCell = 40;

/** Lays rows out in columns: those of the table, then those that only expected rows name. Long ones are cut. */
export function rowsText(lines: readonly Line[], { columns }: Pick<Table, "columns">): string {
  const names = [
    ...new Set([...columns, ...lines.flatMap(({ row }) => (isJsonObject(row) ? Object.keys(row) : []))]),
  ];
  const width = largest([names.length, ...lines.map(({ row }) => (isJsonObject(row) ? 0 : row.length))]);
  const shown = Math.min(width, mostColumns);
  const more = shown < width ? ["…"] : [];
  const head = ["", ...cut(names, shown).map(short), ...more];
  const body = lines
    .slice(0, mostLines)
    .map(({ mark, row }) => [mark, ...cellsOf(row, names, shown), ...more]);
  const rest = lines.length - mostLines;
  return [...aligned([head, ...body]), ...(rest > 0 ? [`  … and ${rest} more`] : [])].join("\n");
}

/** A value as it is shown in messages: JSON, cut where it is long. */
export function cellText(value: Json | undefined): string {
  return value === undefined ? "" : short(JSON.stringify(value));
}

function cellsOf(row: ExpectedRow, names: readonly string[], shown: number): readonly string[] {
  const values = isJsonObject(row)
    ? names.map((name) => (Object.hasOwn(row, name) ? row[name] : undefined))
    : row;
  return cut(values.map(cellText), shown);
}

/** Exactly so many, with empty ones where there are less. */
function cut(texts: readonly string[], length: number): readonly string[] {
  return Array.from({ length }, (_none, index) => texts[index] ?? "");
}

function short(text: string): string {
  // A pair of surrogates is not torn apart.
  return text.length <= widestCell
    ? text
    : `${text.slice(0, widestCell - 1).replace(/[\uD800-\uDBFF]$/, "")}…`;
}

/** A call takes only so many arguments, so not all at once. */
function largest(numbers: readonly number[]): number {
  return numbers.reduce((most, number) => Math.max(most, number), 0);
}

function aligned(table: readonly (readonly string[])[]): readonly string[] {
  const widths = (table[0] ?? []).map((_cell, column) =>
    largest(table.map((row) => row[column]?.length ?? 0)),
  );
  return table.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd(),
  );
}
