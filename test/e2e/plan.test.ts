import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import type { RunResult } from "../../src/model/result.ts";
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
  expect(forecast.detectable["theseTasks"]).toBeGreaterThan(0);
  expect(forecast.detectable).not.toHaveProperty("tasksLikeThese");
});

it("says when the planned trials can show nothing, and when they cannot reach the lower bound even if all pass", async () => {
  using folder = folderOf({ "a.yaml": `${config}thresholds: { lowerBound: 0.8 }\n` });
  const plan = async (...args: readonly string[]): Promise<string> =>
    (await runHere(["plan", "a.yaml", ...args], { cwd: folder.path })).stdout.replaceAll(/\s+/g, " ");
  const few = await plan("--trials", "1");
  expect(few).toContain("On these tasks two such runs can show no difference: there are too few trials.");
  expect(few).toContain("For tasks like these they can show none: that takes at least 6 tasks.");
  // Wilson's lower end of 2 of 2 is 0.34; of 16 of 16 it is 0.81.
  expect(few).toContain(
    "The threshold lowerBound 0.8 cannot be reached: even if every trial passes, the lower end of the interval is 0.34. It takes about 8 trials of each task.",
  );
  expect(await plan("--trials", "8")).not.toContain("cannot be reached");
});

it("expects of each variant what it used, and says that the last run is damaged", async () => {
  using folder = folderOf({
    "a.yaml": `servers:
  shop: { transport: mock, mock: { tools: { find: { responses: [{ return: shelf 4 }] } } } }
variants:
  slow: { servers: { shop: { faults: [{ kind: delay, delay: 300ms }] } } }
  fast: {}
agent: { type: scripted, plan: { milk: [{ call: find, args: {} }, { say: Done. }] } }
workflows: [{ name: milk, steps: [{ user: where, expectedState: { contains: shelf 4, in: toolResult } }] }]
`,
  });
  const cwd = folder.path;
  const { result } = await runHere(["run", "a.yaml", "--reporter", "json"], { cwd }).then(({ stdout }) => ({
    result: JSON.parse(stdout) as RunResult,
  }));
  const expected = async (variant: string): Promise<number> => {
    const { stdout } = await runHere(["plan", "a.yaml", "--variant", variant, "--json"], { cwd });
    return (JSON.parse(stdout) as { expected: { durationMs: number } }).expected.durationMs;
  };
  for (const { variant = "", durationMs } of result.trials)
    expect(await expected(variant)).toBeCloseTo(durationMs, 1);

  writeFileSync(join(cwd, ".mcpvals/runs", result.id, "journal.jsonl"), "no journal\n");
  const damaged = await runHere(["plan", "a.yaml"], { cwd });
  expect(damaged).toMatchObject({ code: 0 });
  expect(damaged.stderr).toContain("the last run tells nothing: line 1 of the journal");
});
