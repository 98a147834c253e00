import { describe, expect, it } from "vitest";
import { formatKeyPath } from "../json.ts";
import type { JsonObject } from "../model.ts";
import { mergeServerTables, parseServers, readOverlay } from "./server-tables.ts";

const below: JsonObject = {
  program: {
    transport: "stdio",
    command: "node",
    args: ["s.js"],
    env: { A: "1" },
    cwd: "sub",
    inheritEnv: ["HOME"],
    lifetime: "per_task",
    tools: ["add"],
  },
  address: {
    transport: "sse",
    url: "http://x/sse",
    headers: { A: "1" },
    auth: { type: "bearer", token: "t" },
    reconnect: true,
    required: true,
  },
  mock: { transport: "mock", mock: { tools: { t: { responses: [{ return: 1 }] } } }, startupTimeout: "2s" },
};

/** What is made of servers that are laid over these, as written; and all that is wrong. */
function lay(name: string, entry: JsonObject, key = "servers") {
  const overlay = readOverlay({ [key]: { [name]: entry } }, []);
  if (overlay === undefined) throw new Error("there is no overlay");
  const { written, problems } = mergeServerTables({ written: below, servers: parseServers(below) }, overlay);
  return {
    server: written[name],
    problems: problems.map(({ path, message }) => `${formatKeyPath(path)}: ${message}`),
  };
}

const answers = { tools: { t: { responses: [{ return: 2 }] } } };

describe("a server of another kind keeps what every kind has, and nothing else", () => {
  const program = { lifetime: "per_task", tools: ["add"] };
  it.each<[string, string, JsonObject, JsonObject]>([
    [
      "a mock over a program",
      "program",
      { transport: "mock", mock: answers },
      { transport: "mock", mock: answers, ...program },
    ],
    [
      "a mock without its transport",
      "program",
      { mock: answers },
      { transport: "mock", mock: answers, ...program },
    ],
    [
      "an address over a program",
      "program",
      { url: "http://y" },
      { transport: "shttp", url: "http://y", ...program },
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
    [
      "the newer transport of an address",
      "address",
      { transport: "shttp", url: "http://y" },
      {
        transport: "shttp",
        url: "http://y",
        headers: { A: "1" },
        auth: { type: "bearer", token: "t" },
        required: true,
      },
    ],
  ])("%s", (_, name, entry, expected) => {
    expect(lay(name, entry)).toEqual({ server: expected, problems: [] });
  });

  it("also in the other spelling", () => {
    const { transport, ...rest } = { transport: "shttp", url: "http://y", ...program };
    expect(lay("program", { type: "http", url: "http://y" }, "mcp_servers")).toEqual({
      server: { transport, ...rest },
      problems: [],
    });
  });
});

describe("a server of the same kind keeps everything", () => {
  it.each<[string, string, JsonObject]>([
    ["a program", "program", { command: "deno" }],
    ["an address, with its transport", "address", { url: "http://y/sse" }],
    ["a mock", "mock", { mock: answers }],
    ["one that does not say", "program", { command: null, lifetime: "per_run" }],
  ])("%s", (_, name, entry) => {
    const base = below[name];
    const all = Object.entries({ ...(typeof base === "object" ? base : {}), ...entry });
    expect(lay(name, entry).server).toEqual(Object.fromEntries(all.filter(([, value]) => value !== null)));
  });
});

it("tells of keys that the author wrote", () => {
  expect(lay("program", { url: "http://y", args: [], env: {} }).problems).toEqual([
    'servers.program.args: unknown key "args" in servers.program',
    'servers.program.env: unknown key "env" in servers.program',
  ]);
  expect(lay("program", { transport: "shttp" }).problems).toEqual([
    'servers.program: missing key "url" in servers.program',
  ]);
  expect(lay("address", { transport: "stdio" }).problems).toEqual([
    'servers.address: missing key "command" in servers.address',
  ]);
  expect(lay("address", { transport: "mock" }).problems).toEqual([
    expect.stringContaining('servers.address: missing key "mock" in servers.address'),
  ]);
});
