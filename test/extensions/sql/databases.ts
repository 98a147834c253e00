import { startPostgres } from "../../support/postgres.ts";
import { type SqlExtension, startSql } from "./sql-extension.ts";

/** A kind of database, and a way to use the extension with an empty one. */
export interface Kind {
  readonly name: "PostgreSQL" | "SQLite";
  start(): Promise<SqlExtension>;
}

/** All kinds, behind one process of the extension. */
export interface Kinds extends AsyncDisposable {
  readonly all: readonly Kind[];
}

export async function startKinds(): Promise<Kinds> {
  const [sql, server] = await Promise.all([startSql({}), startPostgres()]);
  let made = 0;
  // The process knows databases by their addresses, so that each must have one of its own.
  const file = (): string => `sqlite:test${(made += 1)}.db`;
  const sqlite: Kind = { name: "SQLite", start: () => sql.other(file()) };
  const postgres: Kind = {
    name: "PostgreSQL",
    start: async () => sql.other(await server.createDatabase(`test${(made += 1)}`)),
  };
  return {
    all: [sqlite, postgres],
    async [Symbol.asyncDispose]() {
      await sql[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
    },
  };
}
