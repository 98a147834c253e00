import { isAbsolute, relative, sep } from "node:path";
import type { Json, JsonObject } from "../../src/extension-sdk/index.ts";

/** A database that statements can be sent to, one operation at a time. */
export interface Database {
  /**
   * Runs statements, one after the other. Returns how many rows they changed. Throws DatabaseError, and the signal's
   * reason when that aborts.
   */
  execute(batch: Batch, limits: Limits): Promise<number>;
  /** Runs one statement and reads what it gives. Throws as `execute` does. */
  query(query: Query, limits: Limits): Promise<Table>;
  /** Ends everything that it keeps open. Never rejects. */
  close(): Promise<void>;
}

export interface Batch {
  /** Statements with semicolons between them. */
  readonly sql: string;
  /** Values of `$1` and so on; only one statement can have them. */
  readonly params: readonly Json[];
  /** All or nothing. */
  readonly transaction: boolean;
}

export interface Query {
  readonly sql: string;
  readonly params: readonly Json[];
  /** The database refuses what would change it. */
  readonly readOnly: boolean;
}

/** What ends an operation early. */
export interface Limits {
  readonly signal: AbortSignal;
  /** Point of `performance.now()` at which the host stops waiting. */
  readonly deadline: number;
}

/** What a query gives; every row has as many values as there are columns. */
export interface Table {
  readonly columns: readonly string[];
  readonly rows: readonly (readonly Json[])[];
}

/**
 * Why a database did not do it. `environment`: it cannot be worked with. `statement`: nobody could run that statement,
 * whatever the tables are like. `missing`: a table, a column or the like that it names is not there. `refused`: anything
 * that depends on what the tables are and have.
 */
export type DatabaseErrorKind = "environment" | "statement" | "missing" | "refused";

export class DatabaseError extends Error {
  readonly kind: DatabaseErrorKind;

  constructor(kind: DatabaseErrorKind, message: string, options: { readonly cause?: unknown } = {}) {
    super(message, "cause" in options ? { cause: options.cause } : {});
    this.name = "DatabaseError";
    this.kind = kind;
  }
}

/** Milliseconds that are left, at least one. */
export function remaining({ deadline }: Limits): number {
  return Math.max(1, Math.floor(deadline - performance.now()));
}

/** `1 row`, `2 rows`. */
export function rowCountText(count: number): string {
  return count === 1 ? "1 row" : `${count} rows`;
}

/** A value as both drivers take it. */
export type Bound = string | number | bigint | boolean | Uint8Array | null;

/**
 * What is sent for a parameter: bytes for `{base64: TEXT}`, the JSON text of any other object and of a list, and the value
 * itself otherwise.
 */
export function bound(value: Json): Bound {
  if (value === null || typeof value !== "object") return value;
  const bytes = isJsonObject(value) ? bytesOf(value) : undefined;
  return bytes ?? JSON.stringify(value);
}

function bytesOf(value: Readonly<Record<string, Json | undefined>>): Uint8Array | undefined {
  const { base64, ...rest } = value;
  if (typeof base64 !== "string" || Object.keys(rest).length > 0) return undefined;
  return Uint8Array.from(Buffer.from(base64, "base64"));
}

/** Waits for work, but not longer than until the signal aborts. Throws the signal's reason then; the work goes on. */
export async function abortable<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  // Its end is of no interest once nobody waits for it.
  work.catch(() => undefined);
  signal.throwIfAborted();
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const onAbort = (): void => reject(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

/** SQL without the blanks, comments and semicolons that it begins with; empty when there is no statement. */
export function withoutBlank(sql: string): string {
  const blank = /^(?:\s+|;|--[^\n]*|\/\*[^]*?(?:\*\/|$))+/.exec(sql);
  return blank === null ? sql : sql.slice(blank[0].length);
}

/** Whether a path is that of something in a folder, as it is written; links are not followed. */
export function insideOf(folder: string, path: string): boolean {
  const way = relative(folder, path);
  return way !== "" && way !== ".." && !way.startsWith(`..${sep}`) && !isAbsolute(way);
}

/**
 * A number of a database as JSON: a number where that is exactly the same value, else its digits as a text. Not-a-number and
 * infinity, which JSON does not have, are texts too.
 */
export function exactNumber(text: string): number | string {
  const value = Number(text);
  if (!Number.isFinite(value)) return text;
  return sameDecimal(text, String(value)) ? value : text;
}

/** Whether two texts are the same decimal number, to the last digit. */
function sameDecimal(left: string, right: string): boolean {
  const [a, b] = [decimalOf(left), decimalOf(right)];
  return a !== undefined && b !== undefined && a.digits === b.digits && a.exponent === b.exponent;
}

/** Digits without zeros at either end, with a sign, and the power of ten of the last. */
function decimalOf(text: string): { readonly digits: string; readonly exponent: number } | undefined {
  const parts = /^([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d+))?$/.exec(text.trim());
  if (parts === null) return undefined;
  const [, sign = "", whole = "", fraction = "", power = "0"] = parts;
  const digits = withoutLeadingZeros(whole + fraction);
  const kept = withoutTrailingZeros(digits);
  if (kept === "") return { digits: "0", exponent: 0 };
  const exponent = Number(power) - fraction.length + (digits.length - kept.length);
  return { digits: sign === "-" ? `-${kept}` : kept, exponent };
}

function withoutLeadingZeros(digits: string): string {
  let start = 0;
  while (digits[start] === "0") start += 1;
  return digits.slice(start);
}

function withoutTrailingZeros(digits: string): string {
  let end = digits.length;
  while (digits[end - 1] === "0") end -= 1;
  return digits.slice(0, end);
}

/** Whether a JSON value is an object: neither a list nor null. */
export function isJsonObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
