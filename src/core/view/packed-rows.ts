import type { Json } from "../formats/json.ts";

/** Rows of a table as JSON, column by column: each name, and each value that repeats, is written once. */
export interface PackedRows<Row> {
  readonly length: number;
  readonly columns: { readonly [Name in keyof Row]?: PackedColumn };
}

/** The values of all rows, null where a row has none; or the distinct values, and which of them each row has: all the first, if `at` is absent. */
type PackedColumn =
  | { readonly cells: readonly Json[] }
  | { readonly values: readonly Json[]; readonly at?: readonly number[] };

/** A column with more distinct values than this share of its rows is written as it is. */
const mostDistinct = 0.25;

/** Packs rows whose members are JSON other than null. */
export function packRows<Row extends object>(rows: readonly Row[]): PackedRows<Row> {
  const names = new Set<keyof Row>();
  for (const row of rows) for (const name in row) names.add(name);
  const columns: { [Name in keyof Row]?: PackedColumn } = {};
  for (const name of names) columns[name] = packColumn(rows.map((row) => (row[name] ?? null) as Json));
  return { length: rows.length, columns };
}

function packColumn(cells: readonly Json[]): PackedColumn {
  const positions = new Map<Json, number>();
  for (const cell of cells) {
    if (!positions.has(cell)) positions.set(cell, positions.size);
    if (positions.size > Math.max(1, cells.length * mostDistinct)) return { cells };
  }
  const values = [...positions.keys()];
  if (values.length === 1) return { values };
  return { values, at: cells.map((cell) => positions.get(cell) ?? 0) };
}

/** The rows that were packed. */
export function unpackRows<Row extends object>({ length, columns }: PackedRows<Row>): readonly Row[] {
  const rows = Array.from({ length }, (): Record<string, Json> => ({}));
  for (const [name, column] of Object.entries<PackedColumn | undefined>(columns)) {
    if (column === undefined) continue;
    const cellAt = cellsOf(column);
    let index = 0;
    for (const row of rows) {
      const cell = cellAt(index) ?? null;
      if (cell !== null) row[name] = cell;
      index += 1;
    }
  }
  return rows as Row[];
}

function cellsOf(column: PackedColumn): (index: number) => Json | undefined {
  if ("cells" in column) return (index) => column.cells[index];
  const { values, at } = column;
  return at === undefined ? () => values[0] : (index) => values[at[index] ?? 0];
}
