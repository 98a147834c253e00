import { DatabaseError, type DatabaseErrorKind } from "./database.ts";

/** Primary result codes of SQLite after which nothing can be said of what the tables have. */
const environment: ReadonlySet<number> = new Set([3, 5, 6, 7, 9, 10, 13, 14, 15, 22, 23]);
/** SQLITE_READONLY: something would write that must not; SQLITE_TOOBIG; SQLITE_MISUSE; SQLITE_RANGE. */
const statement: ReadonlySet<number> = new Set([8, 21, 25]);

/** What `node:sqlite` threw, as a DatabaseError. */
export function sqliteError(error: unknown): DatabaseError {
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
