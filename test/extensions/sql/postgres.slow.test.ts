import { Client } from "pg";
import { afterAll, describe, expect, it, vi } from "vitest";
import { startPostgres } from "../../support/postgres.ts";
import { broken, startSql } from "./sql-extension.ts";

const server = await startPostgres();
afterAll(async () => server[Symbol.asyncDispose]());

/** Its own connection, beside those of the extension. */
async function aside<T>(work: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client({ connectionString: server.url, application_name: "aside" });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

/** What the extension's connections are doing. */
function backends(): Promise<readonly { pid: number; state: string; query: string }[]> {
  return aside(async (client) => {
    const sql = "SELECT pid, state, query FROM pg_stat_activity WHERE application_name = 'mcpvals'";
    return (await client.query<{ pid: number; state: string; query: string }>(sql)).rows;
  });
}

const patience = { timeout: 60_000, interval: 50 };

/** Waits until the extension's connections are as they should be. */
function until(expected: unknown): Promise<void> {
  return vi.waitFor(async () => expect(await backends()).toEqual(expected), patience);
}

const sleeping = [expect.objectContaining({ state: "active", query: expect.stringContaining("pg_sleep") })];
const notSleeping = expect.not.arrayContaining(sleeping);
const sleep = { sql: "SELECT pg_sleep(300)" };

describe("PostgreSQL, which breaks", () => {
  const url = server.url;
  const secret = encodeURIComponent(server.password);

  it("opens a connection at first use, keeps it, and closes it in the end", async () => {
    await using sql = await startSql({ url });
    expect(await backends()).toEqual([]);
    for (let round = 0; round < 20; round += 1) await sql.outputs("query", { sql: "SELECT 1" });
    expect(await backends()).toEqual([expect.objectContaining({ state: "idle" })]);
    expect([await sql.shutdown(), sql.stderr()]).toEqual([0, ""]);
    await until([]);
  });

  it("keeps what belongs to the session, but reads values the same way whatever it sets", async () => {
    await using sql = await startSql({ url });
    const odd = "SET datestyle = 'SQL, DMY'; SET TIME ZONE 'Asia/Tokyo'; SET bytea_output = 'escape'";
    await sql.outputs("execute", { sql: `${odd}; CREATE TEMP TABLE mine AS SELECT 1 AS a` });
    const values =
      "SELECT a, timestamptz '2024-01-31 00:00Z' AS t, '\\x00'::bytea AS b, date '2024-01-31' AS d FROM mine";
    expect(await sql.outputs("query", { sql: values })).toMatchObject({
      first: { a: 1, t: "2024-01-31T00:00:00Z", b: "AA==", d: "2024-01-31" },
    });
  });

  it("reads lists, times, numbers without a number, and what it does not know", async () => {
    await using sql = await startSql({ url });
    const values = `SELECT ARRAY[1, NULL, 9007199254740993]::int8[] AS i, '{{"a,b","c\\"d"},{NULL,"NULL"}}'::text[] AS t,
      'NaN'::float8 AS n, '-Infinity'::float8 AS m, 123456789012345678.90 AS d, timestamp '2024-01-31 12:00:00.5' AS l,
      interval '1 day 2 hours' AS v, '{"n": 9007199254740993}'::jsonb AS j, 'null'::jsonb AS z, int4range(1, 5) AS r,
      '550e8400-e29b-41d4-a716-446655440000'::uuid AS u`;
    expect((await sql.outputs("query", { sql: values }))["first"]).toEqual({
      i: [1, null, "9007199254740993"],
      t: [
        ["a,b", 'c"d'],
        [null, "NULL"],
      ],
      n: "NaN",
      m: "-Infinity",
      d: "123456789012345678.90",
      l: "2024-01-31T12:00:00.5",
      v: "P1DT2H",
      j: { n: "9007199254740993" },
      z: null,
      r: "[1,5)",
      u: "550e8400-e29b-41d4-a716-446655440000",
    });
  });

  it("says so when the time is up, and the server does not go on", async () => {
    await using sql = await startSql({ url });
    expect(await sql.call("query", sleep, { timeout: "1s" })).toEqual(broken(/timeout|did not end/));
    expect(await sql.call("execute", { ...sleep, transaction: false }, { timeout: "1s" })).toEqual(
      broken(/timeout|did not end/),
    );
    await until(notSleeping);
    expect(await sql.outputs("query", { sql: "SELECT 1" })).toMatchObject({ rowCount: 1 });
  });

  it("stops what it does when its host has gone", async () => {
    await using sql = await startSql({ url });
    const answer = sql.call("query", sleep, { timeout: "300s" });
    answer.catch(() => undefined);
    await until(sleeping);
    await sql.abandon();
    await until([]);
  });

  it("leaves no statement that goes on when it is killed", async () => {
    {
      await using sql = await startSql({ url });
      sql.call("query", sleep, { timeout: "300s" }).catch(() => undefined);
      await until(sleeping);
    }
    await until([]);
  });

  it("says that a connection was lost in the middle, and has a new one for the next operation", async () => {
    await using sql = await startSql({ url });
    const answer = sql.call("expect", { ...sleep, empty: true });
    await until(sleeping);
    await aside((client) =>
      client.query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'mcpvals'",
      ),
    );
    expect(await answer).toEqual(broken(/terminat/));
    expect(await sql.outputs("query", { sql: "SELECT 1" })).toMatchObject({ rowCount: 1 });
    const between =
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'mcpvals'";
    await aside((client) => client.query(between));
    await until([]);
    expect(await sql.outputs("query", { sql: "SELECT 1" })).toMatchObject({ rowCount: 1 });
  });

  it.each<[string, string, RegExp]>([
    [
      "a wrong password",
      url.replace(secret, "s3cr3t-w0rd"),
      /^cannot connect to postgres:\/\/tester@127.*password authentication failed/,
    ],
    [
      "a user that is not there",
      url.replace("tester", "nobody").replace(secret, "s3cr3t-w0rd"),
      /authentication failed/,
    ],
    ["a database that is not there", `${url}_none`, /database "postgres_none" does not exist/],
    ["nobody who listens", "postgresql://tester:s3cr3t-w0rd@127.0.0.1:1/x", /ECONNREFUSED/],
    ["a password with a slash", "postgres://tester:1/s3cr3t-w0rd@127.0.0.1/x", /is not valid.*%2F/],
    ["a password with a hash", "postgres://tester:1#s3cr3t-w0rd@127.0.0.1/x", /is not valid/],
    ["a password with a question mark", "postgres://tester:1?s3cr3t-w0rd@127.0.0.1/x", /is not valid/],
    ["a port that is none", "postgres://tester:s3cr3t-w0rd@127.0.0.1:port/x", /is not valid/],
    ["another scheme", "mysql://tester:s3cr3t-w0rd@127.0.0.1/x", /is none of postgres:/],
    ["no address", "s3cr3t-w0rd", /is none of postgres:/],
  ])("is an error without the password: %s", async (_what, address, message) => {
    await using sql = await startSql({ url: address });
    const answer = await sql.call("query", { sql: "SELECT 1" });
    expect(answer).toEqual(broken(message));
    expect(await sql.call("execute", { sql: "SELECT 1", url: address })).toEqual(broken(message));
    await sql.shutdown();
    for (const password of ["s3cr3t-w0rd", server.password, secret]) {
      expect(sql.written()).not.toContain(password);
    }
  });

  it("chooses among several databases by name", async () => {
    const second = await server.createDatabase("second");
    await using sql = await startSql({ connections: { one: url, two: second } });
    const name = { sql: "SELECT current_database() AS name" };
    expect(await sql.outputs("query", { ...name, connection: "two" })).toMatchObject({
      first: { name: "second" },
    });
    expect(await sql.outputs("query", { ...name, connection: "one" })).toMatchObject({
      first: { name: "postgres" },
    });
    expect(await sql.outputs("query", { ...name, url: second })).toMatchObject({
      first: { name: "second" },
    });
    expect(await sql.call("query", name)).toEqual(broken(/several databases.*one, two/));
  });

  it("survives a server that stops, and finds it again", async () => {
    await using sql = await startSql({ url });
    const answer = sql.call("query", sleep);
    await until(sleeping);
    await server.stop();
    expect(await answer).toEqual(broken(/terminat|shut/));
    expect(await sql.call("query", { sql: "SELECT 1" })).toEqual(broken(/^cannot connect to/));
    await server.restart();
    expect(await sql.outputs("query", { sql: "SELECT 1" })).toMatchObject({ rowCount: 1 });
  });
});
