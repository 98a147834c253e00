import { isAbsolute, relative, sep } from "node:path";
import type { Json, JsonObject } from "../../src/extensions/sdk/index.ts";

/** A connected database; it runs one operation at a time. */
export interface Database {
  /**
   * Runs statements in sequence. Returns the number of changed rows. Throws DatabaseError, and the signal's
   * reason when that aborts.
   */
  execute(batch: Batch, limits: Limits): Promise<number>;
  /** Runs one statement and returns its rows. Throws as `execute` does. */
  query(query: Query, limits: Limits): Promise<Table>;
  /** Closes all connections. Never rejects. */
  close(): Promise<void>;
}

export interface Batch {
  /** Statements separated by semicolons. */
  readonly sql: string;
  /** Values of `$1` and so on; allowed for a single statement only. */
  readonly params: readonly Json[];
  /** Run in one transaction. */
  readonly transaction: boolean;
}

export interface Query {
  readonly sql: string;
  readonly params: readonly Json[];
  /** The database rejects statements that change data. */
  readonly readOnly: boolean;
}

/** Deadline and cancellation of an operation. */
export interface Limits {
  readonly signal: AbortSignal;
  /** Point of `performance.now()` at which the host stops waiting. */
  readonly deadline: number;
}

/** The result of a query; every row has one value for each column. */
export interface Table {
  readonly columns: readonly string[];
  readonly rows: readonly (readonly Json[])[];
}

/**
 * Why an operation failed. `environment`: the database cannot be used. `statement`: the statement is invalid for any schema.
 * `missing`: a table, column or the like does not exist. `refused`: any other reason that depends on the schema or the data.
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

/** Milliseconds until the deadline, at least one. */
export function remaining({ deadline }: Limits): number {
  return Math.max(1, Math.floor(deadline - performance.now()));
}

/** `1 row`, `2 rows`. */
export function rowCountText(count: number): string {
  return count === 1 ? "1 row" : `${count} rows`;
}

/** A parameter value that both drivers accept. */
export type Bound = string | number | bigint | boolean | Uint8Array | null;

/**
 * Converts a parameter: `{base64: TEXT}` to bytes, other objects and lists to JSON text; other values stay as they are.
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

/** Waits for `work` or the abort of `signal`. Throws the signal's reason when it aborts; the work continues. */
export async function abortable<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  // Prevents an unhandled rejection after an abort.
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

/** SQL without leading blanks, comments and semicolons; empty when there is no statement. */
export function withoutBlank(sql: string): string {
  const blank = /^(?:\s+|;|--[^\n]*|\/\*[^]*?(?:\*\/|$))+/.exec(sql);
  return blank === null ? sql : sql.slice(blank[0].length);
}

/** Whether a path is inside a folder, judged by its text; links are not resolved. */
export function insideOf(folder: string, path: string): boolean {
  const way = relative(folder, path);
  return way !== "" && way !== ".." && !way.startsWith(`..${sep}`) && !isAbsolute(way);
}

/**
 * A database number as JSON: a number if that is exactly the same value, else a text with its digits. NaN and infinity are
 * texts too, since JSON does not have them.
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

/** The signed digits without leading and trailing zeros, and the power of ten of the last digit. */
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
