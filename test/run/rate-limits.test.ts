import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { fixtureServer } from "../e2e/support.ts";
import type { RunResult } from "../../src/model/result.ts";
import { folderOf, runHere } from "../support/cli.ts";
import { startHttpFixture } from "../fixtures/servers/http-server.ts";
import { startFakeProvider } from "../support/fake-provider.ts";

test("a provider's rate limit takes no time of trials and steps, and is told", async () => {
  const refused = new Set<string>();
  // The agent and the judge are refused once. Either wait is longer than the trial may take.
  await using provider = await startFakeProvider(({ system }) => {
    if (!refused.has(system)) {
      refused.add(system);
      return { status: 429, headers: { "retry-after-ms": "2200" }, message: "slow down" };
    }
    const isAgent = system.startsWith("You are an assistant");
    return { text: isAgent ? "It is ready." : '{"passed": true, "reason": "it is"}' };
  });
  const spec = {
    servers: { fixture: fixtureServer() },
    limits: { timeout: "2s" },
    prompt: "do it",
    verify: [{ llm: { contains: "the work is done" } }],
  };
  const task = { kind: "Task", apiVersion: "mcp-eval/v1", metadata: { name: "a" }, spec };
  using folder = folderOf({ "a.json": task });
  const options = { cwd: folder.path, env: provider.env };
  const model = "anthropic/claude-sonnet-4-5";
  const ran = await runHere(["run", "a.json", "--agent", model, "--judge", model, "-j", "2"], options);
  expect([ran.code, ran.stdout]).toEqual([
    0,
    expect.stringMatching(/ · 1 trial waited \d.* for the rate limit of a model's provider/),
  ]);

  const runs = join(folder.path, ".mcpvals/runs");
  const [run = ""] = readdirSync(runs);
  const result = JSON.parse(readFileSync(join(runs, run, "result.json"), "utf8")) as RunResult;
  const [{ throttledMs = 0 } = {}] = result.trials;
  expect(throttledMs).toBeGreaterThan(4300);
  const changed = readFileSync(join(runs, run, "journal.jsonl"), "utf8")
    .split("\n")
    .filter((line) => line.includes('"type":"model.limit_changed"'));
  expect(changed[0]).toContain(`"model":"${model}","from":2,"to":1,"reason":"HTTP 429: slow down"`);
});

test("after a server with an address refused a request as too many, fewer requests are sent at once", async () => {
  let calls = 0;
  const server = await startHttpFixture(({ message, response }) => {
    if (message.method !== "tools/call" || ++calls > 1) return false;
    response.writeHead(429, { "retry-after-ms": "300" }).end("slow down");
    return true;
  });
  onTestFinished(() => server.close());
  const tests = ["a", "b", "c", "d", "e", "f"].map((message) => ({
    name: "echo",
    description: message,
    args: { message },
    expectedResult: message,
  }));
  const config = {
    server: { transport: "shttp", url: server.url },
    concurrency: 3,
    toolHealthSuites: [{ name: "suite", tests }],
  };
  using folder = folderOf({ "mcpvals.config.json": config });
  const ran = await runHere(["run", "mcpvals.config.json"], { cwd: folder.path });
  expect([ran.code, ran.stderr, ran.stdout]).toEqual([0, "", expect.stringContaining("6 passed")]);
  expect(ran.stdout).toContain('server "default" refused a request as too many (HTTP 429)');
  expect(calls).toBe(7);
  const runs = join(folder.path, ".mcpvals/runs");
  const [run = ""] = readdirSync(runs);
  const journal = readFileSync(join(runs, run, "journal.jsonl"), "utf8");
  expect(journal).toContain(
    '"type":"server.limit_changed","server":"default","from":3,"to":2,"reason":"HTTP 429"',
  );
});
