import { assert, constantFrom, dictionary, letrec, oneof, property } from "fast-check";
import { describe, expect, it } from "vitest";
import { formatKeyPath, type Json, type JsonObject } from "../../base/json.ts";
import type { Problem } from "../../base/problem.ts";
import {
  mergeServers,
  mergeServerTables,
  parseServers,
  plainServers,
  readOverlay,
  type ServerOverlay,
} from "./server-tables.ts";

function overlayOf(container: JsonObject, path: readonly string[] = []): ServerOverlay {
  const overlay = readOverlay(container, path);
  if (overlay === undefined) throw new Error("there is no overlay");
  return overlay;
}

const shown = ({ path, at, code, message, hint }: Problem): string =>
  `${formatKeyPath(path)}${at === "key" ? " (key)" : ""}: ${code}: ${message}${hint === undefined ? "" : ` | ${hint}`}`;

/** Reads `config.mcp_servers`. */
function read(mcp_servers: unknown) {
  const overlay = overlayOf({ mcp_servers } as JsonObject, ["config"]);
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

const program: JsonObject = {
  transport: "stdio",
  command: "node",
  args: ["s.js"],
  env: { A: "1" },
  cwd: "sub",
  inheritEnv: ["HOME"],
  lifetime: "per_task",
  tools: ["add"],
};
const address: JsonObject = {
  transport: "sse",
  url: "http://x/sse",
  headers: { A: "1" },
  auth: { type: "bearer", token: "t" },
  reconnect: true,
  required: true,
};
const answers = { tools: { t: { responses: [{ return: 2 }] } } };
const mock: JsonObject = { transport: "mock", mock: answers, startupTimeout: "2s" };
const listening: JsonObject = { transport: "shttp", url: "http://x/mcp", command: "x", args: ["80"] };
const below: JsonObject = { program, address, mock, listening };

/** The server that an entry makes of the one of its name, as written, and the problems. */
function merged(name: string, entry: JsonObject, key = "servers") {
  const overlay = overlayOf({ [key]: { [name]: entry } });
  const { written, problems } = mergeServerTables({ written: below, servers: parseServers(below) }, overlay);
  return {
    server: written[name],
    problems: problems.map(({ path, message }) => `${formatKeyPath(path)}: ${message}`),
  };
}

describe("an entry over a server", () => {
  const kept = { lifetime: "per_task", tools: ["add"] };
  const { transport: _, reconnect: __, ...http } = address;
  it.each<[string, string, JsonObject, JsonObject, string?]>([
    ["a mock over a program", "program", { mock: answers }, { transport: "mock", mock: answers, ...kept }],
    ["an address over a program", "program", { url }, { transport: "shttp", url, ...kept }],
    [
      "in the other spelling",
      "program",
      { type: "http", url },
      { transport: "shttp", url, ...kept },
      "mcp_servers",
    ],
    [
      "a program over an address",
      "address",
      { command: "x", env: { B: "2" } },
      { transport: "stdio", command: "x", env: { B: "2" }, required: true },
    ],
    [
      "a program over a mock",
      "mock",
      { command: "x" },
      { transport: "stdio", command: "x", startupTimeout: "2s" },
    ],
    ["another transport", "address", { transport: "shttp", url }, { ...http, transport: "shttp", url }],
    ["the same kind", "program", { command: "deno" }, { ...program, command: "deno" }],
    ["a program at another address", "listening", { url }, { ...listening, url }],
    ["another program at an address", "listening", { command: "y" }, { ...listening, command: "y" }],
    [
      "an address that starts a program",
      "address",
      { url, command: "x" },
      { ...http, transport: "sse", url, command: "x", reconnect: true },
    ],
    ["the same transport", "address", { url }, { ...address, url }],
    ["another mock", "mock", { mock: {} }, { ...mock, mock: {} }],
  ])("%s keeps the keys that fit", (_name, name, entry, expected, key) => {
    expect(merged(name, entry, key).server).toEqual(expected);
  });

  it.each<[string, JsonObject, string[]]>([
    [
      "program",
      { url, args: [], env: {} },
      [
        "servers.program.args: servers.program.args must not be given without command",
        "servers.program.env: servers.program.env must not be given without command",
      ],
    ],
    ["program", { transport: "shttp" }, ['servers.program: missing key "url" in servers.program']],
    [
      "program",
      { command: null, lifetime: "per_run" },
      ['servers.program: missing key "command" in servers.program'],
    ],
    ["address", { transport: "stdio" }, ['servers.address: missing key "command" in servers.address']],
    ["address", { transport: "mock" }, ['servers.address: missing key "mock" in servers.address: an object']],
  ])("over %s with %j: its problems name the author's keys", (name, entry, expected) => {
    expect(merged(name, entry).problems).toEqual(expected);
  });

  it("in another spelling than the server below", () => {
    const base = mergeServerTables(
      undefined,
      overlayOf({ mcp_servers: { a: { command: "x", workingDir: "y" } } }),
    );
    const overlay = overlayOf({ mcp_servers: { a: { cwd: null, startup_timeout_ms: 0 } } });
    const { written, problems } = mergeServerTables(base, overlay);
    expect(problems.map(({ path }) => formatKeyPath(path))).toEqual(["mcp_servers.a.startup_timeout_ms"]);
    expect(written).toEqual({ a: { transport: "stdio", command: "x", required: true, startupTimeout: 0 } });
  });
});

const server = { command: "node", args: ["a.js"], env: { A: "1", B: "2" } };

describe("mergeServers", () => {
  it.each<[string, JsonObject, JsonObject, JsonObject]>([
    ["adds a server", { a: server }, { b: { url: "u" } }, { a: server, b: { url: "u" } }],
    [
      "changes parts of one",
      { a: server },
      { a: { args: ["b.js"], env: { B: "3", C: "4" } } },
      { a: { command: "node", args: ["b.js"], env: { A: "1", B: "3", C: "4" } } },
    ],
    ["removes one", { a: server, b: server }, { a: null }, { b: server }],
    [
      "removes a part, and what was never there",
      { a: server },
      { a: { env: { A: null }, cwd: null }, z: null },
      { a: { command: "node", args: ["a.js"], env: { B: "2" } } },
    ],
    ["starts empty", { a: server }, { inherit: false, b: server }, { b: server }],
    ["starts one server empty", { a: server }, { a: { inherit: false, url: "u" } }, { a: { url: "u" } }],
    ["inherits all with inherit: true", { a: server }, { inherit: true }, { a: server }],
    [
      "takes a mock as one value",
      { a: { mock: { tools: { x: 1 } } } },
      { a: { mock: { state: null, inherit: false } } },
      { a: { mock: { state: null, inherit: false } } },
    ],
    [
      "merges a server that is called mock",
      { mock: server },
      { mock: { args: [] } },
      { mock: { ...server, args: [] } },
    ],
    [
      "adds a removed server again without its parts",
      mergeServers({ a: server }, { a: null }),
      { a: { url: "u" } },
      { a: { url: "u" } },
    ],
  ])("%s", (_, base, overlay, expected) => {
    const result = plainServers(mergeServers(base, overlay));
    expect(result).toEqual(expected);
    expect(Object.keys(result)).toEqual(Object.keys(expected));
  });

  /** Tables with few keys, so that those of different tables meet; deep, and with everything that has a meaning. */
  const tables = letrec<{ table: JsonObject; value: Json }>((tie) => ({
    table: dictionary(constantFrom("a", "b", "env", "mock", "inherit", "__proto__"), tie("value"), {
      maxKeys: 4,
    }),
    value: oneof(
      { maxDepth: 3 },
      constantFrom<Json>(null, false, true, "text", 1, [], ["x"], [null]),
      tie("table"),
    ),
  })).table;

  it("is associative, with the empty table as identity, and changes no table", () => {
    assert(
      property(tables, tables, tables, (a, b, c) => {
        const before = JSON.stringify([a, b, c]);
        expect(mergeServers(mergeServers(a, b), c)).toEqual(mergeServers(a, mergeServers(b, c)));
        expect(mergeServers(a, {})).toEqual(a);
        expect(mergeServers({}, a)).toEqual(a);
        expect(plainServers(plainServers(a))).toEqual(plainServers(a));
        expect(JSON.stringify([a, b, c])).toBe(before);
      }),
      { numRuns: 1000 },
    );
  });
});
