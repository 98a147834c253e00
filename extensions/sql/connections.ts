import { isAbsolute, join } from "node:path";
import * as z from "zod";
import { type Database, DatabaseError, insideOf } from "./database.ts";
import { PostgresDatabase } from "./postgres.ts";
import { inMemory, SqliteDatabase } from "./sqlite.ts";

/** Which database a step is about; neither: the one that the config has for all. */
export interface Choice {
  readonly connection?: string | undefined;
  readonly url?: string | undefined;
}

/** The databases of one trial, each made when it is first used, and kept. */
export class Connections {
  readonly #config: Config;
  readonly #databases = new Map<string, Database>();

  constructor(config: Config) {
    this.#config = config;
  }

  /** Gives the database that a step is about. Throws DatabaseError when the config or the address is wrong. */
  database(choice: Choice, workdir: string): Database {
    const { key, url } = this.#chosen(choice);
    const known = this.#databases.get(key);
    if (known !== undefined) return known;
    const database = make(url, workdir);
    this.#databases.set(key, database);
    return database;
  }

  /** Closes them all. Never rejects. */
  async close(): Promise<void> {
    const databases = [...this.#databases.values()];
    this.#databases.clear();
    await Promise.all(databases.map((database) => database.close()));
  }

  #chosen({ connection, url }: Choice): { readonly key: string; readonly url: string } {
    const { connections = {}, url: usual } = this.#config;
    if (url !== undefined) return { key: `url ${url}`, url };
    const names = Object.keys(connections);
    const name = connection ?? (usual === undefined && names.length === 1 ? names[0] : undefined);
    if (name === undefined) return { key: "usual", url: usual ?? refuse(noDatabase(names)) };
    const named = Object.hasOwn(connections, name) ? connections[name] : undefined;
    return { key: `name ${name}`, url: named ?? refuse(noConnection(name, names)) };
  }
}

function make(url: string, workdir: string): Database {
  const address = readAddress(url, workdir);
  return address.kind === "sqlite"
    ? new SqliteDatabase(address.path)
    : new PostgresDatabase(address.url, address.name);
}

function refuse(message: string): never {
  throw new DatabaseError("environment", message);
}

function noDatabase(names: readonly string[]): string {
  const hint = "give the extension's config a url, or the step a connection or a url";
  return names.length === 0
    ? `there is no database: ${hint}`
    : `there are several databases: give the step a connection, one of ${names.join(", ")}`;
}

function noConnection(name: string, names: readonly string[]): string {
  const known = names.length === 0 ? "the config has no connections" : `the config has ${names.join(", ")}`;
  return `there is no connection ${JSON.stringify(name)}; ${known}`;
}

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
function readAddress(url: string, workdir: string): Address {
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

const url = z
  .string()
  .describe("postgres://USER:PASSWORD@HOST:PORT/DATABASE, sqlite:PATH or sqlite::memory:");

/** Settings of the extension. Addresses are looked at when a database is first used. */
export const config = z
  .strictObject({
    url: url.optional().describe("The database of steps that name none."),
    connections: z.record(z.string(), url).optional().describe("Further databases, by name."),
  })
  .describe("Where the databases are.");

export type Config = z.output<typeof config>;
