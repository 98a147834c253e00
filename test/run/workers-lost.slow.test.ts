import { existsSync, readdirSync } from "node:fs";
import { createServer, connect, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { expect, it } from "vitest";
import type { RunResult } from "../../src/model/result.ts";
import { folderOf, startCli } from "../support/cli.ts";
import {
  expectOnce,
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
        await postgres.server.kill();
        await delay(Math.random() * 500);
        await postgres.server.restart();
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
  using proxy = await stallingProxy(postgres.server.port);
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
  const proxy = await stallingProxy(postgres.server.port);
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
