import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import type { RunResult } from "../../src/model/result.ts";
import { fixtureServer } from "../e2e/support.ts";
import { startHttpFixture } from "../fixtures/servers/http-server.ts";
import { folderOf, runHere } from "../support/cli.ts";
import { startFakeProvider } from "../support/fake-provider.ts";
import { commandAgent } from "../support/programs.ts";

const model = "anthropic/claude-sonnet-4-5";
const prices = { "prices.json": { models: { [model]: { input: 3, output: 10 } } } };

const files = (limits: object, config: object = {}): Readonly<Record<string, unknown>> => ({
  ...prices,
  "mcp-eval.config.json": {
    server: fixtureServer(),
    agent: { model },
    limits,
    workflows: [{ name: "w", steps: ["first", "second"].map((user) => ({ user, expectedState: "ready" })) }],
    ...config,
  },
});

function resultIn(cwd: string): RunResult {
  const runs = join(cwd, ".mcpvals/runs");
  const [run = ""] = readdirSync(runs).toSorted().slice(-1);
  return JSON.parse(readFileSync(join(runs, run, "result.json"), "utf8")) as RunResult;
}

it.each<[string, object, string, number]>([
  ["maxToolCalls", { maxToolCalls: 2 }, "it made more than 2 calls of tools", 3],
  ["maxTurns", { maxTurns: 2 }, "it sent more than 2 requests to its model", 3],
  ["maxTokens", { maxTokens: 2500 }, "it used 3,300 tokens, more than 2500", 3],
  ["maxCost", { maxCost: 0.009 }, "it cost $0.012, more than $0.0090", 3],
])(
  "an agent that goes beyond %s is stopped, and its trial fails and says why",
  async (_, limits, why, asked) => {
    // It never ends by itself, and says what is expected before it does.
    await using fake = await startFakeProvider(() => ({
      text: "It is ready.",
      tool: "echo",
      args: { message: "again" },
      usage: { input: 1000, output: 100 },
    }));
    using folder = folderOf(files(limits, { prices: "prices.json" }));
    const ran = await runHere(["run"], { cwd: folder.path, env: fake.env });
    expect([ran.code, ran.stdout.replaceAll(/\s+/g, " ")]).toEqual([
      1,
      expect.stringContaining(`the agent was stopped: ${why}`),
    ]);
    const [trial] = resultIn(folder.path).trials;
    expect(trial).toMatchObject({ verdict: "fail" });
    expect(trial).not.toHaveProperty("error");
    // What the server was asked it has answered.
    expect(trial?.grades.find(({ grader }) => grader === "tool-call-health")).toMatchObject({
      verdict: "pass",
    });
    expect(fake.requests).toHaveLength(asked);
  },
);

it("an agent is stopped although a call of it was never answered", async () => {
  let calls = 0;
  const server = await startHttpFixture(({ message, response }) => {
    if (message.method !== "tools/call" || ++calls > 1) return false;
    response.writeHead(503).end("try later");
    return true;
  });
  onTestFinished(() => server.close());
  await using fake = await startFakeProvider(() => ({
    text: "ready",
    tool: "echo",
    args: { message: "again" },
  }));
  const config = { server: { transport: "shttp", url: server.url }, agent: { model, maxSteps: 20 } };
  using folder = folderOf(files({ maxToolCalls: 3 }, config));
  const ran = await runHere(["run"], { cwd: folder.path, env: fake.env });
  expect([ran.code, ran.stdout.replaceAll(/\s+/g, " "), calls]).toEqual([
    1,
    expect.stringContaining("it made more than 3 calls of tools"),
    4,
  ]);
  // A plan that ends by itself has gone beyond it, too.
  calls = 0;
  const call = { call: "echo", args: { message: "x" } };
  const plan = { w: [call, call, { say: "ready" }, { say: "ready" }] };
  using planned = folderOf(files({ maxToolCalls: 1 }, { ...config, agent: { type: "scripted", plan } }));
  const played = await runHere(["run"], { cwd: planned.path });
  expect([played.code, played.stdout]).toEqual([1, expect.stringContaining("more than 1 call of tools")]);
});

it("a model that does not count its tokens keeps no limit and no budget, and its cost is unknown", async () => {
  const choices = [
    { index: 0, finish_reason: "stop", message: { role: "assistant", content: "It is ready." } },
  ];
  const raw = JSON.stringify({ id: "1", object: "chat.completion", created: 1, model: "m", choices });
  await using fake = await startFakeProvider(() => ({ raw }));
  const agent = { model: "openai-compatible/m", baseURL: `${fake.url}/v1`, stream: false };
  const own = { "prices.json": { models: { m: { input: 3, output: 10 } } } };
  for (const [limits, more, code, said] of [
    [{ maxTokens: 10 }, {}, 3, "agent/unknown-use"],
    [{ maxCost: 1 }, { prices: "prices.json" }, 3, "agent/unknown-use"],
    [{}, { prices: "prices.json" }, 0, "cost unknown"],
    [{}, { prices: "prices.json", thresholds: { maxCost: 0.1 } }, 3, "maxCost"],
    [{}, { budget: { tokens: 10 }, trials: 2, concurrency: 1 }, 3, "it is unknown how many tokens"],
  ] as const) {
    using folder = folderOf({ ...files(limits, { agent, ...more }), ...own });
    const ran = await runHere(["run"], { cwd: folder.path });
    const place = JSON.stringify([limits, more]);
    expect([ran.code, ran.stdout.replaceAll(/\s+/g, " ")], place).toEqual([
      code,
      expect.stringContaining(said),
    ]);
    expect(ran.stdout, place).not.toMatch(/(?<!at least )0 tokens in/);
  }
});

it("a task has limits of its own, which win over those of the config or the Eval", async () => {
  await using fake = await startFakeProvider(({ newResults }) =>
    newResults.length > 0 ? { text: "ready" } : { tool: "echo", args: { message: "again" } },
  );
  const task = (limits: object): object => ({
    kind: "Task",
    apiVersion: "mcp-eval/v1",
    metadata: { name: "w" },
    spec: {
      servers: { fixture: fixtureServer() },
      prompt: "Go.",
      verify: [{ command: { run: "printf %s {agent.output}", expect: { stdout: { contains: "ready" } } } }],
      limits,
    },
  });
  const config = (limits: object): object => ({
    agent: { model },
    limits,
    tasks: ["task.json"],
  });
  const spec = (limits: object): object => ({
    kind: "Eval",
    apiVersion: "mcp-eval/v1",
    config: { agents: { it: { model } }, defaultTaskLimits: limits, taskSets: [{ path: "task.json" }] },
  });
  const tight = { maxTokens: 20 };
  const wide = { maxTokens: 1000 };
  for (const [name, outer] of [
    ["config", config],
    ["eval", spec],
  ] as const)
    for (const [own, given, code] of [
      [tight, wide, 1],
      [wide, tight, 0],
      [{}, tight, 1],
      [{ maxToolCalls: 9 }, {}, 0],
      [{ maxTurns: 9 }, { maxTurns: 1 }, 0],
    ] as const) {
      using folder = folderOf({ "task.json": task(own), "outer.json": outer(given) });
      const ran = await runHere(["run", "outer.json"], { cwd: folder.path, env: fake.env });
      expect([name, own, given, ran.code, ran.stderr]).toEqual([name, own, given, code, expect.anything()]);
      if (code === 1) expect(ran.stdout.replaceAll(/\s+/g, " ")).toContain("more than 20");
    }
  using folder = folderOf({ "task.json": task({ maxCost: 1 }) });
  const refused = await runHere(["run", "task.json", "--agent", model], { cwd: folder.path, env: fake.env });
  expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining("there is a limit of money")]);
});

it("an agent that stays within its limits passes", async () => {
  await using fake = await startFakeProvider(() => ({
    text: "It is ready.",
    usage: { input: 1000, output: 100 },
  }));
  using folder = folderOf(files({ maxToolCalls: 1, maxTokens: 2200, maxCost: 1 }, { prices: "prices.json" }));
  const ran = await runHere(["run"], { cwd: folder.path, env: fake.env });
  expect([ran.code, resultIn(folder.path).verdict]).toEqual([0, "pass"]);
});

it("maxTurns counts requests in all turns of the user, and is kept for programs whose requests are counted", async () => {
  await using fake = await startFakeProvider(() => ({ text: "It is ready." }));
  // The conversation has two turns, each with one request.
  for (const [maxTurns, code] of [
    [1, 1],
    [2, 0],
  ] as const) {
    using folder = folderOf(files({ maxTurns }));
    const ran = await runHere(["run"], { cwd: folder.path, env: fake.env });
    expect([ran.code, ran.stdout.includes("it sent more than 1 request to its model")]).toEqual([
      code,
      code === 1,
    ]);
  }
  const program = { type: "command", command: process.execPath, stdin: true };
  const answers = (...ids: readonly string[]): readonly string[][] => [
    ["connect", "{mcpConfig}"],
    ...ids.map((id) => [
      "print",
      JSON.stringify({ type: "assistant", message: { id, content: [{ type: "text", text: "ready" }] } }),
    ]),
    [
      "print",
      JSON.stringify({ type: "result", subtype: "success", usage: { input_tokens: 5, output_tokens: 1 } }),
    ],
  ];
  const claude = (script: readonly string[][]): object => ({
    ...program,
    args: [commandAgent, JSON.stringify(script)],
    output: "claude-code",
  });
  for (const [agent, code, said] of [
    [claude(answers("a")), 0, ""],
    [claude(answers("a", "b")), 1, "it sent more than 3 requests to its model"],
    [
      claude(answers()),
      3,
      "it is unknown how often the agent asked its model, so limits.maxTurns cannot be kept",
    ],
  ] as const) {
    using folder = folderOf(files({ maxTurns: 3 }, { agent }));
    const ran = await runHere(["run"], { cwd: folder.path });
    expect([ran.code, ran.stdout.replaceAll(/\s+/g, " ")]).toEqual([code, expect.stringContaining(said)]);
  }
  for (const [agent, limits, isRefused] of [
    [{ ...program, args: [] }, { maxTurns: 3 }, true],
    [{ type: "acp", preset: "claude-code" }, { maxTurns: 3 }, true],
    [{ type: "acp", preset: "claude-code", modelProxy: true }, { maxTurns: 3 }, false],
    [{ type: "command", preset: "opencode" }, { maxTurns: 3 }, false],
    [{ type: "acp", preset: "claude-code" }, { maxToolCalls: 3 }, false],
  ] as const) {
    using folder = folderOf(files(limits, { agent }));
    const ran = await runHere(["validate"], { cwd: folder.path });
    expect([ran.code, ran.stderr.includes("limits.maxTurns cannot be kept")]).toEqual([
      isRefused ? 2 : 0,
      isRefused,
    ]);
  }
});

it("what is unknown keeps no limit: a model without a price is refused, a silent program is an error", async () => {
  using priceless = folderOf(files({ maxCost: 1 }));
  const refused = await runHere(["run"], { cwd: priceless.path, env: { ANTHROPIC_API_KEY: "k" } });
  expect([refused.code, refused.stderr]).toEqual([
    2,
    expect.stringContaining(`there is a limit of money, and no price for ${model} (config/unknown-price)`),
  ]);
  const script = JSON.stringify([
    ["connect", "{mcpConfig}"],
    ["print", "ready"],
  ]);
  const agent = { type: "command", command: process.execPath, args: [commandAgent, script, "{prompt}"] };
  for (const limits of [{ maxCost: 1 }, { maxTokens: 10 }]) {
    using folder = folderOf(files(limits, { agent }));
    const ran = await runHere(["run"], { cwd: folder.path });
    expect(ran.code).toBe(3);
    expect(resultIn(folder.path).trials).toMatchObject([
      { verdict: "error", error: { code: "agent/unknown-use" } },
    ]);
  }
});
