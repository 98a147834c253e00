import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { RunResult } from "../../src/model/result.ts";
import { Spending } from "../../src/run/budget.ts";
import { fixtureServer } from "../e2e/support.ts";
import { folderOf, type HereOutcome, runHere } from "../support/cli.ts";
import { commandAgent } from "../support/programs.ts";
import { type FakeProvider, startFakeProvider } from "../support/fake-provider.ts";

const model = "anthropic/claude-sonnet-4-5";

/** Three workflows one after the other, each of 1,100 tokens. */
const workflows = (config: object = {}): Readonly<Record<string, unknown>> => ({
  "mcp-eval.config.json": {
    server: fixtureServer(),
    agent: { model },
    concurrency: 1,
    workflows: ["a", "b", "c"].map((name) => ({
      name,
      steps: [{ user: `do ${name}`, expectedState: { contains: "ready", in: "answer" } }],
    })),
    ...config,
  },
  "prices.json": { models: { [model]: { input: 3, output: 10 } } },
});

const answering = (): Promise<FakeProvider> =>
  startFakeProvider(() => ({ text: "It is ready.", usage: { input: 1000, output: 100 } }));

function resultIn(cwd: string): RunResult {
  const runs = join(cwd, ".mcpvals/runs");
  const [run = ""] = readdirSync(runs).toSorted().slice(-1);
  return JSON.parse(readFileSync(join(runs, run, "result.json"), "utf8")) as RunResult;
}

const verdicts = ({ trials }: RunResult): readonly string[] =>
  trials.map(({ verdict, error }) => (error === undefined ? verdict : error.code));

/** What a run printed that a budget has ended, without line breaks. */
const said = ({ code, stdout }: HereOutcome): readonly [number | null, string] => [
  code,
  stdout.replaceAll(/\s+/g, " "),
];

it("calls: no further trial begins, the run is incomplete, and can be gone on with", async () => {
  const tests = ["one", "two", "three", "four"].map((description) => ({
    name: "echo",
    description,
    args: { message: "hi" },
  }));
  using folder = folderOf({
    "mcp-eval.config.json": {
      server: fixtureServer(),
      toolHealthSuites: [{ name: "suite", tests }],
      budget: { calls: 2 },
    },
  });
  const cli = (...args: readonly string[]) => runHere(args, { cwd: folder.path });
  const reason = "the budget of 2 calls is used up";
  const ran = await cli("run", "--reporter", "console", "--reporter", "markdown=report.md");
  const text = `Incomplete: 0 failed, 2 not evaluated (2 not run). No further trial began: ${reason}.`;
  expect(said(ran)).toEqual([3, expect.stringContaining(`INCOMPLETE exit 3 ${text}`)]);
  expect(said(ran)[1]).toContain("to go on with a larger budget: npx mcpvals resume ");
  expect(readFileSync(join(folder.path, "report.md"), "utf8")).toContain(reason);
  const result = resultIn(folder.path);
  expect(verdicts(result)).toEqual(["pass", "pass", "run/budget", "run/budget"]);
  expect(result.budget).toEqual({ calls: 2, usedUp: reason });

  const shown = await cli("show", "--json");
  expect([shown.code, JSON.parse(shown.stdout)]).toEqual([3, result]);
  const graded = await cli("grade", "--reporter", "json");
  expect(verdicts(JSON.parse(graded.stdout) as RunResult)).toEqual(verdicts(result));

  const [first = ""] = readdirSync(join(folder.path, ".mcpvals/runs")).toSorted();
  expect(said(await cli("resume", first, "--budget-calls", "3"))).toEqual([
    3,
    expect.stringContaining("No further trial began: the budget of 3 calls is used up."),
  ]);
  expect((await cli("resume", first, "--budget-calls", "10")).code).toBe(0);
  const whole = await cli("show", first, "--json");
  expect(JSON.parse(whole.stdout)).toMatchObject({ verdict: "pass", budget: { calls: 10 } });
  expect((await cli("resume", first)).stderr).toContain("there is nothing to resume: pass");
});

it("tokens: those of agents and judges", async () => {
  await using provider = await answering();
  using folder = folderOf(workflows({ budget: { tokens: 2000 } }));
  const options = { cwd: folder.path, env: provider.env };
  expect(said(await runHere(["run"], options))).toEqual([
    3,
    expect.stringContaining("the budget of 2,000 tokens is used up: 2,200 tokens."),
  ]);
  expect(verdicts(resultIn(folder.path))).toEqual(["pass", "pass", "run/budget"]);
  // An option wins over the file.
  expect((await runHere(["run", "--budget-tokens", "100000"], options)).code).toBe(0);
  expect(resultIn(folder.path).budget).toEqual({ tokens: 100_000 });
});

it("money: by the prices, and refused without them before anything starts", async () => {
  await using provider = await answering();
  using folder = folderOf(workflows());
  const options = { cwd: folder.path, env: provider.env };
  const refused = await runHere(["run", "--budget-cost", "1"], options);
  expect([refused.code, refused.stderr]).toEqual([
    2,
    expect.stringContaining(`there is a budget of money, and no price for ${model}`),
  ]);
  const judged = ["run", "--prices", "prices.json", "--judge", "openai/gpt-5", "--budget-cost", "1"];
  expect(await runHere(judged, options)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("no price for openai/gpt-5") as string,
  });
  expect(provider.requests).toEqual([]);
  // Each trial costs 0.004.
  expect(said(await runHere(["run", "--prices", "prices.json", "--budget-cost", "0.006"], options))).toEqual([
    3,
    expect.stringContaining("the budget of $0.0060 is used up: $0.0080."),
  ]);
  expect(verdicts(resultIn(folder.path))).toEqual(["pass", "pass", "run/budget"]);
});

it("time: that of the whole run", async () => {
  const say = [{ say: "It is ready." }];
  using folder = folderOf(workflows({ agent: { type: "scripted", plan: { a: say, b: say, c: say } } }));
  const ran = await runHere(["run", "--budget-time", "1ms"], { cwd: folder.path });
  expect(said(ran)).toEqual([3, expect.stringMatching(/3 not run\)\. No .* budget of 1 ms is used up: \d/)]);
});

it("a failed trial fails the run, whatever its budget", async () => {
  await using provider = await startFakeProvider(() => ({ text: "No.", usage: { input: 9, output: 1 } }));
  using folder = folderOf(workflows({ budget: { tokens: 10 } }));
  expect(said(await runHere(["run"], { cwd: folder.path, env: provider.env }))).toEqual([
    1,
    expect.stringContaining("FAIL exit 1 No further trial began: the budget of 10 tokens is used up."),
  ]);
});

it.each([
  ["--budget-cost", "0"],
  ["--budget-cost", "much"],
  ["--budget-tokens", "1.5"],
  ["--budget-time", "30"],
])("%s %s is refused", async (flag, value) => {
  using folder = folderOf(workflows());
  const { code, stderr } = await runHere(["run", flag, value], { cwd: folder.path });
  expect([code, stderr]).toEqual([2, expect.stringContaining(flag)]);
});

it("what nobody knows ends a run, which goes on without its budget, from the command or the file", async () => {
  const agent = {
    type: "command",
    command: process.execPath,
    args: [
      commandAgent,
      JSON.stringify([
        ["connect", "{mcpConfig}"],
        ["print", "ready"],
      ]),
      "{prompt}",
    ],
  };
  for (const [config, args] of [
    [{}, ["--budget-tokens", "5000"]],
    [{ budget: { tokens: 5000 } }, []],
  ] as const) {
    using folder = folderOf(workflows({ agent, ...config }));
    const cli = (...line: readonly string[]) => runHere(line, { cwd: folder.path });
    const ran = await cli("run", ...args);
    expect(said(ran)).toEqual([
      3,
      expect.stringMatching(/unknown how many tokens the trial t1 used.* resume \S+ --without-budget/),
    ]);
    expect(resultIn(folder.path).budget).toMatchObject({ tokens: 5000, isUnknown: true });
    expect((await cli("resume")).code).toBe(3);
    expect(verdicts(resultIn(folder.path))).toEqual(["pass", "run/budget", "run/budget"]);
    expect((await cli("resume", "--without-budget")).code).toBe(0);
    expect(resultIn(folder.path)).toMatchObject({ summary: { pass: 3 } });
    expect(resultIn(folder.path).budget).toBeUndefined();
  }
});

it("--without-budget is not given together with a budget", async () => {
  using folder = folderOf(workflows());
  const both = await runHere(["run", "--without-budget", "--budget-calls", "3"], { cwd: folder.path });
  expect([both.code, both.stderr]).toEqual([2, expect.stringContaining("--without-budget")]);
});

describe("what is not known", () => {
  const trial = { id: "t1", form: "workflow", ran: { programs: null, models: null } } as const;
  const elapsedMs = (): number => 0;

  it("ends the run where it is a budget", () => {
    const money = new Spending({ cost: 5 }, { elapsedMs });
    money.add(trial);
    expect(money.usedUp).toBe("it is unknown what the trial t1 cost, so the budget of $5.00 cannot be kept");
    const tokens = new Spending({ tokens: 5000 }, { elapsedMs });
    tokens.add(trial);
    expect(tokens.usedUp).toMatch(/^it is unknown how many tokens the trial t1 used/);
    expect([money.isUnknown, tokens.isUnknown]).toEqual([true, true]);
  });

  it("is a cost in another currency, too", () => {
    const money = new Spending({ cost: 5 }, { elapsedMs, currency: "EUR" });
    const usage = { inputTokens: 1, outputTokens: 1, cost: { amount: 1, currency: "USD" } };
    money.add({ ...trial, usage });
    expect(money.usedUp).toContain("5.00 EUR cannot be kept");
  });

  it("is no matter where another budget is kept", () => {
    const calls = new Spending({ calls: 2 }, { elapsedMs });
    calls.add(trial);
    expect(calls.usedUp).toBeUndefined();
  });
});
