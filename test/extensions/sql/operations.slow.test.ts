import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { JsonObject } from "../../../src/base/json.ts";
import { startKinds } from "./databases.ts";
import { type Answer, broken, failed, type SqlExtension } from "./sql-extension.ts";

const kinds = await startKinds();
afterAll(() => kinds[Symbol.asyncDispose]());

const people = `
  CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT NOT NULL, age INTEGER);
  INSERT INTO people VALUES (1, 'ada', 36), (2, 'bela; --', 41); -- not the end
  /* nor; this */
  INSERT INTO people VALUES (3, 'it''s cleo', NULL);
`;
const ada = { id: 1, name: "ada", age: 36 };
const bela = { id: 2, name: "bela; --", age: 41 };
const cleo = { id: 3, name: "it's cleo", age: null };
const all = "SELECT * FROM people ORDER BY id";

function passed(outputs: JsonObject): Answer {
  return { result: { success: true, message: "the rows are as expected", outputs } };
}

describe.each(kinds.all)("$name", (kind) => {
  const { name } = kind;
  const start = (): Promise<SqlExtension> => kind.start();
  const withPeople = async (): Promise<SqlExtension> => {
    const sql = await start();
    await sql.outputs("execute", { sql: people });
    return sql;
  };
  /** The people, which tests only read. */
  let shared: SqlExtension;
  beforeAll(async () => {
    shared = await withPeople();
  });
  afterAll(() => shared?.[Symbol.asyncDispose]());

  it("executes several statements and counts the rows that they change", async () => {
    await using sql = await start();
    expect(await sql.call("execute", { sql: people })).toEqual({
      result: { success: true, message: "3 rows changed", outputs: { rowsAffected: 3 } },
    });
    const more =
      "SELECT 1; UPDATE people SET age = 1; CREATE TABLE other (a TEXT); SELECT 1; DELETE FROM people WHERE id = 2; DROP TABLE other";
    expect(await sql.outputs("execute", { sql: more })).toEqual({ rowsAffected: 4 });
  });

  it("queries: rows by column, the first of them, and the columns, of no row too", async () => {
    expect(await shared.outputs("query", { sql: all })).toEqual({
      rows: [ada, bela, cleo],
      rowCount: 3,
      columns: ["id", "name", "age"],
      first: ada,
    });
    expect(
      await shared.outputs("query", { sql: `SELECT id AS "Id", name FROM people WHERE id > 5;` }),
    ).toEqual({
      rows: [],
      rowCount: 0,
      columns: ["Id", "name"],
    });
  });

  it("reads SQL from a file of the task, or of the workspace, and from nowhere else", async () => {
    await using sql = await start();
    await writeFile(join(sql.workdir, "people.sql"), people);
    await writeFile(join(sql.workspace, "all.sql"), all);
    await sql.outputs("execute", { file: "people.sql" });
    expect(await sql.outputs("query", { file: join(sql.workspace, "all.sql") })).toMatchObject({
      rowCount: 3,
    });
    expect(await sql.call("query", { file: "other.sql" })).toEqual(broken(/^there is no other\.sql/));
    const outside = "is neither in the task's folder nor in the workspace";
    expect(await sql.call("query", { file: import.meta.filename })).toEqual(broken(new RegExp(outside)));
  });

  it("keeps nothing of a batch that fails", async () => {
    await using sql = await withPeople();
    const batch = "INSERT INTO people VALUES (4, 'dora', 1); INSERT INTO people VALUES (1, 'again', 1)";
    expect(await sql.call("execute", { sql: batch })).toEqual(failed(/unique/i));
    expect(await sql.outputs("query", { sql: all })).toMatchObject({ rowCount: 3 });
    const noTable = "DELETE FROM people; DELETE FROM nobody";
    expect(await sql.call("execute", { sql: noTable })).toEqual(failed(/nobody/));
    expect(await sql.outputs("query", { sql: all })).toMatchObject({ rowCount: 3 });
  });

  it("refuses statements that play with the transaction that they are in, and one that is left open", async () => {
    await using sql = await withPeople();
    expect(await sql.call("execute", { sql: "DELETE FROM people; COMMIT" })).toEqual(
      broken(/see `transaction`/),
    );
    const open = { sql: "BEGIN; DELETE FROM people", transaction: false };
    expect(await sql.call("execute", open)).toEqual(broken(/begin a transaction that they do not end/));
    const whole = { sql: "BEGIN; INSERT INTO people VALUES (9, 'i', 1); COMMIT", transaction: false };
    expect(await sql.outputs("execute", whole)).toEqual({ rowsAffected: 1 });
    await sql.outputs("execute", { sql: "VACUUM", transaction: false });
  });

  it.each<[string, string]>([
    ["query", "DELETE FROM people"],
    ["query", "CREATE TABLE other (a TEXT)"],
    ["expect", "UPDATE people SET age = 0"],
  ])("changes nothing by %s: %s", async (operation, statement) => {
    const args = { sql: statement, ...(operation === "expect" ? { empty: true } : {}) };
    expect(await shared.call(operation, args)).toEqual(broken(/read-?only/));
    expect(await shared.outputs("query", { sql: all })).toMatchObject({ rowCount: 3 });
  });

  it("changes something by a query that says so", async () => {
    await using sql = await withPeople();
    const insert = "INSERT INTO people VALUES (7, 'gus', 1) RETURNING id";
    expect(await sql.outputs("query", { sql: insert, readOnly: false })).toMatchObject({ rows: [{ id: 7 }] });
    expect(await sql.outputs("query", { sql: all })).toMatchObject({ rowCount: 4 });
    expect(await sql.call("query", { sql: insert.replace("7", "8") })).toEqual(broken(/read-?only/));
  });

  it.each<[string, JsonObject]>([
    ["rows by column", { rows: [ada, bela, cleo] }],
    ["rows as lists", { rows: [Object.values(ada), Object.values(bela), Object.values(cleo)] }],
    ["rows in any order", { rows: [cleo, ada, bela], ignoreOrder: true }],
    ["some rows by some columns", { contains: [{ age: 41 }, { name: "ada" }] }],
    ["some rows, of which one fits two", { contains: [{}, { id: 1 }, {}] }],
    ["a number of rows", { rowCount: 3 }],
    ["a range of rows", { rowCount: { min: 1, max: 3 } }],
    ["columns", { columns: ["id", "name", "age"] }],
    ["no emptiness", { empty: false }],
    ["several at once", { rowCount: { min: 3 }, contains: [cleo] }],
  ])("expects %s", async (_what, expectation) => {
    expect(await shared.call("expect", { sql: all, ...expectation })).toEqual(passed({ rowCount: 3 }));
  });

  it("expects one value, and emptiness", async () => {
    const count = { sql: "SELECT count(*) FROM people WHERE age > $1", params: [40] };
    expect(await shared.call("expect", { ...count, value: 1 })).toEqual(passed({ rowCount: 1 }));
    const none = { sql: "SELECT age FROM people WHERE id = 3", value: null };
    expect(await shared.call("expect", none)).toEqual(passed({ rowCount: 1 }));
    const empty = { sql: "SELECT 1 AS one FROM people WHERE id > 5", empty: true };
    expect(await shared.call("expect", empty)).toEqual(passed({ rowCount: 0 }));
    expect(await shared.call("expect", { ...empty, rows: [] })).toEqual(passed({ rowCount: 0 }));
  });

  it.each<[string, JsonObject, string]>([
    [
      "another value",
      { rows: [ada, { ...bela, age: 42 }, cleo] },
      'the rows differ (- expected, + found):\n   id  name         age\n   1   "ada"        36\n-  2   "bela; --"   42\n+  2   "bela; --"   41\n   3   "it\'s cleo"  null',
    ],
    [
      "a text instead of a number",
      { rows: [{ ...ada, id: "1" }, bela], ignoreOrder: true },
      'the rows differ (- expected, + found):\n   id   name         age\n-  "1"  "ada"        36\n+  1    "ada"        36\n   2    "bela; --"   41\n+  3    "it\'s cleo"  null',
    ],
    [
      "another order",
      { rows: [bela, ada, cleo] },
      'the rows are in another order:\n   id  name         age\n-  2   "bela; --"   41\n+  1   "ada"        36\n-  1   "ada"        36\n+  2   "bela; --"   41\n   3   "it\'s cleo"  null',
    ],
    [
      "a column more, and one less",
      { rows: [{ id: 1, name: "ada", town: "x" }, bela, cleo] },
      'the rows differ (- expected, + found):\n   id  name         age   town\n-  1   "ada"              "x"\n+  1   "ada"        36\n   2   "bela; --"   41\n   3   "it\'s cleo"  null',
    ],
    [
      "a row that is not there twice",
      { contains: [{ id: 1 }, { id: 1 }] },
      '1 of 2 rows missing (- expected):\n   id  name         age\n-  1\n   1   "ada"        36\n   2   "bela; --"   41\n   3   "it\'s cleo"  null',
    ],
    [
      "a number of rows",
      { rowCount: { min: 4 } },
      'there are 3 rows instead of at least 4:\n   id  name         age\n   1   "ada"        36\n   2   "bela; --"   41\n   3   "it\'s cleo"  null',
    ],
    ["columns", { columns: ["id"] }, "the columns are id, name, age instead of id"],
    [
      "one value",
      { value: 3 },
      'one value was expected, not 3 rows with the columns id, name, age:\n   id  name         age\n   1   "ada"        36\n   2   "bela; --"   41\n   3   "it\'s cleo"  null',
    ],
    [
      "emptiness, and more",
      { empty: true, rowCount: 3, columns: ["id"] },
      'the columns are id, name, age instead of id\nthere are rows, but none was expected:\n   id  name         age\n   1   "ada"        36\n   2   "bela; --"   41\n   3   "it\'s cleo"  null',
    ],
  ])("tells what is not as expected: %s", async (_what, expectation, message) => {
    expect(await shared.call("expect", { sql: all, ...expectation })).toEqual({
      result: { success: false, message, outputs: { rowCount: 3 } },
    });
  });

  it("cuts what is long, in every direction", async () => {
    await using sql = await start();
    const columns = Array.from({ length: 30 }, (_none, index) => `c${index}`);
    await sql.outputs("execute", {
      sql: `CREATE TABLE wide (${columns.map((column) => `${column} TEXT`).join(", ")})`,
    });
    for (let row = 0; row < 30; row += 1) {
      await sql.outputs("execute", {
        sql: "INSERT INTO wide (c0, c1) VALUES ($1, $2)",
        params: [`${row}`, "é😀".repeat(500)],
      });
    }
    const { result } = await sql.call("expect", { sql: "SELECT * FROM wide", empty: true });
    const lines = result?.message?.split("\n") ?? [];
    expect(lines).toHaveLength(23);
    expect(lines.at(-1)).toBe("  … and 10 more");
    expect(lines[2]).toContain(`"é😀é😀`);
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThan(200);
    expect(result?.message).not.toMatch(/[\uD800-\uDBFF](?![\uDC00-\uDFFF])/);
  });

  it("says what is missing by a failure, since the agent may have to make it", async () => {
    for (const operation of ["query", "expect"]) {
      const more = operation === "expect" ? { empty: true } : {};
      expect(await shared.call(operation, { sql: "SELECT * FROM nobody", ...more })).toEqual(
        failed(/nobody/),
      );
      expect(await shared.call(operation, { sql: "SELECT shoe FROM people", ...more })).toEqual(
        failed(/shoe/),
      );
    }
  });

  it.each<[string, JsonObject, RegExp]>([
    ["no SQL", { sql: "SELEC 1" }, /syntax error/],
    ["half of a statement", { sql: "SELECT (1" }, /incomplete input|syntax error/],
    ["an open text", { sql: "SELECT 'a" }, /unrecognized token|unterminated/],
    ["two statements", { sql: "SELECT 1; SELECT 2" }, /one statement|multiple commands/],
    [
      "too few params",
      { sql: "SELECT CAST($1 AS TEXT), CAST($2 AS TEXT)", params: ["a"] },
      /2 parameters|requires 2/,
    ],
    ["too many params", { sql: "SELECT 1", params: ["a"] }, /0 parameters|requires 0/],
    ["a NUL in the SQL", { sql: "SELECT 1 \0" }, /NUL/],
    ["neither SQL nor file", {}, /either sql or file/],
    [
      "a connection that is not there",
      { sql: "SELECT 1", connection: "toString" },
      /no connection "toString"/,
    ],
    ["two databases", { sql: "SELECT 1", connection: "main", url: "sqlite:x" }, /exclude each other/],
  ])("calls wrong steps an error, not a failure: %s", async (_what, args, message) => {
    expect(await shared.call("query", args)).toEqual(broken(message));
    expect(await shared.call("expect", { ...args, empty: true })).toEqual(broken(message));
    expect(await shared.outputs("query", { sql: "SELECT 1 AS a" })).toMatchObject({ rowCount: 1 });
  });

  it("refuses to expect nothing", async () => {
    const nothing: readonly JsonObject[] = [{ rowCount: {} }, { rowCount: { min: 0 } }, { contains: [] }];
    for (const expected of nothing) {
      const { error } = await shared.call("expect", { sql: all, ...expected });
      expect(error).toMatchObject({ code: -32602 });
    }
    expect(await shared.call("expect", { sql: all })).toEqual(broken(/nothing is expected/));
    expect(await shared.call("execute", { sql: "; -- nothing\n" })).toEqual(broken(/no statement/));
  });

  it("returns texts of any kind, and null, as they were", async () => {
    await using sql = await start();
    await sql.outputs("execute", { sql: "CREATE TABLE hostile (id INTEGER, a TEXT)" });
    const values = [
      `'"\`; DROP TABLE hostile; --`,
      "😀 é ｆ 漢 \u202E",
      "a\r\nb\\n\t\u0001",
      "x€".repeat(500_000),
      "",
      null,
    ];
    for (const [id, value] of values.entries()) {
      await sql.outputs("execute", { sql: "INSERT INTO hostile VALUES ($1, $2)", params: [id, value] });
      const one = { sql: "SELECT a FROM hostile WHERE id = $1", params: [id] };
      expect((await sql.outputs("query", one))["rows"]).toEqual([{ a: value }]);
      expect(await sql.call("expect", { ...one, value })).toEqual(passed({ rowCount: 1 }));
      const same = "SELECT id FROM hostile WHERE a = $1 OR (a IS NULL AND $2 = 1)";
      const found = { sql: same, params: [value, value === null ? 1 : 0], value: id };
      expect(await sql.call("expect", found)).toEqual(passed({ rowCount: 1 }));
    }
  });

  it("has one form for numbers, bytes, JSON and points in time", async () => {
    await using sql = await start();
    const types =
      name === "SQLite"
        ? ["INTEGER", "REAL", "NUMERIC", "BOOLEAN", "TEXT", "TEXT", "TEXT", "BLOB"]
        : ["int8", "float8", "numeric", "boolean", "date", "timestamptz", "jsonb", "bytea"];
    await sql.outputs("execute", {
      sql: `CREATE TABLE kinds (${types.map((type, index) => `k${index} ${type}`).join(", ")})`,
    });
    const values = ["$1", "$2", "$3", "$4", "$5", "$6", "$7", "$8"].join(", ");
    const insert = { sql: `INSERT INTO kinds VALUES (${values})` };
    const date = "2024-02-29";
    const time = name === "SQLite" ? "2024-02-29 12:30:00Z" : "2024-02-29 14:30:00+02";
    const json = { a: [1, { b: null }] };
    const bytes = { base64: "AP8=" };
    await sql.outputs("execute", {
      ...insert,
      params: ["9007199254740993", 0.1, 12.5, true, date, time, json, bytes],
    });
    await sql.outputs("execute", {
      ...insert,
      params: [-5, 1e300, 7, false, date, time, json, { base64: "" }],
    });
    const rows = [
      ["9007199254740993", 0.1, 12.5, true, date, "2024-02-29T12:30:00Z", { a: [1, { b: null }] }, "AP8="],
      [-5, 1e300, 7, false, date, "2024-02-29T13:30:00.000+01:00", { a: [1, { b: null }] }, ""],
    ];
    expect(await sql.call("expect", { sql: "SELECT * FROM kinds", rows })).toEqual(passed({ rowCount: 2 }));
    const wrong = [
      { k0: "9007199254740992" },
      { k3: 2 },
      { k5: "2024-02-29T12:30:01Z" },
      { k6: { a: [1] } },
      { k7: "AP8" },
    ];
    for (const row of wrong) {
      expect(await sql.call("expect", { sql: "SELECT * FROM kinds", contains: [row] })).toEqual(
        failed(/^1 of 1 row missing/),
      );
    }
  });

  it("executes a script of ten thousand statements", async () => {
    await using sql = await withPeople();
    const statements = Array.from(
      { length: 10_000 },
      (_none, index) => `INSERT INTO people VALUES (${index + 10}, 'p', 1);`,
    );
    expect(await sql.outputs("execute", { sql: statements.join("\n") })).toEqual({ rowsAffected: 10_000 });
  });
});
