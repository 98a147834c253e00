import * as z from "zod";
import type { Json, JsonObject } from "../../src/extensions/sdk/index.ts";
import { isJsonObject, rowCountText, type Table } from "./database.ts";
import { jsonArgument } from "./statement.ts";

const row = z.union([z.record(z.string(), jsonArgument), z.array(jsonArgument)]);
const count = z.int().min(0);

/** At least one of the two, and one that can fail. */
const countRange = z
  .strictObject({ min: z.int().min(1).optional(), max: count.optional() })
  .refine((range) => range.min !== undefined || range.max !== undefined, { error: "needs min or max" })
  .meta({ minProperties: 1 });

/** What can be expected of a query. */
export const expectationArgs = {
  rows: z.array(row).optional().describe("All rows, each by column or as a list of its values."),
  ignoreOrder: z.boolean().default(false).describe("The order of rows does not matter."),
  contains: z
    .array(row)
    .min(1)
    .optional()
    .describe("Rows that the result must contain; rows by column compare only the named columns."),
  rowCount: z.union([count, countRange]).optional().describe("How many rows there are."),
  value: jsonArgument.optional().describe("The only value of the only row."),
  empty: z.boolean().optional().describe("True: there is no row. False: there is one."),
  columns: z.array(z.string()).optional().describe("Names of the columns, in order."),
};

/** Arguments of which one must be there. */
export const expectationNames = ["rows", "contains", "rowCount", "value", "empty", "columns"] as const;

export interface Expectations {
  readonly rows?: readonly ExpectedRow[] | undefined;
  readonly ignoreOrder: boolean;
  readonly contains?: readonly ExpectedRow[] | undefined;
  readonly rowCount?:
    | number
    | { readonly min?: number | undefined; readonly max?: number | undefined }
    | undefined;
  readonly value?: Json | undefined;
  readonly empty?: boolean | undefined;
  readonly columns?: readonly string[] | undefined;
}

/** What of the expectations does not hold, each as a text with the rows that matter. */
export function unmet(expected: Expectations, table: Table): readonly string[] {
  const { rows, contains, rowCount, value, empty, columns } = expected;
  return [
    columns === undefined ? undefined : columnsProblem(columns, table),
    empty === undefined ? undefined : emptyProblem(empty, table),
    rowCount === undefined ? undefined : countProblem(rowCount, table),
    value === undefined ? undefined : valueProblem(value, table),
    rows === undefined ? undefined : rowsProblem(rows, table, expected.ignoreOrder),
    contains === undefined ? undefined : containsProblem(contains, table),
  ].filter((problem) => problem !== undefined);
}

function columnsProblem(columns: readonly string[], table: Table): string | undefined {
  if (JSON.stringify(columns) === JSON.stringify(table.columns)) return undefined;
  return `the columns are ${table.columns.join(", ")} instead of ${columns.join(", ")}`;
}

function emptyProblem(empty: boolean, table: Table): string | undefined {
  if (empty === (table.rows.length === 0)) return undefined;
  return empty ? `there are rows, but none was expected:\n${found(table)}` : "there is no row";
}

function countProblem(expected: NonNullable<Expectations["rowCount"]>, table: Table): string | undefined {
  const { min = 0, max = Number.POSITIVE_INFINITY } =
    typeof expected === "number" ? { min: expected, max: expected } : expected;
  const { length } = table.rows;
  if (length >= min && length <= max) return undefined;
  const texts = [
    ...(min === 0 ? [] : [`at least ${min}`]),
    ...(max === Number.POSITIVE_INFINITY ? [] : [`at most ${max}`]),
  ];
  const wanted = min === max ? String(min) : texts.join(" and ");
  return `there ${length === 1 ? "is" : "are"} ${rowCountText(length)} instead of ${wanted}${length === 0 ? "" : `:\n${found(table)}`}`;
}

function valueProblem(value: Json, table: Table): string | undefined {
  const { columns, rows } = table;
  if (columns.length !== 1 || rows.length !== 1) {
    return `one value was expected, not ${rowCountText(rows.length)} with the columns ${columns.join(", ")}:\n${found(table)}`;
  }
  if (rowMatcher(table, true)([value], rows[0] ?? [])) return undefined;
  return `the value is ${cellText(rows[0]?.[0])} instead of ${cellText(value)}`;
}

function rowsProblem(rows: readonly ExpectedRow[], table: Table, ignoreOrder: boolean): string | undefined {
  const same = rowMatcher(table, true);
  const anywhere = pairAnywhere(rows, table.rows, same);
  const pairing = ignoreOrder ? anywhere : pairInOrder(rows, table.rows, same);
  if (isPerfect(pairing)) return undefined;
  if (isPerfect(anywhere)) return `the rows are in another order:\n${difference(rows, table, pairing)}`;
  return `the rows differ (- expected, + found):\n${difference(rows, table, pairing)}`;
}

function containsProblem(rows: readonly ExpectedRow[], table: Table): string | undefined {
  const { partners } = pairAnywhere(rows, table.rows, rowMatcher(table, false));
  const missing = rows.filter((_row, index) => partners[index] === undefined);
  if (missing.length === 0) return undefined;
  const lines: Line[] = missing.map((row) => ({ mark: "-", row }));
  const text = rowsText([...lines, ...table.rows.map((row) => ({ mark: " ", row }) as const)], table);
  return `${missing.length} of ${rowCountText(rows.length)} missing (- expected):\n${text}`;
}

function isPerfect({ partners, extra }: Pairing): boolean {
  return extra.length === 0 && !partners.includes(undefined);
}

/** Rows in the order in which they were expected, then those that remain. */
function difference(rows: readonly ExpectedRow[], table: Table, { partners, extra }: Pairing): string {
  const left = new Set(extra);
  const lines = rows.flatMap((row, index): readonly Line[] => {
    const partner = partners[index];
    if (partner !== undefined) return [{ mark: " ", row: table.rows[partner] ?? row }];
    const other = left.has(index) ? table.rows[index] : undefined;
    if (other !== undefined) left.delete(index);
    return [{ mark: "-", row }, ...(other === undefined ? [] : [{ mark: "+", row: other } as const])];
  });
  const rest = [...left].map((index): Line => ({ mark: "+", row: table.rows[index] ?? [] }));
  return rowsText([...lines, ...rest], table);
}

function found(table: Table): string {
  return rowsText(
    table.rows.map((row) => ({ mark: " ", row })),
    table,
  );
}

/**
 * Whether a value of a database is the expected one. Numbers are compared by value. `true` and `false` are also 1 and 0, an
 * object or a list is also the text of its JSON, and two points in time are the same however they are written, since not
 * every database has these types.
 */
export function sameValue(expected: Json, found: Json): boolean {
  if (expected === found) return true;
  if (typeof expected === "boolean") return found === Number(expected);
  if (typeof expected === "string") return typeof found === "string" && sameTime(expected, found);
  if (typeof expected !== "object" || expected === null) return false;
  return sameJson(expected, typeof found === "string" ? jsonOf(found) : found);
}

/** Key order does not matter. */
function sameJson(left: Json, right: Json | undefined): boolean {
  if (left === right) return true;
  if (Array.isArray(left)) {
    return (
      Array.isArray(right) &&
      left.length === right.length &&
      left.every((item: Json, index) => sameJson(item, right[index]))
    );
  }
  return isJsonObject(left) && isJsonObject(right) && sameMembers(left, right);
}

function sameMembers(left: JsonObject, right: JsonObject): boolean {
  const keys = Object.keys(left);
  return (
    keys.length === Object.keys(right).length &&
    keys.every((key) => Object.hasOwn(right, key) && sameJson(left[key] ?? null, right[key]))
  );
}

function jsonOf(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    // A text that is not JSON, and so not this value.
    return undefined;
  }
}

const point =
  /^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(?:(Z)|([+-]\d\d)(?::?(\d\d))?)?$/;

function sameTime(left: string, right: string): boolean {
  const time = timeOf(left);
  return time !== undefined && time === timeOf(right);
}

/** A text that is the same for the same point in time; those without a zone are never the same as those with one. */
function timeOf(text: string): string | undefined {
  const parts = point.exec(text);
  if (parts === null) return undefined;
  const [, date, minutes, seconds = "00", fraction = "", utc, hours, more = "00"] = parts;
  const zone = utc ?? (hours === undefined ? "" : `${hours}:${more}`);
  const at = Date.parse(`${date}T${minutes}:${seconds}${zone === "" ? "Z" : zone}`);
  if (Number.isNaN(at)) return undefined;
  return `${zone === "" ? "local" : "utc"} ${at} ${fraction.replace(/0+$/, "")}`;
}

/** A row of a message: `-` is expected and not there, `+` is there and not expected. */
export interface Line {
  readonly mark: "-" | "+" | " ";
  readonly row: ExpectedRow;
}

const maxLines = 20;
const maxColumns = 12;
const widestCell = 40;

/** Lays rows out in columns: those of the table, then those that only expected rows name. Long ones are cut. */
function rowsText(lines: readonly Line[], { columns }: Pick<Table, "columns">): string {
  const names = [
    ...new Set([...columns, ...lines.flatMap(({ row }) => (isJsonObject(row) ? Object.keys(row) : []))]),
  ];
  const width = largest([names.length, ...lines.map(({ row }) => (isJsonObject(row) ? 0 : row.length))]);
  const shown = Math.min(width, maxColumns);
  const more = shown < width ? ["…"] : [];
  const head = ["", ...cut(names, shown).map(short), ...more];
  const body = lines
    .slice(0, maxLines)
    .map(({ mark, row }) => [mark, ...cellsOf(row, names, shown), ...more]);
  const rest = lines.length - maxLines;
  return [...aligned([head, ...body]), ...(rest > 0 ? [`  … and ${rest} more`] : [])].join("\n");
}

/** A value as it is shown in messages: JSON, cut where it is long. */
function cellText(value: Json | undefined): string {
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

/** A row as it is expected: by column, or in the order of the columns. */
type ExpectedRow = Readonly<Record<string, Json>> | readonly Json[];

/** How expected rows and found ones go together, by their indexes. */
interface Pairing {
  /** For every expected row the found one, if there is any. */
  readonly partners: readonly (number | undefined)[];
  /** Found rows that nobody expected. */
  readonly extra: readonly number[];
}

/**
 * Whether a row is the expected one. `all`: it must have no further columns; else an expected row by column is about the
 * columns that it names.
 */
type SameRow = (expected: ExpectedRow, found: readonly Json[]) => boolean;

function rowMatcher({ columns }: Table, all: boolean): SameRow {
  const places = new Map(columns.map((name, index) => [name, index]));
  return (expected, found) => {
    if (!isJsonObject(expected)) return sameList(expected, found);
    const entries = Object.entries(expected);
    if (all && entries.length !== places.size) return false;
    return entries.every(([name, value]) => {
      const place = places.get(name);
      return place !== undefined && sameValue(value, found[place] ?? null);
    });
  };
}

function sameList(expected: readonly Json[], found: readonly Json[]): boolean {
  return (
    expected.length === found.length &&
    expected.every((value, index) => sameValue(value, found[index] ?? null))
  );
}

/** Pairs rows by their places. */
function pairInOrder(expected: readonly ExpectedRow[], found: Table["rows"], same: SameRow): Pairing {
  const partners = expected.map((row, index) => {
    const other = found[index];
    return other !== undefined && same(row, other) ? index : undefined;
  });
  return { partners, extra: extraOf(partners, found.length) };
}

/** Pairs as many rows as can be, each with another one, wherever they are. */
function pairAnywhere(expected: readonly ExpectedRow[], found: Table["rows"], same: SameRow): Pairing {
  const takenBy = new Map<number, number>();
  const fits = expected.map((row) => found.flatMap((other, index) => (same(row, other) ? [index] : [])));
  for (const index of expected.keys()) give(index, fits, takenBy, new Set());
  const partners: (number | undefined)[] = expected.map(() => undefined);
  for (const [place, taker] of takenBy) partners[taker] = place;
  return { partners, extra: extraOf(partners, found.length) };
}

/** Finds a partner for an expected row, where needed by giving others another one (Kuhn's algorithm). */
function give(
  index: number,
  fits: readonly (readonly number[])[],
  takenBy: Map<number, number>,
  tried: Set<number>,
): boolean {
  for (const place of fits[index] ?? []) {
    if (tried.has(place)) continue;
    tried.add(place);
    const taker = takenBy.get(place);
    if (taker !== undefined && !give(taker, fits, takenBy, tried)) continue;
    takenBy.set(place, index);
    return true;
  }
  return false;
}

function extraOf(partners: Pairing["partners"], length: number): readonly number[] {
  const taken = new Set(partners);
  return Array.from({ length }, (_none, index) => index).filter((index) => !taken.has(index));
}
