import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { describe, expect, it } from "vitest";
import { folderOf } from "../support/cli.ts";
import { failure, failureIn, load, loadIn, problems, problemsIn, task } from "./support/load.ts";

const server = { transport: "stdio", command: "node", args: ["server.js"] };
const tasksOf = async (cwd: string, sources: readonly string[]): Promise<string[]> =>
  (await load(cwd, { sources })).eval.tasks.map(({ name }) => name);

describe("one task file", () => {
  it("is an eval of its own", async () => {
    using folder = folderOf({ "tasks/one.yaml": task("one") });
    const loaded = await load(folder.path, { source: "tasks/one.yaml" });
    expect(loaded.file).toBe(join(folder.path, "tasks/one.yaml"));
    expect(loaded.dir).toBe(join(folder.path, "tasks"));
    expect(loaded.eval).toMatchObject({
      name: "one",
      servers: {},
      agents: [{ type: "model", name: "claude", model: "anthropic/claude-sonnet-4-5" }],
      trials: 1,
      limits: { trialMs: 300_000, callMs: 30_000, modelMs: 120_000 },
      tasks: [
        {
          name: "one",
          form: "task",
          turns: [{ user: "Do one." }],
          location: { file: join("tasks", "one.yaml"), line: 4, column: 9 },
          portable: {
            format: "mcp-eval/v1",
            file: join(folder.path, "tasks/one.yaml"),
            dir: join(folder.path, "tasks"),
          },
        },
      ],
    });
    expect(loaded.eval.judge).toBeUndefined();
  });

  it("plays with the agents, the judge and the servers that are asked for", async () => {
    using folder = folderOf({
      "one.yaml": task("one"),
      "mcp.json": { mcpServers: { a: { command: "node", args: ["${FILE}"] }, b: { url: "http://x:1/mcp" } } },
    });
    const { eval: spec, env } = await load(folder.path, {
      source: "one.yaml",
      agents: ["oracle", "null", "openai/o3"],
      judgeModel: "google/g",
      mcpConfig: "mcp.json",
      env: { FILE: "s.js" },
    });
    expect(spec.agents.map(({ name, type }) => [name, type])).toEqual([
      ["oracle", "oracle"],
      ["null", "null"],
      ["openai/o3", "model"],
    ]);
    expect(spec.judge).toEqual({ model: "google/g", passThreshold: 0.8 });
    expect(spec.servers).toMatchObject({
      a: { transport: "stdio", args: ["s.js"], cwd: folder.path },
      b: { transport: "shttp", url: "http://x:1/mcp" },
    });
    expect(spec.tasks[0]?.servers).toEqual(["a", "b"]);
    expect(env["FILE"]).toBe("s.js");
  });

  it("refuses an agent of an unknown name, and an MCP config that is wrong", async () => {
    const options = { source: "one.yaml", agents: ["orcale"], mcpConfig: "mcp.json" };
    expect(
      await problemsIn({ "one.yaml": task("one"), "mcp.json": { mcpServers: { a: {} } } }, options),
    ).toEqual([
      'mcp.json:3:5 config/missing-key the server "a" needs command or url',
      'nowhere config/unknown-reference no agent is named "orcale"',
    ]);
  });

  it("has servers of its own, whose secrets are hidden", async () => {
    const servers = `  servers:
    own:
      command: node
      env: { API_TOKEN: hunter22 }
    far:
      url: http://127.0.0.1:1/mcp
      headers: { Authorization: "Bearer {env.THE_WORD}" }
`;
    using folder = folderOf({ "one.yaml": task("one", { spec: servers }) });
    const loaded = await load(folder.path, { source: "one.yaml", env: { THE_WORD: "open-sesame" } });
    expect(loaded.eval.taskServers).toMatchObject({
      one: { own: { transport: "stdio", cwd: folder.path }, far: { transport: "shttp" } },
    });
    expect(loaded.eval.tasks[0]?.servers).toEqual(["own", "far"]);
    expect(loaded.secrets.map(({ value }) => value)).toEqual(
      expect.arrayContaining(["hunter22", "open-sesame"]),
    );
  });

  it("hides the variables that it names, and what else looks secret", async () => {
    const env = `  env: { DB_PASSWORD: "swordfish" }\n  setup:\n    - command: { run: "login {env.MY_TOKEN}" }\n`;
    const environment = { MY_TOKEN: "token-of-mine", OTHER_TOKEN: "not-used-here" };
    const { secrets } = await loadIn(
      { "one.yaml": task("one", { spec: env }) },
      { source: "one.yaml", environment },
    );
    expect(secrets.map(({ value }) => value).toSorted()).toEqual(["swordfish", "token-of-mine"]);
  });
});

it("hides what looks secret in steps, at any depth", async () => {
  const spec = `  env: { WORD: open-sesame }
  setup:
    - command: { run: "test -d .", env: { STEP_TOKEN: in-command, OTHER: harmless } }
  cleanup:
    - group:
        steps:
          - script: { inline: "test -d .", env: { STEP_SECRET: in-script, ID_TOKEN: "{random.id}" } }
          - http:
              url: http://127.0.0.1:1/?token=in-address
              headers: { x-api-key: in-header, authorization: "Bearer {env.WORD}", accept: text/html }
`;
  const { secrets } = await loadIn({ "one.yaml": task("one", { spec }) }, { source: "one.yaml" });
  expect(secrets.map(({ value }) => value).toSorted()).toEqual([
    "in-address",
    "in-command",
    "in-header",
    "in-script",
    "open-sesame",
  ]);
});

it("hides what every task has of a name, and leaves templates as they are", async () => {
  const secrets = async (cwd: string): Promise<string[]> =>
    (await load(cwd, { source: "t" })).secrets.map(({ value }) => value).toSorted();
  using folder = folderOf({
    "t/a.yaml": task("a", { spec: "  env: { PASSWORD: first-one, ID_TOKEN: 'x-{random.id}' }\n" }),
    "t/b.yaml": task("b", { spec: "  env: { PASSWORD: other-one }\n" }),
    "t/c.yaml": task("c", {
      spec: "  servers: { s: { url: 'http://127.0.0.1:1', headers: { X-Key: 'k-{random.id}' } } }\n",
    }),
  });
  expect(await secrets(folder.path)).toEqual(["first-one", "other-one"]);
});

describe("folders, globs and lists", () => {
  const files = {
    "tasks/b.yaml": task("b"),
    "tasks/a/deep.yml": task("deep"),
    "tasks/c.json": { kind: "Config" },
    "tasks/values.yaml": "key: [1, 2\n",
    "tasks/deployment.yaml": "apiVersion: apps/v1\nkind: Deployment\n",
    "tasks/pipeline.yaml": "apiVersion: tekton.dev/v1\nkind: Task\n",
    "tasks/eval.yaml": "kind: Eval\nconfig: {}\n",
    "tasks/notes.txt": "kind: Task",
    "tasks/node_modules/x/t.yaml": task("not mine"),
    "tasks/.hidden/t.yaml": task("hidden"),
    "tasks/.t.yaml": task("hidden too"),
  };

  it("searches a folder for tasks, and leaves other files alone", async () => {
    using folder = folderOf(files);
    const loaded = await load(folder.path, { source: "tasks" });
    expect(loaded.eval.tasks.map(({ name }) => name)).toEqual(["deep", "b"]);
    expect(loaded.eval.name).toBe("tasks");
    expect(loaded.dir).toBe(join(folder.path, "tasks"));
    expect(loaded.file).toBeUndefined();
  });

  it.each([
    ["tasks/*.yaml", ["b"]],
    ["tasks/**/*.{yml,yaml}", ["deep", "b"]],
    ["tasks/**", ["deep", "b"]],
    ["./tasks/[ab].yaml", ["b"]],
    ["tasks/[!a]*.yaml", ["b"]],
    ["tasks/.hidden/*.yaml", ["hidden"]],
    ["tasks/node_modules/**/*.yaml", ["not mine"]],
  ])("expands %s", async (pattern, names) => {
    using folder = folderOf(files);
    expect(await tasksOf(folder.path, [pattern])).toEqual(names);
  });

  it("takes a file for a file, whatever its name", async () => {
    using folder = folderOf({ "[x]/t{1}.yaml": task("odd") });
    expect(await tasksOf(folder.path, ["[x]/t{1}.yaml"])).toEqual(["odd"]);
  });

  it("runs several sources together", async () => {
    using folder = folderOf({ "x/a.yaml": task("a"), "b.yaml": task("b"), "c.yaml": task("c") });
    const loaded = await load(folder.path, { sources: ["x", "c.yaml", "b.yaml"] });
    expect(loaded.eval.tasks.map(({ name }) => name)).toEqual(["a", "c", "b"]);
    expect(loaded.eval.name).toBe(basename(folder.path));
    expect(loaded.dir).toBe(folder.path);
  });

  it("takes a file once, however often it is reached", async () => {
    using folder = folderOf({ "x/a.yaml": task("a") });
    mkdirSync(join(folder.path, "y"));
    symlinkSync(join("..", "x", "a.yaml"), join(folder.path, "y", "link.yaml"));
    // Followed without end, two of them would be more paths than can be walked.
    for (const name of ["loop", "other"]) symlinkSync(".", join(folder.path, "x", name));
    const loaded = await load(folder.path, { sources: ["y", "x", "x/a.yaml", "**/*.yaml"] });
    expect(loaded.eval.tasks.map((each) => [each.name, each.portable?.dir])).toEqual([
      ["a", join(folder.path, "y")],
    ]);
  });

  it("prefers the config of a folder", async () => {
    const config = { server, toolHealthSuites: [{ name: "s", tests: [{ name: "t" }] }] };
    using folder = folderOf({ "x/mcp-eval.config.json": config, "x/a.yaml": task("a") });
    expect(await tasksOf(folder.path, ["x"])).toEqual(["s/t"]);
  });

  it.each([
    ["a folder without tasks", "empty", /^there is no config file in empty, and no task$/],
    ["a glob without tasks", "empty/*.yaml", /^there is no config file in empty\/\*\.yaml, and no task$/],
    ["a glob without files", "empty/*.yml", /^no file matches empty\/\*\.yml$/],
    [
      "a glob without files of data",
      "empty/*.txt",
      /^no \.yaml, \.yml or \.json file matches empty\/\*\.txt$/,
    ],
    ["a name of nothing", "nothing.yaml", /^there is no file or folder .*nothing\.yaml$/],
  ])("refuses %s", async (_, source, message) => {
    const error = await failureIn({ "empty/x.yaml": "a: 1", "empty/x.txt": "a" }, { source });
    expect(error.code).toBe("config/not-found");
    expect(error.message).toMatch(message);
  });

  it("refuses a config or an agent beside tasks, an agent alone, and a kind that is not known", async () => {
    using folder = folderOf({
      "a.yaml": task("a"),
      "config.yaml": "server: {}",
      "agent.yaml": "kind: Agent\nmetadata: {name: x}\n",
      "typo.yaml": "# a task\nkind: Tsak\n",
    });
    const both = await failure(folder.path, { sources: ["a.yaml", "config.yaml"] });
    expect(both.message).toBe("several sources are named, and config.yaml is a config");
    const agent = await failure(folder.path, { source: "agent.yaml" });
    expect(agent.message).toBe("agent.yaml is an agent, which has nothing to run");
    expect(await problems(folder.path, { source: "typo.yaml" })).toEqual([
      "typo.yaml:2:7 config/invalid-value typo.yaml has an unknown kind",
    ]);
  });
});

describe("everything that is wrong", () => {
  it("is told at once, for all files, with the lines around it", async () => {
    using folder = folderOf({
      "tasks/a.yaml": task("same"),
      "tasks/b.yaml": task("same"),
      "tasks/c.yaml": task("c", { spec: "  vrify: []\n" }),
      "tasks/d.yaml": "kind: Task\nmetadata: {name: d\n",
      "tasks/e.yaml":
        "apiVersion: mcpchecker/v1alpha1\nkind: Task\nmetadata: {name: e}\nsteps: {prompt: {inline: p}}\n",
      "tasks/f.yaml": task("f", { spec: '  fixtures: ["../outside"]\n' }),
    });
    const error = await failure(folder.path, { source: "tasks" });
    const told = (error.details.diagnostics ?? []).map(({ code, location }) =>
      [code, basename(location?.file ?? ""), location?.line].join(" "),
    );
    expect(told).toEqual([
      "config/syntax d.yaml 3",
      "config/unknown-key c.yaml 9",
      "task/outside f.yaml 9",
      "config/checks-nothing e.yaml 3",
      "config/duplicate-name b.yaml 4",
    ]);
    expect(error.details.diagnostics?.every(({ frame }) => frame !== undefined && frame !== "")).toBe(true);
    expect(error.details.diagnostics?.at(-1)?.hint).toBe(
      `The other is at ${join("tasks", "a.yaml")}:4:9. Rename one of them.`,
    );
  });

  it("lets paths leave the folder when that is allowed", async () => {
    using folder = folderOf({
      "shared/data.txt": "x",
      "tasks/a.yaml": task("a", { spec: '  fixtures: ["../shared/data.txt"]\n' }),
    });
    expect((await failure(folder.path, { source: "tasks/a.yaml" })).code).toBe("task/outside");
    const loaded = await load(folder.path, { source: "tasks/a.yaml", allowOutside: true });
    expect(loaded.eval.tasks[0]?.portable?.fixtures).toEqual(["../shared/data.txt"]);
  });

  it("finds a link that leaves the folder", async () => {
    using folder = folderOf({
      "secret.txt": "x",
      "tasks/inside.txt": "x",
      "tasks/a.yaml": task("a", { spec: "  fixtures: [link.txt, good.txt]\n" }),
    });
    symlinkSync(join("..", "secret.txt"), join(folder.path, "tasks", "link.txt"));
    symlinkSync("inside.txt", join(folder.path, "tasks", "good.txt"));
    expect(await problems(folder.path, { source: "tasks/a.yaml" })).toEqual([
      expect.stringMatching(/^tasks.a\.yaml:9:14 task\/outside /),
    ]);
  });

  it("shows no secret", async () => {
    const wrong = "  servers: { s: { command: node, env: { API_TOKEN: hunter22 }, wrong: 1 } }\n";
    const error = await failureIn({ "a.yaml": task("a", { spec: wrong }) }, { source: "a.yaml" });
    expect(error.details.diagnostics?.[0]?.frame).toContain("API_TOKEN: ********");
  });

  it("has a task that cannot be read, but not another file", async () => {
    using folder = folderOf({ "x/a.yaml": task("a") });
    writeFileSync(join(folder.path, "x", "latin.yaml"), Buffer.from("name: caf\xe9", "latin1"));
    expect(await tasksOf(folder.path, ["x"])).toEqual(["a"]);
    writeFileSync(join(folder.path, "x", "bad.yaml"), Buffer.from("kind: Task\nname: caf\xe9", "latin1"));
    expect(await problems(folder.path, { source: "x" })).toEqual([
      `${join("x", "bad.yaml")}:2:10 config/unreadable ${join("x", "bad.yaml")} is not UTF-8 text`,
    ]);
  });
});

it("tells only of the task that is broken where there is no other", async () => {
  const broken = "kind: Task\nmetadata: [\n";
  const config = { server, tasks: ["x/*.yaml"] };
  for (const source of ["x", "x/*.yaml", "config.json"]) {
    const found = await problemsIn({ "x/a.yaml": broken, "config.json": config }, { source });
    expect([source, found]).toEqual([source, [expect.stringMatching(/a\.yaml:3:1 config\/syntax /)]]);
  }
});

describe("tasks of a config", () => {
  const config = {
    server,
    tasks: ["tasks/*.yaml"],
    agent: { type: "scripted", plan: { a: [{ say: "x" }] } },
  };

  it("get its servers, its agents and its variables", async () => {
    using folder = folderOf({
      "mcp-eval.config.json": { ...config, inheritEnv: ["HOME"], trials: 2 },
      "tasks/a.yaml": task("a"),
      "tasks/other.yaml": "kind: Other",
    });
    const { eval: spec } = await load(folder.path);
    expect(spec.tasks).toMatchObject([
      { name: "a", servers: ["default"], portable: { inheritEnv: ["HOME"] } },
    ]);
    expect([spec.trials, spec.agents[0]?.name]).toEqual([2, "scripted"]);
  });

  it("get its graders, also without a server", async () => {
    const grader = { type: "behavior", config: { max_tool_calls: 2 } };
    const { eval: spec } = await loadIn({
      "mcp-eval.config.json": { graders: [grader], tasks: ["a.yaml"] },
      "a.yaml": task("a"),
    });
    expect(spec.tasks).toMatchObject([{ name: "a", form: "task", graders: [grader] }]);
  });

  it("must exist, have names of their own, and a plan when the agent is scripted", async () => {
    using folder = folderOf({
      "mcp-eval.config.json": {
        ...config,
        tasks: ["tasks/*.yaml", "taks/*.yaml"],
        workflows: [{ name: "a", steps: [{ user: "u", expectedState: "s" }] }],
      },
      "tasks/a.yaml": task("a"),
      "tasks/b.yaml": task("b"),
    });
    const error = await failure(folder.path);
    const told = (error.details.diagnostics ?? []).map(({ code, message }) => `${code} ${message}`);
    expect(told).toEqual([
      'config/not-found tasks: no file of kind Task is at "taks/*.yaml"',
      'config/duplicate-name two tasks are named "a"',
    ]);
    using other = folderOf({ "mcp-eval.config.json": { ...config, tasks: ["*.yaml"] }, "b.yaml": task("b") });
    expect((await failure(other.path)).details.diagnostics).toMatchObject([
      { code: "agent/no-plan", message: 'agent.plan has no plan for the task "b"' },
      { code: "config/unknown-reference", message: 'no workflow or task is named "a"' },
    ]);
  });

  it("are read when the config fits its schema, and reported together with its broken rules", async () => {
    using folder = folderOf({
      "mcp-eval.config.yaml": "server: {transport: stdio, command: node}\ntasks: [t.yaml]\nagent: nobody\n",
      "t.yaml": task("t", { spec: "  vrify: []\n" }),
    });
    expect(await problems(folder.path)).toEqual([
      'mcp-eval.config.yaml:3:8 config/unknown-reference no agent is named "nobody"',
      't.yaml:9:3 config/unknown-key unknown key "vrify" in spec',
    ]);
  });

  it("leave no place for --mcp-config where the config has servers", async () => {
    const { code, message } = await failureIn(
      { "mcp-eval.config.json": config, "tasks/a.yaml": task("a") },
      { mcpConfig: "x.json" },
    );
    expect([code, message]).toEqual([
      "usage/invalid-option",
      "mcp-eval.config.json has servers of its own, which --mcp-config does not replace",
    ]);
  });

  it("need no server in the config", async () => {
    const { eval: spec } = await loadIn({
      "mcp-eval.config.json": { tasks: ["a.yaml"] },
      "a.yaml": task("a"),
    });
    expect([spec.servers, spec.tasks.map(({ name, servers }) => [name, servers])]).toEqual([{}, [["a", []]]]);
  });

  it("and workflows get the servers of --mcp-config, whose secrets are hidden", async () => {
    using folder = folderOf({
      "mcp-eval.config.json": {
        tasks: ["a.yaml"],
        workflows: [{ name: "w", servers: ["db"], steps: [{ user: "u", expectedState: "s" }] }],
        variants: { other: { servers: { db: { url: "http://y:1/mcp" } } } },
      },
      "a.yaml": task("a"),
      "mcp.json": { mcpServers: { db: { url: "http://x:1/mcp", headers: { "X-Api-Key": "${DB_KEY}" } } } },
    });
    const options = { mcpConfig: "mcp.json", env: { DB_KEY: "hunter22-of-db" } };
    const { eval: spec, secrets } = await load(folder.path, options);
    expect(spec.servers).toMatchObject({ db: { transport: "shttp", url: "http://x:1/mcp" } });
    expect(spec.variants).toMatchObject([{ servers: { a: { db: { url: "http://y:1/mcp" } } } }]);
    expect(spec.tasks.map(({ name, servers }) => [name, servers])).toEqual([
      ["w", ["db"]],
      ["a", ["db"]],
    ]);
    expect(secrets.map(({ value }) => value)).toContain("hunter22-of-db");
  });

  it("are not wrong because of a variable that the file of --mcp-config lacks", async () => {
    const setup =
      "  setup:\n    - db.query: {}\n    - db.query: {}\n    - http: { url: '{servers.far.url}' }\n";
    using folder = folderOf({
      "mcp-eval.config.json": { tasks: ["a.yaml"] },
      "a.yaml": task("a", { spec: setup }),
      "eval.yaml": `kind: Eval
config:
  mcpConfigFile: mcp.json
  agent: { type: builtin.claude-code }
  taskSets: [{ path: a.yaml }]\n`,
      "mcp.json": { mcpServers: { db: { command: "${DB}" }, far: { url: "http://x:1/mcp" } } },
      "broken.json": { mcpServers: { db: {}, far: { url: "http://x:1/mcp" } } },
    });
    const unset = "mcp.json:4:19 config/unset-variable mcpServers.db.command: the variable DB is not set";
    for (const source of [undefined, "a.yaml"])
      expect(await problems(folder.path, { source, mcpConfig: "mcp.json" })).toEqual([unset]);
    expect(await problems(folder.path, { source: "eval.yaml" })).toEqual([unset]);
    expect(await problems(folder.path, { source: "a.yaml", mcpConfig: "broken.json" })).toEqual([
      'broken.json:3:5 config/missing-key the server "db" needs command or url',
    ]);
  });
});
