import { readAddress } from "./address.ts";
import type { Config } from "./config.ts";
import { type Database, DatabaseError } from "./database.ts";
import { PostgresDatabase } from "./postgres.ts";
import { SqliteDatabase } from "./sqlite.ts";

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
