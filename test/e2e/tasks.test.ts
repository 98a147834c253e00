import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { RunResult } from "../../src/core/report/result.ts";
import { evaluate } from "../../src/index.ts";
import { folderOf, runCli, runHere, runInline } from "../support/cli.ts";
import { fixtureServer, trialOf } from "./support.ts";

/** A task that the oracle solves and the null agent does not. */
function task(name: string, { metadata = "", spec = "" } = {}): string {
  return `apiVersion: mcp-eval/v1
kind: Task
metadata:
  name: ${name}
${metadata}spec:
  prompt: |
    Say ${name}.
    Nothing else.
  solution:
    - say: it is ${name}
  verify:
    - command: { run: "echo '{agent.output}'", expect: { stdout: { contains: "it is ${name}" } } }
${spec}`;
}

const easy = task("easy one", {
  metadata: "  difficulty: easy\n  tags: [quick, blue]\n  labels: { area: a }\n",
});
const hard = task("hard one", { metadata: "  difficulty: hard\n  tags: [blue]\n  labels: { area: b }\n" });
const files = { "tasks/easy.yaml": easy, "tasks/sub/hard.yaml": hard };
const server = fixtureServer();

describe.concurrent("mcpvals run", () => {
  it("runs a file: the oracle passes, the null agent fails", async () => {
    const oracle = await runInline(files, ["tasks/easy.yaml", "--agent", "oracle"]);
    expect([oracle.code, oracle.result.verdict, oracle.stderr]).toEqual([0, "pass", ""]);
    expect(oracle.result).toMatchObject({ name: "easy", trials: [{ task: "easy one", agent: "oracle" }] });
    const nobody = await runInline(files, ["tasks/easy.yaml", "--agent", "null"]);
    expect([nobody.code, nobody.result.verdict]).toEqual([1, "fail"]);
  });

  it.each([
    ["a folder", ["tasks"]],
    ["a glob", ["tasks/**/*.yaml"]],
    ["several files, one of them twice", ["tasks/easy.yaml", "tasks/sub/hard.yaml", "./tasks/easy.yaml"]],
  ])("runs %s", async (_, sources) => {
    const { code, result } = await runInline(files, [...sources, "-a", "oracle", "-a", "null", "-n", "2"]);
    expect(code).toBe(1);
    expect(result.trials.map((trial) => `${trial.task} ${trial.agent} ${trial.verdict}`)).toEqual(
      ["easy one", "hard one"].flatMap((name) => [
        `${name} oracle pass`,
        `${name} oracle pass`,
        `${name} null fail`,
        `${name} null fail`,
      ]),
    );
  });

  it.each([
    [["--tag", "quick"], ["easy one"]],
    [
      ["--tag", "quick", "--tag", "blue"],
      ["easy one", "hard one"],
    ],
    [["--label", "area=b"], ["hard one"]],
    [
      ["-l", "area=a", "-l", "area=b"],
      ["easy one", "hard one"],
    ],
    [["--difficulty", "hard", "--tag", "blue"], ["hard one"]],
    [["--task", "easy*"], ["easy one"]],
  ])("runs only what %j leaves", async (filters, names) => {
    const { code, result } = await runInline(files, ["tasks", "--agent", "oracle", ...filters]);
    expect([code, result.trials.map((trial) => trial.task)]).toEqual([0, names]);
  });

  it.each([
    [["--tag", "blu"], /no task has the tag "blu".*\n.*Did you mean "blue"\?/],
    [["--label", "area=c"], /no task has the label "area=c"/],
    [["--difficulty", "medium"], /no task has the difficulty "medium"/],
    [["--difficulty", "hard", "--tag", "quick"], /no task matches all that is asked for/],
  ])("refuses %j, which leaves nothing", async (filters, message) => {
    using folder = folderOf(files);
    const { code, stdout, stderr } = await runCli(["run", "tasks", ...filters], { cwd: folder.path });
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toMatch(message);
  });

  it("lets paths leave the folder of a task only when that is allowed", async () => {
    const outside = task("o", { spec: `  fixtures: ["../shared.txt"]\n` });
    const all = { "shared.txt": "x", "tasks/o.yaml": outside };
    using folder = folderOf(all);
    const refused = await runCli(["run", "tasks", "-a", "oracle"], { cwd: folder.path });
    expect(refused.code).toBe(2);
    expect(refused.stderr).toMatch(/^tasks.o\.yaml:13:14: error .*\(task\/outside\)/);
    expect((await runInline(all, ["tasks", "-a", "oracle", "--allow-outside"])).code).toBe(0);
  });

  it("skips a task that lacks what it requires, which is an error when that is asked for", async () => {
    const needy = { "needy.yaml": task("needy", { spec: "  requires: [{ env: NOT_SET_ANYWHERE }]\n" }) };
    const skipped = await runInline(needy, ["needy.yaml", "-a", "oracle"]);
    expect(trialOf(skipped.result, "needy").verdict).toBe("skip");
    const strict = await runInline(needy, ["needy.yaml", "-a", "oracle", "--strict"]);
    expect([strict.code, trialOf(strict.result, "needy").verdict]).toEqual([3, "error"]);
  });

  it("tells everything that is wrong with all files at once", async () => {
    using folder = folderOf({ ...files, "tasks/a.yaml": easy, "tasks/b.yaml": "kind: Task\nmetadata: [\n" });
    const { code, stderr } = await runCli(["run", "tasks"], { cwd: folder.path });
    expect(code).toBe(2);
    expect(stderr.split("\n").filter((line) => / error /.test(line))).toEqual([
      expect.stringMatching(/^tasks.b\.yaml:3:1: error .*\(config\/syntax\)/),
      expect.stringMatching(/^tasks.easy\.yaml:4:9: error two tasks are named "easy one" \(config\/dup/),
    ]);
    expect(stderr).toContain("2 problems");
  });

  it("replaces templates in the plan of a scripted agent, as in a solution", async () => {
    const plan = [{ say: "{steps.before.outputs.word} in {workspace}, {{workspace} $${HOME} {other}" }];
    const env = { SAID: "{agent.output}", WORKSPACE: "{workspace}" };
    using folder = folderOf({
      "config.json": { agent: { type: "scripted", plan: { t: plan } }, tasks: ["t.json"] },
      "t.json": {
        apiVersion: "mcp-eval/v1",
        kind: "Task",
        metadata: { name: "t" },
        spec: {
          prompt: "Hi.",
          setup: [{ command: { id: "before", run: "echo hello", outputs: { word: "{stdout}" } } }],
          verify: [
            {
              command: { run: `test "$SAID" = "hello in $WORKSPACE, "'{{workspace} \${HOME} {other}'`, env },
            },
          ],
        },
      },
    });
    const result = await evaluate("config.json", { cwd: folder.path, output: false });
    expect(trialOf(result, "t")).toMatchObject({ verdict: "pass" });
  });

  it("runs the tasks of a config with its servers and a scripted agent", async () => {
    const config = {
      servers: { main: server },
      agent: { type: "scripted", plan: { adds: [{ call: "add", args: { a: 2, b: 3 } }, { say: "5" }] } },
      tasks: ["tasks/*.yaml"],
    };
    const adds = `apiVersion: mcp-eval/v1
kind: Task
metadata: { name: adds }
spec:
  prompt: Add 2 and 3.
  verify:
    - command: { run: "echo '{agent.output}'", expect: { stdout: "5" } }
    - mcp: { server: main, tool: add, args: { a: 1, b: 1 } }
`;
    const { code, result, stderr } = await runInline({
      "mcp-eval.config.json": config,
      "tasks/adds.yaml": adds,
    });
    expect([code, result.verdict, stderr]).toEqual([0, "pass", ""]);
    expect(trialOf(result, "adds").agent).toBe("scripted");
  });

  it("runs an Eval of the older form", async () => {
    const { code, result } = await runInline(
      {
        "eval.yaml": `kind: Eval
metadata: { name: older }
config:
  mcpConfigFile: mcp.json
  taskSets:
    - glob: tasks/*.yaml
      assertions: { maxToolCalls: 3 }
`,
        "mcp.json": {
          mcpServers: { main: { command: server.command, args: server.args, enableAllTools: true } },
        },
        "tasks/t.yaml": `kind: Task
metadata: { name: creates, labels: { suite: x } }
steps:
  setup: { inline: "echo ready > state" }
  prompt: { inline: Do nothing. }
  verify: { inline: "grep -q ready state" }
  cleanup: { inline: "rm state" }
`,
      },
      ["eval.yaml", "--agent", "null", "--label", "suite=x"],
    );
    expect([code, result.name, result.verdict]).toEqual([0, "older", "pass"]);
  });
});

describe.concurrent("mcpvals list and validate", () => {
  it("show tasks", async () => {
    using folder = folderOf(files);
    const { code, stdout } = await runHere(["list", "tasks"], { cwd: folder.path });
    expect(code).toBe(0);
    expect(stdout).toBe(`tasks

Tasks
  easy one  (easy, #quick, #blue, area=a)  ${join("tasks", "easy.yaml")}
    Say easy one.
  hard one  (hard, #blue, area=b)  ${join("tasks", "sub", "hard.yaml")}
    Say hard one.

Agents
  claude  anthropic/claude-sonnet-4-5
`);
  });

  it("show what a task says of itself instead of its prompt", async () => {
    const described = {
      kind: "Task",
      apiVersion: "mcp-eval/v1",
      metadata: { name: "a", description: "\nChecks a thing.\nAt length." },
      spec: { prompt: "Do it.", verify: [{ command: { run: "false" } }] },
    };
    using folder = folderOf({ "sub/a.json": described, "sub/in/x": "" });
    const { stdout } = await runHere(["list", "../a.json"], { cwd: join(folder.path, "sub/in") });
    expect(stdout).toContain(`Tasks\n  a  ${join("..", "a.json")}\n    Checks a thing.\n`);
  });

  it("show names that could move the cursor as text", async () => {
    const named = JSON.stringify({
      kind: "Task",
      apiVersion: "mcp-eval/v1",
      metadata: { name: "a\n\u001b[31mb" },
      spec: { prompt: "say \u0007", verify: [{ command: { run: "test -d ." } }] },
    });
    using folder = folderOf({ "a.json": named });
    const { stdout } = await runHere(["list", "a.json"], { cwd: folder.path });
    expect(stdout).toContain(String.raw`  a\n\x1b[31mb  a.json${"\n"}    say \x07${"\n"}`);
  });

  it("say all of it in JSON, filtered", async () => {
    using folder = folderOf({ ...files, "mcp.json": { mcpServers: { main: { url: "http://x:1/mcp" } } } });
    const args = ["list", "tasks", "--json", "--tag", "quick", "--mcp-config", "mcp.json"];
    const { stdout } = await runCli(args, { cwd: folder.path });
    expect(JSON.parse(stdout)).toEqual({
      name: "tasks",
      agents: ["claude"],
      agentTypes: { claude: "model" },
      servers: ["main"],
      lifetimes: { main: "per_run" },
      tasks: [
        {
          name: "easy one",
          form: "task",
          turns: ["Say easy one.\nNothing else.\n"],
          expectTools: [],
          servers: ["main"],
          format: "mcp-eval/v1",
          file: join(folder.path, "tasks/easy.yaml"),
          difficulty: "easy",
          tags: ["quick", "blue"],
          labels: { area: "a" },
          requires: [],
          ownServers: [],
        },
      ],
    });
  });

  it("count tasks", async () => {
    using folder = folderOf(files);
    const one = await runCli(["validate", "tasks/easy.yaml"], { cwd: folder.path });
    expect([one.code, one.stdout]).toEqual([
      0,
      `${join("tasks", "easy.yaml")} is valid: 1 task, no servers\n`,
    ]);
    const all = await runCli(["validate", "tasks", "--json"], { cwd: folder.path });
    expect(JSON.parse(all.stdout)).toMatchObject({ valid: true, name: "tasks", tasks: 2, workflows: 0 });
  });

  it("of the older forms that lack an extension are skipped, and the others run", async () => {
    const old = `kind: Task
apiVersion: mcpchecker/v1alpha2
metadata: { name: x }
spec:
  requires: [{ extension: kubernetes, as: k8s }]
  prompt: { inline: hi }
  setup:
    - k8s.create: {}
  verify:
    - k8s.wait: {}
`;
    const lacks = 'the extension "kubernetes", which is not configured';
    using folder = folderOf({ "tasks/easy.yaml": easy, "old/x.yaml": old });
    const run = async (...flags: readonly string[]): Promise<{ code: number | null; trials: unknown }> => {
      const args = ["run", "old", "tasks", "--agent", "oracle", "--reporter", "json", ...flags];
      const { code, stdout, stderr } = await runCli(args, { cwd: folder.path });
      if (stdout === "") throw new Error(stderr);
      const { trials } = JSON.parse(stdout) as RunResult;
      return { code, trials };
    };
    const error = expect.objectContaining({ message: expect.stringContaining(lacks) });
    const easyOne = expect.objectContaining({ task: "easy one", verdict: "pass" });
    expect(await run()).toEqual({
      code: 0,
      trials: [expect.objectContaining({ task: "x", verdict: "skip", error }), easyOne],
    });
    expect(await run("--strict")).toEqual({
      code: 3,
      trials: [expect.objectContaining({ task: "x", verdict: "error", error }), easyOne],
    });
    const validated = await runCli(["validate", "old"], { cwd: folder.path });
    expect([validated.code, validated.stderr]).toEqual([
      0,
      expect.stringContaining("not checked: steps of the extension kubernetes: the eval does not declare it"),
    ]);
    expect((await runCli(["list", "old"], { cwd: folder.path })).code).toBe(0);
  });
});

describe("evaluate", () => {
  it("takes paths of tasks, and the options of the command line", async () => {
    using folder = folderOf(files);
    const common = { cwd: folder.path, agents: ["oracle"], output: false } as const;
    const one = await evaluate("tasks", { ...common, tags: ["quick"], labels: ["area=a"] });
    expect([one.verdict, one.trials.map((trial) => trial.task)]).toEqual(["pass", ["easy one"]]);
    const both = await evaluate(["tasks/easy.yaml", "tasks/sub/hard.yaml"], common);
    expect([both.verdict, both.trials.length]).toEqual(["pass", 2]);
    await expect(evaluate([], common)).rejects.toMatchObject({ code: "usage/invalid-option" });
    await expect(evaluate("tasks", { ...common, labels: ["area"] })).rejects.toMatchObject({
      code: "usage/invalid-option",
    });
  });
});
