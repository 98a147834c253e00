import { expect } from "vitest";
import { parseConfig } from "../../src/core/formats/config/parse-config.ts";
import type { AgentSpec, Eval, Json, JsonObject, ServerSpec, Task } from "../../src/core/formats/model.ts";

/** What fields of a config do, by `PART.FIELD`. */
export type Effects = Readonly<Record<string, () => void>>;

const toolHealthSuites = [{ name: "suite", tests: [{ name: "add" }] }];

function evalOf(config: JsonObject): Eval {
  const parsed = parseConfig(
    { toolHealthSuites, ...config },
    {
      defaultName: "folder",
      completeStdio: ({ env }) => ({ cwd: "/dir", env }),
      completeProgram: ({ env, inheritEnv, cwd }) => ({
        env: { ...env, inherited: String(inheritEnv) },
        ...(cwd === undefined ? {} : { cwd: `/dir/${cwd}` }),
      }),
      resolvePath: (path) => `/dir/${path}`,
      readFixtures: (path) => ({ ok: true, tools: { [path]: { responses: [{ return: path }] } } }),
      locate: () => undefined,
    },
  );
  if (!parsed.ok) throw new Error(parsed.diagnostics.map((each) => each.message).join("\n"));
  return parsed.eval;
}

const kinds: Readonly<Record<string, JsonObject>> = {
  StdioServer: { transport: "stdio", command: "node", sandbox: "process" },
  ShttpServer: { transport: "shttp", url: "http://x/mcp" },
  SseServer: { transport: "sse", url: "http://x/sse" },
  MockServer: { transport: "mock", mock: { tools: { add: { responses: [{ return: 1 }] } } } },
};

function serverOf(server: JsonObject): ServerSpec {
  const spec = evalOf({ server }).servers["default"];
  if (spec === undefined) throw new Error("the config has no server");
  return spec;
}

const delay: JsonObject = { kind: "delay", delay: "1s" };

/** What each field that all servers have becomes. */
const shared: readonly (readonly [field: string, value: Json, spec: object])[] = [
  ["startupTimeout", "2s", { startupTimeoutMs: 2000 }],
  ["maxMessageBytes", 9, { maxMessageBytes: 9 }],
  ["lifetime", "per_benchmark", { lifetime: "per_run" }],
  ["required", false, { required: false }],
  ["tools", ["add", "get_*"], { tools: ["add", "get_*"] }],
  ["rateLimit", { requests: 3, per: "1s" }, { rateLimit: { requests: 3, perMs: 1000 } }],
  ["faults", [delay], { faults: [{ kind: "delay", method: "tools/call", probability: 1, ms: 1000 }] }],
  ["protocol", "modern", { protocol: "modern" }],
  ["captureStderr", false, { captureStderr: false }],
];

/** What each field becomes that says how a program is confined. */
const confining: readonly (readonly [field: string, value: Json, sandbox: object])[] = [
  ["sandbox", { kind: "docker", runtime: "podman" }, { kind: "docker", runtime: ["podman"] }],
  ["network", ["host"], { network: "host" }],
  ["read", ["a", "~/b", "{workspace}"], { read: ["/dir/a", "~/b", "{workspace}"] }],
  ["write", ["a", "{workspace}/x"], { write: ["/dir/a", "{workspace}/x"] }],
  ["memory", "1GB", { memoryBytes: 1024 ** 3 }],
  ["processes", 3, { processes: 3 }],
  ["image", "i", { image: "i" }],
];

const confined = confining.map(([field, value, sandbox]) => [field, value, { sandbox }] as const);

const sharedEffects: Effects = Object.fromEntries(
  Object.entries(kinds).flatMap(([kind, server]) =>
    [...shared, ...(kind === "StdioServer" ? confined : [])].map(([field, value, spec]) => [
      `${kind}.${field}`,
      () => expect(serverOf({ ...server, [field]: value })).toMatchObject(spec),
    ]),
  ),
);

function authOf(kind: string, auth: JsonObject): ServerSpec {
  return serverOf({ ...kinds[kind], auth });
}

const credentials: JsonObject = { type: "client-credentials", clientId: "me", clientSecret: "s" };
const issuer = "https://login.example.com";
const stored: JsonObject = { type: "stored", file: "t.json", clientId: "me", clientSecret: "s" };

const authEffects: Effects = {
  "ShttpServer.auth": () =>
    expect(authOf("ShttpServer", credentials)).toMatchObject({
      auth: { kind: "client-credentials", clientId: "me", clientSecret: "s" },
    }),
  "SseServer.auth": () =>
    expect(authOf("SseServer", { type: "bearer", token: "t" })).toMatchObject({
      headers: { Authorization: "Bearer t" },
    }),
  "BearerAuth.type": () =>
    expect(authOf("ShttpServer", { type: "bearer", token: "t" })).not.toHaveProperty("auth"),
  "BearerAuth.token": () =>
    expect(authOf("ShttpServer", { type: "bearer", token: "t" })).toMatchObject({
      headers: { Authorization: "Bearer t" },
    }),
  ...authFields(
    "ClientCredentialsAuth",
    { ...credentials, scope: "a b", issuer },
    { kind: "client-credentials" },
  ),
  ...authFields("StoredAuth", { ...stored, issuer }, { kind: "stored", file: "/dir/t.json" }),
};

function authFields(part: string, auth: JsonObject, changed: JsonObject): Effects {
  const { type: _, ...rest } = auth;
  return Object.fromEntries(
    Object.keys(auth).map((field) => [
      `${part}.${field}`,
      () => expect(authOf("ShttpServer", auth)).toMatchObject({ auth: { ...rest, ...changed } }),
    ]),
  );
}

const befalls: JsonObject = { tool: "get_*", method: "tools/call", probability: 0.5, times: 2 };
const faults: readonly (readonly [part: string, fault: JsonObject, spec: object])[] = [
  ["DelayFault", { kind: "delay", delay: "1s" }, { kind: "delay", ms: 1000 }],
  ["DropFault", { kind: "drop" }, { kind: "drop" }],
  ["ErrorFault", { kind: "error", code: -1, message: "no" }, { kind: "error", code: -1, message: "no" }],
  ["TruncateFault", { kind: "truncate", bytes: 0 }, { kind: "truncate", bytes: 0 }],
  ["DisconnectFault", { kind: "disconnect" }, { kind: "disconnect" }],
];

const faultEffects: Effects = Object.fromEntries(
  faults.flatMap(([part, fault, spec]) =>
    Object.keys({ ...fault, ...befalls }).map((field) => [
      `${part}.${field}`,
      () =>
        expect(serverOf({ ...kinds["StdioServer"], faults: [{ ...befalls, ...fault }] }).faults).toEqual([
          { ...befalls, ...spec },
        ]),
    ]),
  ),
);

function mockOf(mock: JsonObject): object {
  const spec = serverOf({ transport: "mock", mock });
  return spec.transport === "mock" ? spec.mock : {};
}

const answered = { responses: [{ return: 1 }] };

function toolOf(tool: JsonObject): unknown {
  const mock = mockOf({ tools: { add: { ...answered, ...tool } } });
  return "tools" in mock ? mock.tools : undefined;
}

function mockTool(field: string, value: Json, spec: object): [string, () => void] {
  return [`MockTool.${field}`, () => expect(toolOf({ [field]: value })).toMatchObject({ add: spec })];
}

const matching: readonly (readonly [field: string, value: Json, spec: object])[] = [
  ["match", { a: 1 }, { match: { a: 1 } }],
  ["matchSchema", { required: ["a"] }, { matchSchema: { required: ["a"] } }],
  ["match_schema", { required: ["a"] }, { matchSchema: { required: ["a"] } }],
  ["matchRegex", { a: "^x" }, { matchRegex: { a: "^x" } }],
  ["match_regex", { a: "^x" }, { matchRegex: { a: "^x" } }],
  ["when", { open: null }, { when: { open: null } }],
  ["set", { open: true }, { set: { open: true } }],
  ["latency", "1s", { latencyMs: 1000 }],
];

const answers: readonly (readonly [field: string, value: Json, answer: object])[] = [
  ["return", null, { kind: "return", value: null }],
  ["error", "no", { kind: "error", message: "no" }],
  ["protocolError", { code: -32602, message: "no" }, { kind: "protocol-error", code: -32602, message: "no" }],
  ["malformed", "{", { kind: "malformed", text: "{" }],
  ["silence", true, { kind: "silence" }],
];

const resource = { uri: "a:b", name: "n", description: "d", mimeType: "text/plain", text: "t" };
const prompt = {
  name: "p",
  description: "d",
  arguments: [{ name: "a", required: true, description: "d" }],
  messages: [{ role: "assistant", text: "t" }],
};
const wholeMock: JsonObject = {
  instructions: "i",
  tools: { add: answered },
  resources: [resource],
  prompts: [prompt],
  state: { open: true },
};

const mockEffects: Effects = {
  "MockServer.transport": () => expect(serverOf(kinds["MockServer"] ?? {}).transport).toBe("mock"),
  "MockServer.mock": () =>
    expect(serverOf(kinds["MockServer"] ?? {})).toMatchObject({
      mock: { tools: { add: { inputSchema: { type: "object" } } }, resources: [], prompts: [], state: {} },
    }),
  ...Object.fromEntries(
    [
      ...fieldsOf("Mock", wholeMock),
      ...fieldsOf("MockResource", resource),
      ...fieldsOf("MockPrompt", prompt),
      ...fieldsOf("MockArgument", prompt.arguments[0] ?? {}),
      ...fieldsOf("MockMessage", prompt.messages[0] ?? {}),
    ].map((field) => [
      field,
      () =>
        expect(mockOf(wholeMock)).toEqual({
          ...wholeMock,
          tools: {
            add: {
              inputSchema: { type: "object" },
              responses: [{ answer: { kind: "return", value: 1 } }],
            },
          },
        }),
    ]),
  ),
  ...Object.fromEntries([
    mockTool("description", "d", { description: "d" }),
    mockTool("inputSchema", { required: ["a"] }, { inputSchema: { type: "object", required: ["a"] } }),
    mockTool("input_schema", { required: ["a"] }, { inputSchema: { type: "object", required: ["a"] } }),
    mockTool("outputSchema", { required: ["a"] }, { outputSchema: { type: "object", required: ["a"] } }),
    mockTool("output_schema", { required: ["a"] }, { outputSchema: { type: "object", required: ["a"] } }),
    mockTool("responses", [{ error: "no" }], {
      responses: [{ answer: { kind: "error", message: "no" } }],
    }),
    ...matching.map(([field, value, spec]): [string, () => void] => [
      `MockResponse.${field}`,
      () =>
        expect(toolOf({ responses: [{ return: 1, [field]: value }] })).toMatchObject({
          add: { responses: [{ ...spec, answer: { kind: "return", value: 1 } }] },
        }),
    ]),
    ...answers.map(([field, value, answer]): [string, () => void] => [
      `MockResponse.${field}`,
      () =>
        expect(toolOf({ responses: [{ [field]: value }] })).toMatchObject({
          add: { responses: [{ answer }] },
        }),
    ]),
  ]),
};

function fieldsOf(part: string, value: object): string[] {
  return Object.keys(value).map((field) => `${part}.${field}`);
}

const mocked = { tools: { add: answered } };

function mockNames(config: JsonObject): unknown {
  return Object.entries(evalOf(config).servers).map(([name, server]) => [
    name,
    server.transport === "mock" ? Object.keys(server.mock.tools) : server.transport,
  ]);
}

const tableEffects: Effects = {
  "Config.mcp_servers": () =>
    expect(
      evalOf({ mcp_servers: { a: { type: "stdio", command: "node", startup_timeout_ms: 5 } } }).servers,
    ).toMatchObject({ a: { transport: "stdio", required: true, startupTimeoutMs: 5 } }),
  "Config.mocks": () =>
    expect(
      mockNames({
        servers: { a: kinds["StdioServer"] ?? {}, b: kinds["StdioServer"] ?? {} },
        mocks: { b: mocked, c: mocked },
      }),
    ).toEqual([
      ["a", "stdio"],
      ["b", ["add"]],
      ["c", ["add"]],
    ]),
  "Config.mcp_mocks": () =>
    expect(mockNames({ mcp_mocks: [{ name: "a", ...mocked }] })).toEqual([["a", ["add"]]]),
  "McpMock.name": () =>
    expect(
      mockNames({
        mcp_mocks: [
          { name: "a", ...mocked },
          { name: "b", ...mocked },
        ],
      }),
    ).toHaveLength(2),
  "McpMock.tools": () =>
    expect(mockNames({ mcp_mocks: [{ name: "a", tools: { get: answered } }] })).toEqual([["a", ["get"]]]),
  "McpMock.fixtures": () =>
    expect(mockNames({ mcp_mocks: [{ name: "a", fixtures: "read", ...mocked }] })).toEqual([
      ["a", ["read", "add"]],
    ]),
  "Config.serverLifetime": () =>
    expect(
      evalOf({ server: kinds["StdioServer"] ?? {}, serverLifetime: "per_task" }).servers["default"],
    ).toMatchObject({ lifetime: "per_task" }),
  "Config.mcp_server_lifetime": () =>
    expect(
      evalOf({ server: kinds["StdioServer"] ?? {}, mcp_server_lifetime: "per_benchmark" }).servers["default"],
    ).toMatchObject({ lifetime: "per_run" }),
  "Config.seed": () => expect(evalOf({ server: kinds["StdioServer"] ?? {}, seed: 7 }).seed).toBe(7),
  "Config.variants": () =>
    expect(
      evalOf({ server: kinds["StdioServer"] ?? {}, variants: { a: {}, b: {} } }).variants?.map(
        ({ name }) => name,
      ),
    ).toEqual(["a", "b"]),
  "Variant.servers": () => expect(laidOver("servers")).toMatchObject({ transport: "stdio", args: ["b"] }),
  "Variant.mcp_servers": () => expect(laidOver("mcp_servers")).toMatchObject({ args: ["b"] }),
  "ServerOverlays.inherit": () => emptied({ servers: { inherit: false } }),
  "McpServers.inherit": () => emptied({ mcp_servers: { inherit: false } }),
  "Workflow.elicitation": () => expect(answersOf({ action: "decline" })).toEqual([{ action: "decline" }]),
  ...Object.fromEntries(
    ["message", "server", "action", "content"].map((field) => [
      `ElicitationAnswer.${field}`,
      () => expect(answersOf(answer)).toEqual([answer]),
    ]),
  ),
};

/** Expects that a variant leaves no server. */
function emptied(variant: JsonObject): void {
  const { variants } = evalOf({
    server: kinds["StdioServer"] ?? {},
    toolHealthSuites: [],
    workflows: [{ name: "flow", steps: [{ user: "hi", expectedState: "x" }] }],
    variants: { a: variant },
  });
  expect(variants).toEqual([{ name: "a", servers: { flow: {} } }]);
}

function laidOver(key: string): ServerSpec | undefined {
  const server = { ...kinds["StdioServer"], args: ["a"] };
  const variants = { v: { [key]: { default: { args: ["b"] } } } };
  return evalOf({ server, variants }).variants?.[0]?.servers["suite/add"]?.["default"];
}

const answer = { message: "name", server: "default", action: "accept", content: { name: "x" } };

function answersOf(elicitation: JsonObject): Task["elicitation"] {
  const flow = { name: "flow", steps: [{ user: "hi", expectedState: "x" }], elicitation: [elicitation] };
  return evalOf({ server: kinds["StdioServer"] ?? {}, toolHealthSuites: [], workflows: [flow] }).tasks[0]
    ?.elicitation;
}

/** Every field of an overlay, over a server of the kind that has it. */
const overlaid: readonly (readonly [field: string, kind: string, value: Json, spec: object])[] = [
  ["inherit", "StdioServer", false, { transport: "mock" }],
  ["transport", "ShttpServer", "sse", { transport: "sse" }],
  ["command", "StdioServer", "other", { command: "other" }],
  ["args", "StdioServer", ["x"], { args: ["x"] }],
  ["env", "StdioServer", { A: "1" }, { env: { A: "1" } }],
  ["cwd", "StdioServer", "x", { command: "node" }],
  ["inheritEnv", "StdioServer", ["X"], { command: "node" }],
  ...confined.map(([field, value, spec]) => [field, "StdioServer", value, spec] as const),
  ["url", "ShttpServer", "http://y/mcp", { url: "http://y/mcp" }],
  ["headers", "SseServer", { A: "b" }, { headers: { A: "b" } }],
  ["auth", "ShttpServer", { type: "bearer", token: "t" }, { headers: { Authorization: "Bearer t" } }],
  ["mock", "MockServer", { tools: { get: answered } }, { mock: { tools: { get: {} } } }],
  ["reconnect", "SseServer", true, { transport: "sse" }],
  ["reconnectInterval", "SseServer", "1s", { transport: "sse" }],
  ["maxReconnectAttempts", "SseServer", 3, { transport: "sse" }],
  ...shared.map(([field, value, spec]) => [field, "SseServer", value, spec] as const),
];

/** The same in `mcp_servers`, which has other names besides. */
const overlaidMcp: typeof overlaid = [
  ...overlaid,
  ["type", "ShttpServer", "sse", { transport: "sse" }],
  ...["working_dir", "workingDir", "workdir"].map(
    (field) => [field, "StdioServer", "x", { command: "node" }] as const,
  ),
  ["startup_timeout_ms", "SseServer", 2000, { startupTimeoutMs: 2000 }],
  ["capture_stderr", "SseServer", false, { captureStderr: false }],
  ["rate_limit", "SseServer", { requests: 3, per: "1s" }, { rateLimit: { requests: 3, perMs: 1000 } }],
  ["inherit_env", "StdioServer", ["X"], { command: "node" }],
  ["max_message_bytes", "SseServer", 9, { maxMessageBytes: 9 }],
];

const overlayEffects: Effects = {
  ...laidEffects("ServerOverlay", "servers", overlaid),
  ...laidEffects("McpServer", "mcp_servers", overlaidMcp),
};

function laidEffects(part: string, key: string, fields: typeof overlaid): Effects {
  return Object.fromEntries(
    fields.map(([field, kind, value, spec]) => [
      `${part}.${field}`,
      () => {
        const rest = field === "inherit" ? kinds["MockServer"] : {};
        const variants = { v: { [key]: { default: { ...rest, [field]: value } } } };
        const { variants: built } = evalOf({ server: kinds[kind] ?? {}, variants });
        expect(built?.[0]?.servers["suite/add"]?.["default"]).toMatchObject(spec);
      },
    ]),
  );
}

function agentOf(agent: JsonObject): AgentSpec | undefined {
  return evalOf({ server: kinds["StdioServer"] ?? {}, agents: { a: agent } }).agents[0];
}

const program: readonly (readonly [field: string, value: Json, spec: object])[] = [
  ["command", "x", { command: "x" }],
  ["args", ["-a"], { args: ["-a"] }],
  ["env", { A: "1" }, { env: { A: "1" } }],
  ["inheritEnv", true, { env: { inherited: "true" } }],
  ["cwd", "x", { cwd: "/dir/x" }],
  ["model", "m", { model: "m" }],
  ["connect", "bridge", { connect: "bridge" }],
  [
    "modelProxy",
    { target: "http://x", variable: "V" },
    { modelProxy: { target: "http://x", variable: "V" } },
  ],
];

function programEffects(part: string, own: JsonObject): [string, () => void][] {
  return program.map(([field, value, spec]) => [
    `${part}.${field}`,
    () => expect(agentOf({ command: "agent", ...own, [field]: value })).toMatchObject(spec),
  ]);
}

const proxy = { type: "acp", command: "x", modelProxy: { target: "http://x", variable: "V" } };

const agentEffects: Effects = {
  "ModelAgent.resources": () =>
    expect(agentOf({ model: "openai/gpt-5", resources: false })).toMatchObject({ resources: false }),
  ...Object.fromEntries([
    ...programEffects("AcpAgent", { type: "acp" }),
    ...programEffects("CommandAgent", { type: "command", nextArgs: ["{model}"] }),
  ]),
  "AcpAgent.type": () => expect(agentOf({ type: "acp", command: "x" })?.type).toBe("acp"),
  "AcpAgent.preset": () =>
    expect(agentOf({ type: "acp", preset: "gemini", model: "m" })).toMatchObject({
      preset: "gemini",
      command: "gemini",
      args: ["--acp", "--skip-trust", "--model", "m"],
      permissions: "allow",
    }),
  "AcpAgent.permissions": () => {
    expect(agentOf({ type: "acp", command: "x", permissions: "deny" })).toMatchObject({
      permissions: "deny",
    });
    expect(agentOf({ type: "acp", command: "x", cwd: "." })).toMatchObject({ permissions: "allow-mcp" });
  },
  "CommandAgent.type": () =>
    expect(agentOf({ type: "command", command: "x" })).toEqual({
      type: "command",
      name: "a",
      command: "x",
      args: [],
      env: { inherited: "" },
      stdin: false,
      output: "text",
      configFiles: [],
    }),
  "CommandAgent.preset": () => {
    expect(agentOf({ type: "command", preset: "claude-code" })).toMatchObject({
      command: "claude",
      stdin: true,
      output: "claude-code",
    });
    expect(agentOf({ type: "command", preset: "claude-code" })).toHaveProperty("nextArgs");
    expect(agentOf({ type: "command", preset: "claude-code", args: [] })).not.toHaveProperty("nextArgs");
  },
  "CommandAgent.nextArgs": () =>
    expect(agentOf({ type: "command", command: "x", nextArgs: ["-c"] })).toMatchObject({ nextArgs: ["-c"] }),
  "CommandAgent.stdin": () =>
    expect(agentOf({ type: "command", command: "x", stdin: true })).toMatchObject({ stdin: true }),
  "CommandAgent.output": () =>
    expect(agentOf({ type: "command", command: "x", output: "codex" })).toMatchObject({ output: "codex" }),
  "CommandAgent.configFiles": () =>
    expect(agentOf({ type: "command", command: "x", configFiles: ["vscode"] })).toMatchObject({
      configFiles: ["vscode"],
    }),
  "ModelProxy.target": () => expect(agentOf(proxy)).toMatchObject({ modelProxy: { target: "http://x" } }),
  "ModelProxy.variable": () => expect(agentOf(proxy)).toMatchObject({ modelProxy: { variable: "V" } }),
};

const limitEffects: Effects = {
  "RateLimit.requests": () =>
    expect(serverOf({ ...kinds["StdioServer"], rateLimit: { requests: 3, per: 5 } }).rateLimit).toEqual({
      requests: 3,
      perMs: 5,
    }),
  "RateLimit.per": () =>
    expect(serverOf({ ...kinds["StdioServer"], rateLimit: { requests: 1, per: "1m" } }).rateLimit).toEqual({
      requests: 1,
      perMs: 60_000,
    }),
};

/** What every field does that has to do with servers and with agents that are programs. */
export const serverEffects: Effects = {
  ...sharedEffects,
  ...authEffects,
  ...faultEffects,
  ...mockEffects,
  ...tableEffects,
  ...overlayEffects,
  ...agentEffects,
  ...limitEffects,
};
