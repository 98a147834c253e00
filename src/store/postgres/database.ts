import { DatabaseError, Pool, type PoolClient } from "pg";
import { codeOf, McpvalsError, messageOf } from "../../base/error.ts";
import { pause } from "../../process/deadline.ts";

/** What runs SQL: a database, or a transaction in it. */
export interface Sql {
  /** Returns the rows. Throws what the driver throws. */
  query<Row extends object>(text: string, values?: readonly unknown[]): Promise<readonly Row[]>;
}

/** Longest wait for an answer, in milliseconds: a network that drops everything must not hang anyone. */
const answerMs = 30_000;
const connectMs = 10_000;

/** The connections to a PostgreSQL database. */
export class Database implements Sql, AsyncDisposable {
  /** As messages name it: without user and password. */
  readonly name: string;
  readonly #pool: Pool;

  /** Connects when it is first used, at most `connections` at once. Throws `usage/invalid-option` for what is no address of PostgreSQL. */
  constructor(url: string, connections = 4) {
    this.name = nameOf(url);
    this.#pool = new Pool({
      connectionString: verifying(url),
      max: connections,
      application_name: "mcpvals",
      keepAlive: true,
      connectionTimeoutMillis: connectMs,
      query_timeout: answerMs,
    });
    // The next query of that connection, or of a new one, says what is wrong.
    this.#pool.on("error", ignore);
  }

  async query<Row extends object>(text: string, values?: readonly unknown[]): Promise<readonly Row[]> {
    const { rows } = await this.#pool.query<Row>(text, values && [...values]);
    return rows;
  }

  /** What the driver gives: of several statements in one text, a list. For pg-boss, which reads it itself. */
  async raw(text: string, values?: readonly unknown[]): Promise<{ rows: object[] }> {
    return await this.#pool.query<object>(text, values && [...values]);
  }

  /** Does all or nothing. */
  async transaction<T>(work: (sql: Sql) => Promise<T>): Promise<T> {
    const client = await this.#pool.connect();
    // A connection that breaks says so twice: here, where nobody would hear it, and to the query, which throws it.
    client.on("error", ignore);
    let failure: Error | undefined;
    try {
      await client.query("BEGIN");
      const value = await work(within(client));
      await client.query("COMMIT");
      return value;
    } catch (error) {
      // A connection whose transaction did not end in order is closed, which rolls it back.
      failure = error instanceof Error ? error : new Error(messageOf(error));
      throw error;
    } finally {
      // The pool listens to a connection that it keeps; one that it closes may yet say that it broke.
      if (failure === undefined) client.off("error", ignore);
      client.release(failure);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#pool.end();
  }
}

const ignore = (): void => undefined;

function within(client: PoolClient): Sql {
  return {
    async query<Row extends object>(text: string, values?: readonly unknown[]) {
      const { rows } = await client.query<Row>(text, values && [...values]);
      return rows;
    },
  };
}

/** Whether a text is the address of a PostgreSQL database. */
function isDatabaseUrl(text: string): boolean {
  return /^postgres(?:ql)?:\/\//i.test(text);
}

/**
 * With the word for what the driver does with `require`, `prefer` and `verify-ca` anyway: it verifies the certificate and the name of the host.
 * It would print a warning, since a later version of it may not.
 */
function verifying(url: string): string {
  if (/[?&]uselibpqcompat=true/.test(url)) return url;
  return url.replace(/([?&]sslmode=)(?:prefer|require|verify-ca)(?![^&#])/, "$1verify-full");
}

function nameOf(url: string): string {
  try {
    const { host, pathname } = new URL(url);
    if (isDatabaseUrl(url)) return `${host === "" ? "localhost" : host}${pathname}`;
  } catch {
    // Said below.
  }
  throw new McpvalsError("usage/invalid-option", "this is no address of a PostgreSQL database", {
    hint: "Write postgres://USER:PASSWORD@HOST:PORT/DATABASE; special characters of the password as %XX.",
  });
}

/** What opening a database says of an error of the driver. */
export function databaseError(cause: unknown, name: string): unknown {
  if (cause instanceof McpvalsError) return cause;
  const code = codeOf(cause);
  const [found, hint] =
    code === "42501"
      ? ([
          "store/no-access",
          "Grant this user the rights that docs/scaling.md lists: to follow and show runs, to work, or to start runs.",
        ] as const)
      : code === "28P01" || code === "28000" || code === "3D000"
        ? (["store/no-access", "Check user, password and database in its address."] as const)
        : ([
            "store/unreachable",
            code === diskFull
              ? "Make room on the disk of the database: nothing of what it has is lost."
              : isOutage(cause)
                ? "Check its address, and that it runs and can be reached from here."
                : undefined,
          ] as const);
  return new McpvalsError(found, `the database ${name} cannot be used: ${messageOf(cause)}`, {
    ...(hint !== undefined && { hint }),
    cause,
  });
}

const diskFull = "53100";

const outages = new Set(
  // Of the network.
  [
    "ECONNREFUSED",
    "ECONNRESET",
    "EPIPE",
    "ETIMEDOUT",
    "EHOSTUNREACH",
    "ENETUNREACH",
    "ENOTFOUND",
    "EAI_AGAIN",
  ].concat(
    // It shuts down, crashed, starts, has no connection left, or no room.
    ["57P01", "57P02", "57P03", "53300", diskFull, "53200", "25006", "40001", "40P01"],
  ),
);

/** Whether an error of the driver says that the database cannot be reached or used for now, so that it may help to try again. */
function isOutage(error: unknown): boolean {
  const code = codeOf(error) ?? "";
  return (
    outages.has(code) ||
    code.startsWith("08") ||
    /connection (?:terminated|ended)|timeout|not queryable|client was closed/i.test(messageOf(error))
  );
}

/** Whether an error comes from the driver, or from the network below it. */
export function isDriverError(error: unknown): boolean {
  return error instanceof DatabaseError || isOutage(error);
}

export interface Persistence {
  readonly signal?: AbortSignal | undefined;
  /** Longest time to try again, in milliseconds. Default: for ever. */
  readonly forMs?: number;
  /** Called once when an outage begins, and once when it is over. */
  readonly onOutage?: (error: unknown) => void;
}

const longestPauseMs = 2000;

/** Does what may be repeated, until the database answers. Throws the last error when it takes too long, and any other at once. */
export async function persist<T>(work: () => Promise<T>, options: Persistence = {}): Promise<T> {
  const { signal = new AbortController().signal, forMs = Infinity, onOutage } = options;
  const began = performance.now();
  for (let attempt = 0; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (!isOutage(error) || signal.aborted || performance.now() - began > forMs) throw error;
      if (attempt === 0) onOutage?.(error);
      await pause(Math.min(longestPauseMs, 50 * 2 ** attempt) * (0.5 + Math.random() / 2), signal);
    }
  }
}
