import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { folderOf, runCli } from "../support/cli.ts";

const config = {
  servers: { broken: { transport: "stdio", command: "node", args: ["nothere.js"], required: true } },
  agent: { type: "scripted", plan: { talks: [{ say: "hello" }] } },
  workflows: [{ name: "talks", steps: [{ user: "Who is there?", expectedState: "hello" }] }],
};

test("a required server that does not start ends the run before it begins, and reports stay as they were", async () => {
  using folder = folderOf({ "mcp-eval.config.json": config });
  const old = join(folder.path, "old.xml");
  writeFileSync(old, "<older/>");
  const run = await runCli(["run", "-r", "json=new.json", "-r", "junit=old.xml"], { cwd: folder.path });
  expect(run.code).toBe(2);
  expect(run.stderr).toMatch(/server "broken".*\(server\/required\)/);
  expect(run.stderr).toContain("Cannot find module");
  expect(existsSync(join(folder.path, "new.json"))).toBe(false);
  expect(readFileSync(old, "utf8")).toBe("<older/>");
  expect(existsSync(join(folder.path, ".mcpvals"))).toBe(false);
});

test("a report that is written replaces the older one whole", async () => {
  const mock = { tools: { ping: { responses: [{ return: "pong" }] } } };
  using folder = folderOf({
    "mcp-eval.config.json": { ...config, servers: { s: { transport: "mock", mock } } },
  });
  writeFileSync(join(folder.path, "out.json"), "x".repeat(100_000));
  await runCli(["run", "-r", "json=out.json"], { cwd: folder.path });
  expect(JSON.parse(readFileSync(join(folder.path, "out.json"), "utf8"))).toMatchObject({
    schema: "mcpvals.result/1",
  });
});

test("a sandbox that a server is to have and that cannot be had ends the run before anything is started", async () => {
  const sandbox = { kind: "docker", image: "none", runtime: ["no-such-engine"] };
  const script = "require('node:fs').writeFileSync('started', '')";
  const server = { transport: "stdio", command: "node", args: ["-e", script], sandbox };
  using folder = folderOf({ "mcp-eval.config.json": { ...config, servers: { s: server } } });
  const run = await runCli(["run"], { cwd: folder.path });
  expect(run.code).toBe(2);
  expect(run.stderr).toMatch(/no-such-engine.*\(sandbox\/unavailable\)/s);
  expect(existsSync(join(folder.path, "started"))).toBe(false);
  expect(existsSync(join(folder.path, ".mcpvals"))).toBe(false);
});

test("a cleanup step says that its server did not start", async () => {
  const { required: _, ...broken } = config.servers.broken;
  const task = {
    apiVersion: "mcp-eval/v1",
    kind: "Task",
    metadata: { name: "t" },
    spec: {
      servers: { broken },
      verify: [{ mcp: { server: "broken", tool: "look" } }],
      cleanup: [{ mcp: { server: "broken", tool: "drop" } }],
    },
  };
  using folder = folderOf({ "t.json": task });
  const { code } = await runCli(["run", "t.json", "-o", "runs"], { cwd: folder.path });
  expect(code).toBe(3);
  const [run = ""] = readdirSync(join(folder.path, "runs"));
  const journal = readFileSync(join(folder.path, "runs", run, "journal.jsonl"), "utf8");
  expect(journal).toContain('the tool \\"drop\\" needs server \\"broken\\", which did not start');
});
