import { describe, expect, it } from "vitest";
import { formatKeyPath } from "../../../base/json.ts";
import { interpolate } from "../../../base/read-json.ts";
import { type ParsedMcpConfigFile, parseMcpConfigFile, readClientTable } from "./client-file.ts";

const lookup = (name: string): string | undefined => (name === "TOKEN" ? "t0ken" : undefined);

function parseFile(document: unknown): ParsedMcpConfigFile {
  const locate = ({ path }: { readonly path: readonly (string | number)[] }) => ({
    file: "mcp.json",
    path: formatKeyPath(path),
  });
  return parseMcpConfigFile(document, { locate, lookup });
}

function parse(mcpServers: unknown): ParsedMcpConfigFile {
  return parseFile({ mcpServers });
}

const maxMessageBytes = 10_485_760;
const program = { transport: "stdio", args: [], env: {}, inheritEnv: true, maxMessageBytes } as const;
const remote = { headers: {}, maxMessageBytes } as const;

it("reads programs and addresses, whatever type says", () => {
  expect(
    parse({
      a: { command: "node", args: ["a.js", 1], env: { PORT: 8080 }, cwd: "sub", alwaysAllow: ["x"] },
      b: { type: "stdio", command: "b", url: "http://x", enableAllTools: true, alwaysAllow: [] },
      c: { url: "http://127.0.0.1:1/mcp", headers: { Authorization: "Bearer t" } },
      d: { type: "sse", url: "http://127.0.0.1:1/sse" },
      e: { type: "streamable-http", URL: "http://127.0.0.1:1/mcp", enableAllTools: false },
      f: { command: "f", disabled: true },
    }),
  ).toEqual({
    ok: true,
    notes: [
      "mcp.json: mcpServers.a.args[1] is taken as a text; write it in quotes",
      "mcp.json: mcpServers.a.env.PORT is taken as a text; write it in quotes",
    ],
    servers: [
      {
        name: "a",
        server: {
          ...program,
          command: "node",
          args: ["a.js", "1"],
          env: { PORT: "8080" },
          cwd: "sub",
          tools: ["x"],
        },
      },
      { name: "b", server: { ...program, command: "b" } },
      {
        name: "c",
        server: {
          ...remote,
          transport: "shttp",
          url: "http://127.0.0.1:1/mcp",
          headers: { Authorization: "Bearer t" },
        },
      },
      { name: "d", server: { ...remote, transport: "sse", url: "http://127.0.0.1:1/sse" } },
      { name: "e", server: { ...remote, transport: "shttp", url: "http://127.0.0.1:1/mcp", tools: [] } },
    ],
  });
});

it("reads the servers of VS Code, with their places", () => {
  const servers = { a: { type: "http", url: "http://127.0.0.1:1/mcp" }, b: { type: "stdio", command: "b" } };
  expect(parseFile({ servers })).toEqual({
    ok: true,
    notes: [],
    servers: [
      { name: "a", server: { ...remote, transport: "shttp", url: "http://127.0.0.1:1/mcp" } },
      { name: "b", server: { ...program, command: "b" } },
    ],
  });
  const both = { mcpServers: { m: servers.b }, servers };
  expect(parseFile(both)).toMatchObject({ servers: [{ name: "m" }] });
  expect(parseFile({ servers: { a: {} } })).toMatchObject({
    ok: false,
    diagnostics: [{ message: 'the server "a" needs command or url', location: { path: "servers.a" } }],
  });
});

it("reads what Gemini and Copilot write", () => {
  expect(
    parse({
      a: { httpUrl: "http://127.0.0.1:1/mcp" },
      b: { type: "local", command: "b", tools: ["*"] },
      c: { type: "local", command: "c", tools: ["get"] },
    }),
  ).toEqual({
    ok: true,
    notes: [],
    servers: [
      { name: "a", server: { ...remote, transport: "shttp", url: "http://127.0.0.1:1/mcp" } },
      { name: "b", server: { ...program, command: "b" } },
      { name: "c", server: { ...program, command: "c", tools: ["get"] } },
    ],
  });
});

it("reads what Codex writes", () => {
  const url = "http://127.0.0.1:1/mcp";
  expect(
    parseFile({
      mcp_servers: {
        a: { command: "a", enabled_tools: ["get"], startup_timeout_sec: 2.5 },
        b: { url, http_headers: { A: "1" }, env_http_headers: { B: "TOKEN" }, bearer_token_env_var: "TOKEN" },
        c: { command: "c", enabled: false },
      },
    }),
  ).toEqual({
    ok: true,
    notes: [],
    servers: [
      { name: "a", server: { ...program, command: "a", tools: ["get"], startupTimeout: 2500 } },
      {
        name: "b",
        server: {
          ...remote,
          transport: "shttp",
          url,
          headers: { A: "1", B: "t0ken", Authorization: "Bearer t0ken" },
        },
      },
    ],
  });
  expect(parseFile({ mcp_servers: { a: { url, bearer_token_env_var: "GONE" } } })).toMatchObject({
    diagnostics: [
      { code: "config/unset-variable", location: { path: "mcp_servers.a.bearer_token_env_var" } },
    ],
  });
});

describe("the servers of a client's file", () => {
  const read = (document: unknown, only?: string): unknown => {
    const { document: table, spell } = readClientTable(document, only);
    return interpolate(table, (name) => `<${name}>`, { spell }).value;
  };

  it("are taken without what is the client's own", () => {
    const file = { theme: "dark", mcpServers: { a: { command: "a" }, b: { command: "b" } } };
    expect(read(file)).toEqual({ mcpServers: file.mcpServers });
    expect(read(file, "b")).toEqual({ mcpServers: { b: { command: "b" } } });
  });

  it("have the variables of VS Code and Cursor", () => {
    const inputs = [
      { id: "api-key", description: "The key", password: true },
      { id: "zone", default: "eu" },
    ];
    const args = ["${env:HOME}${/}x", "${workspaceFolder}", "${input:api-key}", "${input:zone}", "${A:-b}"];
    const { inputs: found, spell } = readClientTable({ servers: {}, inputs });
    expect(found).toEqual([
      { variable: "INPUT_API_KEY", description: "The key", isPassword: true },
      { variable: "INPUT_ZONE", description: "zone", isPassword: false, default: "eu" },
    ]);
    expect(args.map(spell)).toEqual([
      "${HOME}${pathSeparator}x",
      "${workspaceFolder}",
      "${INPUT_API_KEY}",
      "${INPUT_ZONE:-eu}",
      "${A:-b}",
    ]);
  });

  it("have no variables where Codex wrote them", () => {
    const file = { mcp_servers: { a: { command: "sh", args: ["-c", "echo ${HOME} $${X}"] } } };
    expect(read(file)).toEqual(file);
  });
});

it("takes an empty alwaysAllow, which clients write for everybody, for nothing said", () => {
  expect(parse({ a: { command: "node", alwaysAllow: [] } })).toMatchObject({
    servers: [{ server: expect.not.objectContaining({ tools: expect.anything() }) }],
  });
});

it("names the key that was meant", () => {
  const parsed = parse({ a: { comand: "node", cwd: "." } });
  expect(parsed).toMatchObject({ diagnostics: [{ hint: 'It has "comand": did you mean "command"?' }] });
});

it.each([
  [
    JSON.parse('{ "__proto__": { "command": "x" }, "a": { "command": "x" } }') as object,
    "config/invalid-value at mcpServers.__proto__: no server can be named __proto__",
  ],
  [
    { a: { command: "x", disabled: true } },
    "config/nothing-to-run at mcpServers: the file has no server that is enabled",
  ],
  [
    { a: { type: "stdio", url: "http://x" } },
    'config/missing-key at mcpServers.a: the server "a" needs command or url',
  ],
  [
    { a: { url: "ftp://x" } },
    "config/invalid-value at mcpServers.a.url: mcpServers.a.url must be a URL that starts with http:// or https://",
  ],
  [undefined, 'config/missing-key at : missing key "mcpServers": an object'],
])("refuses %j", (mcpServers, problem) => {
  const parsed = parse(mcpServers);
  const problems = parsed.ok
    ? []
    : parsed.diagnostics.map((each) => `${each.code} at ${each.location?.path}: ${each.message}`);
  expect(problems).toEqual([problem]);
});
