import type { Json } from "../../src/extension-sdk/index.ts";

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
