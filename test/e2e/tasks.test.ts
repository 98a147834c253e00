import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { SolutionAction, Task } from "../../src/model/task.ts";
import type { Step } from "../../src/model/step.ts";
import type { TrialResult } from "../../src/model/result.ts";
import { evaluate } from "../../src/index.ts";
import { run } from "../../src/run/run.ts";
import { fixtureSpec } from "../servers/support.ts";
import { folderOf, runIn, runInline } from "../support/cli.ts";
import { startFakeProvider } from "../support/fake-provider.ts";
import { portableTask } from "../support/portable.ts";
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

/** A task as JSON. */
const taskOf = (name: string, spec: object, metadata: object = {}): object => ({
  apiVersion: "mcp-eval/v1",
  kind: "Task",
  metadata: { name, ...metadata },
  spec,
});

const easy = task("easy one", {
  metadata: "  difficulty: easy\n  tags: [quick, blue]\n  labels: { area: a }\n",
});
const hard = task("hard one", { metadata: "  difficulty: hard\n  tags: [blue]\n  labels: { area: b }\n" });
const files = { "tasks/easy.yaml": easy, "tasks/sub/hard.yaml": hard };
const server = fixtureServer();

describe("mcpvals run", () => {
  it.each([
    ["a folder", ["tasks"], ["easy one", "hard one"]],
    ["what a tag leaves", ["tasks", "--tag", "quick"], ["easy one"]],
    ["what a label leaves", ["tasks", "-l", "area=b"], ["hard one"]],
  ])("runs %s: the oracle passes, the null agent fails", async (_, args, names) => {
    const { code, result } = await runInline(files, [...args, "-a", "oracle", "-a", "null", "-n", "2"]);
    expect([code, result.verdict]).toEqual([1, "fail"]);
    expect(result.trials.map((trial) => `${trial.task} ${trial.agent} ${trial.verdict}`)).toEqual(
      names.flatMap((name) =>
        ["oracle pass", "oracle pass", "null fail", "null fail"].map((trial) => `${name} ${trial}`),
      ),
    );
  });

  it("refuses a filter that leaves nothing", async () => {
    expect(await runIn(files, ["run", "tasks", "--tag", "blu"])).toMatchObject({
      code: 2,
      stdout: "",
      stderr: expect.stringMatching(/no task has the tag "blu".*\n.*Did you mean "blue"\?/) as string,
    });
  });

  it("lets paths leave the folder of a task only when that is allowed", async () => {
    const all = { "shared.txt": "x", "tasks/o.yaml": task("o", { spec: '  fixtures: ["../shared.txt"]\n' }) };
    const refused = await runIn(all, ["run", "tasks", "-a", "oracle"]);
    expect(refused.code).toBe(2);
    expect(refused.stderr).toMatch(/^tasks.o\.yaml:13:14: error .*\(task\/outside\)/);
    expect((await runInline(all, ["tasks", "-a", "oracle", "--allow-outside"])).code).toBe(0);
  });

  it("replaces templates in the plan of a scripted agent, as in a solution", async () => {
    const plan = [{ say: "{steps.before.outputs.word} in {workspace}, {{workspace} $${HOME} {other}" }];
    const env = { SAID: "{agent.output}", WORKSPACE: "{workspace}" };
    const said = `test "$SAID" = "hello in $WORKSPACE, "'{{workspace} \${HOME} {other}'`;
    const { result } = await runInline({
      "mcp-eval.config.json": { agent: { type: "scripted", plan: { t: plan } }, tasks: ["t.json"] },
      "t.json": taskOf("t", {
        prompt: "Hi.",
        setup: [{ command: { id: "before", run: "echo hello", outputs: { word: "{stdout}" } } }],
        verify: [{ command: { run: said, env } }],
      }),
    });
    expect(trialOf(result, "t")).toMatchObject({ verdict: "pass" });
  });

  it("runs an Eval of the older form", async () => {
    const older = {
      "eval.yaml": `kind: Eval
metadata: { name: older }
config:
  mcpConfigFile: mcp.json
  taskSets: [{ glob: tasks/*.yaml, assertions: { maxToolCalls: 3 } }]
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
    };
    const args = ["eval.yaml", "--agent", "null", "--label", "suite=x"];
    const { code, result } = await runInline(older, args);
    expect([code, result.name, result.verdict]).toEqual([0, "older", "pass"]);
  });

  it("skips older tasks that lack an extension, and runs the others", async () => {
    const old = `kind: Task
apiVersion: mcpchecker/v1alpha2
metadata: { name: x }
spec:
  requires: [{ extension: kubernetes, as: k8s }]
  prompt: { inline: hi }
  setup: [{ k8s.create: {} }]
  verify: [{ k8s.wait: {} }]
`;
    const both = { "tasks/easy.yaml": easy, "old/x.yaml": old };
    const lacks = 'the extension "kubernetes", which is not configured';
    const outcome = async (...flags: readonly string[]): Promise<unknown> => {
      const { code, result } = await runInline(both, ["old", "tasks", "--agent", "oracle", ...flags]);
      const trials = result.trials.map(({ task: name, verdict, error }) => [
        name,
        verdict,
        error?.message.includes(lacks),
      ]);
      return [code, ...trials];
    };
    const passes = ["easy one", "pass", undefined];
    expect(await outcome()).toEqual([0, ["x", "skip", true], passes]);
    expect(await outcome("--strict")).toEqual([3, ["x", "error", true], passes]);
    expect(await runIn(both, ["validate", "old"])).toMatchObject({
      code: 0,
      stderr: expect.stringContaining(
        "not checked: steps of the extension kubernetes: the eval does not declare it",
      ) as string,
    });
    expect((await runIn(both, ["list", "old"])).code).toBe(0);
  });

  it("does not run a task in a variant without the server that it requires", async () => {
    const tools = { get: { inputSchema: {}, responses: [{ return: "x" }] } };
    const mock = { transport: "mock", mock: { tools } };
    const { code, result } = await runInline({
      "mcp-eval.config.json": {
        servers: { db: mock, web: mock },
        variants: { whole: {}, part: { servers: { web: null } } },
        tasks: ["a.json"],
      },
      "a.json": taskOf("needs", { requires: [{ server: "web" }], verify: [{ "web.get": { args: {} } }] }),
    });
    const message =
      'requirements not met: the server "web", which the variant "part" does not have (there are db)';
    expect([code, result.trials]).toMatchObject([
      0,
      [
        { variant: "whole", verdict: "pass" },
        { variant: "part", verdict: "skip", error: { message } },
      ],
    ]);
  });
});

describe("mcpvals list and validate", () => {
  it("show tasks", async () => {
    expect(await runIn(files, ["list", "tasks"])).toMatchObject({
      code: 0,
      stdout: `tasks

Tasks
  easy one  (easy, #quick, #blue, area=a)  ${join("tasks", "easy.yaml")}
    Say easy one.
  hard one  (hard, #blue, area=b)  ${join("tasks", "sub", "hard.yaml")}
    Say hard one.

Agents
  claude  anthropic/claude-sonnet-4-5
`,
    });
  });

  it("show what a task says of itself instead of its prompt, and control characters as text", async () => {
    const spec = { prompt: "say \u0007", verify: [{ command: { run: "false" } }] };
    const described = taskOf("a", spec, { description: "\nChecks a thing.\nAt length." });
    const all = { "sub/a.json": described, "sub/b.json": taskOf("b\n\u001b[31mc", spec) };
    const { stdout } = await runIn(all, ["list", "sub"]);
    expect(stdout).toContain(`Tasks\n  a  ${join("sub", "a.json")}\n    Checks a thing.\n`);
    expect(stdout).toContain(String.raw`  b\n\x1b[31mc  ${join("sub", "b.json")}${"\n"}    say \x07${"\n"}`);
  });

  it("say all of it in JSON, filtered", async () => {
    const all = { ...files, "mcp.json": { mcpServers: { main: { url: "http://x:1/mcp" } } } };
    const args = ["list", "tasks", "--json", "--tag", "quick", "--mcp-config", "mcp.json"];
    expect(JSON.parse((await runIn(all, args)).stdout)).toEqual({
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
          file: expect.stringMatching(/^\/.*tasks\/easy\.yaml$/) as string,
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
    const path = join("tasks", "easy.yaml");
    expect(await runIn(files, ["validate", path])).toMatchObject({
      code: 0,
      stdout: `${path} is valid: 1 task, no servers\n`,
    });
    const all = await runIn(files, ["validate", "tasks", "--json"]);
    expect(JSON.parse(all.stdout)).toMatchObject({ valid: true, name: "tasks", tasks: 2, workflows: 0 });
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
    const refused = { code: "usage/invalid-option" };
    await expect(evaluate([], common)).rejects.toMatchObject(refused);
    await expect(evaluate("tasks", { ...common, labels: ["area"] })).rejects.toMatchObject(refused);
  });
});

describe("a solution is checked by the server, the schema and the judge", () => {
  const solution: readonly SolutionAction[] = [
    { kind: "tool", id: "sum", tool: "add", args: { a: 2, b: 3 }, outputs: { value: "{text}" } },
    { kind: "say", text: "The sum is {steps.sum.outputs.value}." },
  ];
  /** Looks at the server, and at what the agent said. */
  const verify: readonly Step[] = [
    {
      type: "mcp",
      id: "page",
      request: { kind: "resource", uri: "fixture:pair" },
      expect: { schema: { required: ["contents"], properties: { contents: { minItems: 2 } } } },
      timeoutMs: 10_000,
    },
    { type: "llm", id: "said", contains: "The sum is 5.", timeoutMs: 10_000 },
  ];
  const verdict = (passed: boolean): string => JSON.stringify({ passed, reason: "So it is." });
  const silent = expect.objectContaining({
    reason: expect.stringContaining("the agent said nothing") as string,
  }) as never;

  it.each<["oracle" | "null", string, Partial<TrialResult>]>([
    ["oracle", verdict(true), { verdict: "pass", agent: "oracle" }],
    ["oracle", "I pass.", { verdict: "error", error: { code: "judge/no-verdict" } as never }],
    ["null", verdict(true), { verdict: "fail", grades: [silent] }],
  ])("by %s, with a judge that says %s", async (type, said, expected) => {
    await using provider = await startFakeProvider(() => ({ text: said }));
    const turns = [{ user: "Add 2 and 3." }];
    const task: Task = portableTask({ solution }, { turns, verify, servers: ["s"] });
    const loaded = {
      eval: {
        name: "e",
        servers: { s: fixtureSpec() },
        agents: [{ type, name: type }],
        tasks: [task],
        judge: { model: "openai/gpt-5", baseURL: provider.url, apiKey: "k", passThreshold: 0.8 },
        trials: 1,
        limits: { trialMs: 30_000, callMs: 10_000, modelMs: 10_000 },
        reporters: [],
      },
      secrets: [],
      env: { PATH: process.env["PATH"] ?? "" },
      overrides: {},
      dir: import.meta.dirname,
      extensionUses: new Map(),
    };
    const { result } = await run(loaded, { cwd: tmpdir(), output: false });
    expect(result.trials).toMatchObject([expected]);
  });
});

it("a model that plays a task passes when the work is done, and fails when it is not, whatever it says", async () => {
  const note = taskOf("note", {
    servers: { files: { command: "mcp-server-filesystem", args: ["{workspace}"] } },
    prompt: 'Write "buy milk" into {workspace}/note.txt.',
    verify: [
      { file: { path: "{workspace}/note.txt", expect: { equals: "buy milk" } } },
      { command: { run: 'test {agent.output | sh} = "It is written."' } },
    ],
  });
  const verdictWith = async (content: string): Promise<string> => {
    await using provider = await startFakeProvider(({ users, newResults }) => {
      // What a model is told holds the workspace's path, which it needs for its call.
      const [path = ""] = /\/\S+note\.txt/.exec(users.join(" ")) ?? [];
      const call = { tool: "write_file", args: { path, content } };
      return newResults.length === 0 ? call : { text: "It is written." };
    });
    const args = ["note.json", "-a", "anthropic/claude-sonnet-4-5"];
    return (await runInline({ "note.json": note }, args, provider.env)).result.verdict;
  };
  expect([await verdictWith("buy milk"), await verdictWith("buy bread")]).toEqual(["pass", "fail"]);
});
