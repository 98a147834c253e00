import { describe, expect, it } from "vitest";
import { formatKeyPath, type Json, type JsonObject } from "../../../base/json.ts";
import type { Problem } from "../../../base/problem.ts";
import { mergeServerTables } from "../../config/server-tables.ts";
import { type Fixtures, readMcpMocks, readMcpServers } from "./mcp-servers.ts";

const shown = ({ path, at, code, message, hint }: Problem): string =>
  `${formatKeyPath(path)}${at === "key" ? " (key)" : ""}: ${code}: ${message}${hint === undefined ? "" : ` | ${hint}`}`;

/** Reads `config.mcp_servers`. */
function read(mcp_servers: unknown) {
  const overlay = readMcpServers(mcp_servers as Json, ["config", "mcp_servers"]);
  const { servers, problems } = mergeServerTables(undefined, overlay);
  return { servers, problems: problems.map(shown) };
}

const common = { maxMessageBytes: 10_485_760, required: true };
const stdio = { transport: "stdio", command: "node", args: [], env: {}, inheritEnv: [], ...common };
const shttp = { transport: "shttp", url: "http://x/mcp", headers: {}, ...common };
const url = "http://x/mcp";

describe("an entry of mcp_servers is a server", () => {
  it.each<[JsonObject, JsonObject]>([
    [{ command: "node" }, stdio],
    [{ type: "local", command: "node", tools: ["*"] }, stdio],
    [{ url }, shttp],
    [{ transport: "streamable-http", url }, shttp],
    [{ type: "remote", url }, shttp],
    [
      { command: "node", lifetime: "per_benchmark" },
      { ...stdio, lifetime: "per_run" },
    ],
    [
      { command: "node", working_dir: "x", inherit_env: ["X"], capture_stderr: false },
      { ...stdio, cwd: "x", inheritEnv: ["X"], captureStderr: false },
    ],
    [
      { url, startup_timeout_ms: 2000, rate_limit: { requests: 3, per: "1s" }, max_message_bytes: 9 },
      {
        ...shttp,
        startupTimeout: 2000,
        rateLimit: { requests: 3, perMs: 1000 },
        maxMessageBytes: 9,
      },
    ],
    [
      { type: "remote", transport: "sse", url },
      { ...shttp, transport: "sse" },
    ],
    [
      { url, command: "x", args: ["80"] },
      { ...shttp, command: "x", args: ["80"] },
    ],
  ])("%j", (entry, expected) => {
    expect(read({ a: entry })).toEqual({ servers: { a: expected }, problems: [] });
  });
});

describe("an entry of mcp_servers that is wrong", () => {
  const at = "config.mcp_servers.a";
  it.each<[unknown, string | RegExp]>([
    [
      { args: [] },
      `${at} (key): config/missing-key: missing key "command" or "url" in ${at} | A program to start has command; a server with an address has url.`,
    ],
    [
      { type: "http", command: "x" },
      `${at}.type: config/invalid-value: ${at}: command does not fit its type | A program's type is stdio.`,
    ],
    [
      { type: "stdio", url },
      `${at}.type: config/invalid-value: ${at}: url does not fit its type | The type of a server with an address is http or sse.`,
    ],
    [
      { type: "studio", command: "x" },
      `${at}.type: config/invalid-value: ${at}.type is not a type of server | Did you mean "stdio"? Known types: stdio, local, http, streamable-http, sse, remote, mock.`,
    ],
    [
      { type: "http", transport: "sse", url },
      `${at}.transport: config/invalid-value: type and transport in ${at} contradict each other`,
    ],
    ["node s.js", `${at}: config/invalid-value: ${at} must be an object, or null to remove the server`],
    [
      { command: "x", workingDir: "a", cwd: "b" },
      `${at}.cwd (key): config/duplicate-name: cwd and workingDir in ${at} are the same setting | Keep one of them.`,
    ],
    [
      { command: "x", env: { PORT: 80 } },
      `${at}.env.PORT: config/invalid-value: ${at}.env.PORT must be a string, not a number | Write it in quotes.`,
    ],
    [
      { command: "x", disabled: true },
      `${at}.disabled (key): config/unknown-key: unknown key "disabled" in ${at} | Leave the server out, or write null for it where it is inherited.`,
    ],
    [
      { url, working_dir: "." },
      `${at}.working_dir: config/invalid-value: ${at}.working_dir must not be given without command`,
    ],
  ])("%j", (entry, expected) => {
    const problem = typeof expected === "string" ? expected : expect.stringMatching(expected);
    expect(read({ a: entry }).problems).toEqual([problem]);
  });

  it("hides no other one", () => {
    const table =
      '{"a b": {}, "__proto__": {}, "inherit": {}, "b": {"url": "nonsense", "header": {}}, "ok": {"command": "x"}}';
    const { servers, problems } = read(JSON.parse(table));
    expect(Object.keys(servers)).toEqual(["ok"]);
    const name = "config/invalid-value: the name of a server must be of letters, digits, _ and -, not";
    expect(problems).toEqual([
      `config.mcp_servers["a b"] (key): ${name} "a b"`,
      `config.mcp_servers.__proto__ (key): ${name} "__proto__"`,
      "config.mcp_servers.inherit: config/invalid-value: config.mcp_servers.inherit must be true or false; no server can have this name",
      expect.stringMatching(/^config\.mcp_servers\.b\.header \(key\): config\/unknown-key/),
      expect.stringMatching(/^config\.mcp_servers\.b\.url: config\/invalid-value/),
    ]);
    expect(read(["x"]).problems).toEqual([
      "config.mcp_servers: config/invalid-value: config.mcp_servers must be an object: servers by name",
    ]);
  });
});

it("an entry in another spelling than the server below changes it", () => {
  const base = mergeServerTables(
    undefined,
    readMcpServers({ a: { command: "x", workingDir: "y" } }, ["mcp_servers"]),
  );
  const overlay = readMcpServers({ a: { cwd: null, startup_timeout_ms: 0 } }, ["mcp_servers"]);
  const { written, problems } = mergeServerTables(base, overlay);
  expect(problems.map(({ path }) => formatKeyPath(path))).toEqual(["mcp_servers.a.startup_timeout_ms"]);
  expect(written).toEqual({ a: { transport: "stdio", command: "x", required: true, startupTimeout: 0 } });
});

describe("mcp_mocks", () => {
  const answered = { responses: [{ return: 1 }] };
  const readFixtures = (path: string): Fixtures =>
    path === "none" ? { ok: false, reason: "there is no folder none" } : { ok: true, tools: { bad: {} } };
  const readMocks = (list: unknown) => readMcpMocks(list, readFixtures);

  it("become servers with the keys of a config", () => {
    const tool = {
      input_schema: { required: ["a"] },
      output_schema: { required: ["b"] },
      responses: [{ match_schema: { required: ["c"] }, match_regex: { a: "^x" }, return: 1 }],
    };
    expect(readMocks([{ name: "a", tools: { t: tool } }])).toEqual({
      problems: [],
      servers: {
        a: {
          transport: "mock",
          mock: {
            tools: {
              t: {
                inputSchema: { required: ["a"] },
                outputSchema: { required: ["b"] },
                responses: [{ matchSchema: { required: ["c"] }, matchRegex: { a: "^x" }, return: 1 }],
              },
            },
          },
        },
      },
    });
  });

  it.each<[unknown, string]>([
    [
      [{ name: "a", fixtures: "none" }],
      "mcp_mocks[0].fixtures: config/invalid-value: mcp_mocks[0].fixtures: there is no folder none",
    ],
    [
      [{ name: "a", fixtures: "some" }],
      'mcp_mocks[0].fixtures: config/invalid-value: mcp_mocks[0].fixtures: missing key "responses" in bad: a list',
    ],
    [
      [
        { name: "a", tools: { t: answered } },
        { name: "a", tools: { t: answered } },
      ],
      'mcp_mocks[1].name: config/duplicate-name: two mocks are named "a"',
    ],
  ])("are refused: %j", (list, expected) => {
    expect(readMocks(list).problems.map(shown)).toEqual([expected]);
  });
});
