import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { evalOf, notesOf, problemsOf, stdio } from "../../../test/support/parse-config.ts";
import type { KeyPath } from "../../base/json.ts";
import type { Eval } from "../../model/eval.ts";
import type { Config } from "./config-schema.ts";
import { isSettingOfConfig, uniqueTitles } from "./parse-config.ts";

const workflow = { name: "flow", steps: [{ user: "hi", expectedState: "hello" }] };
const withWorkflow = { toolHealthSuites: [], workflows: [workflow] };
const scripted = {
  type: "scripted" as const,
  plan: { flow: [{ call: "add", args: { a: 1 } }, { say: "hello" }] },
};

function judgeWith(fields: object): object {
  return { llmJudge: true, judge: { model: "openai/o3", ...fields } };
}

describe("defaults", () => {
  it("fills in everything that a tool test needs", () => {
    expect(evalOf({})).toEqual({
      name: "folder",
      servers: {
        default: {
          transport: "stdio",
          command: "node",
          args: [],
          env: { inherited: "" },
          cwd: "/dir",
          startupTimeoutMs: 30_000,
          maxMessageBytes: 10_485_760,
        },
      },
      agents: [{ type: "model", name: "claude", model: "anthropic/claude-sonnet-4-5", maxSteps: 20 }],
      tasks: [
        {
          name: "suite/add",
          form: "tool-test",
          suite: "suite",
          servers: ["default"],
          turns: [],
          expectTools: [],
          verify: [
            {
              type: "mcp",
              id: "call",
              server: "default",
              request: { kind: "tool", tool: "add", args: {} },
              expect: {},
              timeoutMs: 30_000,
              retries: 0,
            },
          ],
          parallel: false,
          location: { file: "f", path: "toolHealthSuites[0].tests[0]" },
        },
      ],
      trials: 1,
      limits: { trialMs: 300_000, callMs: 30_000, modelMs: 120_000 },
      reporters: ["console"],
    } satisfies Eval);
  });

  it("makes a task of a workflow", () => {
    expect(evalOf(withWorkflow).tasks).toEqual([
      {
        name: "flow",
        form: "workflow",
        servers: ["default"],
        turns: [{ user: "hi", expectedState: "hello" }],
        expectTools: [],
        verify: [],
        parallel: false,
        location: { file: "f", path: "workflows[0]" },
      },
    ]);
  });
});

it("takes the specification's own example shapes as they stand", () => {
  const config = {
    server: { transport: "stdio", command: "node", args: ["./server.js"] },
    workflows: [
      {
        name: "greet",
        description: "Greets",
        steps: [
          { user: "Say hello", expectTools: ["greet"], expectedState: "hello" },
          { user: "Say goodbye", expectTools: ["part"] },
        ],
      },
      { name: "order", steps: [{ user: "Order" }], expectTools: ["find", "buy"] },
    ],
    toolHealthSuites: [],
    llmJudge: true,
    openaiKey: "sk-test",
  };
  const spec = evalOf(config);
  expect(spec.tasks.map((task) => task.expectTools)).toEqual([
    ["greet", "part"],
    ["find", "buy"],
  ]);
  expect(spec.judge).toEqual({ model: "openai/gpt-4o", apiKey: "sk-test", passThreshold: 0.8 });
  expect(problemsOf({ ...config, server: { transport: "shttp", url: "http://localhost:1/mcp" } })).toEqual(
    [],
  );
});

describe("the judge", () => {
  const judge = { model: "openai/o3" };

  it("is not asked because it is described", () => {
    expect(evalOf({ ...withWorkflow, judge }).judge).toBeUndefined();
    expect(notesOf({ ...withWorkflow, judge })).toEqual([
      "judge is not asked: set llmJudge to true, or pass --llm",
    ]);
  });

  it("is switched by the caller, whatever the config says", () => {
    expect(evalOf({ ...withWorkflow, judge }, { judge: true }).judge?.model).toBe("openai/o3");
    expect(evalOf({ ...withWorkflow, llmJudge: true }, { judge: false }).judge).toBeUndefined();
  });

  it("gets openaiKey only when it is OpenAI's own", () => {
    const openaiKey = "k";
    expect(evalOf({ ...judgeWith({}), openaiKey }).judge?.apiKey).toBe("k");
    expect(evalOf({ ...judgeWith({ apiKey: "mine" }), openaiKey }).judge?.apiKey).toBe("mine");
    expect(evalOf({ ...judgeWith({ model: "google/g" }), openaiKey }).judge?.apiKey).toBeUndefined();
    expect(evalOf({ ...judgeWith({ baseURL: "http://x:1" }), openaiKey }).judge?.apiKey).toBeUndefined();
  });

  it("says when judgeModel is not what is used", () => {
    expect(notesOf({ ...judgeWith({}), judgeModel: "gpt-5" })).toEqual([
      "judgeModel has no effect: judge.model wins",
    ]);
  });
});

function names(config: object, requested: readonly string[] = []): string[] {
  return evalOf(config, { agents: requested }).agents.map((agent) => agent.name);
}

describe("the judge of task files", () => {
  const withTasks = { tasks: ["t.yaml"], judge: { model: "google/g" } };

  it("is the one that is described, which is not asked about workflows", () => {
    expect(evalOf(withTasks)).toMatchObject({ judge: { model: "google/g" }, judgesStepsOnly: true });
    expect(notesOf(withTasks)).toEqual([]);
    expect(evalOf({ ...withTasks, llmJudge: true }).judgesStepsOnly).toBeUndefined();
  });

  it("is the one that the caller names, with nothing but the threshold of another", () => {
    const judge = { model: "google/g", apiKey: "k", temperature: 0, passThreshold: 0.5 };
    expect(evalOf({ ...withTasks, judge }, { judgeModel: "openai/o3" }).judge).toEqual({
      model: "openai/o3",
      passThreshold: 0.5,
    });
    expect(evalOf(withWorkflow, { judgeModel: "o3" }).judge).toEqual({
      model: "openai/o3",
      passThreshold: 0.8,
    });
  });
});

describe("the choice of agents", () => {
  it("always knows the oracle and the one that does nothing", () => {
    expect(evalOf(withWorkflow, { agents: ["oracle", "null"] }).agents).toEqual([
      { type: "oracle", name: "oracle" },
      { type: "null", name: "null" },
    ]);
    expect(names({ ...withWorkflow, agents: { null: "x/y" } }, ["null"])).toEqual(["null"]);
    expect(evalOf({ ...withWorkflow, agents: { null: "x/y" } }).agents[0]?.type).toBe("model");
  });

  const agents = { fast: "openai/gpt-5", slow: { model: "google/g", system: "s" } } as const;

  it.each<[string, Config["agent"], readonly string[], readonly string[]]>([
    ["all of agents", undefined, [], ["fast", "slow"]],
    ["the one that is named", "slow", [], ["slow"]],
    ["a model id", "x/y", [], ["x/y"]],
    ["the one written out", { model: "m" }, [], ["m"]],
    ["those asked for", "slow", ["fast", "x/y", "fast"], ["fast", "x/y"]],
    ["the one written out, asked for by its name", { model: "a/m" }, ["a/m"], ["a/m"]],
  ])("runs %s", (_, agent, requested, expected) => {
    expect(names({ ...withWorkflow, agents, ...(agent === undefined ? {} : { agent }) }, requested)).toEqual(
      expected,
    );
  });

  it("refuses names of nothing", () => {
    expect(problemsOf({ ...withWorkflow, agents }, { agents: ["fst"] })).toEqual([
      'config/unknown-reference at agents: no agent is named "fst"',
    ]);
  });
});

it("says when step-level expectTools are not used", () => {
  const steps = [{ user: "a", expectTools: ["one"] }];
  const flow = (expectTools: string[]) => ({ workflows: [{ name: "f", steps, expectTools }] });
  expect(notesOf(flow(["two"]))).toEqual([
    'workflow "f": expectTools of its steps has no effect; the workflow\'s own list wins',
  ]);
  expect(notesOf(flow(["one"]))).toEqual([]);
  expect(notesOf(flow([]))).toEqual([]);
});

it("has no limits for what stands for the usual: protocol auto, and all tools", () => {
  const usual = evalOf({ server: { ...stdio, protocol: "auto", tools: ["add", "*"] } });
  expect(usual.servers["default"]).toEqual(evalOf({}).servers["default"]);
  const limited = evalOf({ server: { ...stdio, protocol: "legacy", tools: ["add"] } });
  expect(limited.servers["default"]).toMatchObject({ protocol: "legacy", tools: ["add"] });
});

it("writes the prompt of a preset to stdin only where its arguments are the preset's own", () => {
  const agentOf = (more: object): unknown =>
    evalOf({ ...withWorkflow, agent: { type: "command", preset: "claude-code", ...more } }).agents[0];
  expect(agentOf({})).toMatchObject({ stdin: true });
  expect(agentOf({ args: ["{prompt}"] })).toMatchObject({ stdin: false });
  expect(agentOf({ args: ["-"], stdin: true })).toMatchObject({ stdin: true });
});

it("gives a program its settings in the program's own way, with texts as they are", () => {
  const agentOf = (agent: object): unknown => evalOf({ ...withWorkflow, agent }).agents[0];
  const settings = { systemPrompt: "a {prompt}", maxTurns: 3, extraArgs: ["--debug"] };
  const started = agentOf({ type: "command", preset: "claude-code", ...settings, permissions: "deny" });
  const given = ["--max-turns", "3", "--permission-mode", "dontAsk", "--append-system-prompt", "a {{prompt}"];
  expect(started).toMatchObject({
    args: expect.arrayContaining([...given, "--debug"]) as unknown,
    nextArgs: expect.arrayContaining([...given, "--resume"]) as unknown,
    permissions: "deny",
    maxTurns: 3,
    systemHash: "b45ae4f48aec50e3",
  });
  expect(agentOf({ type: "acp", preset: "gemini", ...settings, allowedTools: [] })).toMatchObject({
    args: ["--acp", "--skip-trust", "--debug"],
    homeFiles: {
      ".gemini/GEMINI.md": "a {prompt}",
      ".gemini/settings.json": {
        model: { maxSessionTurns: 3 },
        tools: { exclude: expect.arrayContaining(["glob"]) as unknown },
      },
    },
  });
  expect(agentOf({ type: "command", preset: "codex" })).toMatchObject({ permissions: "allow" });
  expect(agentOf({ type: "command", preset: "codex", args: ["{prompt}"] })).not.toHaveProperty("permissions");
});

it("leaves no undefined members in the model", () => {
  const hasUndefined = (value: unknown): boolean =>
    typeof value === "object" && value !== null
      ? Object.values(value).some((member) => member === undefined || hasUndefined(member))
      : false;
  expect(hasUndefined(evalOf({ workflows: [workflow], ...judgeWith({}), agent: scripted }))).toBe(false);
});

it.each([
  [{ type: "acp", preset: "gemini", model: "m", args: ["--acp"] }, /model has no effect beside args/],
  [{ type: "acp", preset: "copilot", connect: "bridge" }, /connect must be http/],
  [
    { type: "command", preset: "codex", model: "m", args: ["exec", "{prompt}"] },
    /model has no effect: write \{model\}/,
  ],
  [{ type: "command", command: "x", model: "m", stdin: true }, /model has no effect: write \{model\}/],
  [{ type: "command", preset: "codex", model: "m", args: ["exec", "-m", "{model}", "{prompt}"] }, undefined],
  [{ type: "command", command: "x", model: "m", env: { MODEL: "{model}" }, stdin: true }, undefined],
  [
    { type: "acp", preset: "gemini", extraArgs: ["-d"], args: ["--acp"] },
    /extraArgs adds to the args of a preset/,
  ],
  [
    { type: "command", command: "x", extraArgs: ["-d"], stdin: true },
    /extraArgs adds to the args of a preset/,
  ],
  [
    { type: "command", preset: "claude-code", maxTurns: 3, args: ["{prompt}"] },
    /maxTurns has no effect beside args/,
  ],
  [
    { type: "command", preset: "codex", maxTurns: 3 },
    /maxTurns cannot be set: Codex has no limit of its turns: set limits.maxToolCalls/,
  ],
  [
    { type: "acp", preset: "copilot", systemPrompt: { replace: "x" } },
    /systemPrompt cannot be set: Copilot CLI cannot replace its system prompt: give the text alone/,
  ],
  [
    { type: "command", preset: "claude-code", effort: "minimal" },
    /effort cannot be set: Claude Code has no effort minimal: choose one of low, medium/,
  ],
  [{ type: "acp", command: "x", maxTurns: 3 }, /maxTurns needs a preset/],
  [{ type: "acp", command: "x", effort: "high", systemPrompt: "x" }, undefined],
  [{ type: "command", command: "x", permissions: "deny", stdin: true }, /permissions needs a preset/],
  [
    { type: "acp", preset: "gemini", maxTurns: 3, home: "user" },
    /maxTurns cannot be set with home: user: the program reads it from a file/,
  ],
  [
    { type: "command", preset: "opencode", permissions: "deny", env: { OPENCODE_PERMISSION: "{}" } },
    /permissions has no effect beside OPENCODE_PERMISSION in env/,
  ],
  [{ type: "acp", preset: "gemini", allowedTools: ["a,b"] }, /must be one name, without a comma/],
  [
    { type: "acp", preset: "codex", model: "m", sessionOptions: { model: "n" } },
    /sessionOptions must not have model beside the agent's own model/,
  ],
  [{ type: "acp", preset: "codex", sessionOptions: { model: "n" } }, undefined],
  [
    { type: "acp", preset: "qwen-code", maxTurns: 3 },
    /maxTurns cannot be set: Qwen Code does not tell that its turns were limited: set limits.maxTurns/,
  ],
])("refuses what would have no effect on a program: %j", (agent, problem) => {
  const parsed = (): unknown => evalOf({ ...withWorkflow, agent }).agents[0];
  if (problem === undefined) expect(parsed()).toBeDefined();
  else expect(parsed).toThrow(problem);
});

it.each([
  [
    ["a", "a (2)", "a"],
    ["a", "a (2)", "a (3)"],
  ],
  [
    ["a", "a", "a (2)"],
    ["a", "a (2)", "a (2) (2)"],
  ],
])("makes of %j %j", (titles, unique) => {
  expect(uniqueTitles(titles)).toEqual(unique);
});

it("always gives as many different titles as it got", () => {
  const title = fc.constantFrom("a", "b", "a (2)", "a (3)", "a (2) (2)");
  fc.assert(
    fc.property(fc.array(title), (titles) => {
      const unique = uniqueTitles(titles);
      expect(unique).toHaveLength(titles.length);
      expect(new Set(unique).size).toBe(titles.length);
    }),
  );
});

it.each<[KeyPath, boolean]>([
  [["servers"], true],
  [["servers", "own"], false],
  [["servers", "own", "cwd"], true],
  [["servers", "own", "env", "OWN"], false],
  [["servers", "own", "args", 0], false],
  [["workflows"], false],
  [["toolHealthSuites", 0, "server"], false],
])("%j is a key that the format names: %s", (path, expected) => {
  expect(isSettingOfConfig(path)).toBe(expected);
});
