import { assert, constantFrom, dictionary, letrec, oneof, property } from "fast-check";
import { describe, expect, it } from "vitest";
import { formatKeyPath } from "../json.ts";
import type { Json, JsonObject } from "../model.ts";
import type { Problem } from "../problem.ts";
import { mergeServers, normalizeMcpServers, plainServers, readMcpServers } from "./mcp-servers.ts";

const path = ["config", "mcp_servers"];

function read(document: JsonObject) {
  const normalized = normalizeMcpServers(document, path);
  const { servers, problems } = readMcpServers(normalized.table, normalized);
  return { servers, problems: [...normalized.problems, ...problems] };
}

/** Where it is and what is wrong; the hint after it. */
function told({ path: at, at: end, code, message, hint }: Problem): string {
  return `${formatKeyPath(at)}${end === "key" ? " (key)" : ""}: ${code}: ${message}${hint === undefined ? "" : ` | ${hint}`}`;
}

function problemsOf(entry: unknown): string[] {
  return read({ a: entry } as JsonObject).problems.map(told);
}

const stdio = {
  transport: "stdio",
  command: "node",
  args: [],
  env: {},
  inheritEnv: [],
  maxMessageBytes: 10_485_760,
  required: true,
};
const shttp = {
  transport: "shttp",
  url: "http://x/mcp",
  headers: {},
  maxMessageBytes: 10_485_760,
  required: true,
};

describe("an entry of mcp_servers is a server", () => {
  it.each<[string, JsonObject, JsonObject]>([
    ["a command is enough", { command: "node" }, stdio],
    ["type: stdio", { type: "stdio", command: "node" }, stdio],
    ["type: local", { type: "local", command: "node", tools: ["*"] }, stdio],
    ["workingDir", { command: "node", workingDir: "sub" }, { ...stdio, cwd: "sub" }],
    ["working_dir", { command: "node", working_dir: "sub" }, { ...stdio, cwd: "sub" }],
    ["cwd", { command: "node", cwd: "sub" }, { ...stdio, cwd: "sub" }],
    [
      "everything of a program",
      {
        command: "node",
        args: ["s.js"],
        env: { A: "1" },
        tools: ["add", "get_*"],
        startup_timeout_ms: 500,
        lifetime: "per_benchmark",
        required: false,
        capture_stderr: false,
      },
      {
        ...stdio,
        args: ["s.js"],
        env: { A: "1" },
        tools: ["add", "get_*"],
        startupTimeout: 500,
        lifetime: "per_run",
        required: false,
        captureStderr: false,
      },
    ],
    ["a url is enough", { url: "http://x/mcp" }, shttp],
    ["type: http", { type: "http", url: "http://x/mcp" }, shttp],
    ["type: streamable-http", { type: "streamable-http", url: "http://x/mcp" }, shttp],
    ["transport: streamable-http", { transport: "streamable-http", url: "http://x/mcp" }, shttp],
    ["type: remote", { type: "remote", url: "http://x/mcp" }, shttp],
    [
      "type: remote, transport: sse",
      { type: "remote", transport: "sse", url: "http://x/mcp" },
      { ...shttp, transport: "sse" },
    ],
    [
      "type: sse, with headers",
      { type: "sse", url: "http://x/mcp", headers: { A: "b" }, lifetime: "per_task" },
      { ...shttp, transport: "sse", headers: { A: "b" }, lifetime: "per_task" },
    ],
    [
      "keys of a config's servers",
      { command: "node", startupTimeout: "2s", maxMessageBytes: 5 },
      { ...stdio, startupTimeout: 2000, maxMessageBytes: 5 },
    ],
  ])("%s", (_, entry, expected) => {
    expect(read({ a: entry })).toEqual({ servers: { a: expected }, problems: [] });
  });
});

describe("an entry of mcp_servers that is wrong says where", () => {
  const at = "config.mcp_servers.a";
  it.each<[string, unknown, string[]]>([
    [
      "both",
      { command: "x", url: "http://x" },
      [
        `${at}.url (key): config/invalid-value: ${at} has both command and url, so that it is not clear what it is | Keep one of them; null removes one that is inherited.`,
      ],
    ],
    [
      "neither",
      { args: [] },
      [
        `${at} (key): config/missing-key: missing key "command" or "url" in ${at} | A program to start has command; a server with an address has url.`,
      ],
    ],
    [
      "a type that does not fit",
      { type: "http", command: "x" },
      [
        `${at}.type: config/invalid-value: ${at} has command, which its type does not fit | A program's type is stdio.`,
      ],
    ],
    [
      "a type that is none",
      { type: "studio", command: "x" },
      [
        `${at}.type: config/invalid-value: ${at}.type is not a type of server | Did you mean "stdio"? Known types: stdio, local, http, streamable-http, sse, remote, mock.`,
      ],
    ],
    [
      "a type that contradicts",
      { type: "http", transport: "sse", url: "http://x" },
      [`${at}.transport: config/invalid-value: type and transport in ${at} contradict each other`],
    ],
    [
      "no object",
      "node s.js",
      [`${at}: config/invalid-value: ${at} must be an object, or null to remove the server`],
    ],
    [
      "a setting twice",
      { command: "x", workingDir: "a", cwd: "b" },
      [
        `${at}.cwd (key): config/duplicate-name: cwd and workingDir in ${at} are the same setting | Keep one of them.`,
      ],
    ],
    [
      "args that are no list",
      { command: "x", args: "s.js" },
      [`${at}.args: config/invalid-value: ${at}.args must be a list, not a string`],
    ],
    [
      "a number as an argument",
      { command: "x", args: ["-p", 80] },
      [
        `${at}.args[1]: config/invalid-value: ${at}.args[1] must be a string, not a number | Write it in quotes.`,
      ],
    ],
    [
      "a number as a variable",
      { command: "x", env: { PORT: 80 } },
      [
        `${at}.env.PORT: config/invalid-value: ${at}.env.PORT must be a string, not a number | Write it in quotes.`,
      ],
    ],
    [
      "a renamed key with a wrong value",
      { command: "x", startup_timeout_ms: -1 },
      [
        `${at}.startup_timeout_ms: config/invalid-value: ${at}.startup_timeout_ms must be a duration above zero: milliseconds, or a text such as "500ms", "2s", "5m", "1h"`,
      ],
    ],
    [
      "a renamed key of the wrong type",
      { command: "x", workingDir: 5 },
      [
        `${at}.workingDir: config/invalid-value: ${at}.workingDir must be a string, not a number | Write it in quotes.`,
      ],
    ],
    [
      "a url that is none",
      { url: "localhost:80" },
      [`${at}.url: config/invalid-value: ${at}.url must be a URL that starts with http:// or https://`],
    ],
    [
      "a key of another tool",
      { command: "x", disabled: true },
      [
        `${at}.disabled (key): config/unknown-key: unknown key "disabled" in ${at} | Leave the server out, or write null for it where it is inherited.`,
      ],
    ],
  ])("%s", (_, entry, expected) => {
    expect(problemsOf(entry)).toEqual(expected);
  });

  it("a misspelt key, and one of the other transport", () => {
    expect(problemsOf({ command: "x", arg: [] })).toEqual([
      expect.stringMatching(
        /^config\.mcp_servers\.a\.arg \(key\): config\/unknown-key: .* \| Did you mean "args"\?/,
      ),
    ]);
    expect(problemsOf({ url: "http://x/mcp", working_dir: "." })).toEqual([
      expect.stringMatching(
        /^config\.mcp_servers\.a\.working_dir \(key\): config\/unknown-key: unknown key "working_dir"/,
      ),
    ]);
  });

  it("an unknown lifetime", () => {
    expect(problemsOf({ command: "x", lifetime: "per_moon" })).toEqual([
      expect.stringMatching(
        /^config\.mcp_servers\.a\.lifetime: config\/invalid-value: config\.mcp_servers\.a\.lifetime must be /,
      ),
    ]);
  });

  it("names that cannot be, of servers and for inherit", () => {
    const { servers, problems } = read({
      "a b": { command: "x" },
      inherit: { command: "x" },
      ok: { command: "x" },
    });
    expect(Object.keys(servers)).toEqual(["ok"]);
    expect(problems.map(told)).toEqual([
      'config.mcp_servers["a b"] (key): config/invalid-value: the name of a server must be of letters, digits, _ and -, not "a b"',
      "config.mcp_servers.inherit: config/invalid-value: config.mcp_servers.inherit must be true or false; no server can have this name",
    ]);
  });

  it("all at once", () => {
    const { problems } = read({ a: { comand: "x" }, b: { url: "nonsense", header: {} } });
    expect(problems.map(({ path: place }) => formatKeyPath(place))).toEqual([
      "config.mcp_servers.a.comand",
      "config.mcp_servers.b.header",
      "config.mcp_servers.a",
      "config.mcp_servers.b.url",
    ]);
  });

  it("a name that no object keeps", () => {
    const table = JSON.parse('{"__proto__": {"command": "x"}}') as JsonObject;
    expect(read(table).problems.map(told)).toEqual([
      'config.mcp_servers.__proto__ (key): config/invalid-value: the name of a server must be of letters, digits, _ and -, not "__proto__"',
    ]);
  });

  it("what is no table", () => {
    expect(normalizeMcpServers(["x"], path).problems.map(told)).toEqual([
      "config.mcp_servers: config/invalid-value: config.mcp_servers must be an object: servers by name",
    ]);
  });
});

it("an overlay may be a part of a server, in either spelling", () => {
  const base = normalizeMcpServers({ a: { type: "stdio", command: "node", workingDir: "x" } }, path);
  const overlay = normalizeMcpServers({ a: { cwd: null, startup_timeout_ms: 0 } }, ["mcp_servers"]);
  expect([...base.problems, ...overlay.problems]).toEqual([]);
  const { problems } = readMcpServers(mergeServers(base.table, overlay.table), overlay);
  expect(problems.map(({ path: place }) => formatKeyPath(place))).toEqual([
    "mcp_servers.a.startup_timeout_ms",
  ]);
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
    ["takes all with inherit: true", { a: server }, { inherit: true }, { a: server }],
    [
      "leaves a mock's data alone",
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
  ])("%s", (_, base, overlay, expected) => {
    expect(plainServers(mergeServers(base, overlay))).toEqual(expected);
    expect(Object.keys(plainServers(mergeServers(base, overlay)))).toEqual(Object.keys(expected));
  });

  it("gives a server that comes again after it was removed nothing of the first", () => {
    const removed = mergeServers({ a: server }, { a: null });
    expect(plainServers(mergeServers(removed, { a: { url: "u" } }))).toEqual({ a: { url: "u" } });
  });

  it("is associative, whatever the tables hold", () => {
    assert(
      property(tables, tables, tables, (a, b, c) => {
        const left = mergeServers(mergeServers(a, b), c);
        const right = mergeServers(a, mergeServers(b, c));
        expect(left).toEqual(right);
        expect(plainServers(left)).toEqual(plainServers(right));
      }),
      { numRuns: 1000 },
    );
  });

  it("changes nothing with an empty table on either side, and nothing of what it is given", () => {
    assert(
      property(tables, tables, (a, b) => {
        expect(mergeServers(a, {})).toEqual(a);
        expect(mergeServers({}, a)).toEqual(a);
        const before = JSON.stringify([a, b]);
        mergeServers(a, b);
        expect(JSON.stringify([a, b])).toBe(before);
        expect(plainServers(plainServers(a))).toEqual(plainServers(a));
      }),
    );
  });
});
