import { describe, expect, it } from "vitest";
import { parse as parseYaml } from "yaml";
import { formatKeyPath, type Json } from "../../base/json.ts";
import { parseConfig } from "./parse-config.ts";

const stdio = { transport: "stdio", command: "node" };
const shttp = { transport: "shttp", url: "http://x/mcp" };
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

/** Configs by the word that begins a case, with the part that follows it. */
const configs: Readonly<Record<string, (part: object) => object>> = {
  none: (part) => part,
  server: (part) => ({ server: stdio, ...part }),
  suites: (part) => ({ ...suites, ...part }),
  tested: (part) => ({ server: stdio, ...suites, ...part }),
  flows: (part) => ({ ...flows, ...part }),
  only: (server) => ({ ...suites, server }),
  program: (part) => ({ ...suites, server: { ...stdio, ...part } }),
  address: (part) => ({ ...suites, server: { ...shttp, ...part } }),
  test: (part) => ({ server: stdio, toolHealthSuites: [{ name: "s", tests: [{ name: "t", ...part }] }] }),
  flow: (part) => ({ ...flows, workflows: [{ ...workflow, ...part }] }),
  agent: (agent) => ({ ...flows, agent }),
  mock: (mock) => ({ ...suites, mocks: { a: mock } }),
  response: (response) => ({ ...suites, mocks: { a: { tools: { t: { responses: [response] } } } } }),
  variant: (part) => ({ ...suites, servers: { db: stdio, web: shttp }, variants: { v: part } }),
};

const anchors = `
- &stdio {transport: stdio, command: node}
- &shttp {transport: shttp, url: http://x/mcp}
- &tests [{name: add}]
- &flow {name: flow, steps: [{user: hi, expectedState: hello}]}
- &answered {responses: [{return: 1}]}
- &two {db: *stdio, web: *shttp}
- &plan {type: scripted, plan: {flow: [{call: t}, {say: x}]}}
`;

/**
 * Checks configs with one problem each. A case is a line with the config, one with the problem, as `CODE at PLACE: MESSAGE` or a
 * message that begins with the place of an invalid value, and sometimes one with the hint. `…` stands for any end.
 */
function check(cases: string): void {
  const each = cases.trim().split(/\n(?! )/);
  it.each(each.map((text) => text.split(/\n */)))("%s: %s", (config, problem = "", hint = "| …") => {
    const [, kind = "", part = ""] = /^(\w+) (.*)$/.exec(config) ?? [];
    const parsed = parseYaml(`${anchors}- ${part}`, { merge: true }) as object[];
    const found = problems(configs[kind]?.(parsed.at(-1) ?? {}));
    const told = found.map(({ code, at = "", message, hint: said = "" }) => {
      const isValue = code === "config/invalid-value" && at === `value ${message.split(" ")[0]}`;
      const place = isValue ? "" : `${code.replace("config/", "")} ${at}: `;
      return `${place}${message} | ${said}`;
    });
    const wanted = problem.endsWith("…") ? problem : `${problem} ${hint}`;
    const start = wanted.replace(/…$/, "");
    expect(told.map((text) => (wanted === start ? text : text.slice(0, start.length)))).toEqual([start]);
  });
}

describe("servers", () => {
  check(`
suites {}
  missing-key value : missing key "server" or "servers"
tested {servers: {a: *stdio}}
  invalid-value key servers: server and servers cannot both be given
suites {servers: {}}
  servers must have at least one server
only {}
  missing-key value server: missing key "transport" in server: "stdio", "shttp", "http", "sse" or "mock"
only {transport: http}
  missing-key value server: missing key "url" in server: a string
only {transport: 5}
  server.transport must be "stdio", "shttp", "http", "sse" or "mock", not a number
only {transport: stdo}
  server.transport must be "stdio", "shttp", "http", "sse" or "mock"
  | Did you mean "stdio"?
only {type: http, transport: shttp, url: "http://x/mcp"}
  unknown-key key server.type: unknown key "type" in server
  | …
only {transport: stdio}
  missing-key value server: missing key "command" in server: a string
only {transport: stdio, command: " "}
  server.command must not be blank
program {args: a b}
  server.args must be a list, not a string
program {env: {A=B: x}}
  invalid-value key server.env["A=B"]: server.env["A=B"] must be the name of a variable
program {inheritEnv: false}
  server.inheritEnv must be a list or true, not false
program {maxMessageBytes: 0}
  server.maxMessageBytes must be at least 1
program {startupTimeout: soon}
  server.startupTimeout must be a duration above zero: milliseconds, or a text such as "500ms", "2s", …
only {transport: shttp, url: localhost:3000}
  server.url must be a URL that starts with http:// or https://
only {transport: shttp, url: "http://me:word@localhost:3000/"}
  server.url must not have a user name or a password: give them in headers or auth
suites {servers: {" ": *stdio}}
  invalid-value key servers[" "]: servers[" "] must not be a blank name
`);
});

describe("unknown keys", () => {
  it("are told one by one, with what was likely meant", () => {
    expect(problems({ ...suites, server: { ...stdio, arg: [], foo: 1 }, Trials: 3 })).toEqual([
      {
        code: "config/unknown-key",
        at: "key server.arg",
        message: 'unknown key "arg" in server',
        hint: 'Did you mean "args"? Known keys: transport, command, args, env, cwd, inheritEnv, sandbox, network, read, write, memory, processes, image, startupTimeout, maxMessageBytes, lifetime, required, tools, rateLimit, maxConcurrent and 3 more.',
      },
      {
        code: "config/unknown-key",
        at: "key server.foo",
        message: 'unknown key "foo" in server',
        hint: "Known keys: transport, command, args, env, cwd, inheritEnv, sandbox, network, read, write, memory, processes, image, startupTimeout, maxMessageBytes, lifetime, required, tools, rateLimit, maxConcurrent and 3 more.",
      },
      {
        code: "config/unknown-key",
        at: "key Trials",
        message: 'unknown key "Trials"',
        hint: expect.stringMatching(/^Did you mean "trials"\? Known keys: \$schema, name, /),
      },
    ]);
  });
});

describe("values", () => {
  check(`
tested {trials: 0}
  trials must be at least 1
tested {trials: 10001}
  trials must be at most 10000
tested {trials: 1.5}
  trials must be a whole number, not a number with a fraction
tested {concurrency: 1025}
  concurrency must be at most 1024
tested {concurrency: 0}
  concurrency must be at least 1
tested {passThreshold: 1.1}
  passThreshold must be at most 1
tested {passThreshold: -0.1}
  passThreshold must be at least 0
tested {timeout: -5}
  timeout must be a duration above zero: milliseconds, or a text such as "500ms", "2s", "5m", "1h"
tested {limits: {trial: 0}}
  limits.trial must be a duration above zero: milliseconds, or a text such as "500ms", "2s", "5m", "1h"
tested {reporters: [pdf]}
  reporters[0] must be NAME or NAME=FILE, where NAME is one of console, json, junit, markdown, github, html, sarif
tested {reporters: [json=]}
  reporters[0] must be NAME or NAME=FILE, where NAME is one of console, json, junit, markdown, github, html, sarif
test {retries: 6}
  toolHealthSuites[0].tests[0].retries must be at most 5
server {toolHealthSuites: [{name: s, tests: []}]}
  toolHealthSuites[0].tests must have at least 1 item
flow {steps: []}
  workflows[0].steps must have at least 1 item
flow {servers: []}
  workflows[0].servers must have at least 1 item
test {expect: {text: {matches: "("}}}
  invalid-value value toolHealthSuites[0].tests[0].expect.text.matches: toolHealthSuites[0].tests[0].expect.text.matches: "(" is not a valid RE2 …
test {expect: {json: {path: "$["}}}
  invalid-value value toolHealthSuites[0].tests[0].expect.json: toolHealthSuites[0].tests[0].expect.json: "$[" is not a valid JSON …
flow {steps: [{user: hi, expectedState: {}}]}
  workflows[0].steps[0].expectedState must have contains, equals or matches
flow {steps: [{user: hi, expectedState: {equals: x, wholeWord: true}}]}
  workflows[0].steps[0].expectedState has wholeWord, which needs contains
flow {steps: [{user: hi, expectedState: {matches: "("}}]}
  workflows[0].steps[0].expectedState.matches is not a valid RE2 pattern: error parsing regexp: missing …
`);

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
  check(`
agent 5
  agent must be a string or an object, not a number
agent {}
  missing-key value agent: missing key "model" or "type" in agent
agent {type: model}
  missing-key value agent: missing key "model" in agent: a string
agent {type: robot, model: m}
  agent.type must be "model", "scripted", "acp" or "command"
agent {type: scripted}
  missing-key value agent: missing key "plan" in agent: an object
agent {plan: {flow: []}}
  missing-key value agent: missing key "type" in agent: "scripted"
agent {model: m, api: completions}
  agent.api must be "responses" or "chat"
agent {model: m, temperature: -1}
  agent.temperature must be at least 0
agent {type: scripted, plan: {flow: [{}]}}
  missing-key value agent.plan.flow[0]: missing key "call" or "say" in agent.plan.flow[0]
agent {type: scripted, plan: {flow: [add]}}
  agent.plan.flow[0] must be an object, not a string
flows {agents: {a: gpt}}
  agents.a must be a model id such as "anthropic/claude-sonnet-4-5"
`);

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
  check(`
server {}
  nothing-to-run value : there is nothing to run: no workflows, no toolHealthSuites, no tasks
flows {workflows: [*flow, {name: other, steps: [{user: hi, expectedState: hello}]}, *flow]}
  duplicate-name value workflows[2].name: two workflows are named "flow": workflows[0].name and …
server {toolHealthSuites: [{name: s, tests: *tests}, {name: s, tests: *tests}]}
  duplicate-name value toolHealthSuites[1].name: two suites are named "s": toolHealthSuites[0].name and …
tested {workflows: [{name: suite/add, steps: [{user: hi, expectedState: hello}]}]}
  duplicate-name value toolHealthSuites[0].tests[0]: two tasks have one name: workflows[0].name and …
server {toolHealthSuites: [{name: a, tests: [{name: b/c}]}, {name: a/b, tests: [{name: c}]}]}
  duplicate-name value toolHealthSuites[1].tests[0]: two tasks have one name: …
flow {servers: [main]}
  unknown-reference value workflows[0].servers[0]: no server is named "main"
flow {servers: [default, default]}
  duplicate-name value workflows[0].servers[1]: two servers are named "default": …
server {toolHealthSuites: [{name: s, server: x, tests: *tests}]}
  unknown-reference value toolHealthSuites[0].server: no server is named "x"
test {server: x}
  unknown-reference value toolHealthSuites[0].tests[0].server: no server is named "x"
agent {type: scripted, plan: {flow: [{call: t, server: x}]}}
  unknown-reference value agent.plan.flow[0].server: no server is named "x"
agent {type: scripted, plan: {flow: [], flw: []}}
  unknown-reference key agent.plan.flw: no workflow is named "flw"
agent {type: scripted, plan: {}}
  agent/no-plan key agent.plan: agent.plan has no plan for the workflow "flow"
flows {workflows: [{<<: *flow, steps: [{user: a, expectedState: x}, {user: b}]}], agent: *plan}
  invalid-value key agent.plan.flow: the plan for "flow" has 1 turn, the workflow has 2 steps: each …
agent {type: scripted, plan: {flow: [{say: x}, {call: t}]}}
  invalid-value key agent.plan.flow: the plan for "flow" has 2 turns, the workflow has 1 step: each …
flow {steps: [{user: hi}]}
  checks-nothing value workflows[0]: workflows[0] ("flow") expects nothing, so it could not fail
flows {workflows: [{name: flow, steps: [{user: hi}]}], llmJudge: true, passThreshold: 0}
  checks-nothing value workflows[0]: workflows[0] ("flow") expects nothing, so it could not fail
flow {expectTools: [], steps: [{user: hi, expectTools: []}]}
  checks-nothing value workflows[0]: workflows[0] ("flow") expects nothing, so it could not fail
test {expect: {isError: true}, expectedResult: 5}
  toolHealthSuites[0].tests[0].expect.isError is true, which contradicts expectedResult
  | Remove one of them.
test {expect: {isError: true, result: 5}}
  toolHealthSuites[0].tests[0].expect has isError: true, which contradicts result
test {expect: {isError: false, error: no}}
  toolHealthSuites[0].tests[0].expect has isError: false, which contradicts error
test {expect: {result: 5}, expectedResult: 5}
  invalid-value key toolHealthSuites[0].tests[0].expectedResult: toolHealthSuites[0].tests[0].expectedResult and expect.result cannot both be given
  | Remove one of them.
test {expect: {error: x}, expectedError: x}
  invalid-value key toolHealthSuites[0].tests[0].expectedError: toolHealthSuites[0].tests[0].expectedError and expect.error cannot both be given
  | Remove one of them.
test {expect: {maxLatency: 1s}, maxLatency: 1s}
  invalid-value key toolHealthSuites[0].tests[0].maxLatency: toolHealthSuites[0].tests[0].maxLatency and expect.maxLatency cannot both be given
  | Remove one of them.
test {expect: {isError: false}, expectedError: no}
  toolHealthSuites[0].tests[0].expect.isError is false, which contradicts expectedError
  | Remove one of them.
`);

  it("lists what there is", () => {
    const config = {
      servers: { alpha: stdio, beta: stdio },
      workflows: [{ ...workflow, servers: ["alhpa"] }],
    };
    expect(problems(config)[0]?.hint).toBe('Did you mean "alpha"? Known servers: alpha, beta.');
    expect(problems({ ...flows, agent: "nobody" })[0]?.hint).toBe(
      "Known agents: oracle, null, claude-code, codex, gemini, copilot, opencode, qwen-code. A model id is written PROVIDER/MODEL.",
    );
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

  it("stays quick and brief on a file with one mistake many times", () => {
    const workflows = Array.from({ length: 20_000 }, (_, index) => ({ nam: `w${index}`, steps: [{}] }));
    expect(problems({ server: stdio, workflows })).toHaveLength(1000);
  });
});

describe("parts of servers", () => {
  check(`
program {lifetime: per_moon}
  server.lifetime must be "per_trial", "per_task" or "per_run"
program {network: false}
  server has "network", but nothing says which sandbox confines it: write sandbox: process, or sandbox: none
program {sandbox: {memory: 1GB}}
  server has "memory", but nothing says which sandbox confines it: write sandbox: process, or sandbox: none
address {sandbox: process}
  unknown-key key server.sandbox: unknown key "sandbox" in server
  | A sandbox confines a program that talks over stdin and …
program {sandbox: process, network: [example.com]}
  server.network[0] must be "host", the network of this machine: a sandbox has that or none, and no …
program {rateLimit: {requests: 1}}
  missing-key value server.rateLimit: missing key "per" in server.rateLimit: a duration above zero: …
program {faults: [{kind: explode}]}
  server.faults[0].kind must be "delay", "drop", "error", "truncate" or "disconnect"
program {faults: [{kind: drop, bytes: 5}]}
  unknown-key key server.faults[0].bytes: unknown key "bytes" in server.faults[0]
  | Known keys: kind, tool, method, probability, times.
program {faults: [{kind: delay}]}
  missing-key value server.faults[0]: missing key "delay" in server.faults[0]: a duration above zero: …
program {faults: [{kind: drop, tool: a, method: ping}]}
  server.faults[0] must not have tool, since its method is not "tools/call"
program {faults: [{kind: drop, probability: 2}]}
  server.faults[0].probability must be at most 1
program {auth: {type: bearer, token: t}}
  unknown-key key server.auth: unknown key "auth" in server
  | Known keys: transport, command, args, env, cwd, inheritEnv, …
address {auth: {type: basic}}
  server.auth.type must be "bearer", "client-credentials" or "stored"
`);
});

describe("mocks", () => {
  check(`
mock {}
  mocks.a must offer something: tools, resources or prompts
mock {tools: {t: {responses: []}}}
  mocks.a.tools.t.responses must have at least 1 item
response {match: {}}
  mocks.a.tools.t.responses[0] must have exactly one of return, error, protocolError, malformed, silence
response {return: null, error: no}
  mocks.a.tools.t.responses[0] must have exactly one of return, error, protocolError, malformed, silence
response {return: 1, matchRegex: {a: (}}
  mocks.a.tools.t.responses[0].matchRegex.a is not a valid RE2 pattern: error parsing regexp: missing …
mock {tools: {t: {responses: [{return: 1}], inputSchema: {type: array}}}}
  mocks.a.tools.t.inputSchema must be a JSON Schema of type "object"
response {return: 1, latancy: 1s}
  unknown-key key mocks.a.tools.t.responses[0].latancy: unknown key "latancy" in …
  | Did you mean "latency"? Known keys: match, matchSchema, …
`);
});

describe("tables of servers", () => {
  check(`
suites {mcp_servers: {a: {command: x}}}
  unknown-key key mcp_servers: unknown key "mcp_servers"
  | Did you mean "servers"? Known keys: $schema, name, description, server, servers, …
variant {servers: {bd: null}}
  unknown-reference value variants.v.servers.bd: no server is named "bd"
  | Did you mean "db"? Known servers: db, web.
variant {servers: {other: {args: []}}}
  unknown-reference key variants.v.servers.other: no server is named "other"
  | Known servers: db, web. A new one needs command, url or mock.
variant {servers: {web: {url: http://y/mcp, args: [x]}}}
  variants.v.servers.web.args must not be given without command
variant {servers: {inherit: 5}}
  variants.v.servers.inherit must be an object, or null to take the server away
variant {servers: {db: node}}
  variants.v.servers.db must be an object, or null to take the server away
variant {server: {}}
  unknown-key key variants.v.server: unknown key "server" in variants.v
  | Did you mean "servers"? Known keys: servers.
none {toolHealthSuites: [{name: s, server: x, tests: *tests}], servers: *two, variants: {v: {}}}
  unknown-reference value toolHealthSuites[0].server: no server is named "x"
none {toolHealthSuites: [{name: s, server: db, tests: *tests}], servers: *two, variants: {v: {servers: {db: null}}}}
  unknown-reference key variants.v: variants.v has no server "db", which tool tests call
  | Keep it in "v", or put those tests into a config of their own.
suites {servers: {db: *stdio}, workflows: [{<<: *flow, elicitation: [{server: bd, action: decline}]}]}
  unknown-reference value workflows[0].elicitation[0].server: no server is named "bd"
  | Did you mean "db"? Known servers: db.
suites {servers: {db: *stdio}, workflows: [{<<: *flow, elicitation: [{action: decline, content: {}}]}]}
  workflows[0].elicitation[0] must not have content, since its action is not "accept"
`);
});

describe("agents that are programs", () => {
  check(`
agent {type: acp, preset: gemni}
  agent.preset must be "claude-code", "codex", "gemini", "copilot", "opencode" or "qwen-code"
agent {type: command, args: []}
  agent must have preset or command
agent {type: acp, preset: gemini, stdin: true}
  unknown-key key agent.stdin: unknown key "stdin" in agent
  | Known keys: type, preset, command, args, extraArgs, env, inheritEnv, cwd, home, model, effort, systemPrompt, maxTurns, allowedTools, connect, modelProxy, permissions, sessionOptions.
agent {type: acp, preset: gemini, env: {HOME: x}}
  agent.env must not have HOME: each trial has a home folder of its own, unless home is user
agent {type: command, command: x, inheritEnv: [USERPROFILE]}
  agent.inheritEnv must not have USERPROFILE: each trial has a home folder of its own, unless home is user
agent {type: acp, command: x, modelProxy: true}
  agent.modelProxy must be {target, variable}: no preset says where the program's model is reached
agent gemeni
  unknown-reference value agent: no agent is named "gemeni"
  | Did you mean "gemini"? Known agents: oracle, null, …
`);
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

  it("a condition for the text, in what is expected of a tool test", () => {
    const tests = [{ name: "add", expect: { matches: "\\d" } }];
    expect(problems({ server: stdio, toolHealthSuites: [{ name: "s", tests }] })).toContainEqual({
      code: "config/unknown-key",
      at: "key toolHealthSuites[0].tests[0].expect.matches",
      message: 'unknown key "matches" in toolHealthSuites[0].tests[0].expect',
      hint: "Write it as text: { matches: … }. Known keys: isError, error, result, text, json, schema, maxLatency.",
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
    const tests = [{ name: "add", expect: { result: { $contain: "x" } } }];
    expect(problems({ server: stdio, toolHealthSuites: [{ name: "s", tests }] })).toMatchObject([
      { at: "key toolHealthSuites[0].tests[0].expect.result.$contain" },
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
});
