import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Client } from "pg";
import { afterAll, beforeAll, expect } from "vitest";
import type { RunResult } from "../../src/model/result.ts";
import { readTrials } from "../../src/store/journal.ts";
import { folderOf, type RunningCli, startCli } from "../support/cli.ts";
import { type PostgresServer, startPostgres } from "../support/postgres.ts";

/** A PostgreSQL of its own for the tests of a file. */
export class TestPostgres {
  #databases = 0;
  #server: PostgresServer | undefined;

  constructor() {
    beforeAll(async () => {
      // What is committed must survive that it is killed.
      this.#server = await startPostgres({ fsync: "on" });
    });
    afterAll(() => this.server[Symbol.asyncDispose]());
  }

  get server(): PostgresServer {
    if (this.#server === undefined) throw new Error("PostgreSQL has not started");
    return this.#server;
  }

  newDatabase(): Promise<string> {
    return this.server.createDatabase(`runs${++this.#databases}`);
  }
}

/** A task that takes `seconds`, and passes unless it has to fail. */
export const task = (name: string, seconds: number, check = "true"): string => `
apiVersion: mcp-eval/v1
kind: Task
metadata: { name: ${name} }
spec:
  verify:
    - command: { run: "sleep ${seconds}; test ${check} = true" }
`;

export const tasks = (seconds = 0.05): Readonly<Record<string, string>> => ({
  "tasks/a.yaml": task("a", seconds),
  "tasks/b.yaml": task("b", seconds, "false"),
  "tasks/c.yaml": task("c", seconds),
});

/** A worker in a folder of its own, ended with its test. */
export class TestWorker implements AsyncDisposable {
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

export function latestRun(cwd: string): string {
  const runs = join(cwd, ".mcpvals/runs");
  return join(runs, readdirSync(runs).toSorted().at(-1) ?? "");
}

export const resultIn = (cwd: string): RunResult =>
  JSON.parse(readFileSync(join(latestRun(cwd), "result.json"), "utf8")) as RunResult;

export const rows = ({ trials }: RunResult): readonly unknown[] =>
  trials.map(({ id, task: name, attempt, verdict }) => ({ id, name, attempt, verdict }));

export async function query<Row extends object>(url: string, text: string): Promise<readonly Row[]> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<Row>(text)).rows;
  } finally {
    await client.end();
  }
}

/** Every trial of the plan ended once: in the result, in the journal of this machine and in the database. */
export async function expectOnce(cwd: string, url: string, count: number): Promise<void> {
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
export async function closing<T extends { close(): Promise<void> }>(
  starting: Promise<T>,
): Promise<T & AsyncDisposable> {
  const server = await starting;
  return Object.assign(server, { [Symbol.asyncDispose]: () => server.close() });
}

/** Workers that end with their test. */
export const together = (...workers: readonly TestWorker[]): AsyncDisposable => ({
  async [Symbol.asyncDispose]() {
    await Promise.all(workers.map((worker) => worker[Symbol.asyncDispose]()));
  },
});
