import { serverEffects } from "../../../../test/support/config-effects.ts";
import { extensionEffects } from "../../../../test/support/extension-effects.ts";
import type { Step } from "../step.ts";
import { describe, expect, it } from "vitest";
import type { Config } from "./config-schema.ts";
import type { Eval, Json } from "../model.ts";
import {
  parseConfig,
  type ParseConfigOptions,
  type ParsedEval,
  type TaskFilesOfConfig,
} from "./parse-config.ts";

const stdio = { transport: "stdio", command: "node" } as const;
const toolTest = { name: "add" };
const suite = { name: "suite", tests: [toolTest] };
const workflow = { name: "flow", steps: [{ user: "hi", expectedState: "hello" }] };
/** As small as a config can be. */
const base: Config = { server: stdio, toolHealthSuites: [suite] };

function parse(config: unknown, options: Partial<ParseConfigOptions> = {}): ParsedEval {
  return parseConfig(config as Json, {
    defaultName: "folder",
    completeProgram: ({ env, inheritEnv, cwd }) => ({
      env: { ...env, inherited: String(inheritEnv) },
      ...(cwd === undefined ? {} : { cwd: `/dir/${cwd}` }),
    }),
    resolvePath: (path) => `/dir/${path}`,
    completeStdio: ({ cwd, env, inheritEnv }) => ({
      cwd: cwd ?? "/dir",
      env: { ...env, inherited: String(inheritEnv) },
    }),
    locate: ({ path }) => ({ file: "f", path: path.join(".") }),
    ...options,
  });
}

function evalOf(config: Config, options?: Partial<ParseConfigOptions>): Eval {
  const parsed = parse(config, options);
  if (!parsed.ok) throw new Error(parsed.diagnostics.map((each) => each.message).join("\n"));
  return parsed.eval;
}

function notesOf(config: Config, options?: Partial<ParseConfigOptions>): readonly string[] {
  const parsed = parse(config, options);
  return parsed.ok ? parsed.notes : ["not valid"];
}

function taskFilesOf(config: Config): TaskFilesOfConfig {
  const parsed = parse(config);
  if (!parsed.ok) throw new Error(parsed.diagnostics.map((each) => each.message).join("\n"));
  return parsed.taskFiles;
}

function problemsOf(config: unknown, options?: Partial<ParseConfigOptions>): string[] {
  const parsed = parse(config, options);
  return parsed.ok
    ? []
    : parsed.diagnostics.map((each) => `${each.code} at ${each.location?.path}: ${each.message}`);
}

describe("defaults", () => {
  it("fills in everything that a tool test needs", () => {
    expect(evalOf(base)).toEqual({
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
          location: { file: "f", path: "toolHealthSuites.0.tests.0" },
        },
      ],
      trials: 1,
      limits: { trialMs: 300_000, callMs: 30_000, modelMs: 120_000 },
      reporters: ["console"],
    } satisfies Eval);
  });

  it("makes a task of a workflow", () => {
    expect(evalOf({ server: stdio, workflows: [workflow] }).tasks).toEqual([
      {
        name: "flow",
        form: "workflow",
        servers: ["default"],
        turns: [{ user: "hi", expectedState: "hello" }],
        expectTools: [],
        verify: [],
        parallel: false,
        location: { file: "f", path: "workflows.0" },
      },
    ]);
  });

  it("gives headers to servers with a URL", () => {
    const url = "https://example.com/mcp";
    const spec = evalOf({ ...base, server: { transport: "shttp", url } });
    expect(spec.servers["default"]).toEqual({
      transport: "shttp",
      url,
      headers: {},
      startupTimeoutMs: 30_000,
      maxMessageBytes: 10_485_760,
    });
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
    llmJudge: true,
    openaiKey: "sk-test",
  };
  const spec = evalOf(config as Config);
  expect(spec.tasks.map((task) => task.expectTools)).toEqual([
    ["greet", "part"],
    ["find", "buy"],
  ]);
  expect(spec.judge).toEqual({ model: "openai/gpt-4o", apiKey: "sk-test", passThreshold: 0.8 });
  expect(problemsOf({ ...config, server: { transport: "shttp", url: "http://localhost:1/mcp" } })).toEqual(
    [],
  );
});

it("takes the published library's extra fields", () => {
  const config: Config = {
    server: {
      transport: "sse",
      url: "http://localhost:1/sse",
      headers: { Authorization: "Bearer x" },
      reconnect: true,
      reconnectInterval: 5000,
      maxReconnectAttempts: 10,
    },
    workflows: [],
    toolHealthSuites: [
      {
        name: "health",
        description: "all",
        parallel: true,
        timeout: 5000,
        tests: [
          {
            name: "add",
            description: "adds",
            args: { a: 1 },
            expectedResult: 8,
            maxLatency: 500,
            retries: 2,
          },
          { name: "div", expectedError: "zero" },
        ],
      },
    ],
    timeout: 20_000,
    llmJudge: false,
    judgeModel: "gpt-4o",
    passThreshold: 0.9,
  };
  expect(problemsOf(config)).toEqual([]);
});

const model = { type: "model", model: "openai/gpt-5" } as const;
const withWorkflow: Config = { server: stdio, workflows: [workflow] };
const sse = { transport: "sse", url: "http://localhost:1/sse" } as const;

function withServer(server: Config["server"]): Config {
  return { ...base, ...(server === undefined ? {} : { server }) };
}

function inheriting(inheritEnv: string[] | true): unknown {
  return evalOf(withServer({ ...stdio, inheritEnv })).servers["default"];
}

function withTest(test: Partial<NonNullable<Config["toolHealthSuites"]>[number]["tests"][number]>): Config {
  return { server: stdio, toolHealthSuites: [{ name: "suite", tests: [{ ...toolTest, ...test }] }] };
}

function withAgent(agent: Config["agent"]): Config {
  return { ...withWorkflow, ...(agent === undefined ? {} : { agent }) };
}

const scripted = {
  type: "scripted" as const,
  plan: { flow: [{ call: "add", args: { a: 1 } }, { say: "hello" }] },
};

function agentWith(fields: object): Config {
  return withAgent({ ...model, ...fields });
}

function judgeWith(fields: object): Config {
  return { ...withWorkflow, llmJudge: true, judge: { model: "openai/o3", ...fields } };
}

function step(config: Config): unknown {
  return evalOf(config).tasks[0]?.verify[0];
}

function turn(fields: object): unknown {
  return evalOf({
    server: stdio,
    workflows: [{ ...workflow, steps: [{ user: "x", expectedState: "y", ...fields }] }],
  }).tasks[0]?.turns[0];
}

type Effect = () => void;

const evalHas =
  (config: Config, expected: object): Effect =>
  () =>
    expect(evalOf(config)).toMatchObject(expected);

const serverHas =
  (server: Config["server"], expected: object): Effect =>
  () =>
    expect(evalOf(withServer(server)).servers["default"]).toMatchObject(expected);

const agentHas =
  (fields: object, expected: object = fields): Effect =>
  () =>
    expect(evalOf(agentWith(fields)).agents[0]).toMatchObject(expected);

/** For every field, by `DEFINITION.FIELD`: what it changes. A field without an entry here fails the test below. */
const effects: Readonly<Record<string, () => void>> = {
  ...serverEffects,
  ...extensionEffects,
  "Config.$schema": () => expect(problemsOf({ ...base, $schema: "./schema.json" })).toEqual([]),
  "Config.name": evalHas({ ...base, name: "mine" }, { name: "mine" }),
  "Config.description": () => expect(problemsOf({ ...base, description: "for readers" })).toEqual([]),
  "Config.server": () => expect(Object.keys(evalOf(base).servers)).toEqual(["default"]),
  "Config.servers": () => {
    const { server: _, ...rest } = base;
    const spec = evalOf({ ...rest, servers: { one: stdio, two: sse } });
    expect(Object.keys(spec.servers)).toEqual(["one", "two"]);
    expect(spec.tasks[0]?.servers).toEqual(["one", "two"]);
    expect(spec.tasks[0]?.verify[0]).not.toHaveProperty("server");
  },
  "Config.agent": evalHas(withAgent("openai/gpt-5"), {
    agents: [{ type: "model", name: "openai/gpt-5", model: "openai/gpt-5", maxSteps: 20 }],
  }),
  "Config.agents": () =>
    expect(evalOf({ ...withWorkflow, agents: { a: "openai/gpt-5", b: scripted } }).agents).toMatchObject([
      { name: "a", model: "openai/gpt-5" },
      { name: "b", type: "scripted" },
    ]),
  "Config.workflows": () => expect(evalOf(withWorkflow).tasks[0]?.form).toBe("workflow"),
  "Config.toolHealthSuites": () => expect(evalOf(base).tasks[0]?.form).toBe("tool-test"),
  "Config.tasks": () =>
    expect(taskFilesOf({ server: stdio, tasks: ["a/*.yaml"] }).patterns).toEqual(["a/*.yaml"]),
  "Config.inheritEnv": () => {
    expect(taskFilesOf({ ...base, inheritEnv: true }).inheritEnv).toBe(true);
    expect(taskFilesOf({ ...base, inheritEnv: ["A"] }).inheritEnv).toEqual(["A"]);
    expect(taskFilesOf(base).inheritEnv).toEqual([]);
  },
  "Config.llmJudge": () => {
    expect(evalOf(withWorkflow).judge).toBeUndefined();
    expect(evalOf({ ...withWorkflow, llmJudge: true }).judge).toEqual({
      model: "openai/gpt-4o",
      passThreshold: 0.8,
    });
  },
  "Config.openaiKey": evalHas(
    { ...withWorkflow, llmJudge: true, openaiKey: "k" },
    { judge: { apiKey: "k" } },
  ),
  "Config.judgeModel": () => {
    expect(evalOf({ ...withWorkflow, llmJudge: true, judgeModel: "gpt-5" }).judge?.model).toBe(
      "openai/gpt-5",
    );
    expect(evalOf({ ...withWorkflow, llmJudge: true, judgeModel: "google/g" }).judge?.model).toBe("google/g");
  },
  "Config.passThreshold": evalHas(
    { ...withWorkflow, llmJudge: true, passThreshold: 0.5 },
    { judge: { passThreshold: 0.5 } },
  ),
  "Config.judge": evalHas(judgeWith({}), { judge: { model: "openai/o3", passThreshold: 0.8 } }),
  "Config.timeout": () => {
    const spec = evalOf({ ...base, timeout: "7s" });
    expect(spec.limits.callMs).toBe(7000);
    expect(spec.servers["default"]?.startupTimeoutMs).toBe(7000);
    expect(spec.tasks[0]?.verify[0]?.timeoutMs).toBe(7000);
  },
  "Config.limits": evalHas(
    { ...base, limits: { trial: "1m", modelCall: "2s" } },
    { limits: { trialMs: 60_000, callMs: 30_000, modelMs: 2000 } },
  ),
  "Config.trials": evalHas({ ...base, trials: 7 }, { trials: 7 }),
  "Config.concurrency": evalHas({ ...base, concurrency: 7 }, { concurrency: 7 }),
  "Config.reporters": evalHas(
    { ...base, reporters: ["json=out.json", "junit"] },
    { reporters: ["json=out.json", "junit"] },
  ),
  "Limits.trial": evalHas({ ...base, limits: { trial: 5 } }, { limits: { trialMs: 5 } }),
  "Limits.modelCall": evalHas({ ...base, limits: { modelCall: 5 } }, { limits: { modelMs: 5 } }),
  "StdioServer.transport": () => expect(evalOf(base).servers["default"]?.transport).toBe("stdio"),
  "StdioServer.command": serverHas({ ...stdio, command: "x" }, { command: "x" }),
  "StdioServer.args": serverHas({ ...stdio, args: ["a"] }, { args: ["a"] }),
  "StdioServer.env": serverHas({ ...stdio, env: { A: "b" } }, { env: { A: "b" } }),
  "StdioServer.cwd": serverHas({ ...stdio, cwd: "sub" }, { cwd: "sub" }),
  "StdioServer.inheritEnv": () => {
    expect(inheriting(["A", "B"])).toMatchObject({ env: { inherited: "A,B" } });
    expect(inheriting(true)).toMatchObject({ env: { inherited: "true" } });
  },
  "StdioServer.startupTimeout": serverHas({ ...stdio, startupTimeout: 9 }, { startupTimeoutMs: 9 }),
  "StdioServer.maxMessageBytes": serverHas({ ...stdio, maxMessageBytes: 9 }, { maxMessageBytes: 9 }),
  "ShttpServer.transport": serverHas({ ...sse, transport: "shttp" }, { transport: "shttp" }),
  "ShttpServer.url": serverHas({ ...sse, transport: "shttp" }, { url: sse.url }),
  "ShttpServer.headers": serverHas(
    { ...sse, transport: "shttp", headers: { A: "b" } },
    { headers: { A: "b" } },
  ),
  "ShttpServer.startupTimeout": serverHas(
    { ...sse, transport: "shttp", startupTimeout: 9 },
    { startupTimeoutMs: 9 },
  ),
  "ShttpServer.maxMessageBytes": serverHas(
    { ...sse, transport: "shttp", maxMessageBytes: 9 },
    { maxMessageBytes: 9 },
  ),
  "SseServer.transport": serverHas(sse, { transport: "sse" }),
  "SseServer.url": serverHas(sse, { url: sse.url }),
  "SseServer.headers": serverHas({ ...sse, headers: { A: "b" } }, { headers: { A: "b" } }),
  "SseServer.reconnect": () =>
    expect(notesOf(withServer({ ...sse, reconnect: true }))).toEqual([
      'server "default": reconnect has no effect; a lost connection is an error',
    ]),
  "SseServer.reconnectInterval": () =>
    expect(notesOf(withServer({ ...sse, reconnectInterval: 100 }))).toEqual([
      'server "default": reconnectInterval has no effect; a lost connection is an error',
    ]),
  "SseServer.maxReconnectAttempts": () =>
    expect(notesOf(withServer({ ...sse, maxReconnectAttempts: 1 }))).toEqual([
      'server "default": maxReconnectAttempts has no effect; a lost connection is an error',
    ]),
  "SseServer.startupTimeout": serverHas({ ...sse, startupTimeout: 9 }, { startupTimeoutMs: 9 }),
  "SseServer.maxMessageBytes": serverHas({ ...sse, maxMessageBytes: 9 }, { maxMessageBytes: 9 }),
  "ModelAgent.type": () => {
    expect(evalOf(withAgent(model)).agents).toEqual(evalOf(withAgent({ model: model.model })).agents);
    expect(evalOf(withAgent(model)).agents[0]?.type).toBe("model");
  },
  "ModelAgent.model": agentHas({ model: "m" }),
  "ModelAgent.baseURL": agentHas({ baseURL: "http://x:1/v1" }, { baseURL: "http://x:1/v1" }),
  "ModelAgent.apiKey": agentHas({ apiKey: "k" }),
  "ModelAgent.api": agentHas({ api: "chat" }),
  "ModelAgent.headers": agentHas({ headers: { A: "b" } }),
  "ModelAgent.maxSteps": agentHas({ maxSteps: 3 }),
  "ModelAgent.temperature": agentHas({ temperature: 0 }),
  "ModelAgent.system": agentHas({ system: "s" }),
  "ModelAgent.maxOutputTokens": agentHas({ maxOutputTokens: 9 }),
  "ScriptedAgent.type": () => expect(evalOf(withAgent(scripted)).agents[0]?.name).toBe("scripted"),
  "ScriptedAgent.plan": () =>
    expect(evalOf(withAgent(scripted)).agents[0]).toEqual({ ...scripted, name: "scripted" }),
  "ScriptedCall.call": () =>
    expect(evalOf(withAgent(scripted)).agents[0]).toMatchObject({ plan: scripted.plan }),
  "ScriptedCall.server": () => {
    const plan = { flow: [{ call: "add", server: "default" }] };
    expect(evalOf(withAgent({ ...scripted, plan })).agents[0]).toMatchObject({
      plan: { flow: [{ call: "add", server: "default", args: {} }] },
    });
  },
  "ScriptedCall.args": () => {
    const plan = { flow: [{ call: "add", args: { deep: [{ x: null }] } }] };
    expect(evalOf(withAgent({ ...scripted, plan })).agents[0]).toMatchObject({ plan });
  },
  "ScriptedSay.say": () => {
    const plan = { flow: [{ say: "" }] };
    expect(evalOf(withAgent({ ...scripted, plan })).agents[0]).toMatchObject({ plan });
  },

  "Workflow.name": () => expect(evalOf(withWorkflow).tasks[0]?.name).toBe("flow"),
  "Workflow.description": () =>
    expect(
      evalOf({ server: stdio, workflows: [{ ...workflow, description: "d" }] }).tasks[0]?.description,
    ).toBe("d"),
  "Workflow.steps": () =>
    expect(
      evalOf({
        server: stdio,
        workflows: [{ ...workflow, steps: [{ user: "a", expectedState: "b" }, { user: "c" }] }],
      }).tasks[0]?.turns,
    ).toEqual([{ user: "a", expectedState: "b" }, { user: "c" }]),
  "Workflow.expectTools": () => {
    const steps = [{ user: "a", expectTools: ["one"] }];
    const flow = (expectTools: string[]) =>
      evalOf({ server: stdio, workflows: [{ name: "f", steps, expectTools }] });
    expect(flow(["two"]).tasks[0]?.expectTools).toEqual(["two"]);
    expect(flow([]).tasks[0]?.expectTools).toEqual(["one"]);
  },
  "Workflow.servers": () => {
    const spec = evalOf({
      servers: { a: stdio, b: stdio },
      workflows: [workflow, { ...workflow, name: "g", servers: ["b"] }],
    });
    expect(spec.tasks.map((task) => task.servers)).toEqual([["a", "b"], ["b"]]);
  },
  "WorkflowStep.user": () => expect(turn({ user: "words" })).toMatchObject({ user: "words" }),
  "WorkflowStep.expectTools": () => {
    const steps = [
      { user: "a", expectTools: ["one"] },
      { user: "b", expectTools: ["two", "one"] },
    ];
    expect(evalOf({ server: stdio, workflows: [{ name: "f", steps }] }).tasks[0]?.expectTools).toEqual([
      "one",
      "two",
      "one",
    ]);
  },
  "WorkflowStep.expectedState": () =>
    expect(turn({ expectedState: "done" })).toMatchObject({ expectedState: "done" }),
  "WorkflowStep.expectedError": () =>
    expect(turn({ expectedError: "no" })).toMatchObject({ expectedError: "no" }),

  "ToolHealthSuite.name": () =>
    expect(evalOf(base).tasks[0]).toMatchObject({ name: "suite/add", suite: "suite" }),
  "ToolHealthSuite.description": () =>
    expect(problemsOf({ ...base, toolHealthSuites: [{ ...suite, description: "for readers" }] })).toEqual([]),
  "ToolHealthSuite.tests": () => {
    const tests = [toolTest, toolTest, { ...toolTest, description: "adds" }];
    expect(
      evalOf({ ...base, toolHealthSuites: [{ ...suite, tests }] }).tasks.map((task) => task.name),
    ).toEqual(["suite/add", "suite/add (2)", "suite/adds"]);
  },
  "ToolHealthSuite.parallel": () =>
    expect(evalOf({ ...base, toolHealthSuites: [{ ...suite, parallel: true }] }).tasks[0]?.parallel).toBe(
      true,
    ),
  "ToolHealthSuite.timeout": () =>
    expect(step({ ...base, toolHealthSuites: [{ ...suite, timeout: "1s" }] })).toMatchObject({
      timeoutMs: 1000,
    }),
  "ToolHealthSuite.server": () => {
    const tests = [toolTest, { ...toolTest, server: "a" }];
    const spec = evalOf({
      servers: { a: stdio, b: stdio },
      toolHealthSuites: [{ ...suite, tests, server: "b" }],
    });
    expect(spec.tasks.map((task) => [task.servers, serverOf(task.verify[0])])).toEqual([
      [["b"], "b"],
      [["a"], "a"],
    ]);
  },
  "ToolTest.name": () => expect(step(base)).toMatchObject({ request: { tool: "add" } }),
  "ToolTest.description": () =>
    expect(evalOf(withTest({ description: "adds" })).tasks[0]).toMatchObject({
      name: "suite/adds",
      description: "adds",
    }),
  "ToolTest.server": () => {
    const spec = evalOf({ ...withTest({ server: "b" }), server: undefined, servers: { a: stdio, b: stdio } });
    expect(spec.tasks[0]).toMatchObject({ servers: ["b"], verify: [{ server: "b" }] });
  },
  "ToolTest.args": () =>
    expect(step(withTest({ args: { a: [1] } }))).toMatchObject({ request: { args: { a: [1] } } }),
  "ToolTest.expectedResult": () => {
    for (const result of [8, "8", null, false, { a: [] }]) {
      expect(step(withTest({ expectedResult: result }))).toMatchObject({ expect: { result } });
    }
  },
  "ToolTest.expectedError": () =>
    expect(step(withTest({ expectedError: "no" }))).toMatchObject({ expect: { error: "no" } }),
  "ToolTest.maxLatency": () =>
    expect(step(withTest({ maxLatency: "1s" }))).toMatchObject({ expect: { maxLatencyMs: 1000 } }),
  "ToolTest.retries": () => expect(step(withTest({ retries: 5 }))).toMatchObject({ retries: 5 }),
  "ToolTest.timeout": () =>
    expect(
      step({ ...base, toolHealthSuites: [{ name: "s", timeout: 5, tests: [{ name: "t", timeout: 6 }] }] }),
    ).toMatchObject({ timeoutMs: 6 }),

  "Config.extensions": () => {
    const extensions = { e: { package: "npm:e" }, sandbox: { package: "./s" }, timeout: "1s" };
    expect(problemsOf({ ...base, extensions })).toEqual([]);
    expect(problemsOf({ ...base, extensions: { e: { package: "e" } } })).toEqual([
      'extension/invalid-package at extensions.e.package: extensions.e.package: "e" is not a valid package',
    ]);
  },
  "Judge.model": evalHas(judgeWith({ model: "google/g" }), { judge: { model: "google/g" } }),
  "Judge.baseURL": evalHas(judgeWith({ baseURL: "http://x:1" }), { judge: { baseURL: "http://x:1" } }),
  "Judge.apiKey": evalHas(judgeWith({ apiKey: "k" }), { judge: { apiKey: "k" } }),
  "Judge.api": evalHas(judgeWith({ api: "chat" }), { judge: { api: "chat" } }),
  "Judge.temperature": evalHas(judgeWith({ temperature: 0 }), { judge: { temperature: 0 } }),
  "Judge.maxOutputTokens": evalHas(judgeWith({ maxOutputTokens: 9 }), { judge: { maxOutputTokens: 9 } }),
  "Judge.passThreshold": evalHas(judgeWith({ passThreshold: 0.1 }), { judge: { passThreshold: 0.1 } }),
};

describe("every field does something", () => {
  it.each(Object.entries(effects))("%s", (_, check) => check());

  it("has a test for each", async () => {
    const { configJsonSchema } = await import("../../../../scripts/schemas/config-reference.ts");
    const { $defs, properties } = configJsonSchema() as Record<
      string,
      Record<string, { properties?: object }>
    >;
    const fields = Object.entries({ Config: { properties }, ...$defs }).flatMap(([name, definition]) =>
      Object.keys(definition.properties ?? {}).map((field) => `${name}.${field}`),
    );
    expect(Object.keys(effects).toSorted()).toEqual(fields.toSorted());
  });
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

function names(config: Config, requested: readonly string[] = []): string[] {
  return evalOf(config, { agents: requested }).agents.map((agent) => agent.name);
}

describe("the judge of task files", () => {
  const withTasks: Config = { server: stdio, tasks: ["t.yaml"], judge: { model: "google/g" } };

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

  it("keeps the settings of an agent that is asked for by name", () => {
    expect(evalOf({ ...withWorkflow, agents }, { agents: ["slow"] }).agents).toEqual([
      { type: "model", name: "slow", model: "google/g", system: "s", maxSteps: 20 },
    ]);
  });

  it("refuses names of nothing", () => {
    expect(problemsOf({ ...withWorkflow, agents, agent: "slw" })).toEqual([
      'config/unknown-reference at agent: no agent is named "slw"',
    ]);
    expect(problemsOf({ ...withWorkflow, agents }, { agents: ["fst"] })).toEqual([
      'config/unknown-reference at agents: no agent is named "fst"',
    ]);
  });

  it("wants plans only from scripted agents that run", () => {
    const plans = {
      ...withWorkflow,
      agents: { fast: "openai/gpt-5", script: { type: "scripted", plan: {} } },
    } as Config;
    expect(problemsOf({ ...plans, agent: "fast" })).toEqual([]);
    expect(problemsOf(plans)).toEqual([
      'agent/no-plan at agents.script.plan: agents.script.plan has no plan for the workflow "flow"',
    ]);
    expect(problemsOf({ ...plans, agent: "fast" }, { agents: ["script"] })).toHaveLength(1);
  });
});

it("says when step-level expectTools are not used", () => {
  const steps = [{ user: "a", expectTools: ["one"] }];
  const flow = (expectTools: string[]): Config => ({
    server: stdio,
    workflows: [{ name: "f", steps, expectTools }],
  });
  expect(notesOf(flow(["two"]))).toEqual([
    'workflow "f": expectTools of its steps has no effect; the workflow\'s own list wins',
  ]);
  expect(notesOf(flow(["one"]))).toEqual([]);
  expect(notesOf(flow([]))).toEqual([]);
});

it("has no limits for what stands for the usual: protocol auto, and all tools", () => {
  const usual = evalOf({ ...base, server: { ...stdio, protocol: "auto", tools: ["add", "*"] } });
  expect(usual.servers["default"]).toEqual(evalOf(base).servers["default"]);
  const limited = evalOf({ ...base, server: { ...stdio, protocol: "legacy", tools: ["add"] } });
  expect(limited.servers["default"]).toMatchObject({ protocol: "legacy", tools: ["add"] });
});

it("writes the prompt of a preset to stdin only where its arguments are the preset's own", () => {
  const agentOf = (more: object): unknown =>
    evalOf({ ...withWorkflow, agent: { type: "command", preset: "claude-code", ...more } as never })
      .agents[0];
  expect(agentOf({})).toMatchObject({ stdin: true });
  expect(agentOf({ args: ["{prompt}"] })).toMatchObject({ stdin: false });
  expect(agentOf({ args: ["-"], stdin: true })).toMatchObject({ stdin: true });
});

it("leaves no undefined members in the model", () => {
  const hasUndefined = (value: unknown): boolean =>
    typeof value === "object" && value !== null
      ? Object.values(value).some((member) => member === undefined || hasUndefined(member))
      : false;
  expect(
    hasUndefined(evalOf({ ...withWorkflow, ...judgeWith({}), agent: scripted, toolHealthSuites: [suite] })),
  ).toBe(false);
});

function serverOf(step: Step | undefined): string | undefined {
  return step?.type === "mcp" ? step.server : undefined;
}

it.each([
  [{ type: "acp", preset: "gemini", model: "m", args: ["--acp"] }, /model has no effect beside args/],
  [{ type: "acp", preset: "codex", model: "m", args: ["x"] }, undefined],
  [{ type: "acp", preset: "copilot", connect: "bridge" }, /connect must be http/],
  [{ type: "acp", preset: "gemini", connect: "bridge" }, undefined],
  [
    { type: "command", preset: "codex", model: "m", args: ["exec", "{prompt}"] },
    /model has no effect: write \{model\}/,
  ],
  [{ type: "command", command: "x", model: "m", stdin: true }, /model has no effect: write \{model\}/],
  [{ type: "command", preset: "codex", model: "m", args: ["exec", "-m", "{model}", "{prompt}"] }, undefined],
  [{ type: "command", command: "x", model: "m", env: { MODEL: "{model}" }, stdin: true }, undefined],
  [{ type: "command", preset: "codex", model: "m" }, undefined],
])("refuses what would have no effect on a program: %j", (agent, problem) => {
  const parsed = (): unknown => evalOf({ ...withWorkflow, agent: agent as never }).agents[0];
  if (problem === undefined) expect(parsed()).toBeDefined();
  else expect(parsed).toThrow(problem);
});
