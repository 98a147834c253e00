import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { AgentSpec } from "../../src/model/agent.ts";
import { createPlan } from "../../src/model/plan.ts";
import { prepare } from "../../src/run/prepare.ts";
import { folderOf } from "../support/cli.ts";
import { failure, load, loadIn, problems, problemsIn } from "./support/load.ts";

const agent = "  agent: { type: builtin.llm-agent, model: 'openai:gpt-5' }\n";

/** An Eval of the older form. */
function evalOf(config: string, { withAgent = true } = {}): string {
  return `kind: Eval\nmetadata:\n  name: demo\nconfig:\n${withAgent ? agent : ""}${config}`;
}

/** A task of the script form. */
function script(name: string, { metadata = "", steps = "  verify: { inline: 'true' }\n" } = {}): string {
  return `kind: Task\nmetadata:\n  name: ${name}\n${metadata}steps:\n  prompt: { inline: Do ${name}. }\n${steps}`;
}

const all = "  taskSets:\n    - glob: tasks/*.yaml\n";

describe("an Eval", () => {
  it("is its tasks, servers, agent, judge and limits", async () => {
    using folder = folderOf({
      "eval.yaml": evalOf(`  mcpConfigFile: mcp.yaml
  llmJudge: { ref: { type: builtin.llm-agent, model: 'gemini:pro' } }
  defaultTaskLimits: { timeout: 2m, cleanupTimeout: 3s }
${all}`),
      "mcp.yaml":
        "mcpServers:\n  main:\n    command: node\n    args: ['${SCRIPT}']\n    enableAllTools: yes\n  off:\n    command: x\n    disabled: true\n",
      "tasks/a.yaml": script("a"),
      "tasks/b.yaml": script("b"),
      "tasks/eval.yaml": "kind: Eval\n",
      "tasks/readme.md": "kind of a readme",
    });
    const loaded = await load(folder.path, { source: "eval.yaml", env: { SCRIPT: "s.js" } });
    expect(loaded).toMatchObject({
      file: join(folder.path, "eval.yaml"),
      eval: {
        name: "demo",
        servers: { main: { transport: "stdio", command: "node", args: ["s.js"], cwd: folder.path } },
        agents: [{ type: "model", model: "openai/gpt-5" }],
        judge: { model: "google/pro", passThreshold: 0.8 },
        limits: { trialMs: 120_000 },
        tasks: [
          { name: "a", servers: ["main"], portable: { format: "script-form", cleanupTimeoutMs: 3000 } },
          { name: "b" },
        ],
      },
    });
    expect(loaded.notes).toEqual([]);
  });

  it("has a budget, and prices in a file beside it, unless others are asked for", async () => {
    const prices = (input: number, more: object = {}): object => ({
      ...more,
      models: { "gpt-5": { input, output: 1 } },
    });
    using folder = folderOf({
      "evals/eval.yaml": evalOf(`  budget: { cost: 2.5, time: 30m }\n  prices: ../prices.json\n${all}`),
      "evals/tasks/a.yaml": script("a"),
      "prices.json": prices(1, { $schema: "node_modules/mcpvals/schemas/prices.schema.json" }),
      "other.json": prices(2),
    });
    const source = "evals/eval.yaml";
    const loaded = await load(folder.path, { source });
    expect(loaded.eval).toMatchObject({ budget: { cost: 2.5, timeMs: 1_800_000 } });
    // Which schema checks a file is no price.
    expect(loaded.eval.prices).toEqual({ currency: "USD", ...prices(1) });
    expect((await load(folder.path, { source, prices: "other.json" })).eval.prices).toMatchObject(prices(2));
    expect(prepare(loaded, { budget: { cost: 1 } }).eval.budget).toEqual({ cost: 1, timeMs: 1_800_000 });
  });

  it("runs its tasks with what is asked for instead", async () => {
    using folder = folderOf({
      "eval.yaml": evalOf(`  agent: { type: builtin.claude-code }\n${all}`, { withAgent: false }),
      "tasks/a.yaml": script("a"),
      "mcp.json": { mcpServers: { mine: { url: "http://x:1/mcp" } } },
    });
    const options = { source: "eval.yaml", agents: ["null"], judgeModel: "o3", mcpConfig: "mcp.json" };
    const { eval: spec } = await load(folder.path, options);
    expect(spec.agents).toEqual([{ type: "null", name: "null" }]);
    expect(spec.judge?.model).toBe("openai/o3");
    expect(Object.keys(spec.servers)).toEqual(["mine"]);
  });
});

describe("the servers of MCP_ variables", () => {
  it.each<readonly [Record<string, string>, object]>([
    [
      { MCP_COMMAND: "node", MCP_ARGS: '["a b"]', MCP_ENV: '{"X":"1"}', MCP_URL: "http://not:1" },
      { default: { transport: "stdio", command: "node", args: ["a b"], env: { X: "1" } } },
    ],
    [{ MCP_COMMAND: "node", MCP_ARGS: "a, b" }, { default: { args: ["a", "b"] } }],
    [
      { MCP_URL: "http://x:1/y", MCP_HEADERS: '{"A":"b"}', MCP_SERVER_NAME: "mine" },
      { mine: { transport: "shttp", url: "http://x:1/y", headers: { A: "b" } } },
    ],
    [{ MCP_PORT: "8080" }, { default: { url: "http://localhost:8080/mcp" } }],
    [{ MCP_HOST: "h", MCP_PORT: "1", MCP_PATH: "p" }, { default: { url: "http://h:1/p" } }],
  ])("%j", async (environment, servers) => {
    expect(
      (
        await loadIn(
          { "eval.yaml": evalOf(all), "tasks/a.yaml": script("a") },
          { source: "eval.yaml", environment },
        )
      ).eval.servers,
    ).toMatchObject(servers);
  });

  it("are not looked at when a file says which", async () => {
    using folder = folderOf({
      "eval.yaml": evalOf(`  mcpConfigFile: mcp.json\n${all}`),
      "mcp.json": { mcpServers: { main: { command: "node" } } },
      "tasks/a.yaml": script("a"),
    });
    const environment = { MCP_URL: "http://x:1" };
    const { eval: spec } = await load(folder.path, { source: "eval.yaml", environment });
    expect(Object.keys(spec.servers)).toEqual(["main"]);
  });

  it("are refused when they are not what they should be", async () => {
    const environment = { MCP_COMMAND: "node", MCP_ENV: "{" };
    expect(
      await problemsIn(
        { "eval.yaml": evalOf(all), "tasks/a.yaml": script("a") },
        { source: "eval.yaml", environment },
      ),
    ).toEqual(["nowhere config/invalid-value the variable MCP_ENV must hold JSON"]);
  });
});

describe("task sets", () => {
  const sets = `  mcpConfigFile: mcp.json
  taskSets:
    - glob: tasks/*.yaml
      labelSelector: { suite: one }
      assertions: { minToolCalls: 1 }
    - path: tasks/a.yaml
      assertions: { toolsUsed: [{ server: main, tool: t }] }
`;
  const files = {
    "eval.yaml": evalOf(sets),
    "mcp.json": { mcpServers: { main: { command: "node" } } },
    "tasks/a.yaml": script("a", { metadata: "  labels: { suite: one }\n", steps: "" }),
    "tasks/b.yaml": script("b", { metadata: "  labels: { suite: two }\n", steps: "" }),
    "tasks/c.yaml": script("c", { metadata: "  labels: { suite: one, more: 1 }\n" }),
  };

  it("choose by label, and give their assertions to each task that they reach, once", async () => {
    const { eval: spec } = await loadIn(files, { source: "eval.yaml" });
    expect(spec.tasks.map(({ name, portable }) => [name, portable?.assertions])).toEqual([
      ["a", [{ minToolCalls: 1 }, { toolsUsed: [{ server: "main", tool: "t" }] }]],
      ["c", [{ minToolCalls: 1 }]],
    ]);
  });

  it("start from the folder in which the Eval was named, not from where its link leads", async () => {
    using folder = folderOf({ "real/eval.yaml": evalOf(all), "here/tasks/a.yaml": script("here") });
    symlinkSync(join("..", "real", "eval.yaml"), join(folder.path, "here", "eval.yaml"));
    const { tasks } = (await load(folder.path, { source: "here/eval.yaml" })).eval;
    expect(tasks.map(({ name }) => name)).toEqual(["here"]);
  });

  it.each([
    ["a/**/*.yaml", ["one", "two"]],
    ["a/*/[^x].yaml", ["two"]],
    ["a/*/[!x].yaml", []],
    ["a/?.yaml", ["one"]],
    ["a/{1,x}.yaml", []],
  ])("expand %s as Go does, and ** besides", async (glob, names) => {
    using folder = folderOf({
      "eval.yaml": evalOf(`  taskSets: [{ glob: "${glob}" }]\n`),
      "a/1.yaml": script("one"),
      "a/b/2.yaml": script("two"),
    });
    if (names.length === 0) {
      const found = [
        `eval.yaml:6:14 config/not-found config.taskSets[0]: no file of kind Task is at the glob ${glob}`,
      ];
      return expect(await problems(folder.path, { source: "eval.yaml" })).toEqual(found);
    }
    const { tasks } = (await load(folder.path, { source: "eval.yaml" })).eval;
    return expect(tasks.map(({ name }) => name)).toEqual(names);
  });

  it("say that a path with wildcards is a glob", async () => {
    using folder = folderOf({
      "eval.yaml": evalOf("  taskSets: [{ path: 'tasks/*.yaml' }]\n"),
      "tasks/a.yaml": script("a"),
    });
    const { details } = await failure(folder.path, { source: "eval.yaml" });
    expect(details.diagnostics?.map(({ hint }) => hint)).toEqual([
      "A path names one file; for several write glob: tasks/*.yaml",
    ]);
  });

  it("abort for a task that is broken, that checks nothing, and for a path to nothing", async () => {
    using folder = folderOf({
      "eval.yaml": evalOf("  taskSets:\n    - glob: tasks/*.yaml\n    - path: tasks/gone.yaml\n"),
      "tasks/a.yaml": script("a", { steps: "" }),
      "tasks/b.yaml": "kind: Task\nmetadata: [\n",
      "tasks/c.yaml": "not: [a task\n",
    });
    expect(await problems(folder.path, { source: "eval.yaml" })).toEqual([
      expect.stringMatching(/^tasks.b\.yaml:3:1 config\/syntax /),
      "eval.yaml:8:7 config/not-found config.taskSets[1]: no file of kind Task is at the path tasks/gone.yaml",
      expect.stringMatching(/^tasks.a\.yaml:3:9 config\/checks-nothing the task "a" checks nothing/),
    ]);
  });
});

describe("agents in files", () => {
  const withFile = evalOf(`  agent: { type: file, path: agent.yaml }\n${all}`, { withAgent: false });

  const environment = { PATH: "/bin", SHELL: "/bin/sh", TOKEN: "{kept}" };

  async function agentOf(text: string, servers = ""): Promise<AgentSpec | undefined> {
    using folder = folderOf({
      "eval.yaml": evalOf(`  agent: { type: file, path: agent.yaml }\n${servers}${all}`, {
        withAgent: false,
      }),
      "agent.yaml": `kind: Agent\nmetadata: { name: mine }\n${text}\n`,
      "tasks/a.yaml": script("a"),
    });
    return (await load(folder.path, { source: "eval.yaml", environment })).eval.agents[0];
  }

  it("are programs that speak the Agent Client Protocol, with the whole environment", async () => {
    expect(await agentOf("acp: { cmd: my-agent, args: [--acp] }")).toMatchObject({
      type: "acp",
      name: "mine",
      command: "my-agent",
      args: ["--acp"],
      env: { SHELL: "/bin/sh", TOKEN: "{kept}" },
      permissions: "allow",
    });
    expect(await agentOf("builtin: { type: claude-code }")).toMatchObject({
      type: "acp",
      preset: "claude-code",
      command: "claude-agent-acp",
    });
  });

  it("are lines for the shell", async () => {
    const servers = "  servers: { db: { transport: stdio, command: node, tools: [query] } }\n";
    const commands = [
      "commands:",
      "  argTemplateMcpServer: '--mcp-config {{ .File }}'",
      "  argTemplateAllowedTools: 'mcp__{{ .ServerName }}__{{ .ToolName }}'",
      "  runPrompt: 'my {{ .McpServerFileArgs }} --allow {{ .AllowedToolArgs }} -p \"{{ .Prompt }}\"'",
    ];
    expect(await agentOf(commands.join("\n"), servers)).toMatchObject({
      type: "command",
      command: "/bin/sh",
      args: [
        "-c",
        'exec 2>&1\nmy --mcp-config "$MCPVALS_MCP_CONFIG" --allow mcp__db__query -p """$MCPVALS_PROMPT"""',
      ],
      env: { MCPVALS_PROMPT: "{prompt}", MCPVALS_MCP_CONFIG: "{mcpConfig}", TOKEN: "{{kept}" },
      output: "text",
    });
  });

  it("are refused by the key that cannot be kept", async () => {
    using folder = folderOf({
      "eval.yaml": withFile,
      "agent.yaml": "kind: Agent\ncommands: { runPrompt: 'x {{ .Secret }}' }\n",
      "tasks/a.yaml": script("a"),
    });
    const { details } = await failure(folder.path, { source: "eval.yaml" });
    expect(details.diagnostics).toMatchObject([
      {
        message: "the agent's commands.runPrompt cannot be kept: nothing is known of {{ .Secret }}",
        location: { file: "eval.yaml", line: 5 },
      },
    ]);
    const { agents } = (await load(folder.path, { source: "eval.yaml", agents: ["gemini"] })).eval;
    expect(agents).toMatchObject([{ type: "acp", name: "gemini", preset: "gemini" }]);
  });
});

describe("servers of an Eval", () => {
  it("have variants, lifetimes and variables", async () => {
    const config = [
      "  serverLifetime: per_task",
      "  seed: 3",
      "  servers: { db: { transport: stdio, command: node, args: ['${ONE:-a}'] } }",
      "  variants: { plain: {}, other: { servers: { db: { args: [b] } } }, none: { mcp_servers: { db: null } } }",
    ];
    using folder = folderOf({
      "eval.yaml": evalOf(`${config.join("\n")}\n${all}`),
      "tasks/a.yaml": script("a"),
      "tasks/b.yaml": `apiVersion: mcp-eval/v1
kind: Task
metadata: { name: b }
spec:
  servers: { db: { lifetime: per_run } }
  prompt: hi
  verify: [{ command: { run: "test -d ." } }]
`,
    });
    const { eval: spec } = await load(folder.path, { source: "eval.yaml" });
    expect(spec).toMatchObject({
      seed: 3,
      servers: { db: { args: ["a"], lifetime: "per_task" } },
      taskServers: { b: { db: { args: ["a"], lifetime: "per_run" } } },
      variants: [
        { name: "plain", servers: { a: { db: { args: ["a"] } }, b: { db: { lifetime: "per_run" } } } },
        { name: "other", servers: { a: { db: { args: ["b"] } }, b: { db: { args: ["b"] } } } },
        { name: "none", servers: { a: {}, b: {} } },
      ],
    });
  });

  it("win over those of the file that the Eval names, and those of --mcp-config over them", async () => {
    const own = "  servers: { db: { transport: stdio, command: own } }\n";
    using folder = folderOf({
      "eval.yaml": evalOf(`  mcpConfigFile: named.json\n${own}${all}`),
      "named.json": { mcpServers: { db: { command: "named" }, other: { command: "other" } } },
      "given.json": { mcpServers: { db: { command: "given" } } },
      "tasks/a.yaml": script("a"),
    });
    const { eval: spec } = await load(folder.path, { source: "eval.yaml" });
    expect(spec.servers).toMatchObject({ db: { command: "own" }, other: { command: "other" } });
    const given = await load(folder.path, { source: "eval.yaml", mcpConfig: "given.json" });
    expect(given.eval.servers).toMatchObject({ db: { command: "given" } });
  });

  it("are noted with their places, each once", async () => {
    using folder = folderOf({
      "eval.yaml": evalOf(`  mcpConfigFile: mcp.json\n${all}`),
      "mcp.json":
        '{\n  "mcpServers": { "db": { "command": "node", "disabled": "no", "alwaysAllow": ["a"] } }\n}',
      "tasks/a.yaml": script("a"),
    });
    expect((await load(folder.path, { source: "eval.yaml" })).notes).toEqual([
      expect.stringMatching(/^mcp\.json:2:\d+: [^:]*disabled/),
      'mcp.json: server "db": agents are given only these of its tools (alwaysAllow): a',
    ]);
  });

  it("are told with their places when they are wrong", async () => {
    using folder = folderOf({
      "eval.yaml": evalOf(
        `  servers: { db: { transport: stdio, command: node } }\n  variants: { v: { servers: { bd: null } } }\n${all}`,
      ),
      "tasks/a.yaml": script("a"),
    });
    expect(await problems(folder.path, { source: "eval.yaml" })).toEqual([
      expect.stringMatching(/^eval\.yaml:\d+:\d+ config\/unknown-reference no server is named "bd"$/),
    ]);
  });
});

describe("a program by a relative path is that beside the file that names it", () => {
  const command = "./bin/agent";

  it("in a config, and in the agents of an Eval", async () => {
    const agents = {
      acp: { type: "acp", command },
      command: { type: "command", command, args: ["{prompt}"] },
      named: { type: "acp", command: "agent" },
      placed: { type: "acp", command, cwd: "work" },
      filled: { type: "command", command: "{workspace}/agent", args: ["{prompt}"] },
    };
    using folder = folderOf({
      "sub/config.json": { agents, tasks: ["../tasks/a.yaml"] },
      "sub/eval.json": {
        kind: "Eval",
        apiVersion: "mcp-eval/v1",
        config: { agents, taskSets: [{ path: "../tasks/a.yaml" }] },
      },
      "tasks/a.yaml": script("a"),
    });
    const beside = join(folder.path, "sub/bin/agent");
    for (const source of ["sub/config.json", "sub/eval.json"]) {
      const { eval: spec } = await load(folder.path, { source });
      expect(spec.agents.map((agent) => ("command" in agent ? agent.command : ""))).toEqual([
        beside,
        beside,
        "agent",
        command,
        "{workspace}/agent",
      ]);
    }
  });

  it("in an agent's file, or else where the reader is, as older ones have it", async () => {
    using folder = folderOf({
      "agents/acp.yaml": `kind: Agent\nacp: { cmd: ${command} }\n`,
      "evals/eval.yaml": evalOf(
        `  agent: { type: file, path: ../agents/acp.yaml }\n  taskSets: [{ path: ../tasks/a.yaml }]\n`,
        { withAgent: false },
      ),
      "tasks/a.yaml": script("a"),
    });
    const agentOf = async (): Promise<AgentSpec | undefined> =>
      (await load(folder.path, { source: "evals/eval.yaml" })).eval.agents[0];
    expect(await agentOf()).toMatchObject({ command: join(folder.path, "agents/bin/agent") });
    mkdirSync(join(folder.path, "bin"));
    writeFileSync(join(folder.path, "bin/agent"), "");
    expect(await agentOf()).toMatchObject({ command: join(folder.path, "bin/agent") });
    mkdirSync(join(folder.path, "agents/bin"));
    writeFileSync(join(folder.path, "agents/bin/agent"), "");
    expect(await agentOf()).toMatchObject({ command: join(folder.path, "agents/bin/agent") });
  });
});

describe("the judge", () => {
  const byVariables = `  llmJudge: { env: { baseUrlKey: B, apiKeyKey: K, modelNameKey: M } }\n${all}`;

  it("may be named by variables, whose key is hidden", async () => {
    const environment = { B: "http://x:1/v1", K: "key-of-judge", M: "my-model" };
    const loaded = await loadIn(
      { "eval.yaml": evalOf(byVariables), "tasks/a.yaml": script("a") },
      { source: "eval.yaml", environment },
    );
    expect(loaded.eval.judge).toEqual({
      model: "openai/my-model",
      baseURL: "http://x:1/v1",
      apiKey: "key-of-judge",
      passThreshold: 0.8,
    });
    expect(loaded.secrets.map(({ value }) => value)).toContain("key-of-judge");
  });

  it("that cannot be run is noted: a step that asks for it is an error then, and no other", async () => {
    const text = evalOf(`  llmJudge: { ref: { type: builtin.claude-code } }\n${all}`);
    const loaded = await loadIn(
      { "eval.yaml": text, "tasks/a.yaml": script("a") },
      { source: "eval.yaml", agents: ["null"] },
    );
    expect(loaded.eval.judge).toBeUndefined();
    expect(loaded.notes).toContainEqual(
      expect.stringMatching(
        /^eval\.yaml: the judge is Claude Code, .* --judge MODEL; steps that ask a judge/,
      ),
    );
  });

  it("lacks variables only where it is asked", async () => {
    using folder = folderOf({ "eval.yaml": evalOf(byVariables), "tasks/a.yaml": script("a") });
    const loaded = await load(folder.path, { source: "eval.yaml", environment: { B: "http://x:1" } });
    expect(loaded.judgeError?.kind).toBe("usage");
    expect(loaded.judgeError?.details.diagnostics).toMatchObject([
      { code: "config/unset-variable", message: "llmJudge: the variable K is not set" },
      { code: "config/unset-variable", message: "llmJudge: the variable M is not set" },
    ]);
    const judged = await load(folder.path, { source: "eval.yaml", judgeModel: "o3" });
    expect([judged.judgeError, judged.eval.judge?.model]).toEqual([undefined, "openai/o3"]);
  });
});

describe("the plan", () => {
  it("has one lane for older tasks that are not parallel, and as many attempts as each asks for", async () => {
    using folder = folderOf({
      "eval.yaml": evalOf(all),
      "tasks/a.yaml": script("a", { metadata: "  runs: 2\n" }),
      "tasks/b.yaml": script("b"),
      "tasks/c.yaml": script("c", { metadata: "  parallel: true\n" }),
    });
    const loaded = await load(folder.path, { source: "eval.yaml", agents: ["null"] });
    const lanes = (selection: Parameters<typeof prepare>[1]): unknown[] =>
      createPlan(prepare(loaded, selection).eval).trials.map(({ task, lane }) => [task, lane]);
    expect(lanes({ concurrency: 4 })).toEqual([
      ["a", "not parallel"],
      ["a", "not parallel"],
      ["b", "not parallel"],
      ["c", undefined],
    ]);
    expect(lanes({ trials: 1 })).toEqual([
      ["a", "not parallel"],
      ["b", "not parallel"],
      ["c", undefined],
    ]);
  });
});
