import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Config } from "../../src/core/formats/config/config-schema.ts";
import { statesText } from "../../src/core/formats/contains-text.ts";
import type { RunResult } from "../../src/core/report/result.ts";
import { evaluate } from "../../src/evaluate.ts";
import { failure, load } from "../load/support/load.ts";
import { fixtureServer, trialOf } from "../e2e/support.ts";
import { folderOf, root } from "../support/cli.ts";
import { startFakeProvider } from "../support/fake-provider.ts";

const commandAgent = join(root, "test/fixtures/agents/command-agent.ts");

/** A program that connects to its server, says again what it was told, and does nothing else. */
const parrot: NonNullable<Config["agents"]>[string] = {
  type: "command",
  command: process.execPath,
  args: [commandAgent, JSON.stringify([["connect", "{mcpConfig}"], ["stdin"]])],
  stdin: true,
};

type Workflow = NonNullable<Config["workflows"]>[number];

function configWith(workflow: Omit<Workflow, "name">, rest: Partial<Config> = {}): Config {
  return {
    server: fixtureServer(),
    agents: { parrot },
    agent: "parrot",
    workflows: [{ name: "sum", ...workflow }],
    ...rest,
  };
}

async function refusals(config: Config): Promise<(readonly [code: string, message: string])[]> {
  const { details } = await failure(import.meta.dirname, { source: config });
  return (details.diagnostics ?? []).map(({ code, message }) => [code, message] as const);
}

// docs/guide.md, "Workflows": a state that is in the user's message is refused.
describe("an agent that repeats what the user says does not pass", () => {
  it.each([
    ["What is 19 plus 23? Say 42", "42"],
    ["What is 19 plus 23? Say 42.", "42"],
    ["Say 42.0", "42"],
    ["Create the issue FOO-1.", "foo-1"],
    ["Answer with YES or NO.", "yes"],
    ["a", "a"],
    ["Is it “42”?", "42"],
  ])("user %j, expectedState %j: refused at load", async (user, expectedState) => {
    expect(await refusals(configWith({ steps: [{ user, expectedState }] }))).toEqual([
      [
        "config/checks-nothing",
        `workflows[0].steps[0].expectedState: ${JSON.stringify(expectedState)} is also in workflows[0].steps[0].user, so an agent that repeats it would pass`,
      ],
    ]);
  });

  it("at any step, by what the user said before", async () => {
    const steps = [
      { user: "My name is Ada.", expectedError: "x" },
      { user: "What is 2 plus 3?", expectedState: "5" },
      { user: "And my name?", expectedState: "ada" },
    ];
    expect(await refusals(configWith({ steps }))).toEqual([
      [
        "config/checks-nothing",
        'workflows[0].steps[2].expectedState: "ada" is also in workflows[0].steps[0].user, so an agent that repeats it would pass',
      ],
    ]);
  });

  it.each([
    ["What is 15 plus 27?", "5"],
    ["What is 2.5 plus 2.5?", "5"],
    ["What is -5 times -1?", "5"],
    ["Say it in words.", "five"],
  ])("user %j, expectedState %j: a number is looked for as a whole", async (user, expectedState) => {
    const { eval: spec } = await load(import.meta.dirname, {
      source: configWith({ steps: [{ user, expectedState }] }),
    });
    expect(spec.tasks).toHaveLength(1);
  });

  it("a state that a later turn says is no echo", async () => {
    const steps = [
      { user: "What is 2 plus 3?", expectedState: "5" },
      { user: "And 5 times 5?", expectedState: "25" },
    ];
    await expect(load(import.meta.dirname, { source: configWith({ steps }) })).resolves.toBeDefined();
  });

  it("with expectTools it loads, fails for the tools, and the echo is a warning", async () => {
    const steps = [{ user: "Echo hello.", expectedState: "hello" }];
    using folder = folderOf({});
    const result = await evaluate(configWith({ steps, expectTools: ["echo"] }), {
      cwd: folder.path,
      output: false,
    });
    expect(trialOf(result, "sum")).toMatchObject({
      verdict: "fail",
      warnings: [expect.stringMatching(/^turn 1: expectedState "hello" is in the user.s message/) as string],
    });
  });

  it("a tool result that has the state is evidence, and no warning", async () => {
    const plan = { sum: [{ call: "echo", args: { message: "hello" } }, { say: "hello" }] };
    const config = configWith(
      { steps: [{ user: "Echo hello.", expectedState: "hello" }], expectTools: ["echo"] },
      { agents: { script: { type: "scripted", plan } }, agent: "script" },
    );
    using folder = folderOf({});
    const result = await evaluate(config, { cwd: folder.path, output: false });
    expect(trialOf(result, "sum")).toMatchObject({ verdict: "pass" });
    expect(trialOf(result, "sum").warnings).toBeUndefined();
  });

  it("with a judge it loads, and the echo is a warning", async () => {
    await using provider = await startFakeProvider(() => ({ text: '{"score": 1, "reason": "Fine."}' }));
    const judge = { model: "openai/gpt-5", baseURL: `${provider.url}/v1`, apiKey: "k" };
    const steps = [{ user: "Say 42.", expectedState: "42" }];
    using folder = folderOf({});
    const result = await evaluate(configWith({ steps }, { llmJudge: true, judge }), {
      cwd: folder.path,
      output: false,
    });
    expect(trialOf(result, "sum").warnings).toEqual([
      `turn 1: expectedState "42" is in the user's message and in no tool result: an agent that repeats the user would pass`,
    ]);
  });
});

// docs/guide.md, "Workflows": a number at an end of a state is a whole number.
describe("a state's number is a whole number", () => {
  it.each([
    ["It is 5.", "5"],
    ["It is 5.0.", "5"],
    ["5", "5"],
    ["2-5", "5"],
    ["[10,5,3]", "5"],
    ["[10,500,3]", "500"],
    ["version 1.2.3", "1.2"],
    ["$5, or 5%", "5"],
    ["15, then 5", "5"],
    ["total 50, total 5", "total 5"],
    ["3.50", "3.50"],
    ["x5y", "5"],
    ["\u001b[1m5\u001b[0m", "5"],
    ["\u001b[31mred", "\u001b[31m"],
    ["total:\u200b 5", "total: 5"],
    ["a\u200bb", "\u200b"],
  ])("%j states %j", (text, state) => {
    expect(statesText(text, state)).toBe(true);
  });

  it.each([
    ["15", "5"],
    ["51", "5"],
    ["0.5", "5"],
    ["of .5", "5"],
    ["5.2", "5"],
    ["5.05", "5"],
    ["It is -5.", "5"],
    ["\u22125", "5"],
    ["(-5)", "5"],
    ["total 50", "total 5"],
    ["3.55", "3.5"],
    ["", "5"],
    ["\u00135", "15"],
    ["\u001b[5m", "5"],
    ["\u009b5m", "5"],
    ["\u001b]8;;http://127.0.0.1/5\u0007here", "5"],
    ["1\u200b5", "5"],
    ["1\u00ad5", "5"],
    ["1\u00855", "5"],
    ["\u06635", "5"],
    ["5\u0663", "5"],
    ["5\u00b2", "5"],
    ["\u20135", "5"],
    ["\uff0d5", "5"],
    ["abc", "\u200b"],
  ])("%j does not state %j", (text, state) => {
    expect(statesText(text, state)).toBe(false);
  });

  it("in a text of any length", () => {
    const text = "1".repeat(2_000_000);
    expect(statesText(text, "1".repeat(10))).toBe(false);
    expect(statesText(`${text} 1`, "1")).toBe(true);
  });
});

function task(verify: object): object {
  return {
    kind: "Task",
    apiVersion: "mcp-eval/v1",
    metadata: { name: "t" },
    spec: { prompt: "What is 19 plus 23? It is not 41, it is 42.", verify: [verify] },
  };
}

async function runTask(verify: object, rest: object = {}): Promise<RunResult> {
  using folder = folderOf({
    "t.json": task(verify),
    "mcp-eval.config.json": {
      servers: {},
      mocks: { m: { tools: { t: { responses: [{ return: "x" }] } } } },
      tasks: ["t.json"],
      agent: parrot,
      ...rest,
    },
  });
  return await evaluate("mcp-eval.config.json", { cwd: folder.path, output: false });
}

// docs/tasks.md, "Templates": checks of {agent.output} whose expected text is in the prompt give a warning.
describe("a check of the agent's answer whose expected text is in the prompt gives a warning", () => {
  const stdin = "{agent.output}";

  it.each([
    ["contains", { command: { run: "cat", stdin, expect: { stdout: { contains: "42" } } } }],
    ["equals", { command: { run: "grep -o 42", stdin, expect: { stdout: "42" } } }],
    [
      "inside",
      {
        anyOf: [
          {
            foreach: {
              var: "x",
              in: [1],
              steps: [{ command: { run: "cat", stdin, expect: { stdout: { contains: "42" } } } }],
            },
          },
        ],
      },
    ],
  ])("by %s", async (_, verify) => {
    const trial = trialOf(await runTask(verify), "t");
    expect(trial).toMatchObject({
      verdict: "pass",
      warnings: [
        expect.stringMatching(
          /^verify step ".*" expects "42" of the agent's answer, which is in the prompt: an agent that repeats the prompt may pass$/,
        ) as string,
      ],
    });
  });

  it("by llm", async () => {
    await using provider = await startFakeProvider(() => ({
      text: '{"passed": true, "reason": "It says so."}',
    }));
    const judge = { model: "openai/gpt-5", baseURL: `${provider.url}/v1`, apiKey: "k" };
    const trial = trialOf(await runTask({ llm: { contains: "42" } }, { judge }), "t");
    expect(trial.warnings).toEqual([
      expect.stringContaining('expects "42" of the agent\'s answer') as string,
    ]);
  });

  it("but not where the prompt does not have it, or the agent's answer is not looked at", async () => {
    const checks = [
      { command: { run: "cat", stdin, expect: { stdout: { contains: "plus" } } } },
      { command: { run: "expr 40 + 2", expect: { stdout: "42" } } },
      { command: { run: "wc -l", stdin, expect: { stdout: { matches: "1" } } } },
    ];
    const trial = trialOf(await runTask({ allOf: checks }), "t");
    expect(trial.warnings).toEqual([expect.stringContaining('"plus"') as string]);
  });
});
