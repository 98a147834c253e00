import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import type { RunResult } from "../../src/model/result.ts";
import { fixtureServer } from "../e2e/support.ts";
import { folderOf, runHere } from "../support/cli.ts";
import { type FakeProvider, startFakeProvider } from "../support/fake-provider.ts";

const agent = "anthropic/claude-sonnet-4-5";
const judge = "openai/gpt-5";

/** A provider of which every answer has 1,000 tokens in, 400 of them cached, and 100 out. */
async function provider(): Promise<FakeProvider> {
  return startFakeProvider(({ wire }) => ({
    text: wire === "anthropic" ? "It is ready." : '{"score": 1, "reason": "good"}',
    usage: { input: 1000, cacheRead: 400, output: 100 },
  }));
}

const files = (models: object, config: object = {}): Readonly<Record<string, unknown>> => ({
  "mcp-eval.config.json": {
    server: fixtureServer(),
    agent: { model: agent },
    workflows: ["a", "b"].map((name) => ({
      name,
      steps: [{ user: `do ${name}`, expectedState: { contains: "ready", in: "answer" } }],
    })),
    ...config,
  },
  "prices.json": { models },
  "none.json": { models: { other: { input: 1, output: 1 } } },
});

const ofAgent = { "claude-sonnet*": { input: 3, cachedInput: 0.3, output: 15 } };
/** 600 fresh, 400 cached and 100 output tokens. */
const dollars = (600 * 3 + 400 * 0.3 + 100 * 15) / 1e6;

function resultIn(cwd: string): RunResult {
  const runs = join(cwd, ".mcpvals/runs");
  const [run = ""] = readdirSync(runs).toSorted().slice(-1);
  return JSON.parse(readFileSync(join(runs, run, "result.json"), "utf8")) as RunResult;
}

it("a run says what it cost, by the prices of its file", async () => {
  await using fake = await provider();
  using folder = folderOf(files(ofAgent, { prices: "prices.json", trials: 2 }));
  const cli = (...args: readonly string[]) => runHere(args, { cwd: folder.path, env: fake.env });
  const ran = await cli("run", "--reporter", "console", "--reporter", "markdown=report.md");
  expect([ran.code, ran.stdout]).toEqual([0, expect.stringMatching(/ a +2\/2 .* \$0\.0034$/m)]);
  expect(ran.stdout).toMatch(/4 model requests, first token after [\d.]+ m?s on average · cost \$0\.014/);
  expect(readFileSync(join(folder.path, "report.md"), "utf8")).toMatch(
    /4 trials · cost \$0\.014[^]*\| a \| +\| 2\/2 \|.*\| \$0\.0034 \|/,
  );
  const result = resultIn(folder.path);
  for (const { usage } of result.trials)
    expect(usage?.cost).toEqual({ amount: expect.closeTo(dollars, 10) as number, currency: "USD" });
  expect(result.rates?.tasks?.[0]?.cost?.amount).toBeCloseTo(dollars, 10);
  expect(JSON.parse((await cli("show", "--json")).stdout)).toEqual(result);

  expect((await cli("plan", "--trials", "10")).stdout).toContain("Money: about $0.068.");
  const planned = await cli("plan", "--trials", "10", "--json");
  expect(JSON.parse(planned.stdout)).toMatchObject({ expected: { cost: { currency: "USD" } } });

  await cli("run", "--trials", "3");
  const compared = await cli("compare", ...readdirSync(join(folder.path, ".mcpvals/runs")).toSorted());
  expect(compared.stdout).toMatch(/cost about as much as those of/);
});

it("what is unknown is not 0", async () => {
  await using fake = await provider();
  using folder = folderOf(files(ofAgent));
  const cli = (...args: readonly string[]) => runHere(args, { cwd: folder.path, env: fake.env });
  // Who gave no prices did not ask.
  expect((await cli("run")).stdout).not.toContain("cost");
  expect((await cli("run", "--prices", "none.json")).stdout).toContain(" · cost unknown");
  expect((await cli("plan")).stdout).toContain("Money: unknown.");
  // The prices now are those that count.
  expect((await cli("plan", "--prices", "prices.json")).stdout).toContain("Money: about $0.0068.");

  const judged = await cli("run", "--judge", judge, "--prices", "prices.json");
  expect([judged.code, judged.stdout, judged.stderr]).toEqual([
    0,
    expect.stringContaining("· cost at least $0.0068"),
    expect.stringContaining(`note: prices.json has no price for ${judge}, so its cost is unknown`),
  ]);
  const [trial] = resultIn(folder.path).trials;
  expect([trial?.usage?.cost?.currency, trial?.judgeUsage?.cost]).toEqual(["USD", undefined]);
  expect((await cli("plan", "--judge", judge, "--prices", "prices.json")).stdout).toContain(
    "Money: at least $0.0068.",
  );
});

it("maxCost and maxP95Latency are thresholds that fail a run", async () => {
  await using fake = await provider();
  using folder = folderOf({
    ...files(ofAgent, {
      prices: "prices.json",
      toolHealthSuites: [{ name: "tools", tests: [{ name: "echo", args: { message: "hi" } }] }],
      thresholds: { maxCost: 0.01, maxP95Latency: 60_000 },
    }),
  });
  const cli = (...args: readonly string[]) => runHere(args, { cwd: folder.path, env: fake.env });
  const ran = await cli("run");
  expect([ran.code, ran.stdout]).toEqual([
    0,
    expect.stringMatching(
      /✓ maxCost +0\.00342 +at most 0\.01 +2 trials\n +✓ maxP95Latency +\d.* at most 60000 ms /,
    ),
  ]);
  expect(resultIn(folder.path).latency).toMatchObject({ calls: 1, unanswered: 0 });
  const shown = await cli("show", "--json");
  expect(JSON.parse(shown.stdout)).toEqual(resultIn(folder.path));
  const dear = await cli("run", "--threshold", "maxCost=0.003");
  expect([dear.code, dear.stdout]).toEqual([1, expect.stringContaining("maxCost 0.00342 is above 0.003")]);
  const slow = await cli("run", "--threshold", "maxP95Latency=0");
  expect([slow.code, slow.stdout]).toEqual([
    1,
    expect.stringMatching(/maxP95Latency [\d.]+ ms is above 0 ms/),
  ]);
  const unknown = await cli("run", "--prices", "none.json");
  expect([unknown.code, unknown.stdout]).toEqual([3, expect.stringContaining("maxCost was not measured")]);
});

it("a run goes on only with the prices that it began with", async () => {
  await using fake = await provider();
  using folder = folderOf(files(ofAgent, { prices: "prices.json", budget: { tokens: 1 }, concurrency: 1 }));
  const cli = (...args: readonly string[]) => runHere(args, { cwd: folder.path, env: fake.env });
  expect((await cli("run")).code).toBe(3);
  const path = join(folder.path, "prices.json");
  const before = readFileSync(path, "utf8");
  writeFileSync(path, before.replace('"input": 3', '"input": 4'));
  expect(readFileSync(path, "utf8")).not.toBe(before);
  const changed = await cli("resume", "--budget-tokens", "1000000");
  expect([changed.code, changed.stderr]).toEqual([2, expect.stringContaining("has changed: the prices")]);
  writeFileSync(path, before);
  const same = await cli("resume", "--budget-tokens", "1000000");
  expect(same.code, same.stderr).toBe(0);
  expect(resultIn(folder.path).trials.map(({ usage }) => usage?.cost?.amount)).toEqual([dollars, dollars]);
});

it("wrong prices are refused with their place", async () => {
  using folder = folderOf(files({ "gpt-5": { input: "cheap", output: 1 } }, { prices: "prices.json" }));
  const { code, stderr } = await runHere(["run"], { cwd: folder.path });
  expect([code, stderr]).toEqual([2, expect.stringMatching(/prices\.json:\d+:\d+[^]*input/)]);
  const missing = await runHere(["run", "--prices", "none.yaml"], { cwd: folder.path });
  expect([missing.code, missing.stderr]).toEqual([2, expect.stringContaining("none.yaml")]);
});
