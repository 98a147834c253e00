import { Client, DatabaseError as ServerError, type QueryArrayConfig, type QueryResult, types } from "pg";
import type { Json } from "../../src/extensions/sdk/index.ts";
import {
  abortable,
  type Batch,
  bound,
  type Database,
  DatabaseError,
  type DatabaseErrorKind,
  exactNumber,
  type Limits,
  type Query,
  remaining,
  type Table,
} from "./database.ts";

/** Longest wait for the cancellation of what a signal has ended, and for a connection's good-bye, in milliseconds. */
const patience = 2000;
/** So much before the host stops waiting, in milliseconds, the database does, so that its answer still arrives. */
const margin = 100;
/** Values are read as text, and times in UTC, whatever the server's or the session's own settings are. */
const settings = [
  "TIME ZONE 'UTC'",
  "datestyle = 'ISO, YMD'",
  "intervalstyle = 'iso_8601'",
  "bytea_output = 'hex'",
  "extra_float_digits = 1",
];

/** A connection, and the number of the server's process behind it. */
interface Session {
  readonly client: Client;
  readonly backend: string;
}

/** A database of PostgreSQL: one connection, opened at the first operation and again after it was lost. */
export class PostgresDatabase implements Database {
  readonly #url: string;
  /** The database without its password. */
  readonly #name: string;
  #session: Session | undefined;

  /** Takes the address, and what messages call it. */
  constructor(url: string, name: string) {
    this.#url = url;
    this.#name = name;
  }

  execute({ sql, params, transaction }: Batch, limits: Limits): Promise<number> {
    return this.#with(limits, async (client) => {
      await begin(client, transaction ? "BEGIN" : undefined, limits);
      const results = [await client.query<unknown[]>(statementOf(sql, params))].flat();
      checkEnd(client, transaction);
      if (transaction) await commit(client);
      return results.reduce((sum, result) => sum + changesOf(result), 0);
    });
  }

  query({ sql, params, readOnly }: Query, limits: Limits): Promise<Table> {
    return this.#with(limits, async (client) => {
      await begin(client, readOnly ? "BEGIN READ ONLY" : "BEGIN", limits);
      const { fields, rows } = await client.query<(string | null)[]>(statementOf(sql, params, "extended"));
      if (!readOnly) await commit(client);
      const readers = fields.map(({ dataTypeID }) => readerOf(dataTypeID));
      return {
        columns: fields.map(({ name }) => name),
        rows: rows.map((row) =>
          row.map((text, index) => (text === null ? null : (readers[index]?.(text) ?? null))),
        ),
      };
    });
  }

  async close(): Promise<void> {
    const session = this.#session;
    this.#session = undefined;
    if (session !== undefined) await farewell(session.client);
  }

  /** Does work on the connection, and leaves it outside of any transaction, or closed. */
  async #with<T>(limits: Limits, work: (client: Client) => Promise<T>): Promise<T> {
    limits.signal.throwIfAborted();
    const session = this.#session ?? (await this.#connect(limits));
    this.#session = session;
    try {
      const result = await abortable(work(session.client), limits.signal);
      await settle(session.client);
      return result;
    } catch (error) {
      if (limits.signal.aborted) {
        await this.#cancel(session);
        throw limits.signal.reason;
      }
      const told = postgresError(error);
      if (told.kind === "environment") await this.close();
      else await settle(session.client).catch(() => this.close());
      throw told;
    }
  }

  async #connect(limits: Limits): Promise<Session> {
    const client = this.#configured(remaining(limits));
    const forget = (): void => {
      if (this.#session?.client === client) this.#session = undefined;
    };
    // Between operations; during one, its query is told as well.
    client.on("error", forget);
    client.on("end", forget);
    try {
      return await abortable(introduced(client), limits.signal);
    } catch (error) {
      void farewell(client);
      limits.signal.throwIfAborted();
      const { message } = postgresError(error);
      throw new DatabaseError("environment", `cannot connect to ${this.#name}: ${message}`, { cause: error });
    }
  }

  #configured(connectionTimeoutMillis: number): Client {
    try {
      return new Client({
        connectionString: this.#url,
        connectionTimeoutMillis,
        fallback_application_name: "mcpvals",
        keepAlive: true,
        types: { getTypeParser: () => (text: unknown) => text },
      });
    } catch {
      // The error may have the address in it, and so the password.
      throw new DatabaseError(
        "environment",
        "the address of the database is not understood: postgres://USER:PASSWORD@HOST:PORT/DATABASE",
      );
    }
  }

  /** The server would go on with a statement whose connection is gone, so it is asked to stop over another one. */
  async #cancel({ client, backend }: Session): Promise<void> {
    this.#session = undefined;
    const other = this.#configured(patience);
    other.on("error", () => undefined);
    const asked = other.connect().then(() => other.query("SELECT pg_cancel_backend($1)", [backend]));
    // Where it cannot be asked, the statement ends at the time limit that it has been given.
    await abortable(asked, AbortSignal.timeout(patience)).catch(() => undefined);
    await Promise.all([farewell(other), farewell(client)]);
  }
}

async function introduced(client: Client): Promise<Session> {
  await client.connect();
  // Ends a statement whose connection is gone, if there was no time to cancel it. Before version 14 and on Windows there is no such setting.
  await client.query("SET client_connection_check_interval = '1s'").catch(() => undefined);
  const { rows } = await client.query<{ pid: string }>("SELECT pg_backend_pid() AS pid");
  return { client, backend: rows[0]?.pid ?? "" };
}

/** Without a mode, `pg` sends what has no values as it is, several statements included. */
function statementOf(text: string, params: Batch["params"], queryMode?: "extended"): QueryArrayConfig {
  const statement: QueryArrayConfig & { queryMode?: "extended" } = {
    text,
    values: params.map((param) => valueOf(bound(param))),
    rowMode: "array",
    ...(queryMode === undefined ? {} : { queryMode }),
  };
  return statement;
}

function valueOf(value: ReturnType<typeof bound>): unknown {
  return value instanceof Uint8Array ? Buffer.from(value) : value;
}

/** Without a transaction the settings are those of the session. */
async function begin(client: Client, transaction: string | undefined, limits: Limits): Promise<void> {
  const left = remaining(limits);
  const time = Math.max(1, left - Math.min(margin, Math.floor(left / 10)));
  const set = transaction === undefined ? "SET" : "SET LOCAL";
  const all = [...settings, `statement_timeout = ${time}`].map((setting) => `${set} ${setting}`);
  await client.query([...(transaction === undefined ? [] : [transaction]), ...all].join("; "));
}

/** The statements must neither end the transaction that they are in, nor leave one of their own. */
function checkEnd(client: Client, transaction: boolean): void {
  if ((client.getTransactionStatus() !== "I") === transaction) return;
  throw new DatabaseError(
    "statement",
    transaction
      ? "the statements end the transaction that they are in, see `transaction`"
      : "the statements begin a transaction that they do not end",
  );
}

/** A transaction in which a statement has failed ends in a rollback, without an error. */
async function commit(client: Client): Promise<void> {
  const { command } = await client.query("COMMIT");
  if (command !== "COMMIT") throw new DatabaseError("refused", "the transaction was rolled back");
}

/** Ends the transaction that is open, if one is. */
async function settle(client: Client): Promise<void> {
  await client.query("ROLLBACK");
}

const changing: ReadonlySet<string> = new Set(["INSERT", "UPDATE", "DELETE", "MERGE", "COPY"]);

function changesOf({ command, rowCount }: QueryResult): number {
  return changing.has(command) ? (rowCount ?? 0) : 0;
}

/** A server that does not answer must not keep the program from ending. */
async function farewell(client: Client): Promise<void> {
  const ended = client.end();
  await abortable(ended, AbortSignal.timeout(patience)).catch(() => undefined);
}

/**
 * By the beginning of PostgreSQL's code: the longest that fits counts. What is none of these depends on what the tables
 * have, and is `refused`.
 */
const kinds: Readonly<Record<string, DatabaseErrorKind>> = {
  "08": "environment",
  "0A": "statement",
  "25": "environment",
  "25001": "statement",
  "25006": "statement",
  "28": "environment",
  "34": "statement",
  "3D": "environment",
  "3F000": "missing",
  "40": "environment",
  "42501": "environment",
  "42601": "statement",
  "42602": "statement",
  "42622": "statement",
  "42883": "missing",
  "42939": "statement",
  "42703": "missing",
  "42704": "missing",
  "42P01": "missing",
  "42P02": "statement",
  "42P18": "statement",
  "53": "environment",
  "54": "statement",
  "55P03": "environment",
  "57": "environment",
  "58": "environment",
  F0: "environment",
  XX: "environment",
};

/** What `pg` threw, as a DatabaseError. */
function postgresError(error: unknown): DatabaseError {
  if (error instanceof DatabaseError) return error;
  if (!(error instanceof ServerError)) {
    return new DatabaseError("environment", lostText(error), { cause: error });
  }
  return new DatabaseError(kindOf(error.code ?? ""), textOf(error), { cause: error });
}

function kindOf(code: string): DatabaseErrorKind {
  if (code === "08P01") return "statement";
  return kinds[code] ?? kinds[code.slice(0, 2)] ?? "refused";
}

function textOf({ message, detail, hint }: ServerError): string {
  return [message, detail, hint].filter((part) => part !== undefined && part !== "").join(". ");
}

/** A connection can fail at several addresses at once, and then the message is empty. */
function lostText(error: unknown): string {
  if (error instanceof AggregateError) return [...new Set(error.errors.map(lostText))].join(", ");
  return error instanceof Error ? error.message || error.name : String(error);
}

type FromText = (text: string) => Json;

const { builtins } = types;

/** How values that PostgreSQL sends as text become JSON, by the type's number; all other types stay the text that they are. */
const readers: ReadonlyMap<number, FromText> = new Map<number, FromText>([
  [builtins.BOOL, (text) => text === "t"],
  ...[builtins.INT2, builtins.INT4, builtins.INT8, builtins.OID].map((type) => [type, exactNumber] as const),
  ...[builtins.FLOAT4, builtins.FLOAT8, builtins.NUMERIC].map((type) => [type, exactNumber] as const),
  ...[builtins.JSON, builtins.JSONB].map((type) => [type, exactJson] as const),
  [builtins.BYTEA, (text) => Buffer.from(text.replace(/^\\x/, ""), "hex").toString("base64")],
  [builtins.TIMESTAMP, (text) => text.replace(" ", "T")],
  [builtins.TIMESTAMPTZ, (text) => text.replace(" ", "T").replace(/\+00$/, "Z")],
]);

/** JSON with the numbers in it as those in columns. */
function exactJson(text: string): Json {
  return JSON.parse(text, exactMember) as Json;
}

function exactMember(_key: string, value: Json, context?: { readonly source?: string }): Json {
  return typeof value === "number" && context?.source !== undefined ? exactNumber(context.source) : value;
}

/** Types of lists, with the types of what is in them. */
const lists: ReadonlyMap<number, number> = new Map<number, number>([
  [1000, builtins.BOOL],
  [1001, builtins.BYTEA],
  [1005, builtins.INT2],
  [1007, builtins.INT4],
  [1016, builtins.INT8],
  [1028, builtins.OID],
  [1021, builtins.FLOAT4],
  [1022, builtins.FLOAT8],
  [1231, builtins.NUMERIC],
  [199, builtins.JSON],
  [3807, builtins.JSONB],
  [1115, builtins.TIMESTAMP],
  [1185, builtins.TIMESTAMPTZ],
  [1182, builtins.DATE],
  [1009, builtins.TEXT],
  [1014, builtins.BPCHAR],
  [1015, builtins.VARCHAR],
  [2951, builtins.UUID],
]);

/** Type of lists of texts, whose reader serves for any list. */
const textList: number = 1009;

/** Gives the reader of a type's values. The session must be one in UTC, with dates in ISO 8601. */
function readerOf(type: number): FromText {
  const member = lists.get(type);
  if (member === undefined) return readers.get(type) ?? ((text) => text);
  const parse: (text: string) => TextList = types.getTypeParser(textList);
  const read = readerOf(member);
  return (text) => listOf(parse(text), read);
}

type TextList = readonly (string | null | TextList)[];

function listOf(list: TextList, read: FromText): Json {
  return list.map((item) => {
    if (item === null) return null;
    return typeof item === "string" ? read(item) : listOf(item, read);
  });
}
