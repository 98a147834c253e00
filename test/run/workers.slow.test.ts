import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { expect, it } from "vitest";
import type { RunResult } from "../../src/model/result.ts";
import { type CliOutcome, folderOf, type RunningCli, startCli } from "../support/cli.ts";
import { startFakeProvider } from "../support/fake-provider.ts";
import { startHttpFixture } from "../fixtures/servers/http-server.ts";
import {
  closing,
  expectOnce,
  latestRun,
  query,
  resultIn,
  rows,
  task,
  tasks,
  TestPostgres,
  TestWorker,
  together,
} from "./workers-support.ts";

const postgres = new TestPostgres();
const newDatabase = (): Promise<string> => postgres.newDatabase();

it("workers run what this machine would: the same rows, the same exit code, and the record can be read from anywhere", async () => {
  const url = await newDatabase();
  using here = folderOf(tasks());
  using local = folderOf(tasks());
  const alone = await startCli(["run", "tasks", "-n", "4"], { cwd: local.path }).finished;
  await using _ = together(new TestWorker(url, ["-j", "2"]), new TestWorker(url, ["-j", "2"]));
  const remote = await startCli(["run", "tasks", "-n", "4", "--backend", url], { cwd: here.path }).finished;
  expect([remote.code, remote.stderr]).toEqual([alone.code, expect.stringContaining("npx mcpvals attach")]);
  // As it can be used where no variable names the database.
  expect(remote.stderr).toContain(`npx mcpvals attach 'postgres://`);
  expect(remote.stderr).toContain(`:PASSWORD@${new URL(url).host}${new URL(url).pathname}#`);
  expect(remote.stderr).not.toContain(encodeURIComponent(postgres.server.password));
  expect(rows(resultIn(here.path))).toEqual(rows(resultIn(local.path)));
  expect(resultIn(here.path).summary).toEqual(resultIn(local.path).summary);
  await expectOnce(here.path, url, 12);
  using elsewhere = folderOf({});
  for (const command of ["show", "attach"]) {
    const shown = await startCli([command, `${url}#latest`, "--reporter", "json"], { cwd: elsewhere.path })
      .finished;
    expect([shown.code, rows(JSON.parse(shown.stdout) as RunResult)]).toEqual([1, rows(resultIn(here.path))]);
  }
  const compared = await startCli(["compare", `${url}#latest`, latestRun(local.path)], {
    cwd: elsewhere.path,
  }).finished;
  expect([compared.code, compared.stdout + compared.stderr]).toEqual([
    0,
    expect.stringMatching(/[Uu]ndecided|difference/),
  ]);
});

it("Ctrl-C lets no further trial begin, and resume goes on with the others", async () => {
  const url = await newDatabase();
  using here = folderOf({ "tasks/a.yaml": task("a", 0.5) });
  await using _ = new TestWorker(url, ["-j", "1"]);
  const follower = startCli(["run", "tasks", "-n", "8", "--backend", url, "--reporter", "json"], {
    cwd: here.path,
  });
  await expect
    .poll(() => query(url, "SELECT FROM mcpvals.trials WHERE state = 'ended'").catch(() => []), {
      timeout: 60_000,
    })
    .not.toEqual([]);
  follower.child.kill("SIGINT");
  const stopped = await follower.finished;
  expect([stopped.code, stopped.stderr]).toEqual([130, expect.stringContaining("no further trial begins")]);
  const { summary } = JSON.parse(stopped.stdout) as RunResult;
  expect([summary.skip > 0, summary.pass + summary.skip]).toEqual([true, 8]);
  const locally = await startCli(["resume", "latest"], { cwd: here.path }).finished;
  expect([locally.code, locally.stderr]).toEqual([2, expect.stringContaining("is in the database")]);
  const old = await startCli(["show", "latest"], { cwd: here.path }).finished;
  expect(old.stderr).toMatch(
    /what has ended since: npx mcpvals show 'postgres:\/\/USER:PASSWORD@[^']+#[^']+'/,
  );
  // Who has shown it before sees what came of it since.
  using elsewhere = folderOf({});
  const shown = async (): Promise<readonly unknown[]> => {
    const { code } = await startCli(["show", `${url}#latest`], { cwd: elsewhere.path }).finished;
    return [code, resultIn(elsewhere.path).summary];
  };
  expect(await shown()).toEqual([130, summary]);
  const resumed = await startCli(["resume", `${url}#latest`], { cwd: here.path }).finished;
  expect([resumed.code, resultIn(here.path).summary.pass]).toEqual([0, 8]);
  expect(await shown()).toEqual([0, resultIn(here.path).summary]);
  await expectOnce(here.path, url, 8);
});

/** A server whose tool `short` answers once `long` was called, and `long` once a file `released` is beside it. */
const twoToolServer = `import { existsSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout } from "node:timers/promises";
const beside = (name) => new URL(name, import.meta.url);
const answers = {
  initialize: ({ protocolVersion }) => ({ protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "two-tools", version: "1.0.0" } }),
  "tools/list": () => ({ tools: ["short", "long"].map((name) => ({ name, inputSchema: { type: "object" } })) }),
  "tools/call": async ({ name }) => {
    writeFileSync(beside(name), "");
    while (!existsSync(beside(name === "short" ? "long" : "released"))) await setTimeout(10);
    return { content: [{ type: "text", text: "done" }] };
  },
};
createInterface({ input: process.stdin }).on("line", async (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id !== undefined) console.log(JSON.stringify({ jsonrpc: "2.0", id, result: await answers[method]?.(params) ?? {} }));
});`;

it("a budget that is used up when all trials have begun leaves none out, and is no end of the run", async () => {
  const url = await newDatabase();
  using servers = folderOf({ "server.mjs": twoToolServer });
  using here = folderOf({
    "mcp-eval.config.yaml": `server: { transport: stdio, command: node, args: [${JSON.stringify(join(servers.path, "server.mjs"))}] }
budget: { calls: 1 }
toolHealthSuites:
  - name: s
    parallel: true
    tests: [{ name: short, expectedResult: done }, { name: long, expectedResult: done }]`,
  });
  await using _ = new TestWorker(url, ["-j", "2"]);
  const follower = startCli(["run", "--backend", url], { cwd: here.path });
  await expect
    .poll(() => query(url, "SELECT FROM mcpvals.runs WHERE state = 'draining'").catch(() => []), {
      timeout: 60_000,
    })
    .not.toEqual([]);
  writeFileSync(join(servers.path, "released"), "");
  const { code, stdout, stderr } = await follower.finished;
  expect([code, stderr]).toEqual([
    0,
    expect.stringContaining("note: all trials had begun before: the budget of 1 call is used up"),
  ]);
  expect(stdout).not.toMatch(/No further trial began|larger budget/);
});

it("a worker that cannot run a run says why, here and there, and takes nothing", async () => {
  const url = await newDatabase();
  using here = folderOf({
    "mcp-eval.config.yaml": `server: { transport: stdio, command: mcp-server-everything, env: { KEY: "\${SOME_KEY}" } }
toolHealthSuites: [{ name: s, tests: [{ name: echo, args: { message: hello }, expectedResult: hello }] }]`,
  });
  await using worker = new TestWorker(url);
  const follower = startCli(["run", "--backend", url], {
    cwd: here.path,
    env: { SOME_KEY: "value-of-the-key" },
  });
  await worker.cli.until(/takes no trial of the run/);
  await follower.until(/no worker takes these trials/);
  const said = worker.cli.output().stderr + follower.output().stderr;
  expect(said).toContain("SOME_KEY");
  expect(said).not.toContain(String.raw`\n`);
  expect(
    worker.cli.output().stderr +
      JSON.stringify(await query(url, "SELECT head, plan, bundle FROM mcpvals.runs")),
  ).not.toContain("value-of-the-key");
  await using _ = new TestWorker(url, [], { SOME_KEY: "another" });
  expect((await follower.finished).code).toBe(0);
});

it("labels, versions and systems that do not fit are refused", async () => {
  const url = await newDatabase();
  using here = folderOf(tasks());
  await using plain = new TestWorker(url);
  const labelled = startCli(["run", "tasks", "--backend", url, "--labels", "gpu"], { cwd: here.path });
  await plain.cli.until(/asks for gpu/);
  await using _ = new TestWorker(url, ["--labels", "k8s,gpu"]);
  expect((await labelled.finished).code).toBe(1);
  const follower = startCli(["run", "tasks", "--backend", url, "--labels", "none"], { cwd: here.path });
  await follower.until(/is with the workers/);
  await query(url, "UPDATE mcpvals.runs SET labels = '{}', version = '9.9.9' WHERE state = 'running'");
  await using late = new TestWorker(url);
  await late.cli.until(/it is of mcpvals 9.9.9/);
  await query(
    url,
    "UPDATE mcpvals.runs SET version = (SELECT version FROM mcpvals.workers LIMIT 1), platform = 'plan9-vax' WHERE state = 'running'",
  );
  await using later = new TestWorker(url);
  await later.cli.until(/it is for plan9-vax/);
  follower.child.kill("SIGKILL");
  await follower.finished;
});

it("what trials share is shared by all workers: a lane, a server's limit, and the concurrency of the eval", async () => {
  const url = await newDatabase();
  // Each test that runs at the same time as another would find the other's mark.
  using shared = folderOf({});
  const alone = `mkdir ${shared.path}/mark && sleep 0.2 && rmdir ${shared.path}/mark`;
  using here = folderOf({ "tasks/a.yaml": task("a", 0).replace("sleep 0;", () => `${alone} &&`) });
  await using _ = together(new TestWorker(url, ["-j", "4"]), new TestWorker(url, ["-j", "4"]));
  const outcome = await startCli(["run", "tasks", "-n", "10", "-j", "1", "--backend", url], {
    cwd: here.path,
  }).finished;
  expect([outcome.code, outcome.stdout]).toEqual([0, expect.stringContaining("10 passed")]);
});

it("the rate limit of a server with an address holds over all workers", async () => {
  const url = await newDatabase();
  const times: number[] = [];
  await using server = await closing(
    startHttpFixture(({ message: { id } }) => {
      if (id !== undefined) times.push(performance.now());
      return false;
    }),
  );
  const tests = Array.from({ length: 8 }, (_, index) => ({
    name: "echo",
    description: `test ${index}`,
    args: { message: "hi" },
    expectedResult: "hi",
  }));
  using here = folderOf({
    "mcp-eval.config.json": {
      server: { transport: "shttp", url: server.url, rateLimit: { requests: 8, per: "1s" } },
      toolHealthSuites: [{ name: "suite", tests }],
    },
  });
  await using _ = together(new TestWorker(url, ["-j", "4"]), new TestWorker(url, ["-j", "4"]));
  const { code, stdout } = await startCli(["run", "--backend", url], { cwd: here.path }).finished;
  expect([code, stdout]).toEqual([0, expect.stringContaining("8 passed")]);
  expect(await query(url, "SELECT DISTINCT worker FROM mcpvals.trials")).toHaveLength(2);
  expect(times.length).toBeGreaterThan(16);
  const spans = times.slice(8).map((time, index) => time - (times[index] ?? 0));
  // What a request takes to get there differs.
  expect(Math.min(...spans)).toBeGreaterThan(700);
});

it("a model that refuses a request as one too many is left alone by all workers for the time that it asks for", async () => {
  const url = await newDatabase();
  const arrived = Promise.withResolvers<void>();
  const asked: number[] = [];
  const pauses = (): Promise<readonly object[]> =>
    query(url, "SELECT FROM mcpvals.limits WHERE name LIKE 'pause%'");
  let refusedAt = 0;
  // One request of each worker: the first is refused, the second answered once that is known.
  await using provider = await startFakeProvider(async (_, index) => {
    asked.push(performance.now());
    if (index === 1) arrived.resolve();
    if (index === 0) {
      await arrived.promise;
      refusedAt = performance.now();
      return { status: 429, headers: { "retry-after-ms": "2500" }, message: "slow down" };
    }
    if (index === 1) await expect.poll(pauses).toHaveLength(1);
    return { text: "done" };
  });
  using here = folderOf({
    "tasks/a.yaml": task("a", 0).replace("spec:", "spec:\n  prompt: do it"),
  });
  const env = provider.env;
  await using _ = together(new TestWorker(url, ["-j", "1"], env), new TestWorker(url, ["-j", "1"], env));
  const args = ["run", "tasks", "-n", "4", "--agent", "anthropic/claude-sonnet-4-5", "--backend", url];
  const { code, stdout } = await startCli(args, { cwd: here.path, env }).finished;
  expect([code, stdout]).toEqual([0, expect.stringContaining("4 passed")]);
  expect(asked).toHaveLength(5);
  for (const at of asked.slice(2)) expect(at - refusedAt).toBeGreaterThan(2400);
});

it("a worker that is told to end finishes what it runs; told twice it gives it back", async () => {
  const url = await newDatabase();
  using here = folderOf({ "tasks/a.yaml": task("a", 3) });
  const follower = startCli(["run", "tasks", "-n", "2", "-j", "2", "--backend", url], { cwd: here.path });
  await using first = new TestWorker(url, ["-j", "1"]);
  const running = (): Promise<readonly object[]> =>
    query(url, "SELECT id FROM mcpvals.trials WHERE state = 'running'").catch(() => []);
  await expect.poll(running, { timeout: 60_000 }).toHaveLength(1);
  first.cli.child.kill("SIGTERM");
  await first.cli.until(/takes no further trial/);
  expect(await first.cli.finished).toMatchObject({
    code: 0,
    stderr: expect.stringContaining("ran 1 trial of the run") as string,
  });
  await using second = new TestWorker(url, ["-j", "1"]);
  await expect.poll(running, { timeout: 60_000 }).toHaveLength(1);
  second.cli.child.kill("SIGTERM");
  await second.cli.until(/takes no further trial/);
  await delay(150);
  second.cli.child.kill("SIGTERM");
  expect((await second.cli.finished).stderr).not.toContain("ran 1 trial");
  expect(
    await query(url, "SELECT state, fence - released AS taken FROM mcpvals.trials ORDER BY state"),
  ).toEqual([
    { state: "ended", taken: 1 },
    { state: "waiting", taken: 0 },
  ]);
  await using _ = new TestWorker(url);
  const { code }: CliOutcome = await follower.finished;
  expect(code).toBe(0);
});

it("says what is wrong with a database", async () => {
  const url = await newDatabase();
  using here = folderOf(tasks());
  const say = async (address: string): Promise<readonly unknown[]> => {
    const { code, stderr } = await startCli(["run", "tasks", "--backend", address], { cwd: here.path })
      .finished;
    expect(stderr).not.toContain(encodeURIComponent(postgres.server.password));
    return [code, stderr];
  };
  const changed = (change: (parts: URL) => void): string => {
    const parts = new URL(url);
    change(parts);
    return parts.href;
  };
  expect(await say("http://example.invalid/x")).toEqual([
    2,
    expect.stringContaining("no address of a PostgreSQL database"),
  ]);
  expect(await say(changed((parts) => (parts.port = "1")))).toEqual([
    3,
    expect.stringContaining("store/unreachable"),
  ]);
  expect(await say(changed((parts) => (parts.password = "wrong")))).toEqual([
    2,
    expect.stringContaining("store/no-access"),
  ]);
  expect(await say(changed((parts) => (parts.pathname = "/absent")))).toEqual([
    2,
    expect.stringContaining("store/no-access"),
  ]);
  const { code, stderr } = await startCli(["worker", `${url}?sslmode=require`, "--idle", "1s"], {
    cwd: here.path,
  }).finished;
  expect([code, stderr]).toEqual([3, expect.stringContaining("does not support SSL")]);
  expect(stderr).not.toMatch(/warning/i);
  // Somebody without rights, before and after there are tables.
  await query(url, "CREATE ROLE nobody LOGIN PASSWORD 'secret'; REVOKE CREATE ON SCHEMA public FROM PUBLIC");
  const nobody = changed((parts) => ([parts.username, parts.password] = ["nobody", "secret"]));
  expect(await say(nobody)).toEqual([2, expect.stringContaining("there are no tables of mcpvals")]);
  await using worker = new TestWorker(url);
  await worker.cli.until(/takes trials from/);
  expect(await say(nobody)).toEqual([2, expect.stringContaining("store/no-access")]);
  // A worker needs no more than its role, with which it can drop nothing and change no plan.
  await query(url, "GRANT mcpvals_worker TO nobody");
  await worker[Symbol.asyncDispose]();
  await using _ = new TestWorker(nobody);
  expect((await startCli(["run", "tasks", "--backend", url], { cwd: here.path }).finished).code).toBe(1);
  for (const text of [
    "DROP TABLE mcpvals.runs",
    "UPDATE mcpvals.runs SET plan = ''",
    "DELETE FROM mcpvals.trials",
  ])
    await expect(query(nobody, text)).rejects.toThrow(/must be owner|permission denied/);
  await query(
    nobody,
    "INSERT INTO mcpvals.limits SELECT id, 'x', '{0}' FROM mcpvals.runs ON CONFLICT (run, name) DO UPDATE SET free = '{1}'",
  );
  // The tables of the first version, which only their owner changes.
  await query(url, "DROP TABLE mcpvals.limits; UPDATE mcpvals.schema_version SET version = 1");
  expect(await say(nobody)).toEqual([2, expect.stringContaining("older version of mcpvals")]);
  expect(await say(url)).toEqual([1, expect.anything()]);
  await query(url, "UPDATE mcpvals.schema_version SET version = 99");
  expect(await say(url)).toEqual([2, expect.stringContaining("newer version of mcpvals")]);
});

it("a file that was cut in the database is refused before a trial is taken", async () => {
  const url = await newDatabase();
  using here = folderOf(tasks());
  const follower = startCli(["run", "tasks", "--backend", url], { cwd: here.path });
  await follower.until(/is with the workers/);
  await query(url, "UPDATE mcpvals.files SET content = substring(content for 10)");
  await using worker = new TestWorker(url);
  await worker.cli.until(/takes no trial of the run/);
  await follower.until(/no worker takes these trials/);
  expect(worker.cli.output().stderr).toContain("hint: Start the run again");
  expect(await query(url, "SELECT FROM mcpvals.trials WHERE fence > 0")).toEqual([]);
  await query(url, "DELETE FROM mcpvals.runs");
  const { code, stderr } = await follower.finished;
  expect([code, stderr]).toEqual([3, expect.stringContaining("store/deleted")]);
  expect((await startCli(["run", "tasks", "--backend", url], { cwd: here.path }).finished).code).toBe(1);
});

it("who may only read shows and follows a run that goes on, and one that has ended", async () => {
  const url = await newDatabase();
  // The first goes on until it may end.
  using mark = folderOf({});
  using here = folderOf({
    "tasks/a.yaml": task("a", 0).replace("sleep 0", `until [ -e ${mark.path}/end ]; do sleep 0.1; done`),
    "tasks/b.yaml": task("b", 0),
  });
  await using _ = new TestWorker(url, ["-j", "2"]);
  const follower = startCli(["run", "tasks", "--backend", url], { cwd: here.path });
  const states = (): Promise<readonly object[]> =>
    query(url, "SELECT state FROM mcpvals.trials ORDER BY state").catch(() => []);
  await expect.poll(states, { timeout: 60_000 }).toEqual([{ state: "ended" }, { state: "running" }]);
  await query(url, "CREATE ROLE reader LOGIN PASSWORD 'secret' IN ROLE mcpvals_reader");
  const reading = new URL(url);
  [reading.username, reading.password] = ["reader", "secret"];
  using elsewhere = folderOf({});
  const start = (...args: readonly string[]): RunningCli =>
    startCli([...args, `${reading.href}#latest`], { cwd: elsewhere.path });
  const attached = start("attach");
  await attached.until(/✓ b/);
  using another = folderOf({});
  const shown = await startCli(["show", `${reading.href}#latest`], { cwd: another.path }).finished;
  expect([shown.code, shown.stderr]).toEqual([
    130,
    expect.stringContaining("the run still goes on: 1 of 2 trials have not ended"),
  ]);
  expect(shown.stdout).not.toContain("mcpvals resume");
  using third = folderOf({});
  const leaving = startCli(["attach", `${reading.href}#latest`], { cwd: third.path });
  await leaving.until(/✓ b/);
  leaving.child.kill("SIGINT");
  const left = await leaving.finished;
  expect(left.stderr).toContain("this user may only read it");
  expect(left.stderr).not.toContain("no further trial");
  writeFileSync(join(mark.path, "end"), "");
  expect([(await attached.finished).code, (await follower.finished).code]).toEqual([0, 0]);
  const again = await start("attach", "--reporter", "json").finished;
  const { durationMs } = JSON.parse(again.stdout) as RunResult;
  expect([again.code, durationMs]).toEqual([0, resultIn(here.path).durationMs]);
  expect(durationMs).toBeGreaterThan(0);
});
