import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, connect, type Socket } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Client } from "pg";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { RunResult } from "../../src/model/result.ts";
import { readTrials } from "../../src/store/journal.ts";
import { type CliOutcome, folderOf, type RunningCli, startCli } from "../support/cli.ts";
import { startFakeProvider } from "../support/fake-provider.ts";
import { type PostgresServer, startPostgres } from "../support/postgres.ts";
import { startHttpFixture } from "../fixtures/servers/http-server.ts";

let postgres: PostgresServer;
let databases = 0;

beforeAll(async () => {
  // What is committed must survive that it is killed.
  postgres = await startPostgres({ fsync: "on" });
});
afterAll(() => postgres[Symbol.asyncDispose]());

const newDatabase = (): Promise<string> => postgres.createDatabase(`runs${++databases}`);

/** A task that takes `seconds`, and passes unless it has to fail. */
const task = (name: string, seconds: number, check = "true"): string => `
apiVersion: mcp-eval/v1
kind: Task
metadata: { name: ${name} }
spec:
  verify:
    - command: { run: "sleep ${seconds}; test ${check} = true" }
`;

const tasks = (seconds = 0.05): Readonly<Record<string, string>> => ({
  "tasks/a.yaml": task("a", seconds),
  "tasks/b.yaml": task("b", seconds, "false"),
  "tasks/c.yaml": task("c", seconds),
});

/** A worker in a folder of its own, ended with its test. */
class TestWorker implements AsyncDisposable {
  readonly #folder = folderOf({});
  readonly cli: RunningCli;

  constructor(url: string, args: readonly string[] = [], env: Readonly<Record<string, string>> = {}) {
    this.cli = startCli(["worker", url, ...args], { cwd: this.#folder.path, env });
  }

  /** Where it unpacks runs. */
  get folder(): string {
    return join(this.#folder.path, ".mcpvals/worker");
  }

  kill(): void {
    // With all programs that its trials have started, as when a machine ends.
    const { pid, exitCode, signalCode } = this.cli.child;
    if (pid !== undefined && exitCode === null && signalCode === null) process.kill(-pid, "SIGKILL");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.kill();
    await this.cli.finished;
    this.#folder[Symbol.dispose]();
  }
}

function latestRun(cwd: string): string {
  const runs = join(cwd, ".mcpvals/runs");
  return join(runs, readdirSync(runs).toSorted().at(-1) ?? "");
}

const resultIn = (cwd: string): RunResult =>
  JSON.parse(readFileSync(join(latestRun(cwd), "result.json"), "utf8")) as RunResult;

const rows = ({ trials }: RunResult): readonly unknown[] =>
  trials.map(({ id, task: name, attempt, verdict }) => ({ id, name, attempt, verdict }));

async function query<Row extends object>(url: string, text: string): Promise<readonly Row[]> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<Row>(text)).rows;
  } finally {
    await client.end();
  }
}

/** Every trial of the plan ended once: in the result, in the journal of this machine and in the database. */
async function expectOnce(cwd: string, url: string, count: number): Promise<void> {
  const folder = latestRun(cwd);
  const ids = Array.from({ length: count }, (_, index) => `t${index + 1}`);
  expect(resultIn(cwd).trials.map(({ id }) => id)).toEqual(ids);
  const recorded: string[] = [];
  for await (const { id } of readTrials(folder)) recorded.push(id);
  expect(recorded.toSorted()).toEqual(ids.toSorted());
  expect(await query(url, "SELECT state, count(*)::int AS count FROM mcpvals.trials GROUP BY state")).toEqual(
    [{ state: "ended", count }],
  );
}

/** A server that ends with its test. */
async function closing<T extends { close(): Promise<void> }>(
  starting: Promise<T>,
): Promise<T & AsyncDisposable> {
  const server = await starting;
  return Object.assign(server, { [Symbol.asyncDispose]: () => server.close() });
}

/** Workers that end with their test. */
const together = (...workers: readonly TestWorker[]): AsyncDisposable => ({
  async [Symbol.asyncDispose]() {
    await Promise.all(workers.map((worker) => worker[Symbol.asyncDispose]()));
  },
});

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
  expect(remote.stderr).not.toContain(encodeURIComponent(postgres.password));
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

it("every trial ends once, whatever is killed: workers, PostgreSQL, and who follows the run", async () => {
  const url = await newDatabase();
  using here = folderOf(tasks(0.1));
  const count = 600;
  let workers = Array.from({ length: 8 }, () => new TestWorker(url, ["-j", "2"]));
  let follower = startCli(["run", "tasks", "-n", `${count / 3}`, "--backend", url, "-q"], { cwd: here.path });
  await follower.until(/is with the workers/);
  const ended: Promise<unknown>[] = [];
  try {
    for (let kills = 0; kills < 100; kills++) {
      await delay(50 + Math.random() * 300);
      const at = Math.floor(Math.random() * workers.length);
      const dead = workers[at];
      if (dead !== undefined) ended.push(dead[Symbol.asyncDispose]());
      workers = workers.toSpliced(at, 1, new TestWorker(url, ["-j", "2"]));
      if (kills % 15 === 7) {
        await postgres.kill();
        await delay(Math.random() * 500);
        await postgres.restart();
      }
      if (kills % 40 === 20) {
        follower.child.kill("SIGKILL");
        await follower.finished;
        follower = startCli(["attach", url, "-q"], { cwd: here.path });
      }
    }
    const outcome = await follower.finished;
    expect([outcome.code, outcome.stderr]).toEqual([1, expect.anything()]);
  } finally {
    follower.child.kill("SIGKILL");
    await Promise.all([...ended, ...workers.map((worker) => worker[Symbol.asyncDispose]())]);
  }
  await expectOnce(here.path, url, count);
  // A trial that was running in three of the workers that were killed is an error, and says so.
  const ofTask = Map.groupBy(resultIn(here.path).trials, ({ task: name }) => name);
  for (const [name, expected] of [
    ["a", "pass"],
    ["b", "fail"],
    ["c", "pass"],
  ] as const)
    for (const { verdict, error } of ofTask.get(name) ?? [])
      expect([verdict, error?.code], error?.message).toEqual(
        error === undefined ? [expected, undefined] : ["error", "worker/lost"],
      );
});

it("a trial that ends three workers is an error, and not tried again; those that ran beside it pass", async () => {
  const url = await newDatabase();
  using here = folderOf({
    "tasks/a.yaml": task("a", 2),
    // It ends the worker: the parent of the shell.
    "tasks/b.yaml": task("b", 0).replace("sleep 0", "sleep 0.5; kill -9 $PPID; sleep 60"),
    "tasks/c.yaml": task("c", 2),
  });
  const follower = startCli(["run", "tasks", "--backend", url, "--reporter", "json"], { cwd: here.path });
  for (let dead = 0; dead < 3; dead++) {
    // All at once at first; afterwards each alone.
    await using worker = new TestWorker(url, ["-j", "3"]);
    await worker.cli.finished;
  }
  await follower.until(/no worker is there any more/);
  await using _ = new TestWorker(url);
  const { code, stdout } = await follower.finished;
  expect([code, rows(JSON.parse(stdout) as RunResult)]).toEqual([
    3,
    ["pass", "error", "pass"].map((verdict) => expect.objectContaining({ verdict })),
  ]);
  expect(resultIn(here.path).trials[1]?.error?.code).toBe("worker/lost");
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

it("a budget that is used up when all trials have begun leaves none out, and is no end of the run", async () => {
  const url = await newDatabase();
  using here = folderOf({
    "mcp-eval.config.yaml": `server: { transport: stdio, command: mcp-server-everything }
budget: { calls: 1 }
toolHealthSuites:
  - name: s
    tests:
      - { name: echo, args: { message: hello }, expectedResult: hello }
      - { name: trigger-long-running-operation, args: { duration: 4, steps: 1 } }`,
  });
  await using _ = new TestWorker(url, ["-j", "2"]);
  const { code, stdout, stderr } = await startCli(["run", "--backend", url], { cwd: here.path }).finished;
  expect([code, stderr]).toEqual([
    0,
    expect.stringContaining("note: all trials had begun before: the budget of 1 call is used up"),
  ]);
  expect(stdout).not.toMatch(/No further trial began|larger budget/);
});

it("a run that was stopped ends also when the worker of its last trial is gone, and can go on", async () => {
  const url = await newDatabase();
  using shared = folderOf({});
  // Only the first one to try it waits.
  using here = folderOf({
    "tasks/a.yaml": task("a", 0).replace("sleep 0", `mkdir ${shared.path}/mark && sleep 60`),
    "tasks/b.yaml": task("b", 0),
  });
  const first = new TestWorker(url, ["-j", "1"]);
  const follower = startCli(["run", "tasks", "--backend", url, "-q"], { cwd: here.path });
  await expect.poll(() => readdirSync(shared.path), { timeout: 60_000 }).toEqual(["mark"]);
  follower.child.kill("SIGINT");
  await follower.until(/no further trial begins/);
  await first[Symbol.asyncDispose]();
  expect((await follower.finished).code).toBe(130);
  await using _ = new TestWorker(url);
  const resumed = await startCli(["resume", `${url}#latest`], { cwd: here.path }).finished;
  expect([resumed.code, resultIn(here.path).summary]).toMatchObject([0, { pass: 2 }]);
  await expectOnce(here.path, url, 2);
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

/** Passes connections on until it is told to drop everything without closing. */
async function stallingProxy(
  port: number,
): Promise<{ readonly port: number; stall(isStalled: boolean): void } & Disposable> {
  const sockets = new Set<Socket>();
  let isStalled = false;
  const server = createServer((client) => {
    const upstream = connect(port, "127.0.0.1");
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(from);
      from.on("data", (bytes) => void (isStalled || to.write(bytes)));
      from.on("close", () => to.destroy());
      from.on("error", () => to.destroy());
    }
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const address = server.address();
  return {
    port: typeof address === "object" && address !== null ? address.port : 0,
    stall(now) {
      isStalled = now;
      // What was dropped cannot be made good: those connections are dead, as behind a router that forgot them.
      if (!now) for (const socket of sockets) socket.destroy();
    },
    [Symbol.dispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

it("a network that drops everything for a while delays the run, and nothing else", async () => {
  const url = await newDatabase();
  using proxy = await stallingProxy(postgres.port);
  const through = new URL(url);
  through.host = `127.0.0.1:${proxy.port}`;
  using here = folderOf(tasks(0.2));
  await using _ = together(new TestWorker(url, ["-j", "1"]), new TestWorker(through.href, ["-j", "2"]));
  const follower = startCli(["run", "tasks", "-n", "10", "--backend", through.href, "-q"], {
    cwd: here.path,
  });
  await expect
    .poll(() => query(url, "SELECT FROM mcpvals.trials WHERE state = 'ended'").catch(() => []), {
      timeout: 60_000,
    })
    .not.toEqual([]);
  proxy.stall(true);
  await delay(3000);
  proxy.stall(false);
  const { code, stderr } = await follower.finished;
  expect([code, stderr]).toEqual([1, expect.anything()]);
  await expectOnce(here.path, url, 30);
});

it("a worker that may be idle for a while ends when the database does not answer for so long", async () => {
  const url = await newDatabase();
  const proxy = await stallingProxy(postgres.port);
  const through = new URL(url);
  through.host = `127.0.0.1:${proxy.port}`;
  using here = folderOf({ "tasks/a.yaml": task("a", 60) });
  const follower = startCli(["run", "tasks", "-n", "2", "-j", "1", "--backend", url], { cwd: here.path });
  await using first = new TestWorker(url, ["-j", "1"]);
  await expect
    .poll(() => query(url, "SELECT FROM mcpvals.trials WHERE state = 'running'").catch(() => []), {
      timeout: 60_000,
    })
    .toHaveLength(1);
  // It has joined the run, and waits for the other to give its trial up.
  await using second = new TestWorker(through.href, ["-j", "1", "--idle", "1s"]);
  await expect
    .poll(() => existsSync(second.folder) && readdirSync(second.folder).filter((name) => name !== "alive"), {
      timeout: 60_000,
    })
    .toHaveLength(1);
  proxy[Symbol.dispose]();
  const { code, stderr } = await second.cli.finished;
  expect([code, stderr]).toEqual([3, expect.stringContaining("store/unreachable")]);
  expect(readdirSync(second.folder)).toEqual(["alive"]);
  expect(first.cli.child.exitCode).toBeNull();
  // Interrupted twice, the run is cancelled, and there is a report.
  follower.child.kill("SIGINT");
  await follower.until(/no further trial begins/);
  await delay(150);
  follower.child.kill("SIGINT");
  const cancelled = await follower.finished;
  expect([cancelled.code, cancelled.stdout]).toEqual([
    130,
    expect.stringContaining("The run was interrupted"),
  ]);
  await expect
    .poll(() => query(url, "SELECT state, interrupted FROM mcpvals.trials ORDER BY state"), {
      timeout: 60_000,
    })
    .toEqual([
      { state: "cancelled", interrupted: false },
      { state: "ended", interrupted: true },
    ]);
});

it("says what is wrong with a database", async () => {
  const url = await newDatabase();
  using here = folderOf(tasks());
  const say = async (address: string): Promise<readonly unknown[]> => {
    const { code, stderr } = await startCli(["run", "tasks", "--backend", address], { cwd: here.path })
      .finished;
    expect(stderr).not.toContain(encodeURIComponent(postgres.password));
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
