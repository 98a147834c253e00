import { isAbsolute, join } from "node:path";
import { DatabaseError } from "./database.ts";
import { insideOf } from "./inside.ts";
import { inMemory } from "./sqlite.ts";

/** Where a database is. */
export type Address =
  | {
      readonly kind: "postgres";
      readonly url: string;
      /** The address without password and settings. */
      readonly name: string;
    }
  /** `path` is absolute, or `inMemory`. */
  | { readonly kind: "sqlite"; readonly path: string };

const forms = "postgres://USER:PASSWORD@HOST:PORT/DATABASE, sqlite:PATH or sqlite::memory:";

/**
 * Reads the address of a database; paths are relative to the task's folder. Throws DatabaseError, never with the text of the
 * address, since a password may be anywhere in it.
 */
export function readAddress(url: string, workdir: string): Address {
  if (/^postgres(?:ql)?:\/\//.test(url)) return { kind: "postgres", url, name: nameOf(url) };
  if (!url.startsWith("sqlite:")) throw wrong(`is none of ${forms}`);
  const path = url.slice("sqlite:".length).replace(/^\/\/(?=\/)/, "");
  if (path === inMemory) return { kind: "sqlite", path };
  if (path === "" || path.includes("\0")) throw wrong("names no file");
  if (isAbsolute(path)) return { kind: "sqlite", path };
  const full = join(workdir, path);
  if (!insideOf(workdir, full)) throw wrong(`names ${path}, which is outside of the task's folder`);
  return { kind: "sqlite", path: full };
}

function nameOf(url: string): string {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  // Characters that should have been encoded put a part of the password elsewhere.
  if (parsed === undefined || parsed.hash !== "" || `${parsed.pathname}${parsed.search}`.includes("@")) {
    throw wrong("is not valid; in user and password, characters such as # / ? @ are written %23 %2F %3F %40");
  }
  const { protocol, username, host, pathname } = parsed;
  return `${protocol}//${username}${username === "" ? "" : "@"}${host}${pathname}`;
}

function wrong(what: string): DatabaseError {
  return new DatabaseError("environment", `the address of the database ${what}`);
}
