import { describe, expect, it } from "vitest";
import { configJsonSchema } from "../../scripts/schemas/config-reference.ts";
import { extensionEffects } from "../../test/support/extension-effects.ts";
import type { Json, JsonObject } from "../base/json.ts";
import { evalOf, notesOf, parse, stdio } from "../../test/support/parse-config.ts";

/** A field of the config, or several; a config over the usual one; a part of its eval, or its notes. */
type Row = readonly [fields: string, config: JsonObject, expected: object];

const kinds: Readonly<Record<string, JsonObject>> = {
  StdioServer: { ...stdio, sandbox: "process" },
  ShttpServer: { transport: "shttp", url: "http://x/mcp" },
  SseServer: { transport: "sse", url: "http://x/sse" },
  MockServer: { transport: "mock", mock: { tools: { add: { responses: [{ return: 1 }] } } } },
};

const servers = (server: object): object => ({ servers: { default: server } });
const agents = (agent: object): object => ({ agents: [agent] });
const tasks = (task: object): object => ({ tasks: [task] });
const steps = (step: object): object => tasks({ verify: [step] });
const fieldsOf = (part: string, value: object): string =>
  Object.keys(value)
    .map((field) => `${part}.${field}`)
    .join(" ");

const grader: JsonObject = {
  type: "text",
  name: "greets",
  weight: 2,
  required: false,
  config: { contains: ["hello"] },
};
const delay: JsonObject = { kind: "delay", delay: "1s" };
type Field = readonly [field: string, value: Json, becomes: object];

/** Fields of all kinds of servers. */
const shared: readonly Field[] = [
  ["startupTimeout", "2s", { startupTimeoutMs: 2000 }],
  ["maxMessageBytes", 9, { maxMessageBytes: 9 }],
  ["lifetime", "per_run", { lifetime: "per_run" }],
  ["required", false, { required: false }],
  ["tools", ["add", "get_*"], { tools: ["add", "get_*"] }],
  ["rateLimit", { requests: 3, per: "1s" }, { rateLimit: { requests: 3, perMs: 1000 } }],
  ["maxConcurrent", 3, { maxConcurrent: 3 }],
  ["faults", [delay], { faults: [{ kind: "delay", method: "tools/call", probability: 1, ms: 1000 }] }],
  ["protocol", "modern", { protocol: "modern" }],
  ["captureStderr", false, { captureStderr: false }],
];

/** Fields of programs. */
/** How a program is started. */
const started: readonly Field[] = [
  ["command", "x", { command: "x" }],
  ["args", ["a"], { args: ["a"] }],
  ["env", { A: "b" }, { env: { A: "b" } }],
  ["cwd", "sub", { cwd: "sub" }],
  ["inheritEnv", ["A", "B"], { env: { inherited: "A,B" } }],
];
const program: readonly Field[] = [
  ["transport", "stdio", { transport: "stdio" }],
  ...started,
  ["sandbox", { kind: "docker", runtime: "podman" }, { sandbox: { kind: "docker", runtime: ["podman"] } }],
  ["network", ["host"], { sandbox: { network: "host" } }],
  ["read", ["a", "~/b", "{workspace}"], { sandbox: { read: ["/dir/a", "~/b", "{workspace}"] } }],
  ["write", ["a", "{workspace}/x"], { sandbox: { write: ["/dir/a", "{workspace}/x"] } }],
  ["memory", "1GB", { sandbox: { memoryBytes: 1024 ** 3 } }],
  ["processes", 3, { sandbox: { processes: 3 } }],
  ["image", "i", { sandbox: { image: "i" } }],
];

/** Fields of servers with a URL. */
const address: readonly Field[] = [
  ["url", "http://y/mcp", { url: "http://y/mcp" }],
  ["headers", { A: "b" }, { headers: { A: "b" } }],
  ["auth", { type: "bearer", token: "t" }, { headers: { Authorization: "Bearer t" } }],
];

const serverRows = (kind: string, fields: readonly Field[]): Row[] =>
  fields.map(([field, value, becomes]) => [
    `${kind}.${field}`,
    { server: { ...kinds[kind], [field]: value } },
    servers(becomes),
  ]);

const { type: _, ...client } = {
  type: "client-credentials",
  clientId: "me",
  clientSecret: "s",
  issuer: "https://i",
};
const authRows = (part: string, auth: JsonObject, spec: object): Row => [
  fieldsOf(part, auth),
  { server: { ...kinds["ShttpServer"], auth } },
  servers({ auth: spec }),
];

const target = { tool: "get_*", method: "tools/call", probability: 0.5, times: 2 };
const faultRow = (part: string, fault: JsonObject, spec: object = fault): Row => [
  fieldsOf(part, { ...target, ...fault }),
  { server: { ...stdio, faults: [{ ...target, ...fault }] } },
  servers({ faults: [{ ...target, ...spec }] }),
];

const answered = { responses: [{ return: 1 }] };
const mockOf = (mock: JsonObject): JsonObject => ({ server: { transport: "mock", mock } });
const schema = { required: ["a"] };
const toolRow = (field: string, value: Json, spec: object): Row => [
  `MockTool.${field}`,
  mockOf({ tools: { add: { ...answered, [field]: value } } }),
  servers({ mock: { tools: { add: spec } } }),
];
const responseRow = (field: string, value: Json, spec: object): Row => [
  `MockResponse.${field}`,
  mockOf({ tools: { add: { responses: [{ return: 1, [field]: value }] } } }),
  servers({ mock: { tools: { add: { responses: [{ return: 1, ...spec }] } } } }),
];
const answerRow = (field: string, value: Json): Row => [
  `MockResponse.${field}`,
  mockOf({ tools: { add: { responses: [{ [field]: value }] } } }),
  servers({ mock: { tools: { add: { responses: [{ [field]: value }] } } } }),
];

const resource = { uri: "a:b", name: "n", description: "d", mimeType: "text/plain", text: "t" };
const argument = { name: "a", required: true, description: "d" };
const message = { role: "assistant", text: "t" };
const prompt = { name: "p", description: "d", arguments: [argument], messages: [message] };
const mock = { instructions: "i", resources: [resource], prompts: [prompt], state: { open: true } };

const answer = { message: "name", server: "default", action: "accept", content: { name: "x" } };
const flow = { name: "flow", steps: [{ user: "hi", expectedState: "hello" }] };
const flows = (...parts: object[]): JsonObject => ({
  toolHealthSuites: [],
  workflows: parts.map((part) => ({ ...flow, ...part })),
});
const turnRow = (field: string, value: Json): Row => [
  `WorkflowStep.${field}`,
  flows({ steps: [{ user: "x", expectedState: "y", [field]: value }] }),
  tasks({ turns: [{ [field]: value }] }),
];
const suite = (part: object): JsonObject => ({
  toolHealthSuites: [{ name: "suite", tests: [{ name: "add" }], ...part }],
});
const texts = { equals: "a", contains: "b", matches: "c", json: {} };
const place = {
  path: "a",
  equals: 1,
  contains: 1,
  matches: "b",
  type: "object",
  count: 1,
  ignorePaths: ["c"],
};
const user = {
  model: "m",
  baseURL: "http://x",
  apiKey: "k",
  api: "chat",
  temperature: 0,
  effort: "low",
  maxOutputTokens: 5,
};
const wish = { goal: "g", facts: ["f"], maxTurns: 3 };
const reply = { when: "w", say: "s" };
const state = { contains: "a", equals: "b", matches: "c", wholeWord: true, in: "answer" };
const testRow = (field: string, value: Json, spec: object): Row => [
  `ToolTest.${field}`,
  suite({ tests: [{ name: "add", [field]: value }] }),
  steps(spec),
];
const agentRow = (field: string, value: Json): Row => [
  `ModelAgent.${field}`,
  { agent: { type: "model", model: "openai/gpt-5", [field]: value } },
  agents({ [field]: value }),
];
const judgeRow = (field: string, value: Json): Row => [
  `Judge.${field}`,
  { llmJudge: true, judge: { model: "openai/o3", [field]: value } },
  { judge: { [field]: value } },
];
const plan = (actions: Json, built: Json = actions): [JsonObject, object] => [
  { ...flows({}), agent: { type: "scripted", plan: { flow: actions } } },
  agents({ type: "scripted", name: "scripted", plan: { flow: built } }),
];
const two = { servers: { a: stdio, b: stdio } };

/** Fields of agents that are programs. */
const agentProgram: readonly Field[] = [
  ["command", "x", { command: "x" }],
  ["args", ["-a"], { args: ["-a"] }],
  ["env", { A: "1" }, { env: { A: "1" } }],
  ["inheritEnv", true, { env: { inherited: "true" } }],
  ["cwd", "x", { cwd: "/dir/x" }],
  ["home", "trial", { userHome: {} }],
  ["model", "m", { model: "m" }],
  ["connect", "bridge", { connect: "bridge" }],
  [
    "modelProxy",
    { target: "http://x", variable: "V" },
    { modelProxy: { target: "http://x", variable: "V" } },
  ],
];
const presetRows = (part: string, own: JsonObject, fields: readonly Field[]): Row[] =>
  fields.map(([field, value, becomes]) => [
    `${part}.${field}`,
    { agent: { preset: "claude-code", ...own, [field]: value } },
    agents(becomes),
  ]);
/** Of a program with a preset. */
const presetProgram: readonly Field[] = [
  ["maxTurns", 3, { maxTurns: 3 }],
  ["allowedTools", ["Read"], { allowedTools: ["Read"] }],
  ["effort", "high", { effort: "high" }],
  ["systemPrompt", "a", { systemHash: "7ab6a1dd47c6bc1f" }],
];
const programRows = (part: string, own: JsonObject, fields: readonly Field[]): Row[] =>
  fields.map(([field, value, becomes]) => [
    `${part}.${field}${field === "modelProxy" ? " ModelProxy.target ModelProxy.variable" : ""}`,
    { agent: { command: "agent", ...own, [field]: value } },
    agents(becomes),
  ]);

const variant = (part: object): JsonObject => ({ ...flows({}), variants: { a: part as JsonObject } });
const changed = { default: { args: ["b"] } };
const emptied = { variants: [{ name: "a", servers: { flow: {} } }] };
const lost = "has no effect; a lost connection is an error";

const rows: readonly Row[] = [
  ["Config.$schema Config.description", { $schema: "./schema.json", description: "for readers" }, {}],
  ["Config.name", { name: "mine" }, { name: "mine" }],
  ["Config.server", {}, servers({ transport: "stdio" })],
  ["Config.servers", two, { servers: { a: {}, b: {} }, tasks: [{ servers: ["a", "b"] }] }],
  ["Config.server", { server: { transport: "http", url: "http://x/mcp" } }, servers({ transport: "shttp" })],
  ["Config.server", { server: { type: "http", url: "http://x/mcp" } }, servers({ transport: "shttp" })],
  ["Config.server", { server: { type: "shttp", url: "http://x/mcp" } }, servers({ transport: "shttp" })],
  ["Config.agent", { agent: "openai/gpt-5" }, agents({ type: "model", name: "openai/gpt-5", maxSteps: 20 })],
  ["Config.agents", { agents: { a: "openai/gpt-5" } }, agents({ name: "a", model: "openai/gpt-5" })],
  ["Config.workflows", flows({}), tasks({ form: "workflow" })],
  ["Config.toolHealthSuites", {}, tasks({ form: "tool-test" })],
  ["Config.llmJudge", { llmJudge: true }, { judge: { model: "openai/gpt-4o", passThreshold: 0.8 } }],
  ["Config.openaiKey", { llmJudge: true, openaiKey: "k" }, { judge: { apiKey: "k" } }],
  ["Config.judgeModel", { llmJudge: true, judgeModel: "gpt-5" }, { judge: { model: "openai/gpt-5" } }],
  ["Config.judgeModel", { llmJudge: true, judgeModel: "google/g" }, { judge: { model: "google/g" } }],
  ["Config.passThreshold", { llmJudge: true, passThreshold: 0.5 }, { judge: { passThreshold: 0.5 } }],
  ["Config.judge", { llmJudge: true, judge: { model: "openai/o3" } }, { judge: { passThreshold: 0.8 } }],
  ["Config.timeout", { timeout: "7s" }, { limits: { callMs: 7000 }, ...servers({ startupTimeoutMs: 7000 }) }],
  ["Config.timeout", { timeout: "7s" }, steps({ timeoutMs: 7000 })],
  [
    "Config.limits Limits.trial",
    { limits: { trial: "1m" } },
    { limits: { trialMs: 60_000, modelMs: 120_000 } },
  ],
  ["Limits.modelCall", { limits: { modelCall: "2s" } }, { limits: { callMs: 30_000, modelMs: 2000 } }],
  [
    "Limits.maxCost Limits.maxTokens Limits.maxToolCalls Limits.maxTurns",
    { limits: { maxCost: 0.5, maxTokens: 9000, maxToolCalls: 7, maxTurns: 5 } },
    { limits: { maxCost: 0.5, maxTokens: 9000, maxToolCalls: 7, maxTurns: 5 } },
  ],
  ["Config.trials", { trials: 7 }, { trials: 7 }],
  [
    "Config.check",
    { check: {} },
    {
      check: {
        calls: "safe",
        disable: [],
        enable: [],
        accepted: [],
        callMs: 5000,
        conformance: false,
        security: false,
      },
    },
  ],
  [
    "Check.calls Check.disable Check.enable Check.maxWarnings Check.snapshot Check.callTimeout Check.conformance Check.security Check.accepted Accepted.code Accepted.server Accepted.tool Accepted.prompt Accepted.resource Accepted.parameter Accepted.reason Accepted.date",
    {
      check: {
        calls: "none",
        disable: ["client/long-name"],
        enable: ["client/openai-strict"],
        maxWarnings: 3,
        snapshot: "tools.json",
        callTimeout: "2s",
        conformance: true,
        security: true,
        accepted: [
          {
            code: "call/slow",
            server: "a",
            tool: "t",
            prompt: "q",
            resource: "notes:///{id}",
            parameter: "p",
            reason: "It is slow.",
            date: "2026-11-29",
          },
        ],
      },
    },
    {
      check: {
        calls: "none",
        disable: ["client/long-name"],
        enable: ["client/openai-strict"],
        maxWarnings: 3,
        snapshot: "/dir/tools.json",
        callMs: 2000,
        conformance: true,
        security: true,
        accepted: [
          {
            code: "call/slow",
            server: "a",
            tool: "t",
            prompt: "q",
            resource: "notes:///{id}",
            parameter: "p",
            reason: "It is slow.",
            date: "2026-11-29",
          },
        ],
      },
    },
  ],
  ["Config.concurrency", { concurrency: 7 }, { concurrency: 7 }],
  [
    "Config.budget Budget.cost Budget.tokens Budget.calls Budget.time",
    { budget: { cost: 1.5, tokens: 2000, calls: 3, time: "1m" } },
    { budget: { cost: 1.5, tokens: 2000, calls: 3, timeMs: 60_000 } },
  ],
  ["Config.thresholds", { thresholds: { score: 0.9 } }, { thresholds: { score: 0.9 } }],
  ["Config.reporters", { reporters: ["json=out.json", "junit"] }, { reporters: ["json=out.json", "junit"] }],
  ["Config.seed", { seed: 7 }, { seed: 7 }],
  ["Config.serverLifetime", { serverLifetime: "per_task" }, servers({ lifetime: "per_task" })],
  ["Config.variants", { variants: { a: {}, b: {} } }, { variants: [{ name: "a" }, { name: "b" }] }],
  ["Config.mocks", { ...two, mocks: { b: { tools: { t: answered } } } }, { servers: { b: { mock: {} } } }],
  ["Variant.servers", variant({ servers: changed }), { variants: [{ servers: { flow: changed } }] }],
  ["ServerOverlays.inherit", variant({ servers: { inherit: false } }), emptied],

  ...Object.keys(kinds).flatMap((kind) => serverRows(kind, shared)),
  ...serverRows("StdioServer", [...program, ["inheritEnv", true, { env: { inherited: "true" } }]]),
  ...serverRows("ShttpServer", [["transport", "shttp", { transport: "shttp" }], ...address]),
  ...serverRows("SseServer", [["transport", "sse", { transport: "sse" }], ...address]),
  ...["ShttpServer", "SseServer"].flatMap((kind) =>
    started.map(([field, value, becomes]): Row => [
      `${kind}.${field}`,
      { server: { ...kinds[kind], command: "x", [field]: value } },
      servers({ program: becomes }),
    ]),
  ),
  ["SseServer.reconnect", { server: { ...kinds["SseServer"], reconnect: true } }, [`reconnect ${lost}`]],
  [
    "SseServer.reconnectInterval SseServer.maxReconnectAttempts",
    { server: { ...kinds["SseServer"], reconnectInterval: 100, maxReconnectAttempts: 1 } },
    [`reconnectInterval ${lost}`, `maxReconnectAttempts ${lost}`],
  ],
  [
    "RateLimit.requests RateLimit.per",
    { server: { ...stdio, rateLimit: { requests: 3, per: "1m" } } },
    servers({ rateLimit: { requests: 3, perMs: 60_000 } }),
  ],
  [
    "BearerAuth.type BearerAuth.token",
    { server: { ...kinds["SseServer"], auth: { type: "bearer", token: "t" } } },
    servers({ headers: { Authorization: "Bearer t" } }),
  ],
  authRows(
    "ClientCredentialsAuth",
    { type: "client-credentials", ...client, scope: "a b" },
    { kind: "client-credentials", ...client, scope: "a b" },
  ),
  authRows(
    "StoredAuth",
    { type: "stored", ...client, file: "t" },
    { kind: "stored", ...client, file: "/dir/t" },
  ),
  faultRow("DelayFault", delay, { kind: "delay", ms: 1000 }),
  faultRow("DropFault", { kind: "drop" }),
  faultRow("ErrorFault", { kind: "error", code: -1, message: "no" }),
  faultRow("TruncateFault", { kind: "truncate", bytes: 0 }),
  faultRow("DisconnectFault", { kind: "disconnect" }),

  ["MockServer.transport", { server: kinds["MockServer"] ?? {} }, servers({ transport: "mock" })],
  [
    "MockServer.mock Mock.tools",
    { server: kinds["MockServer"] ?? {} },
    servers({
      mock: { tools: { add: { responses: [{ return: 1 }] } }, resources: [], prompts: [], state: {} },
    }),
  ],
  [
    [fieldsOf("Mock", mock), fieldsOf("MockResource", resource), fieldsOf("MockPrompt", prompt)]
      .concat(fieldsOf("MockArgument", argument), fieldsOf("MockMessage", message))
      .join(" "),
    mockOf(mock),
    servers({ mock }),
  ],
  toolRow("description", "d", { description: "d" }),
  toolRow("inputSchema", schema, { inputSchema: schema }),
  toolRow("outputSchema", schema, { outputSchema: schema }),
  toolRow("responses", [{ error: "no" }], { responses: [{ error: "no" }] }),
  responseRow("match", { a: 1 }, { match: { a: 1 } }),
  responseRow("matchSchema", schema, { matchSchema: schema }),
  responseRow("matchRegex", { a: "^x" }, { matchRegex: { a: "^x" } }),
  responseRow("when", { open: null }, { when: { open: null } }),
  responseRow("set", { open: true }, { set: { open: true } }),
  responseRow("latency", "1s", { latency: 1000 }),
  answerRow("return", null),
  answerRow("error", "no"),
  answerRow("protocolError", { code: -32602, message: "no" }),
  answerRow("malformed", "{"),
  answerRow("silence", true),

  ["ModelAgent.type", { agent: { model: "m" } }, agents({ type: "model" })],
  agentRow("model", "m"),
  agentRow("baseURL", "http://x:1/v1"),
  agentRow("apiKey", "k"),
  agentRow("api", "chat"),
  agentRow("headers", { A: "b" }),
  agentRow("maxSteps", 3),
  agentRow("temperature", 0),
  agentRow("system", "s"),
  agentRow("maxOutputTokens", 9),
  agentRow("effort", "high"),
  agentRow("resources", false),
  agentRow("stream", false),
  ["ScriptedAgent.type ScriptedAgent.plan ScriptedSay.say", ...plan([{ say: "" }])],
  [
    "ScriptedCall.call ScriptedCall.server",
    ...plan([{ call: "t", server: "default" }], [{ call: "t", server: "default", args: {} }]),
  ],
  ["ScriptedCall.args", ...plan([{ call: "t", args: { deep: [{ x: null }] } }])],
  ...programRows("AcpAgent", { type: "acp" }, [
    ...agentProgram,
    ["type", "acp", { type: "acp", permissions: "allow" }],
    ["permissions", "deny", { permissions: "deny" }],
    ["cwd", ".", { permissions: "allow-mcp" }],
  ]),
  ...presetRows("AcpAgent", { type: "acp" }, [
    ...presetProgram,
    ["extraArgs", ["-d"], { args: ["-d"] }],
    ["sessionOptions", { mode: "plan" }, { sessionOptions: { mode: "plan" } }],
  ]),
  [
    "AcpAgent.preset",
    { agent: { type: "acp", preset: "gemini", model: "m" } },
    agents({ preset: "gemini", args: ["--acp", "--skip-trust", "--model", "m"] }),
  ],
  ...programRows("CommandAgent", { type: "command", nextArgs: ["{model}"] }, [
    ...agentProgram,
    ["type", "command", { type: "command", args: [], stdin: false, output: "text", configFiles: [] }],
    ["nextArgs", ["-c"], { nextArgs: ["-c"] }],
    ["stdin", true, { stdin: true }],
    ["output", "codex", { output: "codex" }],
    ["configFiles", ["vscode"], { configFiles: ["vscode"] }],
  ]),
  ...presetRows("CommandAgent", { type: "command" }, [
    ...presetProgram,
    ["permissions", "deny", { permissions: "deny" }],
  ]),
  [
    "CommandAgent.extraArgs",
    { agent: { type: "command", preset: "gemini", extraArgs: ["-d"] } },
    agents({
      args: ["--yolo", "-d", "--skip-trust", "--output-format", "stream-json", "--prompt={prompt}"],
    }),
  ],
  [
    "ReplacedPrompt.replace",
    { agent: { type: "acp", preset: "claude-code", systemPrompt: { replace: "a" } } },
    agents({ session: { systemPrompt: { mode: "override", text: "a" } } }),
  ],
  [
    "CommandAgent.preset",
    { agent: { type: "command", preset: "claude-code" } },
    agents({ command: "claude", stdin: true, output: "claude-code" }),
  ],

  ["Workflow.name", flows({ name: "f" }), tasks({ name: "f" })],
  ["Workflow.description", flows({ description: "d" }), tasks({ description: "d" })],
  [
    "Workflow.steps",
    flows({ steps: [{ user: "a", expectedState: "b" }, { user: "c" }] }),
    tasks({ turns: [{ user: "a", expectedState: "b" }, { user: "c" }] }),
  ],
  [
    "Workflow.expectTools",
    flows({ expectTools: ["two"], steps: [{ user: "a", expectTools: ["one"] }] }),
    tasks({ expectTools: ["two"] }),
  ],
  [
    "Workflow.expectTools",
    flows({ expectTools: [], steps: [{ user: "a", expectTools: ["one"] }] }),
    tasks({ expectTools: ["one"] }),
  ],
  ["Workflow.fixtures", flows({ fixtures: ["a"] }), tasks({ workspace: { fixtures: ["a"] } })],
  [
    "Workflow.servers",
    { ...two, ...flows({}, { name: "g", servers: ["b"] }) },
    { tasks: [{ servers: ["a", "b"] }, { servers: ["b"] }] },
  ],
  [
    `Workflow.elicitation ${fieldsOf("ElicitationAnswer", answer)}`,
    flows({ elicitation: [answer] }),
    tasks({ elicitation: [answer] }),
  ],
  [
    `Config.graders Workflow.graders ${fieldsOf("Grader", grader)}`,
    { graders: [grader], ...flows({ graders: [{ type: "behavior", config: { max_mcp_calls: 1 } }] }) },
    tasks({
      graders: [
        { ...grader, dir: "/dir" },
        { type: "behavior", name: "behavior", weight: 1, required: true, config: { max_mcp_calls: 1 } },
      ],
    }),
  ],
  turnRow("user", "words"),
  turnRow("expectedState", "done"),
  turnRow("expectedError", "no"),
  [
    "WorkflowStep.expectTools",
    flows({
      steps: [
        { user: "a", expectTools: ["one"] },
        { user: "b", expectTools: ["two", "one"] },
      ],
    }),
    tasks({ expectTools: ["one", "two", "one"] }),
  ],

  ["ToolHealthSuite.name", suite({}), tasks({ name: "suite/add", suite: "suite" })],
  ["ToolHealthSuite.description", suite({ description: "for readers" }), {}],
  [
    "ToolHealthSuite.tests",
    suite({ tests: [{ name: "a" }, { name: "a" }, { name: "a", description: "b" }] }),
    { tasks: [{ name: "suite/a" }, { name: "suite/a (2)" }, { name: "suite/b" }] },
  ],
  ["ToolHealthSuite.parallel", suite({ parallel: true }), tasks({ parallel: true })],
  ["ToolHealthSuite.timeout", suite({ timeout: "1s" }), steps({ timeoutMs: 1000 })],
  [
    "ToolHealthSuite.server",
    { ...two, ...suite({ server: "b", tests: [{ name: "x" }, { name: "y", server: "a" }] }) },
    {
      tasks: [
        { servers: ["b"], verify: [{ server: "b" }] },
        { servers: ["a"], verify: [{ server: "a" }] },
      ],
    },
  ],
  [
    "ToolTest.server",
    { ...two, ...suite({ tests: [{ name: "add", server: "b" }] }) },
    tasks({ servers: ["b"] }),
  ],
  [
    "ToolTest.description",
    suite({ tests: [{ name: "t", description: "adds" }] }),
    tasks({ name: "suite/adds", description: "adds" }),
  ],
  testRow("name", "sub", { request: { tool: "sub" } }),
  testRow("args", { a: [1] }, { request: { args: { a: [1] } } }),
  ...[8, "8", null, false, { a: [] }].map((result) =>
    testRow("expectedResult", result, { expect: { result } }),
  ),
  testRow("expectedError", "no", { expect: { error: "no" } }),
  [
    "McpExpectation.result McpExpectation.error McpExpectation.maxLatency",
    suite({ tests: [{ name: "add", expect: { result: 8, error: "no", maxLatency: "2s" } }] }),
    steps({ expect: { result: 8, error: "no", maxLatencyMs: 2000 } }),
  ],
  [
    "ToolTest.expect McpExpectation.isError McpExpectation.text McpExpectation.json McpExpectation.schema",
    suite({
      tests: [{ name: "add", expect: { isError: false, text: "a", json: {}, schema: { type: "object" } } }],
    }),
    steps({
      expect: { isError: false, text: { equals: "a" }, json: [{ path: "$" }], schema: { type: "object" } },
    }),
  ],
  [
    fieldsOf("TextExpectation", texts),
    suite({ tests: [{ name: "add", expect: { text: texts } }] }),
    steps({ expect: { text: { ...texts, contains: ["b"], matches: ["c"], json: [{ path: "$" }] } } }),
  ],
  [
    `${fieldsOf("JsonExpectation", place)} JsonExpectation.exists`,
    suite({ tests: [{ name: "add", expect: { json: [place, { path: "b", exists: false }] } }] }),
    steps({ expect: { json: [place, { path: "b", exists: false }] } }),
  ],
  ["Config.userModel", { userModel: "openai:gpt-5" }, { userModel: { model: "openai/gpt-5" } }],
  [`Config.userModel ${fieldsOf("UserModel", user)}`, { userModel: user }, { userModel: user }],
  [
    fieldsOf("SimulatedUser", wish),
    flows({ steps: [{ user: wish, expectedState: "x" }] }),
    tasks({ turns: [{ user: { kind: "model", ...wish } }] }),
  ],
  [
    `SimulatedUser.replies ${fieldsOf("Reply", reply)}`,
    flows({ steps: [{ user: { replies: ["a", reply] }, expectedState: "x" }] }),
    tasks({ turns: [{ user: { kind: "script", replies: [{ say: "a" }, reply] } }] }),
  ],
  [
    fieldsOf("ExpectedState", state),
    flows({ steps: [{ user: "x", expectedState: state }] }),
    tasks({ turns: [{ expectedState: state }] }),
  ],
  testRow("maxLatency", "1s", { expect: { maxLatencyMs: 1000 } }),
  testRow("retries", 5, { retries: 5 }),
  testRow("timeout", 6, { timeoutMs: 6 }),
  judgeRow("model", "google/g"),
  judgeRow("baseURL", "http://x:1"),
  judgeRow("apiKey", "k"),
  judgeRow("api", "chat"),
  judgeRow("temperature", 0),
  judgeRow("maxOutputTokens", 9),
  judgeRow("effort", "high"),
  judgeRow("passThreshold", 0.1),
];

const effects: Readonly<Record<string, () => void>> = {
  ...extensionEffects,
  "Config.tasks": () =>
    expect(parse({ tasks: ["a/*.yaml"] })).toMatchObject({ taskFiles: { patterns: ["a/*.yaml"] } }),
  "Config.skills": () => expect(parse({ skills: ["s"] })).toMatchObject({ skills: ["s"] }),
  "Config.prices": () => expect(parse({ prices: "p.yaml" })).toMatchObject({ prices: "/dir/p.yaml" }),
  "Config.inheritEnv": () => {
    expect(parse({ inheritEnv: true })).toMatchObject({ taskFiles: { inheritEnv: true } });
    expect(parse({ inheritEnv: ["A"] })).toMatchObject({ taskFiles: { inheritEnv: ["A"] } });
    expect(parse({})).toMatchObject({ taskFiles: { inheritEnv: [] } });
  },
  "Config.extensions": () => {
    const extensions = { e: { package: "npm:e" }, sandbox: { package: "./s" }, timeout: "1s" };
    expect(parse({ extensions }).ok).toBe(true);
    expect(parse({ extensions: { e: { package: "e" } } })).toMatchObject({
      diagnostics: [{ code: "extension/invalid-package", location: { path: "extensions.e.package" } }],
    });
  },
};

describe("every field does something", () => {
  it.each(Object.entries(effects))("%s", (_field, check) => check());

  it.each(rows)("%s: %j", (_fields, config, expected) => {
    if (Array.isArray(expected))
      expect(notesOf(config)).toEqual(expected.map((note) => `server "default": ${String(note)}`));
    else expect(evalOf(config)).toMatchObject(expected);
  });

  it("has a test for each", () => {
    // Without the settings of graders, which the contract tests of all types look at.
    const { $defs, properties } = configJsonSchema({ defaultTexts: true }) as Record<
      string,
      Record<string, { properties?: object }>
    >;
    const fields = Object.entries({ Config: { properties }, ...$defs }).flatMap(([name, definition]) =>
      Object.keys(definition.properties ?? {}).map((field) => `${name}.${field}`),
    );
    const tested = [...rows.flatMap(([names]) => names.split(" ")), ...Object.keys(effects)];
    // The other fields of entries that are merged over servers are those of the servers.
    const ofServers = /^ServerOverlay\./;
    expect([...new Set(tested)].toSorted()).toEqual(
      fields.filter((name) => !ofServers.test(name)).toSorted(),
    );
  });
});
