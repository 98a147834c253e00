import { McpvalsError } from "../../base/error.ts";
import type { Database, Sql } from "./database.ts";

/** The schema of our tables, and that of pg-boss. */
const ownSchema = "mcpvals";
export const queueSchema = "mcpvals_queue";

/**
 * The changes of the schema, each in a transaction, from the first version on. A published one never changes: add another.
 *
 * `trials.fence` counts how often a trial was taken: only the last who took it can write. `ended_xid` is the transaction that ended it, so
 * that a reader misses none of several that commit in another order. `limits.free` has the times, in milliseconds of the clock of the database, from
 * which on each of so many places is free.
 */
const migrations: readonly string[] = [
  `CREATE TABLE mcpvals.files (
    sha256 text PRIMARY KEY,
    content bytea NOT NULL
  );
  CREATE TABLE mcpvals.runs (
    id text PRIMARY KEY,
    submitted_at timestamptz NOT NULL DEFAULT now(),
    version text NOT NULL,
    platform text NOT NULL,
    labels text[] NOT NULL,
    head json NOT NULL,
    plan bytea NOT NULL,
    folder text NOT NULL,
    bundle json NOT NULL,
    limits json NOT NULL,
    rules json NOT NULL,
    state text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'draining', 'cancelled', 'ended')),
    stop json
  );
  CREATE TABLE mcpvals.trials (
    run text NOT NULL REFERENCES mcpvals.runs ON DELETE CASCADE,
    id text NOT NULL,
    place int NOT NULL,
    slots text[] NOT NULL,
    state text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'running', 'ended', 'cancelled')),
    fence int NOT NULL DEFAULT 0,
    released int NOT NULL DEFAULT 0,
    worker text,
    interrupted bool NOT NULL DEFAULT false,
    bytes bigint NOT NULL DEFAULT 0,
    ended_xid xid8,
    PRIMARY KEY (run, id)
  );
  CREATE INDEX trials_running ON mcpvals.trials (run) WHERE state = 'running';
  CREATE INDEX trials_ended ON mcpvals.trials (run, ended_xid) WHERE state = 'ended';
  CREATE TABLE mcpvals.events (
    run text NOT NULL,
    trial text NOT NULL,
    fence int NOT NULL,
    part int NOT NULL,
    lines bytea NOT NULL,
    PRIMARY KEY (run, trial, fence, part),
    FOREIGN KEY (run, trial) REFERENCES mcpvals.trials ON DELETE CASCADE
  );
  CREATE TABLE mcpvals.workers (
    id text PRIMARY KEY,
    version text NOT NULL,
    platform text NOT NULL,
    labels text[] NOT NULL,
    concurrency int NOT NULL,
    seen_at timestamptz NOT NULL DEFAULT now(),
    refused json NOT NULL DEFAULT '{}'
  );`,
  `CREATE TABLE mcpvals.limits (
    run text NOT NULL REFERENCES mcpvals.runs ON DELETE CASCADE,
    name text NOT NULL,
    free float8[] NOT NULL,
    PRIMARY KEY (run, name)
  );`,
];

const reads = (role: string): string => `
  GRANT USAGE ON SCHEMA ${ownSchema}, ${queueSchema} TO ${role};
  GRANT SELECT ON ALL TABLES IN SCHEMA ${ownSchema}, ${queueSchema} TO ${role};`;

/**
 * What roles may do: a reader looks, a worker takes trials and adds what happened in them. Repeated after each migration, since pg-boss may
 * have made new tables.
 */
const roles: Readonly<Record<string, string>> = {
  mcpvals_reader: reads("mcpvals_reader"),
  mcpvals_worker: `${reads("mcpvals_worker")}
  GRANT UPDATE (state, fence, released, worker, bytes, interrupted, ended_xid) ON ${ownSchema}.trials TO mcpvals_worker;
  GRANT INSERT ON ${ownSchema}.events TO mcpvals_worker;
  GRANT INSERT, UPDATE ON ${ownSchema}.workers, ${ownSchema}.limits TO mcpvals_worker;
  GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ${queueSchema} TO mcpvals_worker;
  GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA ${queueSchema} TO mcpvals_worker;`,
};

/** The version of the schema that this version of mcpvals uses. */
const schemaVersion = migrations.length;

/**
 * Brings the schema to {@link schemaVersion}, where this user may. Returns whether it may. Throws `store/other-schema` for one that is newer, or older
 * and of somebody else.
 */
export async function migrate(database: Database): Promise<boolean> {
  const [rights] = await database.query<{ mayCreate: boolean; owns: boolean | null }>(
    `SELECT has_database_privilege(current_database(), 'CREATE') AS "mayCreate",
       (SELECT pg_has_role(nspowner, 'USAGE') FROM pg_namespace WHERE nspname = '${ownSchema}') AS owns`,
  );
  const { mayCreate = false, owns = null } = rights ?? {};
  const isOwner = owns ?? mayCreate;
  if (isOwner && mayCreate) await oneAtATime(database, upgrade);
  const version = await versionOf(database, owns !== null || isOwner);
  if (version === schemaVersion) return isOwner && mayCreate;
  throw new McpvalsError(
    "store/other-schema",
    version > schemaVersion
      ? `the tables in ${database.name} are of a newer version of mcpvals (schema ${version}, this one uses ${schemaVersion})`
      : version === 0
        ? `there are no tables of mcpvals in ${database.name}, and this user may not create them`
        : `the tables in ${database.name} are of an older version of mcpvals (schema ${version}, this one uses ${schemaVersion}), and this user may not change them`,
    {
      hint:
        version > schemaVersion
          ? "Use that version here too."
          : "Start `npx mcpvals worker` once as the owner of the database.",
    },
  );
}

/** Does something while nobody else changes tables. */
export function oneAtATime<T>(database: Database, work: (sql: Sql) => Promise<T>): Promise<T> {
  return database.transaction(async (sql) => {
    await sql.query("SELECT pg_advisory_xact_lock(hashtext('mcpvals migrations'))");
    return work(sql);
  });
}

async function upgrade(sql: Sql): Promise<void> {
  await sql.query(`CREATE SCHEMA IF NOT EXISTS ${ownSchema}`);
  await sql.query(`CREATE TABLE IF NOT EXISTS ${ownSchema}.schema_version (version int NOT NULL)`);
  const version = await versionOf(sql, true);
  if (version >= schemaVersion) return;
  for (const text of migrations.slice(version)) await sql.query(text);
  await sql.query(`DELETE FROM ${ownSchema}.schema_version`);
  await sql.query(`INSERT INTO ${ownSchema}.schema_version VALUES (${schemaVersion})`);
}

async function versionOf(sql: Sql, isThere: boolean): Promise<number> {
  if (!isThere) return 0;
  const [row] = await sql.query<{ version: number }>(`SELECT version FROM ${ownSchema}.schema_version`);
  return row?.version ?? 0;
}

/** Gives the roles of readers and workers their rights; creates them where this user may. Without that right, one that is not there stays so. */
export async function grantRoles(database: Database): Promise<void> {
  const names = Object.keys(roles);
  const [found] = await database.query<{ may: boolean; known: readonly string[] }>(
    `SELECT (SELECT rolcreaterole OR rolsuper FROM pg_roles WHERE rolname = current_user) AS may,
       ARRAY(SELECT rolname::text FROM pg_roles WHERE rolname = ANY($1)) AS known`,
    [names],
  );
  if (found === undefined) return;
  const { may, known } = found;
  await oneAtATime(database, async (sql) => {
    for (const name of may ? names : known) {
      if (!known.includes(name))
        await sql.query(
          `DO $$ BEGIN CREATE ROLE ${name} NOLOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$`,
        );
      await sql.query(roles[name] ?? "");
    }
  });
}
