import { describe, expect, it } from "vitest";
import { formatKeyPath } from "./json.ts";
import type { Json } from "./model.ts";
import { parseConfig } from "./config/parse-config.ts";

const stdio = { transport: "stdio", command: "node" };
const tests = [{ name: "add" }];
const suites = { toolHealthSuites: [{ name: "suite", tests }] };
const workflow = { name: "flow", steps: [{ user: "hi", expectedState: "hello" }] };
const flows = { server: stdio, workflows: [workflow] };

interface Found {
  readonly at: string | undefined;
  readonly message: string;
  readonly code: string;
  readonly hint?: string | undefined;
}

function problems(config: unknown, templates = new Map<string, string>()): Found[] {
  const parsed = parseConfig(config as Json, {
    defaultName: "folder",
    completeStdio: () => ({ cwd: "/", env: {} }),
    completeProgram: ({ env }) => ({ env }),
    locate: ({ path, at }) => ({ file: "f", path: `${at} ${formatKeyPath(path)}` }),
    templates,
  });
  if (parsed.ok) return [];
  return parsed.diagnostics.map(({ code, message, location, hint }) => ({
    at: location?.path,
    message,
    code,
    hint,
  }));
}

/**
 * The only problem, as `CODE key-or-value PATH | MESSAGE`. A message alone begins with the path of the value that is invalid. Codes
 * without a slash are of `config/`.
 */
type Case = readonly [config: unknown, problem: string];

function check(cases: readonly Case[]): void {
  it.each(cases)("%j: %s", (config, expected) => {
    const [place = "", message] = expected.split(" | ");
    const [code = "", ...at] =
      message === undefined ? ["invalid-value", "value", place.split(" ")[0]] : place.split(" ");
    expect(problems(config).map((each) => ({ code: each.code, at: each.at, message: each.message }))).toEqual(
      [{ code: code.includes("/") ? code : `config/${code}`, at: at.join(" "), message: message ?? place }],
    );
  });
}

describe("servers", () => {
  check([
    [suites, 'missing-key value  | missing key "server" or "servers"'],
    [
      { ...suites, server: stdio, servers: { a: stdio } },
      "invalid-value key servers | server and servers cannot both be given",
    ],
    [{ ...suites, servers: {} }, "servers must have at least one server"],
    [
      { ...suites, server: {} },
      'missing-key value server | missing key "transport" in server: "stdio", "shttp", "http", "sse" or "mock"',
    ],
    [
      { ...suites, server: { transport: "http" } },
      'missing-key value server | missing key "url" in server: a string',
    ],
    [
      { ...suites, server: { transport: 5 } },
      'server.transport must be "stdio", "shttp", "http", "sse" or "mock", not a number',
    ],
    [{ ...suites, server: "node x" }, "server must be an object, not a string"],
    [
      { ...suites, server: { transport: "stdio" } },
      'missing-key value server | missing key "command" in server: a string',
    ],
    [{ ...suites, server: { ...stdio, command: null } }, "server.command must be a string, not empty (null)"],
    [{ ...suites, server: { ...stdio, command: " " } }, "server.command must not be blank"],
    [{ ...suites, server: { ...stdio, args: "a b" } }, "server.args must be a list, not a string"],
    [{ ...suites, server: { ...stdio, args: ["a", 5] } }, "server.args[1] must be a string, not a number"],
    [
      { ...suites, server: { ...stdio, env: { "A=B": "x" } } },
      'invalid-value key server.env["A=B"] | server.env["A=B"] must be the name of a variable',
    ],
    [
      { ...suites, server: { ...stdio, env: { A: null } } },
      "server.env.A must be a string, not empty (null)",
    ],
    [
      { ...suites, server: { ...stdio, inheritEnv: false } },
      "server.inheritEnv must be a list or true, not false",
    ],
    [
      { ...suites, server: { ...stdio, inheritEnv: [5] } },
      "server.inheritEnv[0] must be a string, not a number",
    ],
    [{ ...suites, server: { ...stdio, maxMessageBytes: 0 } }, "server.maxMessageBytes must be at least 1"],
    [
      { ...suites, server: { ...stdio, startupTimeout: "soon" } },
      'server.startupTimeout must be a duration above zero: milliseconds, or a text such as "500ms", "2s", "5m", "1h"',
    ],
    [
      { ...suites, server: { transport: "shttp" } },
      'missing-key value server | missing key "url" in server: a string',
    ],
    [
      { ...suites, server: { transport: "shttp", url: "localhost:3000" } },
      "server.url must be a URL that starts with http:// or https://",
    ],
    [
      { ...suites, server: { transport: "sse", url: "ftp://x/y" } },
      "server.url must be a URL that starts with http:// or https://",
    ],
    [
      { ...suites, servers: { " ": stdio } },
      'invalid-value key servers[" "] | servers[" "] must not be a blank name',
    ],
  ]);
});

describe("unknown keys", () => {
  it("are told one by one, with what was likely meant", () => {
    expect(problems({ ...suites, server: { ...stdio, arg: [], foo: 1 }, Trials: 3 })).toEqual([
      {
        code: "config/unknown-key",
        at: "key server.arg",
        message: 'unknown key "arg" in server',
        hint: 'Did you mean "args"? Known keys: transport, command, args, env, cwd, inheritEnv, sandbox, network, read, write, memory, processes, image, startupTimeout, maxMessageBytes, lifetime, required, tools, rateLimit, faults and 2 more.',
      },
      {
        code: "config/unknown-key",
        at: "key server.foo",
        message: 'unknown key "foo" in server',
        hint: "Known keys: transport, command, args, env, cwd, inheritEnv, sandbox, network, read, write, memory, processes, image, startupTimeout, maxMessageBytes, lifetime, required, tools, rateLimit, faults and 2 more.",
      },
      {
        code: "config/unknown-key",
        at: "key Trials",
        message: 'unknown key "Trials"',
        hint: expect.stringMatching(/^Did you mean "trials"\? Known keys: \$schema, name, /),
      },
    ]);
  });

  it.each([
    [{ ...flows, workflows: [{ ...workflow, expectTool: [] }] }, "key workflows[0].expectTool"],
    [
      { ...flows, workflows: [{ ...workflow, steps: [{ ...workflow.steps[0], expectState: "" }] }] },
      "key workflows[0].steps[0].expectState",
    ],
    [
      { server: stdio, toolHealthSuites: [{ name: "s", tests, paralel: true }] },
      "key toolHealthSuites[0].paralel",
    ],
    [
      { server: stdio, toolHealthSuites: [{ name: "s", tests: [{ name: "t", expectResult: 1 }] }] },
      "key toolHealthSuites[0].tests[0].expectResult",
    ],
    [{ ...flows, agent: { model: "m", maxStep: 1 } }, "key agent.maxStep"],
    [{ ...flows, judge: { model: "m", treshold: 1 } }, "key judge.treshold"],
    [{ ...flows, limits: { call: 1 } }, "key limits.call"],
    [
      { ...flows, agents: { a: { type: "scripted", plan: { flow: [{ call: "x", arg: {} }] } } } },
      "key agents.a.plan.flow[0].arg",
    ],
    [
      JSON.parse(
        '{"__proto__": {}, "server": {"transport": "stdio", "command": "x"}, "toolHealthSuites": [{"name": "s", "tests": [{"name": "t"}]}]}',
      ),
      "key __proto__",
    ],
  ])("are found in %j", (config, at) => {
    expect(problems(config).map((each) => [each.code, each.at])).toEqual([["config/unknown-key", at]]);
  });
});

describe("values", () => {
  const suite = (fields: object) => ({
    server: stdio,
    toolHealthSuites: [{ name: "s", tests: [{ name: "t", ...fields }] }],
  });
  const at = "toolHealthSuites[0].tests[0]";
  check([
    [{ ...suites, server: stdio, trials: 0 }, "trials must be at least 1"],
    [{ ...suites, server: stdio, trials: 10_001 }, "trials must be at most 10000"],
    [
      { ...suites, server: stdio, trials: 1.5 },
      "trials must be a whole number, not a number with a fraction",
    ],
    [{ ...suites, server: stdio, concurrency: 1025 }, "concurrency must be at most 1024"],
    [{ ...suites, server: stdio, concurrency: 0 }, "concurrency must be at least 1"],
    [{ ...suites, server: stdio, passThreshold: 1.1 }, "passThreshold must be at most 1"],
    [{ ...suites, server: stdio, passThreshold: -0.1 }, "passThreshold must be at least 0"],
    [{ ...suites, server: stdio, llmJudge: "maybe" }, "llmJudge must be true or false, not a string"],
    [
      { ...suites, server: stdio, timeout: -5 },
      'timeout must be a duration above zero: milliseconds, or a text such as "500ms", "2s", "5m", "1h"',
    ],
    [
      { ...suites, server: stdio, limits: { trial: 0 } },
      'limits.trial must be a duration above zero: milliseconds, or a text such as "500ms", "2s", "5m", "1h"',
    ],
    [
      { ...suites, server: stdio, reporters: ["html"] },
      "reporters[0] must be NAME or NAME=FILE, where NAME is one of console, json, junit",
    ],
    [
      { ...suites, server: stdio, reporters: ["json="] },
      "reporters[0] must be NAME or NAME=FILE, where NAME is one of console, json, junit",
    ],
    [{ ...suites, server: stdio, name: "" }, "name must not be blank"],
    [suite({ retries: 6 }), `${at}.retries must be at most 5`],
    [suite({ args: [] }), `${at}.args must be an object`],
    [suite({ expectedError: "" }), `${at}.expectedError must not be blank`],
    [
      { server: stdio, toolHealthSuites: [{ name: "s", tests: [] }] },
      "toolHealthSuites[0].tests must have at least 1 item",
    ],
    [
      { server: stdio, toolHealthSuites: [{ tests }] },
      'missing-key value toolHealthSuites[0] | missing key "name" in toolHealthSuites[0]: a string',
    ],
    [{ server: stdio, toolHealthSuites: {} }, "toolHealthSuites must be a list, not an object"],
    [{ ...flows, workflows: [{ ...workflow, steps: [] }] }, "workflows[0].steps must have at least 1 item"],
    [
      { ...flows, workflows: [{ ...workflow, steps: [{ user: "x", expectedState: "" }] }] },
      "workflows[0].steps[0].expectedState must not be blank",
    ],
    [
      { ...flows, workflows: [{ ...workflow, servers: [] }] },
      "workflows[0].servers must have at least 1 item",
    ],
    [{ ...flows, workflows: [null] }, "workflows[0] must be an object, not empty (null)"],
  ]);

  it.each([
    [null, "empty (null)"],
    [[], "a list"],
    ["text", "a string"],
    [5, "a number"],
  ])("refuse %j as a config", (config, kind) => {
    expect(problems(config)[0]).toMatchObject({
      code: "config/invalid-value",
      message: `the config must be an object, not ${kind}`,
    });
  });

  it("get a hint about quotes", () => {
    const hints = (config: object, templates?: Map<string, string>) =>
      problems({ ...suites, server: stdio, ...config }, templates).map((each) => each.hint);
    expect(hints({ server: { ...stdio, env: { A: 1, B: true } } })).toEqual([
      "Write it in quotes.",
      "Write it in quotes.",
    ]);
    expect(hints({ trials: "3", llmJudge: "true" })).toEqual([
      "Write it without quotes.",
      "Write it without quotes.",
    ]);
    expect(hints({ trials: "3" }, new Map([["trials", "${N}"]]))).toEqual([
      "A variable always gives a string.",
    ]);
  });
});

describe("agents: the branch that was meant", () => {
  check([
    [{ ...flows, agent: 5 }, "agent must be a string or an object, not a number"],
    [{ ...flows, agent: {} }, 'missing-key value agent | missing key "model" or "type" in agent'],
    [{ ...flows, agent: { model: 5 } }, "agent.model must be a string, not a number"],
    [
      { ...flows, agent: { type: "model" } },
      'missing-key value agent | missing key "model" in agent: a string',
    ],
    [
      { ...flows, agent: { type: "robot", model: "m" } },
      'agent.type must be "model", "scripted", "acp" or "command"',
    ],
    [
      { ...flows, agent: { type: "scripted" } },
      'missing-key value agent | missing key "plan" in agent: an object',
    ],
    [
      { ...flows, agent: { plan: { flow: [] } } },
      'missing-key value agent | missing key "type" in agent: "scripted"',
    ],
    [{ ...flows, agent: { model: "m", api: "completions" } }, 'agent.api must be "responses" or "chat"'],
    [{ ...flows, agent: { model: "m", temperature: -1 } }, "agent.temperature must be at least 0"],
    [
      { ...flows, agent: { type: "scripted", plan: { flow: [{}] } } },
      'missing-key value agent.plan.flow[0] | missing key "call" or "say" in agent.plan.flow[0]',
    ],
    [
      { ...flows, agent: { type: "scripted", plan: { flow: [{ say: 5 }] } } },
      "agent.plan.flow[0].say must be a string, not a number",
    ],
    [
      { ...flows, agent: { type: "scripted", plan: { flow: ["add"] } } },
      "agent.plan.flow[0] must be an object, not a string",
    ],
    [{ ...flows, agents: { a: "gpt" } }, 'agents.a must be a model id such as "anthropic/claude-sonnet-4-5"'],
    [{ ...flows, agents: { a: 5 } }, "agents.a must be a string or an object, not a number"],
    [{ ...flows, agents: [] }, "agents must be an object, not a list"],
    [{ ...flows, judge: "gpt-4o" }, "judge must be an object, not a string"],
  ]);

  it("tells a scripted action with a mistyped key", () => {
    expect(problems({ ...flows, agent: { type: "scripted", plan: { flow: [{ cal: "x" }] } } })).toMatchObject(
      [
        { at: "value agent.plan.flow[0]", message: 'missing key "call" or "say" in agent.plan.flow[0]' },
        {
          at: "key agent.plan.flow[0].cal",
          hint: 'Did you mean "call"? Known keys: call, server, args, say.',
        },
      ],
    );
  });
});

describe("rules between the parts", () => {
  const twoSteps = { ...workflow, steps: [...workflow.steps, { user: "and" }] };
  const plan = (actions: object) => ({ ...flows, agent: { type: "scripted", plan: actions } });
  const two = { ...workflow, name: "other" };
  check([
    [
      { server: stdio },
      "nothing-to-run value  | there is nothing to run: no workflows, no toolHealthSuites, no tasks",
    ],
    [
      { server: stdio, workflows: [], toolHealthSuites: [] },
      "nothing-to-run value  | there is nothing to run: no workflows, no toolHealthSuites, no tasks",
    ],
    [
      { ...flows, workflows: [workflow, two, workflow] },
      'duplicate-name value workflows[2].name | two workflows are named "flow": workflows[0].name and workflows[2].name',
    ],
    [
      {
        server: stdio,
        toolHealthSuites: [
          { name: "s", tests },
          { name: "s", tests },
        ],
      },
      'duplicate-name value toolHealthSuites[1].name | two suites are named "s": toolHealthSuites[0].name and toolHealthSuites[1].name',
    ],
    [
      { ...flows, ...suites, workflows: [{ ...workflow, name: "suite/add" }] },
      "duplicate-name value toolHealthSuites[0].tests[0] | two tasks have one name: workflows[0].name and toolHealthSuites[0].tests[0]",
    ],
    [
      {
        server: stdio,
        toolHealthSuites: [
          { name: "a", tests: [{ name: "b/c" }] },
          { name: "a/b", tests: [{ name: "c" }] },
        ],
      },
      "duplicate-name value toolHealthSuites[1].tests[0] | two tasks have one name: toolHealthSuites[0].tests[0] and toolHealthSuites[1].tests[0]",
    ],
    [
      { ...flows, workflows: [{ ...workflow, servers: ["main"] }] },
      'unknown-reference value workflows[0].servers[0] | no server is named "main"',
    ],
    [
      { ...flows, workflows: [{ ...workflow, servers: ["default", "default"] }] },
      'duplicate-name value workflows[0].servers[1] | two servers are named "default": workflows[0].servers[0] and workflows[0].servers[1]',
    ],
    [
      { server: stdio, toolHealthSuites: [{ name: "s", server: "x", tests }] },
      'unknown-reference value toolHealthSuites[0].server | no server is named "x"',
    ],
    [
      { server: stdio, toolHealthSuites: [{ name: "s", tests: [{ name: "t", server: "x" }] }] },
      'unknown-reference value toolHealthSuites[0].tests[0].server | no server is named "x"',
    ],
    [
      plan({ flow: [{ call: "t", server: "x" }] }),
      'unknown-reference value agent.plan.flow[0].server | no server is named "x"',
    ],
    [plan({ flow: [], flw: [] }), 'unknown-reference key agent.plan.flw | no workflow is named "flw"'],
    [plan({}), 'agent/no-plan key agent.plan | agent.plan has no plan for the workflow "flow"'],
    [
      { ...plan({ flow: [{ call: "t" }, { say: "x" }] }), workflows: [twoSteps] },
      'invalid-value key agent.plan.flow | the plan for "flow" has 1 turn, the workflow has 2 steps: each `say` ends a turn',
    ],
    [
      plan({ flow: [{ say: "x" }, { call: "t" }] }),
      'invalid-value key agent.plan.flow | the plan for "flow" has 2 turns, the workflow has 1 step: each `say` ends a turn',
    ],
    [
      { ...flows, workflows: [{ name: "flow", steps: [{ user: "hi" }] }] },
      'checks-nothing value workflows[0] | workflows[0] ("flow") expects nothing, so it could not fail',
    ],
    [
      { ...flows, llmJudge: true, passThreshold: 0, workflows: [{ name: "flow", steps: [{ user: "hi" }] }] },
      'checks-nothing value workflows[0] | workflows[0] ("flow") expects nothing, so it could not fail',
    ],
    [
      { ...flows, workflows: [{ name: "flow", expectTools: [], steps: [{ user: "hi", expectTools: [] }] }] },
      'checks-nothing value workflows[0] | workflows[0] ("flow") expects nothing, so it could not fail',
    ],
  ]);

  it("lists what there is", () => {
    const config = {
      servers: { alpha: stdio, beta: stdio },
      workflows: [{ ...workflow, servers: ["alhpa"] }],
    };
    expect(problems(config)[0]?.hint).toBe('Did you mean "alpha"? Known servers: alpha, beta.');
    expect(problems({ ...flows, agent: "nobody" })[0]?.hint).toBe(
      "Known agents: oracle, null, claude-code, codex, gemini, copilot, opencode. A model id is written PROVIDER/MODEL.",
    );
  });

  it.each([
    { expectTools: ["t"], steps: [{ user: "hi" }] },
    { steps: [{ user: "hi" }, { user: "ho", expectedError: "no" }] },
    { steps: [{ user: "hi", expectTools: ["t"] }] },
  ])("accepts a workflow that expects something: %j", (fields) => {
    expect(problems({ server: stdio, workflows: [{ name: "flow", ...fields }] })).toEqual([]);
  });

  it("accepts a workflow that only a judge looks at", () => {
    expect(
      problems({ server: stdio, llmJudge: true, workflows: [{ name: "flow", steps: [{ user: "hi" }] }] }),
    ).toEqual([]);
  });

  it("lists all problems with the schema, and only then all broken rules", () => {
    const found = problems({
      server: { transport: "stdio", cwd: 5 },
      trials: "many",
      workflows: [
        { name: "a", steps: [{ user: "hi", expectedStat: "x" }] },
        { name: "a", steps: "none", servers: ["x"] },
        "flow",
      ],
      agent: { type: "scripted", plan: { b: 5 } },
    });
    expect(found.map((each) => each.message)).toEqual([
      'missing key "command" in server: a string',
      "server.cwd must be a string, not a number",
      "agent.plan.b must be a list, not a number",
      'unknown key "expectedStat" in workflows[0].steps[0]',
      "workflows[1].steps must be a list, not a string",
      "workflows[2] must be an object, not a string",
      "trials must be a number, not a string",
    ]);
    const steps = [{ user: "hi", expectedState: "x" }];
    const broken = problems({
      server: stdio,
      workflows: [
        { name: "a", steps },
        { name: "a", steps, servers: ["x"] },
      ],
      agent: { type: "scripted", plan: {} },
    });
    expect(broken.map((each) => each.message)).toEqual([
      'two workflows are named "a": workflows[0].name and workflows[1].name',
      'no server is named "x"',
      'agent.plan has no plan for the workflow "a"',
    ]);
  });

  it("never shows what a variable holds", () => {
    const templates = new Map([
      ["agent", "${WHO}"],
      ["workflows[0].servers[0]", "x-${WHERE}"],
    ]);
    const config = { ...flows, agent: "s3cret", workflows: [{ ...workflow, servers: ["x-s3cret"] }] };
    expect(problems(config, templates).map((each) => each.message)).toEqual([
      'no server is named "x-${WHERE}"',
      'no agent is named "${WHO}"',
    ]);
    expect(JSON.stringify(problems(config, templates))).not.toContain("s3cret");
  });

  it("stays quick and brief on a file with one mistake many times", () => {
    const workflows = Array.from({ length: 20_000 }, (_, index) => ({ nam: `w${index}`, steps: [{}] }));
    expect(problems({ server: stdio, workflows })).toHaveLength(1000);
  });
});

describe("words that are used elsewhere", () => {
  it.each(["https", "streamable-http", "streamableHttp", "Streamable_HTTP"])("transport: %s", (transport) => {
    expect(problems({ ...suites, server: { transport } })).toEqual([
      {
        code: "config/invalid-value",
        at: "value server.transport",
        message: 'server.transport must be "stdio", "shttp", "http", "sse" or "mock"',
        hint: 'Did you mean "shttp"?',
      },
    ]);
  });

  it("tool, in a tool test", () => {
    const config = { server: stdio, toolHealthSuites: [{ name: "s", tests: [{ tool: "add" }] }] };
    expect(problems(config)).toContainEqual({
      code: "config/unknown-key",
      at: "key toolHealthSuites[0].tests[0].tool",
      message: 'unknown key "tool" in toolHealthSuites[0].tests[0]',
      hint: expect.stringMatching(/^The tool is named by "name"\. Known keys: name, /) as unknown,
    });
  });
});

describe("operators of expectedResult", () => {
  const expecting = (expectedResult: unknown) => ({
    server: stdio,
    toolHealthSuites: [{ name: "s", tests: [{ name: "add", expectedResult }] }],
  });

  it("are refused when there is no such one", () => {
    expect(problems(expecting({ $contain: "x" }))).toEqual([
      {
        code: "config/unknown-key",
        at: "key toolHealthSuites[0].tests[0].expectedResult.$contain",
        message: 'unknown operator "$contain" in toolHealthSuites[0].tests[0].expectedResult',
        hint: 'Did you mean "$contains"? Known operators: $equals, $contains. A result with that very key is expected with {$contains: {…}}.',
      },
    ]);
  });

  it.each([
    { $equals: 1 },
    { $contains: { $ref: "x" } },
    { $ref: "x", other: 1 },
    { cost: { $usd: 1 } },
    ["$contain"],
    "$contain",
  ])("are taken, and what is none: %j", (expected) => {
    expect(problems(expecting(expected))).toEqual([]);
  });
});

it("counts the turns of plans only for agents that run, and where steps can be counted", () => {
  const script = { type: "scripted", plan: { flow: [{ say: "a" }, { say: "b" }] } };
  expect(problems({ ...flows, agent: "x", agents: { x: "openai/gpt-5", script } })).toEqual([]);
  expect(problems({ ...flows, agents: { script } })).toHaveLength(1);
  const silent = { type: "scripted", plan: { flow: [] } };
  expect(problems({ ...flows, agent: silent })).toEqual([]);
  const stepless = { ...flows, agent: script, workflows: [{ name: "flow", steps: 5, expectTools: ["t"] }] };
  expect(problems(stepless).map((each) => each.message)).toEqual([
    "workflows[0].steps must be a list, not a number",
  ]);
});
