import { existsSync } from "node:fs";
import { chmod, readdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, it } from "vitest";
import { broken, failed, startSql } from "./sql-extension.ts";

const make = "CREATE TABLE t (a INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)";
const count = { sql: "SELECT count(*) AS n FROM t" };

it("keeps a database in memory as long as the process lives, one for every name", async () => {
  await using sql = await startSql({ connections: { one: "sqlite::memory:", two: "sqlite::memory:" } });
  await sql.outputs("execute", { sql: make, connection: "one" });
  expect(await sql.outputs("query", { ...count, connection: "one" })).toMatchObject({ first: { n: 1 } });
  expect(await sql.call("query", { ...count, connection: "two" })).toEqual(failed(/no such table/));
  const batch = { sql: "DELETE FROM t; INSERT INTO t VALUES (1), (1)", connection: "one" };
  expect(await sql.call("execute", batch)).toEqual(failed(/UNIQUE/));
  expect(await sql.call("execute", { ...batch, sql: "BEGIN", transaction: false })).toEqual(
    broken(/do not end/),
  );
  expect(await sql.outputs("query", { ...count, connection: "one" })).toMatchObject({ first: { n: 1 } });
  expect(await sql.call("query", { sql: "PRAGMA query_only = OFF", connection: "one" })).toMatchObject({
    result: { success: true },
  });
  expect(await sql.call("query", { sql: "DELETE FROM t", connection: "one" })).toEqual(broken(/readonly/));
  expect([await sql.shutdown(), sql.stderr()]).toEqual([0, ""]);
});

it("takes paths of the task's folder, and absolute ones such as those of the workspace", async () => {
  await using sql = await startSql({ url: "sqlite:made.db" });
  await sql.outputs("execute", { sql: make });
  await sql.outputs("execute", { sql: make, url: `sqlite:${join(sql.workspace, "a b%.db")}` });
  await sql.outputs("execute", { sql: make, url: `sqlite://${join(sql.workspace, "slashes.db")}` });
  expect((await readdir(sql.workspace)).toSorted()).toEqual(["a b%.db", "slashes.db"]);
  expect(await readdir(sql.workdir)).toEqual(["made.db"]);
  expect(await sql.call("execute", { sql: make, url: "sqlite:../out.db" })).toEqual(
    broken(/outside of the task's folder/),
  );
  expect(await sql.call("execute", { sql: make, url: "sqlite:" })).toEqual(broken(/names no file/));
  expect(await sql.call("execute", { sql: make, url: "sqlite:none/x.db" })).toEqual(
    broken(/cannot open the database file/),
  );
});

it("makes a file only when something is executed; where it is missing, the agent may have lost it", async () => {
  await using sql = await startSql({ url: "sqlite:x.db" });
  expect(await sql.call("query", count)).toEqual(failed(/^there is no database file .*x\.db$/));
  expect(await sql.call("expect", { ...count, value: 1 })).toEqual(failed(/^there is no database file/));
  expect(existsSync(join(sql.workdir, "x.db"))).toBe(false);
  await writeFile(join(sql.workdir, "x.db"), "this is not a database at all, but long enough".repeat(100));
  expect(await sql.call("expect", { ...count, value: 1 })).toEqual(failed(/not a database/));
});

it("reads the file that is there now, and locks none between operations", async () => {
  await using sql = await startSql({ url: "sqlite:x.db" });
  await sql.outputs("execute", { sql: make });
  const path = join(sql.workdir, "x.db");
  await sql.outputs("execute", { sql: make.replace("(1)", "(1), (2)"), url: "sqlite:other.db" });
  await rename(join(sql.workdir, "other.db"), path);
  expect(await sql.outputs("query", count)).toMatchObject({ first: { n: 2 } });
  await sql.outputs("execute", { sql: "PRAGMA journal_mode = WAL", transaction: false });
  await sql.outputs("execute", { sql: "DELETE FROM t" });
  expect(await readdir(sql.workdir)).toEqual(["x.db"]);
  await rm(path);
  expect(await sql.call("query", count)).toEqual(failed(/there is no database file/));
});

it("waits for who has locked the file, but not longer than it may", async () => {
  await using sql = await startSql({ url: "sqlite:x.db" });
  await sql.outputs("execute", { sql: make });
  const other = new DatabaseSync(join(sql.workdir, "x.db"));
  other.exec("BEGIN EXCLUSIVE");
  expect(await sql.call("query", count, { timeout: "300ms" })).toEqual(broken(/locked/));
  expect(await sql.call("execute", { sql: "DELETE FROM t" }, { timeout: "300ms" })).toEqual(broken(/locked/));
  other.exec("COMMIT");
  other.close();
  expect(await sql.outputs("query", count)).toMatchObject({ first: { n: 1 } });
});

it("reads what a writer has left behind that was killed in the middle", async () => {
  await using sql = await startSql({ url: "sqlite:x.db" });
  await sql.outputs("execute", { sql: make });
  const path = join(sql.workdir, "x.db");
  const other = new DatabaseSync(path);
  other.exec("PRAGMA cache_size = 1; PRAGMA cache_spill = 1; BEGIN; CREATE TABLE big (b BLOB)");
  for (let row = 0; row < 50; row += 1) other.prepare("INSERT INTO big VALUES (randomblob(10000))").run();
  const { readFileSync, writeFileSync } = await import("node:fs");
  const [file, journal] = [readFileSync(path), readFileSync(`${path}-journal`)];
  other.exec("ROLLBACK");
  other.close();
  writeFileSync(path, file);
  writeFileSync(`${path}-journal`, journal);
  expect(await sql.outputs("query", { sql: "SELECT name FROM sqlite_master" })).toMatchObject({
    rows: [{ name: "t" }],
  });
  expect(await sql.outputs("query", count)).toMatchObject({ first: { n: 1 } });
});

it("ends a query without end, and a script, when the time is up", async () => {
  await using sql = await startSql({ url: "sqlite::memory:" });
  const endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i % 2 FROM n";
  expect(await sql.call("query", { sql: endless }, { timeout: "500ms" })).toEqual(
    broken(/time is up|did not end/),
  );
  const script = `CREATE TABLE t (a); ${"INSERT INTO t VALUES (1);".repeat(200_000)}`;
  expect(await sql.call("execute", { sql: script }, { timeout: "300ms" })).toEqual(
    broken(/time is up|did not end/),
  );
  expect(await sql.call("query", { sql: "SELECT * FROM t" })).toEqual(failed(/no such table/));
});

it("has columns of one name, and foreign keys", async () => {
  await using sql = await startSql({ url: "sqlite::memory:" });
  const twice = { sql: "SELECT 1 AS a, 2 AS a, ? AS b, ? AS c", params: ["?", { base64: "AA==" }] };
  expect(
    await sql.call("expect", { ...twice, rows: [[1, 2, "?", "AA=="]], columns: ["a", "a", "b", "c"] }),
  ).toMatchObject({
    result: { success: true },
  });
  await sql.outputs("execute", { sql: `${make}; CREATE TABLE u (t INTEGER REFERENCES t (a))` });
  expect(await sql.call("execute", { sql: "INSERT INTO u VALUES (5)" })).toEqual(failed(/FOREIGN KEY/));
  const mixed = { sql: "SELECT ?, $1", params: [1] };
  expect(await sql.call("query", mixed)).toEqual(broken(/mixes/));
  expect(await sql.call("query", { sql: "SELECT :name", params: [1] })).toEqual(broken(/:name/));
  const texts = { sql: `SELECT '? $2', "a" /* ? */, [a] FROM (SELECT $1 AS a) -- :x`, params: [7] };
  expect(await sql.outputs("query", texts)).toMatchObject({ rows: [{ "'? $2'": "? $2", a: 7 }] });
});

it("loses nothing that another trial does at the same time", async () => {
  await using one = await startSql({ url: "sqlite:x.db" });
  await using two = await startSql({ url: `sqlite:${join(one.workdir, "x.db")}` });
  await one.outputs("execute", { sql: "CREATE TABLE counted (n INTEGER); INSERT INTO counted VALUES (0)" });
  const add = { sql: "UPDATE counted SET n = n + 1" };
  const rounds = Array.from({ length: 20 }, (_none, index) => index);
  await Promise.all(rounds.flatMap(() => [one.outputs("execute", add), two.outputs("execute", add)]));
  expect(await two.outputs("query", { sql: "SELECT n FROM counted" })).toMatchObject({ first: { n: 40 } });
});

it("reads a file that it may not write", async () => {
  await using sql = await startSql({ url: "sqlite:x.db" });
  await sql.outputs("execute", { sql: make });
  await chmod(join(sql.workdir, "x.db"), 0o444);
  await chmod(sql.workdir, 0o555);
  expect(await sql.outputs("query", count)).toMatchObject({ first: { n: 1 } });
  await chmod(sql.workdir, 0o755);
});
