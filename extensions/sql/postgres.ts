import { Client, type QueryArrayConfig, type QueryResult } from "pg";
import { abortable } from "./abortable.ts";
import {
  type Batch,
  type Database,
  DatabaseError,
  type Limits,
  type Query,
  remaining,
  type Table,
} from "./database.ts";
import { bound } from "./params.ts";
import { postgresError } from "./postgres-errors.ts";
import { readerOf } from "./postgres-values.ts";

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
