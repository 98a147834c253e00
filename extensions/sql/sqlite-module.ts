import { DatabaseError } from "./database.ts";

type Sqlite = typeof import("node:sqlite");

let loaded: Sqlite | undefined;

/**
 * Node's SQLite, loaded when it is first needed: some versions of Node write a warning then, that it is experimental, which
 * is kept from stderr. Throws DatabaseError on a Node whose SQLite cannot say which columns there are.
 */
export function sqliteModule(): Sqlite {
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
