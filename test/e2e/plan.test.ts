import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { folderOf, runHere } from "../support/cli.ts";

const config = `servers:
  shop: { transport: mock, mock: { tools: { find: { responses: [{ return: shelf 4 }] } } } }
  shared: { transport: mock, lifetime: per_run, mock: { tools: { look: { responses: [{ return: x }] } } } }
trials: 3
agent: { type: scripted, plan: { milk: [{ call: find, args: {} }, { say: Done. }] } }
workflows: [{ name: milk, steps: [{ user: where, expectedState: { contains: shelf 4, in: toolResult } }] }]
toolHealthSuites: [{ name: s, server: shop, tests: [{ name: find }] }]
`;

it("says what a run would do and starts nothing; after a run, what it used", async () => {
  using folder = folderOf({ "a.yaml": config });
  const cwd = folder.path;
  const first = await runHere(["plan", "a.yaml"], { cwd });
  expect(first).toMatchObject({ code: 0, stderr: "" });
  expect(first.stdout).toContain("2 tasks · agent scripted");
  expect(first.stdout).toMatch(/ {2}6 trials, up to \d+ at once, 3 of them calls of tool tests\n/);
  expect(first.stdout).toContain("server shop: 6 starts\n  server shared: 1 start\n");
  expect(first.stdout).toContain("Tokens, money and time: unknown");
  expect(existsSync(join(cwd, ".mcpvals"))).toBe(false);

  await runHere(["run", "a.yaml"], { cwd });
  const { stdout } = await runHere(["plan", "a.yaml", "--trials", "12", "--json"], { cwd });
  const forecast = JSON.parse(stdout) as {
    detectable: Record<string, number>;
    expected: Record<string, unknown>;
  };
  expect(forecast).toMatchObject({
    tasks: 2,
    trials: 24,
    toolTests: 12,
    serverStarts: { shop: 24, shared: 1 },
  });
  expect(forecast.expected["durationMs"]).toBeGreaterThan(0);
  expect(forecast.expected).not.toHaveProperty("tokens");
  expect(forecast.detectable["theseTasks"]).toBeLessThan(forecast.detectable["tasksLikeThese"] ?? 0);
});
