import { writeFileSync } from "node:fs";
import { basename, delimiter, join } from "node:path";
import { describe, expect, it } from "vitest";
import { defineConfig } from "../../src/formats/load.ts";
import { environment } from "../../src/formats/environment.ts";
import type { Config } from "../../src/formats/config/config-schema.ts";
import type { ServerSpec } from "../../src/model/server.ts";
import { folderOf } from "../support/cli.ts";
import { failure, failureIn, load, loadIn, problems } from "./support/load.ts";

const valid = {
  server: { transport: "stdio", command: "node" },
  toolHealthSuites: [{ name: "s", tests: [{ name: "t" }] }],
} as const satisfies object;
const validConfig = structuredClone(valid) as unknown as Config;

function withServer(server: object): Config {
  return { ...validConfig, server: { transport: "stdio", command: "node", ...server } };
}

describe("finding the file", () => {
  it("looks in the working folder and above it", async () => {
    using folder = folderOf({ "mcp-eval.config.json": valid, "a/b/c/.keep": "" });
    const loaded = await load(join(folder.path, "a/b/c"));
    expect(loaded.file).toBe(join(folder.path, "mcp-eval.config.json"));
    expect(loaded.dir).toBe(folder.path);
    expect(loaded.eval.name).toBe(basename(folder.path));
    expect(loaded.eval.tasks[0]?.location?.file).toBe(join("..", "..", "..", "mcp-eval.config.json"));
  });

  it.each(["json", "yaml", "yml"])("knows the ending .%s", async (ending) => {
    expect((await loadIn({ [`mcp-eval.config.${ending}`]: valid })).eval.tasks).toHaveLength(1);
  });

  it("prefers the nearest", async () => {
    using folder = folderOf({ "mcp-eval.config.json": "broken", "sub/mcp-eval.config.yaml": valid });
    expect((await load(join(folder.path, "sub"))).file).toBe(
      join(folder.path, "sub", "mcp-eval.config.yaml"),
    );
  });

  it("takes a file of any name, and a folder", async () => {
    using folder = folderOf({ "x/other.json": valid, "y/mcp-eval.config.json": valid });
    expect((await load(folder.path, { source: "x/other.json" })).dir).toBe(join(folder.path, "x"));
    expect((await load(folder.path, { source: "y" })).file).toBe(
      join(folder.path, "y", "mcp-eval.config.json"),
    );
    expect((await load("/", { source: join(folder.path, "y") })).dir).toBe(join(folder.path, "y"));
  });

  it("does not look above a folder that is named", async () => {
    using folder = folderOf({ "mcp-eval.config.json": valid, "empty/.keep": "" });
    const error = await failure(folder.path, { source: "empty" });
    expect(error.code).toBe("config/not-found");
    expect(error.message).toBe(`there is no config file in ${join(folder.path, "empty")}`);
  });

  it("says where it looked", async () => {
    using folder = folderOf({ "a/.keep": "" });
    const error = await failure(join(folder.path, "a"));
    expect(error.code).toBe("config/not-found");
    expect(error.message).toBe(`there is no config file in ${join(folder.path, "a")} or a folder above it`);
    const names = "mcp-eval.config.{ts,mts,js,mjs,json,yaml,yml}";
    expect(error.details.detail?.split("\n").slice(0, 2)).toEqual([
      `looked for ${join(folder.path, "a", names)}`,
      `looked for ${join(folder.path, names)}`,
    ]);
    expect(error.details.detail?.split("\n").at(-1)).toBe(`looked for ${join("/", names)}`);
  });

  it("refuses two in one folder", async () => {
    using folder = folderOf({ "mcp-eval.config.json": valid, "mcp-eval.config.yml": valid });
    const error = await failure(folder.path);
    expect(error.code).toBe("config/duplicate-name");
    expect(error.message).toBe(
      `${folder.path} has more than one config file: mcp-eval.config.json and mcp-eval.config.yml`,
    );
    expect((await load(folder.path, { source: "mcp-eval.config.yml" })).eval.tasks).toHaveLength(1);
  });

  it("passes over a folder of that name", async () => {
    using folder = folderOf({ "mcp-eval.config.json": valid, "sub/mcp-eval.config.ts/.keep": "" });
    expect((await load(join(folder.path, "sub"))).dir).toBe(folder.path);
  });

  it.each([
    ["missing.json", "config/not-found"],
    ["mcp-eval.config.json/x", "config/not-found"],
    ["config.toml", "config/unreadable"],
    ["noending", "config/unreadable"],
    ["long".repeat(5000), "config/not-found"],
    ["nul\0byte.json", "config/unreadable"],
  ])("refuses %s", async (source, code) => {
    expect(
      (await failureIn({ "mcp-eval.config.json": valid, "config.toml": "x", noending: "x" }, { source }))
        .code,
    ).toBe(code);
  });

  it("tells of a file that is not text", async () => {
    using folder = folderOf({});
    writeFileSync(join(folder.path, "mcp-eval.config.json"), Buffer.from([0xff, 0xfe, 0x7b, 0x00]));
    const error = await failure(folder.path);
    expect(error.code).toBe("config/unreadable");
    expect(error.message).toBe("mcp-eval.config.json is not UTF-8 text");
  });
});

describe("a config given as a value", () => {
  it("is taken as it is, with the working folder as its own", async () => {
    using folder = folderOf({});
    const loaded = await load(folder.path, { source: defineConfig(validConfig) });
    expect(loaded.file).toBeUndefined();
    expect(loaded.dir).toBe(folder.path);
    expect(loaded.eval.servers["default"]).toMatchObject({ cwd: folder.path });
  });

  it("is not changed", async () => {
    const source = withServer({ env: { A: "${B}" } });
    const before = structuredClone(source);
    await load("/", { source, env: { B: "x" } });
    expect(source).toEqual(before);
  });
});

describe("variables", () => {
  const source = withServer({ args: ["${A}", "${B:-dflt}", "$${C}"] });
  const args = async (options: object): Promise<unknown> => {
    const { default: server } = (await load("/", { source, ...options })).eval.servers;
    return server?.transport === "stdio" ? server.args : undefined;
  };

  it("come from --env first, then from the environment", async () => {
    expect(await args({ environment: { A: "env", B: "env" } })).toEqual(["env", "env", "${C}"]);
    expect(await args({ environment: { A: "env", B: "env" }, env: { A: "opt" } })).toEqual([
      "opt",
      "env",
      "${C}",
    ]);
    expect(await args({ env: { A: "" } })).toEqual(["", "dflt", "${C}"]);
  });

  it("come from this process unless an environment is given", async () => {
    expect(await args({ environment: undefined, env: { A: "${PATH}" } })).toEqual([
      "${PATH}",
      "dflt",
      "${C}",
    ]);
    expect(environment()["PATH"]).toBe(process.env["PATH"]);
  });

  it("stay strings", async () => {
    const config = { ...validConfig, trials: "${N}" } as unknown as Config;
    expect(await problems("/", { source: config, env: { N: "3" } })).toEqual([
      "(config) config/invalid-value trials must be a number, not a string",
    ]);
    const timeout = { ...validConfig, timeout: "${T}" };
    expect((await load("/", { source: timeout, env: { T: "3" } })).eval.limits.callMs).toBe(3);
  });

  it("are not looked up on prototypes", async () => {
    const found = await problems("/", { source: withServer({ args: ["${constructor} ${__proto__}"] }) });
    expect(found).toEqual([
      "(config) config/unset-variable server.args[0]: the variable constructor is not set",
      "(config) config/unset-variable server.args[0]: the variable __proto__ is not set",
    ]);
  });

  it("do not hide other problems, and cause none", async () => {
    const config = {
      server: { transport: "shttp", url: "${URL}" },
      workflows: [{ name: "${NAME}", servers: ["${SERVER}"], steps: [{ user: "u", expectedState: "s" }] }],
      agent: "${AGENT}",
      trials: 0,
    } as Config;
    const found = await problems("/", { source: config });
    expect(found.map((each) => each.replace("(config) ", ""))).toEqual([
      "config/unset-variable server.url: the variable URL is not set",
      "config/unset-variable workflows[0].name: the variable NAME is not set",
      "config/unset-variable workflows[0].servers[0]: the variable SERVER is not set",
      "config/unset-variable agent: the variable AGENT is not set",
      "config/invalid-value trials must be at least 1",
    ]);
  });

  it("never appear in errors", async () => {
    using folder = folderOf({
      "mcp-eval.config.yaml": [
        "server: {transport: shttp, url: '${URL}', headers: {Authorization: 'Bearer hunter22'}, x: 1}",
        "openaiKey: literal-key",
      ].join("\n"),
      "other.yaml": [
        "server: {transport: shttp, url: 'http://x', headers: {Authorization: 'Bearer hunter22'}}",
        "workflows: [{name: a, servers: ['${WHERE}'], steps: [{user: u}]}]",
        "agent: '${WHO}'",
        "openaiKey: literal-key",
      ].join("\n"),
    });
    const env = { URL: "not-a-url-value", WHERE: "where-value", WHO: "who-value" };
    const wrong = await failure(folder.path, { env });
    const broken = await failure(folder.path, { env, source: "other.yaml" });
    expect([wrong, broken].map(({ details }) => details.diagnostics?.length)).toEqual([2, 3]);
    const everything = JSON.stringify([wrong.message, wrong.details, broken.message, broken.details]);
    expect(everything).not.toMatch(/not-a-url-value|where-value|who-value|hunter22|literal-key/);
    expect(everything).toContain("${WHO}");
  });
});

async function serverOf(server: object, options: object): Promise<ServerSpec & { transport: "stdio" }> {
  const spec = (await load("/base", { source: withServer(server), ...options })).eval.servers["default"];
  if (spec?.transport !== "stdio") throw new Error("no local server");
  return spec;
}

describe("a local server", () => {
  const loadContext = {
    environment: { HOME: "/home/me", PATH: "/bin", LANG: "C", AWS_SECRET: "s3cret", EXTRA: "e" },
  };

  it("starts beside the config, or where it says", async () => {
    expect((await serverOf({}, {})).cwd).toBe("/base");
    expect((await serverOf({ cwd: "sub/../other" }, {})).cwd).toBe(join("/base", "other"));
    expect((await serverOf({ cwd: "/abs" }, {})).cwd).toBe("/abs");
  });

  it("gets a small environment, with local programs on the path", async () => {
    const { env } = await serverOf({}, loadContext);
    expect(env).toEqual({
      HOME: "/home/me",
      LANG: "C",
      PATH: ["/base/node_modules/.bin", "/node_modules/.bin", "/bin"].join(delimiter),
    });
  });

  it("inherits what it names, or everything", async () => {
    expect((await serverOf({ inheritEnv: ["EXTRA", "UNSET"] }, loadContext)).env).toMatchObject({
      EXTRA: "e",
    });
    expect((await serverOf({ inheritEnv: ["EXTRA"] }, loadContext)).env).not.toHaveProperty("AWS_SECRET");
    expect((await serverOf({ inheritEnv: true }, loadContext)).env).toMatchObject({
      EXTRA: "e",
      AWS_SECRET: "s3cret",
    });
    expect((await serverOf({ inheritEnv: true }, loadContext)).env["PATH"]).toMatch(/\.bin/);
  });

  it("says when it inherits nothing", async () => {
    const { notes } = await load("/", {
      source: withServer({ inheritEnv: ["EXTRA", "UNSET"] }),
      ...loadContext,
    });
    expect(notes).toEqual(['server "default": inheritEnv names UNSET, which is not set']);
  });

  it("lets its own variables win, and the command line's over them", async () => {
    const server = { env: { A: "own", EXTRA: "own", HOME: "own", B: "own" }, inheritEnv: ["EXTRA"] };
    const { env } = await serverOf(server, { ...loadContext, env: { B: "opt", NEW: "opt" } });
    expect(env).toMatchObject({ A: "own", EXTRA: "own", HOME: "own", B: "opt", NEW: "opt" });
  });

  it("keeps a path of its own", async () => {
    expect((await serverOf({ env: { PATH: "/only" } }, loadContext)).env["PATH"]).toBe("/only");
  });
});

it("collects what must never be written", async () => {
  const source = {
    ...withServer({ env: { DB_PASSWORD: "${DB}", PLAIN: "plain-text" }, inheritEnv: ["GITHUB_TOKEN"] }),
    openaiKey: "sk-openai",
  };
  const { secrets } = await load("/", {
    source,
    env: { DB: "from-option", API_KEY: "opt-key" },
    environment: {
      GITHUB_TOKEN: "ghp-inherited",
      ANTHROPIC_API_KEY: "sk-ant",
      OTHER_TOKEN: "not-given-to-anyone",
    },
  });
  expect(Object.fromEntries(secrets.map(({ name, value }) => [value, name]))).toEqual({
    "sk-openai": "openaiKey",
    "from-option": "DB_PASSWORD",
    "opt-key": "API_KEY",
    "ghp-inherited": "GITHUB_TOKEN",
    "sk-ant": "ANTHROPIC_API_KEY",
  });
});

it("gives the environment with the command line's variables on top", async () => {
  const { env } = await load("/", {
    source: validConfig,
    env: { A: "opt" },
    environment: { A: "env", B: "env" },
  });
  expect(env).toEqual({ A: "opt", B: "env" });
});

it("stops at once for a signal", async () => {
  const reason = new Error("stopped");
  await expect(load("/", { source: validConfig, signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
});
