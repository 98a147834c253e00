import { existsSync } from "node:fs";
import type { DatabaseSync, SQLOutputValue, StatementSync } from "node:sqlite";
import { setImmediate } from "node:timers/promises";
import type { Json } from "../../src/extensions/sdk/index.ts";
import {
  type Batch,
  bound,
  type Bound,
  type Database,
  DatabaseError,
  type DatabaseErrorKind,
  type Limits,
  type Query,
  remaining,
  type Table,
  withoutBlank,
} from "./database.ts";

/** What a path says for a database that is nowhere but in memory. */
export const inMemory = ":memory:";
/** Rows after which other work of this process, such as a cancellation, has its turn. */
const rowsAtOnce = 1000;
/** Characters of a script that SQLite is given first. */
const firstPart = 16_384;
/** Longest wait for a lock that someone else has, in milliseconds. */
const maxLockLength = 5000;

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
      const patience = Math.min(maxLockLength, remaining(limits));
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

/** Primary result codes of SQLite after which nothing can be said of what the tables have. */
const environment: ReadonlySet<number> = new Set([3, 5, 6, 7, 9, 10, 13, 14, 15, 22, 23]);
/** SQLITE_READONLY: something would write that must not; SQLITE_TOOBIG; SQLITE_MISUSE; SQLITE_RANGE. */
const statement: ReadonlySet<number> = new Set([8, 21, 25]);

/** What `node:sqlite` threw, as a DatabaseError. */
function sqliteError(error: unknown): DatabaseError {
  if (error instanceof DatabaseError) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new DatabaseError(kindOf(error, message), message, { cause: error });
}

function kindOf(error: unknown, message: string): DatabaseErrorKind {
  const code = primaryCode(error);
  if (code === undefined) return "statement";
  if (environment.has(code)) return "environment";
  if (statement.has(code)) return "statement";
  if (code !== 1) return "refused";
  if (/syntax error$|^incomplete input|^unrecognized token/.test(message)) return "statement";
  if (/^no such (?:table|column|view|index|trigger)|has no column named/.test(message)) return "missing";
  // Functions and the like come with SQLite, not with a database.
  return message.startsWith("no such") ? "statement" : "refused";
}

function primaryCode(error: unknown): number | undefined {
  if (!(error instanceof Error) || !("errcode" in error)) return undefined;
  return typeof error.errcode === "number" ? error.errcode % 256 : undefined;
}

type Sqlite = typeof import("node:sqlite");

let loaded: Sqlite | undefined;

/**
 * Node's SQLite, loaded when it is first needed: some versions of Node write a warning then, that it is experimental, which
 * is kept from stderr. Throws DatabaseError on a Node whose SQLite cannot say which columns there are.
 */
function sqliteModule(): Sqlite {
  loaded ??= loadQuietly();
  if ("columns" in loaded.StatementSync.prototype) return loaded;
  throw new DatabaseError("environment", `SQLite needs Node 22.16 or newer; this is ${process.version}`);
}

function loadQuietly(): Sqlite {
  const emitWarning = process.emitWarning.bind(process);
  process.emitWarning = () => undefined;
  try {
    return process.getBuiltinModule("node:sqlite");
  } finally {
    process.emitWarning = emitWarning;
  }
}

/** Values as `node:sqlite` takes them: those with a name, then those without. */
export interface SqliteValues {
  readonly named: Readonly<Record<string, SqliteValue>>;
  readonly positional: readonly SqliteValue[];
}

export type SqliteValue = string | number | bigint | Uint8Array | null;

/** Texts, quoted names and comments, which have no parameters in them; then parameters. A doubled quote makes two texts. */
const tokens =
  /'[^']*(?:'|$)|"[^"]*(?:"|$)|`[^`]*(?:`|$)|\[[^\]]*(?:\]|$)|--[^\n]*|\/\*[^]*?(?:\*\/|$)|(\?\d*|[$:@]\w+)/g;

/**
 * Gives every parameter of a statement its value: `$1` and `?1` the first, plain `?` one after the other. Throws
 * DatabaseError when they are not exactly those that there are values for.
 */
function sqliteValues(sql: string, params: readonly Bound[]): SqliteValues {
  const found = [...sql.matchAll(tokens)].flatMap(([, name]) => (name === undefined ? [] : [name]));
  const plain = found.filter((name) => name === "?").length;
  const numbers = new Set(found.filter((name) => name !== "?").map(numberOf));
  if (plain > 0 && numbers.size > 0) throw wrong("mixes ? with numbered parameters: use one of both");
  const needed = plain > 0 ? plain : [...numbers].reduce((most, number) => Math.max(most, number), 0);
  if (needed !== params.length) throw wrong(`needs ${count(needed)}, but params has ${params.length}`);
  const values = params.map(sqliteValue);
  if (plain > 0) return { named: {}, positional: values };
  const named = found.map((name) => [name, values[numberOf(name) - 1] ?? null] as const);
  return { named: Object.fromEntries(named), positional: [] };
}

function numberOf(name: string): number {
  const number = Number(name.slice(1));
  if (Number.isInteger(number) && number > 0 && !/^[:@]/.test(name)) return number;
  throw wrong(`has the parameter ${name}: write $1, $2 and so on`);
}

function count(needed: number): string {
  return needed === 1 ? "1 parameter" : `${needed} parameters`;
}

function wrong(what: string): DatabaseError {
  return new DatabaseError("statement", `the statement ${what}`);
}

/** Whole numbers are bound as such; else a column without a type would have them with a fraction. */
function sqliteValue(value: Bound): SqliteValue {
  if (typeof value === "boolean") return value ? 1 : 0;
  return typeof value === "number" && Number.isSafeInteger(value) ? BigInt(value) : value;
}

/** A value of SQLite as JSON: whole numbers beyond 2^53 as texts, bytes in base64, what is stored otherwise. */
function jsonOfSqlite(value: SQLOutputValue): Json {
  if (typeof value === "bigint") return smallOrText(value);
  if (typeof value === "number") return Number.isFinite(value) ? value : String(value);
  return value instanceof Uint8Array ? Buffer.from(value).toString("base64") : value;
}

function smallOrText(value: bigint): number | string {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : String(value);
}
