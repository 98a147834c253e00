import { expect, it } from "vitest";
import { formatKeyPath } from "../json.ts";
import { type ParsedMcpConfigFile, parseMcpConfigFile } from "./parse-mcp-config-file.ts";

function parse(mcpServers: unknown): ParsedMcpConfigFile {
  return parseMcpConfigFile(
    { mcpServers },
    { locate: ({ path }) => ({ file: "mcp.json", path: formatKeyPath(path) }) },
  );
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
  const locate = ({ path }: { readonly path: readonly (string | number)[] }) => ({
    file: "mcp.json",
    path: formatKeyPath(path),
  });
  const servers = { a: { type: "http", url: "http://127.0.0.1:1/mcp" }, b: { type: "stdio", command: "b" } };
  expect(parseMcpConfigFile({ inputs: [], servers }, { locate })).toEqual({
    ok: true,
    notes: [],
    servers: [
      { name: "a", server: { ...remote, transport: "shttp", url: "http://127.0.0.1:1/mcp" } },
      { name: "b", server: { ...program, command: "b" } },
    ],
  });
  const both = { mcpServers: { m: servers.b }, servers };
  expect(parseMcpConfigFile(both, { locate })).toMatchObject({ servers: [{ name: "m" }] });
  expect(parseMcpConfigFile({ servers: { a: {} } }, { locate })).toMatchObject({
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

it("takes an empty alwaysAllow, which clients write for everybody, for nothing said", () => {
  expect(parse({ a: { command: "node", alwaysAllow: [] } })).toMatchObject({
    servers: [{ server: expect.not.objectContaining({ tools: expect.anything() }) }],
  });
});

it.each([
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
