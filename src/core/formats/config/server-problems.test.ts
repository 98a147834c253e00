import { describe, expect, it } from "vitest";
import { formatKeyPath } from "../json.ts";
import { parseConfig } from "./parse-config.ts";

const stdio = { transport: "stdio", command: "node" };
const shttp = { transport: "shttp", url: "http://x/mcp" };
const suites = { toolHealthSuites: [{ name: "suite", tests: [{ name: "add" }] }] };
const answered = { responses: [{ return: 1 }] };

/** Everything that is wrong, as `CODE at KEY-OR-VALUE PATH: MESSAGE`. */
function problems(config: object): string[] {
  const parsed = parseConfig(
    { ...suites, ...config },
    {
      defaultName: "folder",
      completeStdio: () => ({ cwd: "/", env: {} }),
      completeProgram: ({ env }) => ({ env }),
      readFixtures: (path) =>
        path === "none" ? { ok: false, reason: "there is no folder none" } : { ok: true, tools: { bad: {} } },
      locate: ({ path, at }) => ({ file: "f", path: `${at} ${formatKeyPath(path)}` }),
    },
  );
  if (parsed.ok) return [];
  return parsed.diagnostics.map(
    ({ code, message, location, hint }) =>
      `${code} at ${location?.path}: ${message}${hint === undefined ? "" : ` | ${hint}`}`,
  );
}

type Case = readonly [name: string, config: object, problem: string | RegExp];

function check(cases: readonly Case[]): void {
  it.each(cases)("%s", (_, config, problem) => {
    const found = problems(config);
    expect(found).toEqual([typeof problem === "string" ? problem : expect.stringMatching(problem)]);
  });
}

describe("parts of servers", () => {
  const server = (parts: object): object => ({ server: { ...stdio, ...parts } });
  check([
    [
      "an unknown lifetime",
      server({ lifetime: "per_moon" }),
      'config/invalid-value at value server.lifetime: server.lifetime must be "per_trial", "per_task", "per_run" or "per_benchmark"',
    ],
    [
      "a program that is to have no network, and nothing that sees to it",
      server({ network: false }),
      'config/invalid-value at value server: server has "network", but nothing says which sandbox confines it: write sandbox: process, or sandbox: none',
    ],
    [
      "settings of a sandbox without its kind",
      server({ sandbox: { memory: "1GB" } }),
      /^config\/invalid-value at value server: server has "memory"/,
    ],
    [
      "a sandbox for a server with an address",
      { server: { ...shttp, sandbox: "process" } },
      /^config\/unknown-key at key server\.sandbox: .* \| A sandbox confines a program that talks over stdin and stdout .*; a server with an address could not be reached in it\./,
    ],
    [
      "a network that is more than this machine's or none",
      server({ sandbox: "process", network: ["example.com"] }),
      /^config\/invalid-value at value server\.network/,
    ],
    [
      "a rate limit without a time",
      server({ rateLimit: { requests: 1 } }),
      /^config\/missing-key at value server\.rateLimit: missing key "per" in server\.rateLimit: a duration/,
    ],
    [
      "an unknown kind of fault",
      server({ faults: [{ kind: "explode" }] }),
      /^config\/invalid-value at value server\.faults\[0\]\.kind: server\.faults\[0\]\.kind must be "delay", "drop"/,
    ],
    [
      "a key of another kind of fault",
      server({ faults: [{ kind: "drop", bytes: 5 }] }),
      'config/unknown-key at key server.faults[0].bytes: unknown key "bytes" in server.faults[0] | Known keys: kind, tool, method, probability, times.',
    ],
    [
      "a fault that lacks its key",
      server({ faults: [{ kind: "delay" }] }),
      /^config\/missing-key at value server\.faults\[0\]: missing key "delay"/,
    ],
    [
      "a tool of another method",
      server({ faults: [{ kind: "drop", tool: "a", method: "ping" }] }),
      'config/invalid-value at value server.faults[0]: server.faults[0] must not have tool, since its method is not "tools/call"',
    ],
    [
      "a probability over one",
      server({ faults: [{ kind: "drop", probability: 2 }] }),
      "config/invalid-value at value server.faults[0].probability: server.faults[0].probability must be at most 1",
    ],
    [
      "auth of a program",
      server({ auth: { type: "bearer", token: "t" } }),
      /^config\/unknown-key at key server\.auth: unknown key "auth" in server/,
    ],
    [
      "auth of no kind",
      { server: { ...shttp, auth: { type: "basic" } } },
      'config/invalid-value at value server.auth.type: server.auth.type must be "bearer", "client-credentials" or "stored"',
    ],
    [
      "a misspelt key",
      server({ ratelimit: {} }),
      /^config\/unknown-key at key server\.ratelimit: .* \| Did you mean "rateLimit"\?/,
    ],
  ]);
});

describe("mocks", () => {
  const mock = (parts: object): object => ({ mocks: { a: parts } });
  const response = (parts: object): object => mock({ tools: { t: { responses: [parts] } } });
  const at = "mocks.a.tools.t.responses[0]";
  check([
    [
      "one that offers nothing",
      mock({}),
      "config/invalid-value at value mocks.a: mocks.a must offer something: tools, resources or prompts",
    ],
    [
      "a tool without responses",
      mock({ tools: { t: { responses: [] } } }),
      "config/invalid-value at value mocks.a.tools.t.responses: mocks.a.tools.t.responses must have at least 1 item",
    ],
    [
      "no answer",
      response({ match: {} }),
      `config/invalid-value at value ${at}: ${at} must have exactly one of return, error, protocolError, malformed, silence`,
    ],
    [
      "two answers",
      response({ return: null, error: "no" }),
      `config/invalid-value at value ${at}: ${at} must have exactly one of return, error, protocolError, malformed, silence`,
    ],
    [
      "two spellings",
      response({ return: 1, matchRegex: {}, match_regex: {} }),
      `config/invalid-value at value ${at}: ${at} must not have a key in two spellings`,
    ],
    [
      "a pattern that is none",
      response({ return: 1, matchRegex: { a: "(" } }),
      /^config\/invalid-value at value mocks\.a\.tools\.t\.responses\[0\]\.matchRegex\.a: .* is not a valid RE2 pattern/,
    ],
    [
      "a schema of something else",
      mock({ tools: { t: { ...answered, inputSchema: { type: "array" } } } }),
      'config/invalid-value at value mocks.a.tools.t.inputSchema: mocks.a.tools.t.inputSchema must be a JSON Schema of type "object"',
    ],
    [
      "a misspelt key of a response",
      response({ return: 1, latancy: "1s" }),
      /^config\/unknown-key at key mocks\.a\.tools\.t\.responses\[0\]\.latancy: .* Did you mean "latency"\?/,
    ],
    [
      "fixtures that are not there",
      { mcp_mocks: [{ name: "a", fixtures: "none" }] },
      "config/invalid-value at value mcp_mocks[0].fixtures: mcp_mocks[0].fixtures: there is no folder none",
    ],
    [
      "fixtures that are wrong",
      { mcp_mocks: [{ name: "a", fixtures: "some" }] },
      'config/invalid-value at value mcp_mocks[0].fixtures: mcp_mocks[0].fixtures: missing key "responses" in bad: a list',
    ],
    [
      "a name twice",
      {
        mcp_mocks: [
          { name: "a", tools: { t: answered } },
          { name: "a", tools: { t: answered } },
        ],
      },
      'config/duplicate-name at value mcp_mocks[1].name: two mocks are named "a"',
    ],
    [
      "neither tools nor fixtures",
      { mcp_mocks: [{ name: "a" }] },
      "config/invalid-value at value mcp_mocks[0]: mcp_mocks[0] must have tools or fixtures",
    ],
  ]);
});

describe("tables of servers", () => {
  const variant = (parts: object): object => ({ servers: { db: stdio, web: shttp }, variants: { v: parts } });
  check([
    [
      "servers in two spellings",
      { servers: { a: stdio }, mcp_servers: { b: { command: "x" } } },
      "config/invalid-value at key mcp_servers: servers and mcp_servers cannot both be given | They are two spellings of one table; keep one of them.",
    ],
    [
      "a misspelt key of mcp_servers",
      { mcp_servers: { a: { command: "x", workdirr: "." } } },
      /^config\/unknown-key at key mcp_servers\.a\.workdirr: .* Did you mean "workdir"\?/,
    ],
    [
      "a value of mcp_servers",
      { mcp_servers: { a: { command: "x", startup_timeout_ms: -1 } } },
      /^config\/invalid-value at value mcp_servers\.a\.startup_timeout_ms: mcp_servers\.a\.startup_timeout_ms must be a duration/,
    ],
    [
      "null for a server that is not there",
      variant({ servers: { bd: null } }),
      'config/unknown-reference at value variants.v.servers.bd: no server is named "bd" | Did you mean "db"? Known servers: db, web.',
    ],
    [
      "a change of a server that is not there",
      variant({ servers: { other: { args: [] } } }),
      'config/unknown-reference at key variants.v.servers.other: no server is named "other" | Known servers: db, web. A new one needs command, url or mock.',
    ],
    [
      "a change that is wrong",
      variant({ servers: { db: { args: "x" } } }),
      "config/invalid-value at value variants.v.servers.db.args: variants.v.servers.db.args must be a list, not a string",
    ],
    [
      "a misspelt key of a change",
      variant({ servers: { db: { arg: [] } } }),
      /^config\/unknown-key at key variants\.v\.servers\.db\.arg: .* Did you mean "args"\?/,
    ],
    [
      "a change of another spelling",
      variant({ mcp_servers: { db: { capture_stderr: "no" } } }),
      "config/invalid-value at value variants.v.mcp_servers.db.capture_stderr: variants.v.mcp_servers.db.capture_stderr must be true or false, not a string",
    ],
    [
      "a command and an address at once",
      variant({ servers: { web: { command: "node", url: "http://y/mcp" } } }),
      /^config\/invalid-value at key variants\.v\.servers\.web\.url: variants\.v\.servers\.web has both command and url/,
    ],
    [
      "what is no server",
      variant({ servers: { db: "node" } }),
      "config/invalid-value at value variants.v.servers.db: variants.v.servers.db must be an object, or null to take the server away",
    ],
    [
      "a misspelt key of a variant",
      variant({ server: {} }),
      'config/unknown-key at key variants.v.server: unknown key "server" in variants.v | Did you mean "servers"? Known keys: servers, mcp_servers.',
    ],
    [
      "a variant that takes away what a tool test calls",
      {
        ...variant({ servers: { db: null } }),
        toolHealthSuites: [{ name: "s", server: "db", tests: [{ name: "query" }] }],
      },
      'config/unknown-reference at key variants.v: variants.v has no server "db", which tool tests call | Keep it in "v", or put those tests into a config of their own.',
    ],
    [
      "a workflow's answer for a server that is not there",
      {
        servers: { db: stdio },
        workflows: [
          {
            name: "flow",
            steps: [{ user: "hi", expectedState: "x" }],
            elicitation: [{ server: "bd", action: "decline" }],
          },
        ],
      },
      'config/unknown-reference at value workflows[0].elicitation[0].server: no server is named "bd" | Did you mean "db"? Known servers: db.',
    ],
    [
      "content that is not accepted",
      {
        servers: { db: stdio },
        workflows: [
          {
            name: "flow",
            steps: [{ user: "hi", expectedState: "x" }],
            elicitation: [{ action: "decline", content: {} }],
          },
        ],
      },
      'config/invalid-value at value workflows[0].elicitation[0]: workflows[0].elicitation[0] must not have content, since its action is not "accept"',
    ],
  ]);

  it("is no problem when a workflow names a server that only some variants have", () => {
    const workflows = [{ name: "flow", servers: ["db", "new"], steps: [{ user: "hi", expectedState: "x" }] }];
    const variants = { a: { servers: { new: stdio } }, b: { servers: { db: null } } };
    const config = { toolHealthSuites: [], servers: { db: stdio, web: shttp }, variants, workflows };
    expect(problems(config)).toEqual([]);
  });
});

describe("agents that are programs", () => {
  const agent = (parts: object): object => ({ server: stdio, agent: parts });
  check([
    [
      "an unknown preset",
      agent({ type: "acp", preset: "gemni" }),
      'config/invalid-value at value agent.preset: agent.preset must be "claude-code", "codex", "gemini", "copilot" or "opencode"',
    ],
    [
      "neither preset nor command",
      agent({ type: "command", args: [] }),
      "config/invalid-value at value agent: agent must have preset or command",
    ],
    [
      "a key of the other type",
      agent({ type: "acp", preset: "gemini", stdin: true }),
      /^config\/unknown-key at key agent\.stdin: unknown key "stdin" in agent/,
    ],
    [
      "a proxy that no preset knows",
      agent({ type: "acp", command: "x", modelProxy: true }),
      /^config\/invalid-value at value agent\.modelProxy: agent\.modelProxy must be \{target, variable\}/,
    ],
    [
      "a misspelt key",
      agent({ type: "acp", command: "x", permision: "deny" }),
      /^config\/unknown-key at key agent\.permision: .* Did you mean "permissions"\?/,
    ],
    [
      "the name of no preset",
      { server: stdio, agent: "gemeni" },
      /^config\/unknown-reference at value agent: no agent is named "gemeni" \| Did you mean "gemini"\?/,
    ],
  ]);
});
