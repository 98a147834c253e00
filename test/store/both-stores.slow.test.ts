import { existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { folderOf, startCli } from "../support/cli.ts";
import { type PostgresServer, startPostgres } from "../support/postgres.ts";

const task = (name: string, steps: string): string => `
apiVersion: mcp-eval/v1
kind: Task
metadata: { name: ${name} }
spec:
${steps}
`;
const passing = "  verify: [{ command: { run: test -d . } }]";
const failing = "  verify: [{ command: { run: test -f absent } }]";
const broken = `  setup: [{ command: { run: test -f absent } }]\n${passing}`;

let postgres: PostgresServer;
let url = "";
let id = "";
const here = folderOf({
  "tasks/a.yaml": task("a", passing),
  "tasks/b.yaml": task("b", failing),
  "tasks/c.yaml": task("c", broken),
});

beforeAll(async () => {
  postgres = await startPostgres();
  url = await postgres.createDatabase("runs");
  const worker = startCli(["worker", url, "--idle", "2s"], { cwd: here.path });
  await startCli(["run", "tasks", "-n", "2", "--backend", url], { cwd: here.path }).finished;
  [id = ""] = readdirSync(join(here.path, ".mcpvals/runs"));
  await worker.finished;
});
afterAll(async () => {
  await postgres[Symbol.asyncDispose]();
  here[Symbol.dispose]();
});

/** The same run, where each store has it. */
const inFolder = (run: string): string => join(here.path, ".mcpvals/runs", run);
const inDatabase = (run: string): string => `${url}#${run}`;

/** What a command says and leaves behind in a folder without runs; names, places and times apart. */
async function outcome(args: readonly string[]): Promise<unknown> {
  using elsewhere = folderOf({
    "a.yaml": task("a", passing),
    "tasks/a.yaml": task("a", passing),
    "tasks/b.yaml": task("b", failing),
    "tasks/c.yaml": task("c", broken),
  });
  const { code, stdout, stderr } = await startCli(args, { cwd: elsewhere.path }).finished;
  const text = (stdout + stderr)
    .replaceAll(elsewhere.path, "HERE")
    .replaceAll(here.path, "HERE")
    .replaceAll(/\d{8}-\d{6}-[0-9a-f]{7}/g, "RUN")
    .replaceAll(/[\d.]+ m?s\b/g, "TIME");
  return { code, text };
}

it.each<readonly [command: string, args: readonly string[], code: number, says: string]>([
  ["show", ["show", "RUN"], 1, "2 passed · 2 failed · 2 errors"],
  ["show --reporter", ["show", "RUN", "-r", "json"], 1, '"verdict":"error"'],
  ["show --trial", ["show", "RUN", "--trial", "t3"], 0, "it exited with 1, expected 0"],
  ["grade", ["grade", "RUN"], 1, "6 trials graded again"],
  ["grade with another file", ["grade", "RUN", "--config", "a.yaml"], 2, 'the task "b"'],
  ["export", ["export", "RUN", "--format", "atif"], 0, "6 other trials had no agent"],
  ["retry", ["retry", "RUN", "--errors"], 2, "was started in another folder"],
  ["compare", ["compare", "RUN", "RUN"], 2, "have the same trials"],
])("%s says the same of a run in a folder and of one in PostgreSQL", async (_, args, code, says) => {
  const [folder, database] = [inFolder, inDatabase].map((name) =>
    outcome(args.map((arg) => (arg === "RUN" ? name(id) : arg))),
  );
  expect(await folder).toEqual({ code, text: expect.stringContaining(says) });
  expect(await database).toEqual(await folder);
});

it("the dashboard of a database has its runs", async () => {
  using elsewhere = folderOf({});
  const dashboard = startCli(["dashboard", url, "--no-open", "--port", "0"], { cwd: elsewhere.path });
  await dashboard.until(/Dashboard: http/);
  expect(existsSync(join(elsewhere.path, ".mcpvals/runs", id, "result.json"))).toBe(true);
  dashboard.child.kill("SIGINT");
  expect((await dashboard.finished).code).toBe(130);
});

it("the dashboard of a database takes a run that was stopped once", async () => {
  const stopped = await postgres.createDatabase("stopped");
  const stopRun = async (): Promise<void> => {
    const { code } = await startCli(["run", "tasks", "--backend", stopped, "--budget-time", "1ms"], {
      cwd: here.path,
    }).finished;
    expect(code).toBe(3);
  };
  await stopRun();
  using elsewhere = folderOf({});
  const runs = join(elsewhere.path, ".mcpvals/runs");
  const results = (): readonly string[] =>
    readdirSync(runs).filter((run) => existsSync(join(runs, run, "result.json")));
  const dashboard = startCli(["dashboard", stopped, "--no-open", "--port", "0"], { cwd: elsewhere.path });
  await dashboard.until(/Dashboard: http/);
  const first = results();
  expect(first).toHaveLength(1);
  rmSync(join(runs, first[0] ?? "", "result.json"));
  await stopRun();
  // Runs are taken in their order.
  await expect.poll(results).toHaveLength(1);
  expect(results()).not.toEqual(first);
  dashboard.child.kill("SIGINT");
  expect((await dashboard.finished).code).toBe(130);
});
