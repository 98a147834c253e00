import { assert, constantFrom, dictionary, letrec, oneof, property } from "fast-check";
import { describe, expect, it } from "vitest";
import { formatKeyPath, type Json, type JsonObject } from "../../base/json.ts";
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

const url = "http://x/mcp";

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
function merged(name: string, entry: JsonObject) {
  const overlay = overlayOf({ servers: { [name]: entry } });
  const { written, problems } = mergeServerTables({ written: below, servers: parseServers(below) }, overlay);
  return {
    server: written[name],
    problems: problems.map(({ path, message }) => `${formatKeyPath(path)}: ${message}`),
  };
}

describe("an entry over a server", () => {
  const kept = { lifetime: "per_task", tools: ["add"] };
  const { transport: _, reconnect: __, ...http } = address;
  it.each<[string, string, JsonObject, JsonObject]>([
    ["a mock over a program", "program", { mock: answers }, { transport: "mock", mock: answers, ...kept }],
    ["an address over a program", "program", { url }, { transport: "shttp", url, ...kept }],
    [
      "a type in place of a transport",
      "program",
      { type: "http", url },
      { transport: "shttp", url, ...kept },
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
  ])("%s keeps the keys that fit", (_name, name, entry, expected) => {
    expect(merged(name, entry).server).toEqual(expected);
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
