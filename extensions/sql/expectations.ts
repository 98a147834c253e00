import * as z from "zod";
import type { Json } from "../../src/extension-sdk/index.ts";
import { rowCountText, type Table } from "./database.ts";
import { jsonArgument } from "./json-argument.ts";
import { type ExpectedRow, pairAnywhere, pairInOrder, type Pairing, rowMatcher } from "./rows.ts";
import { cellText, type Line, rowsText } from "./rows-text.ts";

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
    .describe("Rows that must be among them; those by column name what matters."),
  rowCount: z.union([count, countRange]).optional().describe("How many rows there are."),
  value: jsonArgument.optional().describe("The only value of the only row."),
  empty: z.boolean().optional().describe("True: there is no row. False: there is one."),
  columns: z.array(z.string()).optional().describe("Names of the columns in their order."),
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
