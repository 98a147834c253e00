import { isJsonObject, type Json, type JsonObject } from "../../base/json.ts";

/** Rows of a table as JSON, column by column: each name, and what repeats in a column, is written once. */
export interface PackedRows<Row> {
  readonly length: number;
  readonly columns: { readonly [Name in keyof Row]?: PackedColumn };
}

/** The values of one member in all rows. */
type PackedColumn =
  /** As they are, null where a row has none. */
  | { readonly cells: readonly Json[] }
  /** The distinct values, and which of them each row has: all the first, if `at` is absent; with `counts`, so many rows one after the other. */
  | { readonly values: readonly Json[]; readonly at?: readonly number[]; readonly counts?: readonly number[] }
  /** One more in each row: numbers, or texts that have the number behind a prefix. */
  | { readonly from: number; readonly prefix?: string }
  /** Objects with the members of one type, which are columns too; a row without members has none. */
  | { readonly columns: Columns };

type Columns = Readonly<Record<string, PackedColumn>>;

/** A row of which the members that it does not have may be undefined. */
export type OptionalMembers<Row> = {
  readonly [Name in keyof Row]: Row[Name] | (undefined extends Row[Name] ? undefined : never);
};

/** A column with more distinct values than this share of its rows is written as it is. */
const maxDistinct = 0.25;
/** Rows after which that is decided, whatever comes. */
const minDecidingRows = 4096;

/** Packs rows whose members are JSON other than null. */
export function packRows<Row extends object>(rows: readonly Row[]): PackedRows<Row> {
  const packer = new RowPacker<Row>();
  for (const row of rows) packer.add(row);
  return packer.packed();
}

/** Packs rows as they are added, so that they need not stay in memory. */
export class RowPacker<Row extends object> {
  readonly #columns = new Map<string, Column>();
  #length = 0;

  /** Its members are JSON other than null. */
  add(row: OptionalMembers<Row>): void {
    for (const name in row) {
      const cell = row[name];
      if (cell === undefined) continue;
      let column = this.#columns.get(name);
      if (column === undefined) this.#columns.set(name, (column = new Column()));
      column.fill(this.#length);
      column.add(cell as Json);
    }
    this.#length += 1;
  }

  packed(): PackedRows<Row> {
    const columns: Record<string, PackedColumn> = {};
    for (const [name, column] of this.#columns) {
      column.fill(this.#length);
      columns[name] = column.packed();
    }
    return { length: this.#length, columns };
  }
}

class Column {
  length = 0;
  /** The distinct values with their positions, and the position of each row's value, if not all have the first. */
  readonly #positions = new Map<Json, number>();
  #at: number[] | undefined;
  /** The values of all rows, once there are too many that are distinct. */
  #cells: Json[] | undefined;
  /** The value of the last row, and its position. */
  #last: Json | undefined;
  #position = 0;

  /** Rows up to here that were not added have none. */
  fill(length: number): void {
    while (this.length < length) this.add(null);
  }

  add(cell: Json): void {
    if (this.#cells === undefined) this.#addPosition(cell);
    else this.#cells.push(cell);
    this.length += 1;
  }

  #addPosition(cell: Json): void {
    if (cell !== this.#last) {
      this.#last = cell;
      this.#position = this.#positions.get(cell) ?? this.#positions.size;
      if (this.#position === this.#positions.size) this.#positions.set(cell, this.#position);
      if (this.#position > 0) this.#at ??= Array.from({ length: this.length }, () => 0);
    }
    this.#at?.push(this.#position);
    if (this.#position > Math.max(this.length, minDecidingRows) * maxDistinct) {
      this.#cells = this.#unpacked();
      this.#positions.clear();
      this.#at = undefined;
    }
  }

  #unpacked(): Json[] {
    const values = [...this.#positions.keys()];
    return (
      this.#at?.map((position) => values[position] ?? null) ??
      Array.from({ length: this.length }, () => values[0] ?? null)
    );
  }

  packed(): PackedColumn {
    if (this.#cells === undefined && this.#positions.size <= Math.max(1, this.length * maxDistinct)) {
      const values = [...this.#positions.keys()];
      return this.#at === undefined ? { values } : { values, ...runsOf(this.#at) };
    }
    const cells = this.#cells ?? this.#unpacked();
    return countedColumn(cells) ?? objectColumn(cells) ?? { cells };
  }
}

/** Numbers, of which those that stand one after the other are written once, where that is shorter. */
function runsOf(numbers: readonly number[]): { readonly at: readonly number[]; readonly counts?: number[] } {
  const [at, counts]: [number[], number[]] = [[], []];
  let count = 0;
  for (const number of numbers) {
    if (count > 0 && number === at.at(-1)) count += 1;
    else {
      if (count > 0) counts.push(count);
      if (at.push(number) * 2 >= numbers.length) return { at: numbers };
      count = 1;
    }
  }
  counts.push(count);
  return { at, counts };
}

function countedColumn(cells: readonly Json[]): PackedColumn | undefined {
  const [first] = cells;
  if (typeof first === "number")
    return cells.every((cell, index) => cell === first + index) ? { from: first } : undefined;
  const digits = typeof first === "string" ? /\d{1,15}$/.exec(first) : null;
  if (digits === null) return undefined;
  const [prefix, from] = [digits.input.slice(0, digits.index), Number(digits[0])];
  return cells.every((cell, index) => cell === `${prefix}${from + index}`) ? { from, prefix } : undefined;
}

function objectColumn(cells: readonly Json[]): PackedColumn | undefined {
  if (!cells.every(isPackable)) return undefined;
  return { columns: packRows(cells.map((cell) => cell ?? {})).columns as Columns };
}

function isPackable(cell: Json): cell is JsonObject | null {
  if (cell === null) return true;
  return isJsonObject(cell) && hasMembers(cell) && Object.values(cell).every((member) => member !== null);
}

/** The rows that were packed. */
export function unpackRows<Row extends object>({ length, columns }: PackedRows<Row>): readonly Row[] {
  return unpacked(length, columns as Columns) as readonly Row[];
}

function unpacked(length: number, columns: Columns): readonly JsonObject[] {
  const members = Object.entries(columns).map(([name, column]) => ({
    name,
    cellAt: cellsOf(column, length),
    isInAll: isInAll(column),
  }));
  // A copy of an object with the same members is made faster than they are added to an empty one.
  const full = Object.fromEntries(members.filter((each) => each.isInAll).map(({ name }) => [name, null]));
  return Array.from({ length }, (_, index): JsonObject => {
    const row: Record<string, Json> = { ...full };
    for (const { name, cellAt } of members) {
      const cell = cellAt(index) ?? null;
      if (cell !== null) row[name] = cell;
    }
    return row;
  });
}

/** Whether each row has a value. */
function isInAll(column: PackedColumn): boolean {
  if ("cells" in column) return !column.cells.includes(null);
  return "values" in column ? !column.values.includes(null) : "from" in column;
}

function cellsOf(column: PackedColumn, length: number): (index: number) => Json | undefined {
  if ("cells" in column) return (index) => column.cells[index];
  if ("columns" in column) {
    const objects = unpacked(length, column.columns);
    return (index) => (hasMembers(objects[index]) ? objects[index] : null);
  }
  if ("from" in column) {
    const { from, prefix } = column;
    return prefix === undefined ? (index) => from + index : (index) => `${prefix}${from + index}`;
  }
  const { values, at, counts } = column;
  if (at === undefined) return () => values[0];
  if (counts === undefined) return (index) => values[at[index] ?? 0];
  let [run, end] = [0, counts[0] ?? 0];
  return (index) => {
    if (index === end) end += counts[(run += 1)] ?? length;
    return values[at[run] ?? 0];
  };
}

function hasMembers(object: JsonObject | undefined): boolean {
  for (const _ in object) return true;
  return false;
}
