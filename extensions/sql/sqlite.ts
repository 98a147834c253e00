import { existsSync } from "node:fs";
import { setImmediate } from "node:timers/promises";
import type { DatabaseSync, StatementSync } from "node:sqlite";
import {
  type Batch,
  type Database,
  DatabaseError,
  type Limits,
  type Query,
  remaining,
  type Table,
} from "./database.ts";
import type { Json } from "../../src/extension-sdk/index.ts";
import { bound } from "./params.ts";
import { sqliteError } from "./sqlite-errors.ts";
import { sqliteModule } from "./sqlite-module.ts";
import { withoutBlank } from "./without-blank.ts";
import { sqliteValues } from "./sqlite-parameters.ts";
import { jsonOfSqlite } from "./sqlite-values.ts";

/** What a path says for a database that is nowhere but in memory. */
export const inMemory = ":memory:";
/** Rows after which other work of this process, such as a cancellation, has its turn. */
const rowsAtOnce = 1000;
/** Characters of a script that SQLite is given first. */
const firstPart = 16_384;
/** Longest wait for a lock that someone else has, in milliseconds. */
const longestLock = 5000;

/**
 * A database of SQLite. A file is opened anew for every operation, so that nothing is locked between them, and that the
 * file is read which is there now, whoever has replaced it. A database in memory is kept until `close`.
 */
export class SqliteDatabase implements Database {
  readonly #path: string;
  #memory: DatabaseSync | undefined;

  /** Takes an absolute path, or `inMemory`. */
  constructor(path: string) {
    this.#path = path;
  }

  execute(batch: Batch, limits: Limits): Promise<number> {
    return this.#with(limits, (database) =>
      batch.transaction ? inTransaction(database, batch, limits) : plainly(database, batch, limits),
    );
  }

  query({ sql, params, readOnly }: Query, limits: Limits): Promise<Table> {
    if (this.#path !== inMemory && !existsSync(this.#path)) {
      return Promise.reject(new DatabaseError("missing", `there is no database file ${this.#path}`));
    }
    return this.#with(limits, (database) => {
      database.exec(`PRAGMA query_only = ${readOnly ? "ON" : "OFF"}`);
      const { statement, text, rest } = firstStatement(database, withoutBlank(sql));
      if (rest !== "") throw new DatabaseError("statement", "a query must be one statement");
      return read(statement, sqliteValues(text, params.map(bound)), limits);
    });
  }

  close(): Promise<void> {
    this.#memory?.close();
    this.#memory = undefined;
    return Promise.resolve();
  }

  async #with<T>(limits: Limits, work: (database: DatabaseSync) => Promise<T>): Promise<T> {
    let database: DatabaseSync | undefined;
    try {
      limits.signal.throwIfAborted();
      database = this.#open();
      const patience = Math.min(longestLock, remaining(limits));
      database.exec(`PRAGMA query_only = OFF; PRAGMA busy_timeout = ${patience}`);
      return await work(database);
    } catch (error) {
      limits.signal.throwIfAborted();
      throw sqliteError(error);
    } finally {
      if (database !== this.#memory) database?.close();
    }
  }

  #open(): DatabaseSync {
    const database = this.#memory ?? this.#connect();
    if (this.#path === inMemory) this.#memory = database;
    return database;
  }

  #connect(): DatabaseSync {
    const { DatabaseSync } = sqliteModule();
    try {
      return new DatabaseSync(this.#path);
    } catch (cause) {
      throw new DatabaseError("environment", `cannot open the database file ${this.#path}`, { cause });
    }
  }
}

async function inTransaction(database: DatabaseSync, batch: Batch, limits: Limits): Promise<number> {
  database.exec("BEGIN IMMEDIATE");
  try {
    const changed = await runAll(database, batch, limits);
    database.exec("COMMIT");
    return changed;
  } catch (error) {
    rollBack(database);
    throw withHint(error);
  }
}

async function plainly(database: DatabaseSync, batch: Batch, limits: Limits): Promise<number> {
  try {
    const changed = await runAll(database, batch, limits);
    if (!database.isTransaction) return changed;
    throw new DatabaseError("statement", "the statements begin a transaction that they do not end");
  } catch (error) {
    rollBack(database);
    throw error;
  }
}

/** SQLite may have ended the transaction itself, or the statements have, and then there is nothing to roll back. */
function rollBack(database: DatabaseSync): void {
  if (database.isTransaction) database.exec("ROLLBACK");
}

function withHint(error: unknown): unknown {
  const { message } = sqliteError(error);
  if (!/within a transaction|no transaction is active/.test(message)) return error;
  const hint = "the statements are in a transaction already, see `transaction`";
  return new DatabaseError("statement", `${message}: ${hint}`, { cause: error });
}

async function runAll(database: DatabaseSync, { sql, params }: Batch, limits: Limits): Promise<number> {
  let changed = 0;
  let rest = withoutBlank(sql);
  while (rest !== "") {
    const next = firstStatement(database, rest);
    if (params.length > 0 && (next.rest !== "" || rest.length < withoutBlank(sql).length)) {
      throw new DatabaseError("statement", "only one statement can have params");
    }
    changed += changesOf(database, next, params);
    rest = next.rest;
    await setImmediate();
    stopInTime(limits);
  }
  return changed;
}

/** What changes nothing leaves the count of the statement before it, hence the look at the total. */
function changesOf(
  database: DatabaseSync,
  { statement, text }: FirstStatement,
  params: readonly Json[],
): number {
  const { named, positional } = sqliteValues(text, params.map(bound));
  const before = totalChanges(database);
  const { changes } = statement.run(named, ...positional);
  return totalChanges(database) === before ? 0 : Number(changes);
}

function totalChanges(database: DatabaseSync): unknown {
  return database.prepare("SELECT total_changes() AS total").get()?.["total"];
}

async function read(
  statement: StatementSync,
  { named, positional }: ReturnType<typeof sqliteValues>,
  limits: Limits,
): Promise<Table> {
  statement.setReadBigInts(true);
  statement.setReturnArrays(true);
  const columns = statement.columns().map(({ name }) => name);
  const rows = [];
  for (const row of statement.iterate(named, ...positional)) {
    rows.push(Object.values(row).map(jsonOfSqlite));
    if (rows.length % rowsAtOnce === 0) await setImmediate();
    stopInTime(limits);
  }
  return { columns, rows };
}

function stopInTime(limits: Limits): void {
  limits.signal.throwIfAborted();
  if (performance.now() > limits.deadline) throw new DatabaseError("environment", "the time is up");
}

/** The first of some statements, as SQLite cuts it off. */
interface FirstStatement {
  readonly statement: StatementSync;
  readonly text: string;
  /** What comes after it, without the blanks before. */
  readonly rest: string;
}

/**
 * SQLite reads all of the text that it is given, whatever it needs of it, so that a long script is given to it a part at a
 * time: a statement that ends before the part does is the same with the whole.
 */
function firstStatement(database: DatabaseSync, sql: string): FirstStatement {
  for (let size = firstPart; size < sql.length; size *= 2) {
    const first = prepared(database, sql, size);
    if (first !== undefined) return first;
  }
  const statement = database.prepare(sql);
  const text = statement.sourceSQL;
  return { statement, text, rest: withoutBlank(sql.slice(text.length)) };
}

function prepared(database: DatabaseSync, sql: string, size: number): FirstStatement | undefined {
  try {
    const statement = database.prepare(sql.slice(0, size));
    const text = statement.sourceSQL;
    return text.length < size ? { statement, text, rest: withoutBlank(sql.slice(text.length)) } : undefined;
  } catch {
    // Perhaps only since it was cut; the whole is tried in the end.
    return undefined;
  }
}
