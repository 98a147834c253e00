import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { Client } from "pg";
import { afterAll, expect, it, vi } from "vitest";
import { livesElsewhere } from "../../src/process/process-tree.ts";
import { startPostgres } from "./postgres.ts";

const server = await startPostgres({ max_connections: "12" });
afterAll(() => server[Symbol.asyncDispose]());

async function ask(url: string, sql: string): Promise<readonly unknown[]> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(sql)).rows;
  } finally {
    await client.end();
  }
}

it("lets its owner in, with the password only, and has the settings", async () => {
  expect(await ask(server.url, "SHOW max_connections")).toEqual([{ max_connections: "12" }]);
  const wrong = new URL(server.url);
  wrong.password = "wrong";
  await expect(ask(wrong.href, "SELECT 1")).rejects.toThrow(/password authentication failed/);
});

it("keeps what was committed when it is killed and when it is stopped, at the same address", async () => {
  const url = await server.createDatabase("kept");
  await ask(url, "CREATE TABLE t AS SELECT 1 AS a");
  // What another connection is in the middle of.
  const open = new Client({ connectionString: url });
  open.on("error", () => undefined);
  await open.connect();
  await open.query("BEGIN; INSERT INTO t VALUES (2)");
  await server.kill();
  await expect(ask(url, "SELECT a FROM t")).rejects.toThrow(/ECONNREFUSED/);
  await server.restart();
  expect(server.log()).toContain("database system was not properly shut down");
  expect(await ask(url, "SELECT a FROM t")).toEqual([{ a: 1 }]);
  await server.stop();
  await expect(ask(url, "SELECT a FROM t")).rejects.toThrow(/ECONNREFUSED/);
  await server.restart();
  expect(await ask(url, "SELECT a FROM t")).toEqual([{ a: 1 }]);
});

it.for(["running", "killed"])(
  "leaves nothing when the process that started it is killed (%s)",
  async (how) => {
    const support = pathToFileURL(join(import.meta.dirname, "postgres.ts")).href;
    const kill = how === "killed" ? "await server.kill();" : "";
    const script = `import { startPostgres } from ${JSON.stringify(support)};
    const server = await startPostgres(); ${kill} console.log(server.folder); setInterval(() => {}, 1000);`;
    const child = spawn(process.execPath, ["--input-type=module", "--eval", script], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const folder = await new Promise<string>((done) =>
      child.stdout.setEncoding("utf8").once("data", (text: string) => done(text.trim())),
    );
    const pid = Number(readFileSync(join(folder, "data/postmaster.pid"), "utf8").split("\n")[0]);
    child.kill("SIGKILL");
    await vi.waitFor(() => expect(existsSync(folder)).toBe(false), { timeout: 60_000, interval: 10 });
    await vi.waitFor(() => expect(livesElsewhere({ pid })).toBe(false), { timeout: 60_000, interval: 10 });
  },
);
