import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { McpvalsError } from "../../src/base/error.ts";
import type { LoadedConfig } from "../../src/formats/assemble-eval.ts";
import { loadTarget, type LoadTargetOptions, type Target } from "../../src/formats/target.ts";
import { folderOf } from "../support/cli.ts";

const program = { command: "node", args: ["server.js"] };
const ofClient = { mcpServers: { weather: program } };

/** Loads a target from a folder of files. */
async function loadIn(
  files: Readonly<Record<string, unknown>>,
  target: Target = {},
  { cwd = ".", ...options }: Partial<LoadTargetOptions> = {},
): Promise<LoadedConfig & { readonly root: string }> {
  using folder = folderOf(files);
  const environment = { PATH: "/bin", ...options.environment };
  const loaded = await loadTarget(target, { ...options, environment, cwd: join(folder.path, cwd) });
  return { ...loaded, root: folder.path };
}

async function refusal(...given: Parameters<typeof loadIn>): Promise<string> {
  const error = await loadIn(...given).then(
    () => expect.unreachable(),
    (thrown: McpvalsError) => thrown,
  );
  const { message, details } = error;
  return `${error.code}: ${message} / ${details.hint}`;
}

describe("a command", () => {
  it("starts where it is asked to, with the variables that are given", async () => {
    const { eval: spec, root } = await loadIn(
      { "sub/server.js": "" },
      { command: ["node", "server.js", "${X}"], commandCwd: "sub", env: { A: "1" } },
    );
    expect(spec.servers).toMatchObject({
      sub: { transport: "stdio", command: "node", args: ["server.js", "${X}"], env: { A: "1" } },
    });
    expect(spec.servers["sub"]).toMatchObject({ cwd: join(root, "sub") });
  });
});

describe("a URL", () => {
  it("has headers and a token, which is a secret", async () => {
    const { eval: spec, secrets } = await loadIn(
      {},
      { source: "https://mcp.example.com/mcp", headers: { "X-Zone": "eu" }, bearerEnv: "TOKEN" },
      { environment: { TOKEN: "t0ken-value" } },
    );
    expect(spec.servers).toMatchObject({
      "mcp.example.com": {
        transport: "shttp",
        headers: { "X-Zone": "eu", Authorization: "Bearer t0ken-value" },
      },
    });
    expect(secrets.map(({ value }) => value)).toContain("t0ken-value");
  });

  it("that ends in /sse is of the older transport", async () => {
    const { eval: spec } = await loadIn({}, { source: "http://127.0.0.1:1/sse" });
    expect(spec.servers).toMatchObject({ "127.0.0.1:1": { transport: "sse" } });
  });
});

describe("a client's file", () => {
  const vscode = `{
    // the servers of the project
    "inputs": [{ "id": "api-key", "type": "promptString", "description": "Key of the API", "password": true }],
    "servers": {
      "weather": {
        "type": "stdio",
        "command": "node",
        "args": ["\${workspaceFolder}/server.js", /* no more */],
        "env": { "KEY": "\${input:api-key}" },
        "envFile": "\${workspaceFolder}/.env",
      },
      "remote": { "type": "http", "url": "http://127.0.0.1:1/mcp" },
    },
  }`;

  it("of VS Code has comments, inputs, folders and files of variables", async () => {
    const asked: string[] = [];
    const {
      eval: spec,
      root,
      secrets,
    } = await loadIn(
      { ".vscode/mcp.json": vscode, ".env": "LEVEL=debug\nKEY=other\n" },
      { source: ".vscode/mcp.json" },
      {
        ask: ({ description }) => {
          asked.push(description);
          return Promise.resolve("from-the-terminal");
        },
      },
    );
    expect(asked).toEqual(["Key of the API"]);
    expect(spec.servers).toMatchObject({
      weather: {
        args: [join(root, "server.js")],
        cwd: root,
        env: { KEY: "from-the-terminal", LEVEL: "debug" },
      },
      remote: { transport: "shttp" },
    });
    expect(secrets.map(({ value }) => value)).toContain("from-the-terminal");
  });

  it("of VS Code takes inputs from the environment", async () => {
    const files = { ".vscode/mcp.json": vscode, ".env": "" };
    const given = await loadIn(files, { server: "weather" }, { environment: { INPUT_API_KEY: "k3y" } });
    expect(given.eval.servers).toMatchObject({ weather: { env: { KEY: "k3y" } } });
    expect(await refusal(files)).toMatch(
      /variable INPUT_API_KEY is not set .* pass --env INPUT_API_KEY=VALUE, or give the input a default\.$/,
    );
    // What another server needs is of no interest.
    expect(Object.keys((await loadIn(files, { server: "remote" })).eval.servers)).toEqual(["remote"]);
  });

  it("of Codex is TOML", async () => {
    const toml = `model = "x"
[mcp_servers.weather]
command = "node"
args = ["server.js"]
[mcp_servers.remote]
url = "http://127.0.0.1:1/mcp"
bearer_token_env_var = "TOKEN"
`;
    const { eval: spec, notes } = await loadIn(
      { ".codex/config.toml": toml },
      {},
      { environment: { TOKEN: "t0ken" } },
    );
    expect(spec.servers).toMatchObject({
      weather: program,
      remote: { headers: { Authorization: "Bearer t0ken" } },
    });
    expect(notes).toEqual(["the servers are those of .codex/config.toml"]);
    expect(await refusal({ "config.toml": "a = \n" }, { source: "config.toml" })).toMatch(
      /^config\/syntax: config\.toml:1:\d+: /,
    );
  });

  it("is known by its content under any name", async () => {
    const files = { "claude_desktop_config.json": { theme: "dark", ...ofClient } };
    const { eval: spec, notes } = await loadIn(files, { source: "claude_desktop_config.json" });
    expect(spec.servers).toMatchObject({ weather: program });
    expect(notes).toEqual([]);
  });
});

describe("without a target", () => {
  const config = { servers: { mine: { transport: "stdio", ...program } } };

  it.each([
    [{ ".mcp.json": ofClient, "mcp-eval.config.json": config }, ["mine"]],
    [{ ".mcp.json": ofClient, "sub/.cursor/mcp.json": { mcpServers: { near: program } } }, ["near"]],
    [{ ".mcp.json": ofClient, "sub/.codex/config.toml": 'model = "x"\n' }, ["weather"]],
  ])("%j gives %j", async (files, names) => {
    const { eval: spec } = await loadIn({ "sub/x": "", ...files }, {}, { cwd: "sub" });
    expect(Object.keys(spec.servers)).toEqual(names);
  });

  it.each([
    ["in UTF-16", Buffer.from(`\uFEFF${JSON.stringify(ofClient)}`, "utf16le")],
    ["in UTF-16 without its mark", Buffer.from(JSON.stringify(ofClient), "utf16le")],
    ["that is empty", ""],
    ["that is null", "null"],
  ])("%s is not passed over for the next one", async (_, content) => {
    using folder = folderOf({ ".cursor/mcp.json": ofClient });
    const environment = { PATH: "/bin" };
    writeFileSync(join(folder.path, ".mcp.json"), content);
    await expect(loadTarget({}, { environment, cwd: folder.path })).rejects.toThrow(/\.mcp\.json/);
    // Clients leave files without servers.
    writeFileSync(join(folder.path, ".mcp.json"), "{ /* none */ }");
    await expect(loadTarget({}, { environment, cwd: folder.path })).resolves.toMatchObject({
      notes: ["the servers are those of .cursor/mcp.json"],
    });
  });

  it("starts a client's program in the folder of its project", async () => {
    const files = { "sub/x": "", ".mcp.json": ofClient };
    const { eval: spec, root, file } = await loadIn(files, {}, { cwd: "sub" });
    expect(spec.servers).toMatchObject({ weather: { cwd: root } });
    expect(file).toBe(join(root, ".mcp.json"));
  });

  it("leaves the user's own settings in the home folder alone", async () => {
    using folder = folderOf({ ".cursor/mcp.json": ofClient, "project/x": "" });
    const environment = { HOME: folder.path };
    const load = (cwd: string): Promise<unknown> => loadTarget({}, { cwd, environment });
    await expect(load(join(folder.path, "project"))).rejects.toMatchObject({ code: "config/not-found" });
    await expect(load(folder.path)).resolves.toMatchObject({ eval: { servers: { weather: program } } });
  });
});

it.each<readonly [Record<string, unknown>, Target, RegExp]>([
  [{}, {}, /^config\/not-found: no server is named/],
  [{}, { command: [] }, /no command was given/],
  [{}, { command: ["x"], source: "y" }, /two targets were given: y and a command/],
  [{}, { command: ["x"], headers: { A: "b" } }, /--header and --bearer-env are for a URL/],
  [{}, { source: "http://x:1", commandCwd: "." }, /--cwd is for a command/],
  [{}, { source: "http://x:1", server: "a" }, /--server is for a file/],
  [{}, { source: "http://x:y" }, /is not a URL/],
  [{}, { source: "ftp://x/" }, /ftp:\/\/x\/ is not a URL of a server/],
  [{}, { source: "http://me:word@x/" }, /^(?!.*word@).*the URL has a user name or a password/],
  [{}, { source: "http://x:1", bearerEnv: "GONE" }, /--bearer-env: no variable of this name is set/],
  [
    { "mcp.json": ofClient },
    { server: "wether" },
    /mcp\.json: no server is named "wether" \/ Did you mean "weather"\? Known servers: weather/,
  ],
  [
    { "mcp-eval.config.json": { server: { transport: "stdio", ...program } } },
    { server: "x" },
    /no server is named "x"/,
  ],
])("refuses %j with %j", async (files, target, message) => {
  expect(await refusal(files, target)).toMatch(message);
});
