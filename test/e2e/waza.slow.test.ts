import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import type { RunResult, TrialResult } from "../../src/model/result.ts";
import { folderOf, runHere, runIn, runInline } from "../support/cli.ts";

const person = "{ name: Ada, entityType: person, observations: [likes tea] }";

const evalFile = `name: memory
skill: memory
version: "1.0"
config:
  trials_per_task: 2
  timeout_seconds: 60
  mcp_servers:
    memory:
      type: stdio
      command: mcp-server-memory
      env: { MEMORY_FILE_PATH: "\${HOME}/memory.json" }
tasks: [tasks/*.yaml]
graders:
  - { type: behavior, name: calm, config: { max_tool_calls: 2, forbidden_tools: [delete_entities] } }
agents:
  writer:
    type: scripted
    plan:
      recall: [{ call: read_graph }, { call: create_entities, args: { entities: [] } }, { say: Nothing. }]
      remember: [{ call: create_entities, args: { entities: [${person}] } }, { say: Done. }]
`;

const tasks = {
  "tasks/recall.yaml": `id: recall
name: Recall
inputs: { prompt: What do you know? }
mcp_servers:
  memory: { tools: [read_*] }
graders:
  - type: tool_constraint
    name: reads
    config: { expect_tools: [{ tool: read_graph, source: "mcp:memory" }], reject_tools: [{ tool: delete_.* }] }
`,
  "tasks/remember.yaml": `id: remember
name: Remember
inputs:
  prompt: 'Remember {"name": "{workspace}"}'
  files: [{ path: notes/ada.txt, content: "{task.name}" }, { path: sub/b.txt }]
expected:
  tool_calls: { required_tools: [create_entities], min_calls: 1 }
`,
  "fixtures/sub/b.txt": "b",
};

function verdicts({ trials }: RunResult): string[] {
  return trials.map(({ task, variant, attempt, verdict }: TrialResult) =>
    [task, variant, attempt, verdict].filter((part) => part !== undefined).join(" "),
  );
}

/** Events of the journal of a run. */
function journal(stdout: string, folder: string): string {
  const { id } = JSON.parse(stdout) as { readonly id: string };
  return readFileSync(join(folder, ".mcpvals/runs", id, "journal.jsonl"), "utf8");
}

describe("an eval.yaml of waza", () => {
  it("runs its tasks, each with its servers, and records what the agent called", async () => {
    using folder = folderOf({ "eval.yaml": evalFile, ...tasks });
    const { code, stdout, stderr } = await runHere(["run", "eval.yaml", "--reporter", "json"], {
      cwd: folder.path,
    });
    expect(stderr).not.toContain("error");
    const result = JSON.parse(stdout) as RunResult;
    expect(verdicts(result)).toEqual([
      "recall 1 pass",
      "recall 2 pass",
      "remember 1 pass",
      "remember 2 pass",
    ]);
    expect(code).toBe(0);
    const [recall] = result.trials;
    expect(recall?.grades).toMatchObject([
      { grader: "verify-steps", verdict: "skip" },
      // One for each grader, under its name.
      {
        grader: "calm",
        verdict: "pass",
        reason:
          "2 tool calls (memory.read_graph, create_entities), at most 2 allowed; delete_entities was not used",
      },
      {
        grader: "reads",
        verdict: "pass",
        reason: "1 call of read_graph of memory; no call of /(?i)delete_.*/",
      },
    ]);
    expect(result.trials.at(-1)?.grades.map(({ grader }) => grader)).toEqual([
      "verify-steps",
      "calm",
      "expected.tool_calls",
    ]);
    const events = journal(stdout, folder.path);
    // The program is started once for both tasks and all their trials.
    expect(new Set(events.match(/(?<="server\.started".*"pid":)\d+/g))).toHaveLength(1);
    // The task lets the agent see tools that read, and nothing else.
    expect(events).toContain('"tools.hidden"');
    // What is written in braces stays as it is.
    expect(events).toContain(JSON.stringify('Remember {"name": "{workspace}"}'));
    expect(events).toContain('"{task.name}"');
  });

  it("runs them in each variant: without its server a task cannot pass", async () => {
    const variants = "variants:\n  with: {}\n  without: { mcp_servers: { memory: null } }\n";
    const { code, result } = await runInline({ "eval.yaml": evalFile + variants, ...tasks }, ["eval.yaml"]);
    const outcomes = ["with 1 pass", "with 2 pass", "without 1 fail", "without 2 fail"];
    const expected = ["recall", "remember"].flatMap((task) =>
      outcomes.map((outcome) => `${task} ${outcome}`),
    );
    expect([code, verdicts(result)]).toEqual([1, expected]);
  });

  it("gives a program that grades the whole workspace, unless it names files", async () => {
    const grader = (name: string, test: string, rest = ""): string =>
      `  - { type: program, name: ${name}, config: { command: sh, args: [-c, ${JSON.stringify(test)}]${rest} } }\n`;
    const files = {
      "eval.yaml": `config: {}
mcp_mocks: [{ name: weather, tools: { forecast: { responses: [{ return: rain }] } } }]
tasks: [task.yaml]
agent: { type: scripted, plan: { rome: [{ call: forecast }, { say: Rain. }] } }
graders:
${grader("all", 'grep -q x "$WAZA_WORKSPACE_DIR/a/.b/c.txt" && test -f "$WAZA_WORKSPACE_DIR/d.txt"')}\
${grader("some", 'test -f "$WAZA_WORKSPACE_DIR/d.txt" -a ! -e "$WAZA_WORKSPACE_DIR/a"', ", workspace: [d.txt]")}\
${grader("none", 'test -z "$WAZA_WORKSPACE_DIR"', ", workspace: []")}\
`,
      "task.yaml":
        "id: rome\ninputs: { prompt: Rome?, files: [{ path: a/.b/c.txt, content: x }, { path: d.txt, content: d }] }\n",
    };
    const { code, result } = await runInline(files, ["eval.yaml"]);
    const grades = result.trials[0]?.grades.map(({ grader: name, verdict }) => `${name} ${verdict}`);
    expect([code, grades]).toEqual([0, ["verify-steps skip", "all pass", "some pass", "none pass"]]);
  });

  it("runs trigger tests, of which a threshold may let some fail", async () => {
    const files = {
      "eval.yaml": `mcp_mocks: [{ name: weather, tools: { forecast: { responses: [{ return: rain }] } } }]
tasks: [task.yaml]
metrics: [{ name: trigger_accuracy, threshold: 0.7 }]
agent:
  type: scripted
  plan:
    rome: [{ call: forecast }, { say: Rain. }]
    should-trigger-1: [{ call: forecast }, { say: Rain. }]
    should-trigger-2: [{ say: It is noon. }]
    should-not-trigger-1: [{ say: "5." }]
`,
      "task.yaml":
        "id: rome\ninputs: { prompt: Rome? }\nexpected: { tool_calls: { required_tools: [forecast] } }\n",
      "trigger_tests.yaml": `server: weather
should_trigger_prompts: [{ prompt: Will it rain? }, { prompt: Is it a good day?, confidence: medium }]
should_not_trigger_prompts: [{ prompt: What is 2 + 3? }]
`,
    };
    const { code, result } = await runInline(files, ["eval.yaml"]);
    expect([code, verdicts(result)]).toEqual([
      0,
      ["rome 1 pass", "should-trigger-1 1 pass", "should-trigger-2 1 fail", "should-not-trigger-1 1 pass"],
    ]);
    expect(result.gates).toMatchObject([
      { name: "trigger_accuracy", verdict: "pass", value: 0.8, trials: 3 },
    ]);
    expect(result.routing?.servers).toMatchObject({
      correct: { value: 2 / 3 },
      precision: { weather: { value: 1 } },
      recall: { weather: { value: 1 / 2 } },
    });
    const strict = await runInline(files, ["eval.yaml", "--threshold", "trigger_accuracy=0.9"]);
    expect(strict.code).toBe(1);
  });

  it("runs on a mock in the place of a server, and ends a trial when its time is up", async () => {
    const files = {
      "eval.yaml": `config:
  timeout_seconds: 3
  mcp_servers: { weather: { command: no-such-program } }
mcp_mocks:
  - { name: weather, fixtures: mocks }
tasks: [quick.yaml, slow.yaml]
graders: [{ type: tool_calls, config: { required_tools: [forecast], max_calls: 1 } }]
agent:
  type: scripted
  plan:
    quick: [{ call: forecast, args: { city: Oslo } }, { say: Rain. }]
    slow: [{ call: forecast, args: { city: Rome } }, { say: Sun. }]
`,
      "quick.yaml": "id: quick\ninputs: { prompt: Oslo? }\n",
      "slow.yaml": "id: slow\ntimeout_seconds: 0.5\ninputs: { prompt: Rome? }\n",
      "mocks/forecast.json": {
        responses: [
          { match: { city: "Oslo" }, return: "rain" },
          { match: { city: "Rome" }, silence: true },
        ],
      },
    };
    const { code, result } = await runInline(files, ["eval.yaml"]);
    expect([code, verdicts(result)]).toEqual([3, ["quick 1 pass", "slow 1 timeout"]]);
  });

  it("runs its hooks around each trial, and fails when a metric is below its threshold", async () => {
    const files = {
      "eval.yaml": `mcp_servers: { weather: { command: no-such-program } }
mcp_mocks: [{ name: weather, tools: { forecast: { responses: [{ return: rain }] } } }]
tasks_from: cities.csv
inputs: { question: How is the weather in }
metrics: [{ name: task_completion, threshold: 0.5 }, { name: says, threshold: 0.9 }]
hooks:
  before_task:
    - { command: "test -f cities.csv", working_directory: ., error_on_fail: true }
    - { command: exit 3, exit_codes: [0, 3], error_on_fail: true }
    - { command: test -f in.txt, working_directory: sub, error_on_fail: true }
    - { command: exit 4 }
  after_task:
    - { command: "echo after >> 'hook s.txt'", error_on_fail: true }
    - { command: echo last >> 'hook s.txt' }
graders:
  - { type: tool_calls, config: { required_tools: [forecast] } }
  - { type: text, name: says, config: { contains: [rain] } }
agent:
  type: scripted
  plan:
    oslo: [{ call: forecast, args: { city: Oslo } }, { say: Much rain. }]
    rome: [{ call: forecast, args: { city: Rome } }, { say: Sun. }]
`,
      "sub/in.txt": "",
      "cities.csv": "id,prompt\noslo,{{.Vars.question}} Oslo?\nrome,{{.Vars.question}} Rome?\n",
    };
    using folder = folderOf(files);
    const run = async (...flags: readonly string[]) =>
      await runHere(["run", "eval.yaml", "--reporter", "json", ...flags], { cwd: folder.path });
    const { code, stdout } = await run();
    const result = JSON.parse(stdout) as RunResult;
    expect([code, verdicts(result)]).toEqual([1, ["oslo 1 pass", "rome 1 fail"]]);
    expect(result.gates).toMatchObject([
      { name: "passRate", verdict: "pass", value: 0.5 },
      { name: "says", verdict: "fail", value: 0.5, threshold: 0.9 },
    ]);
    expect(readFileSync(join(folder.path, "hook s.txt"), "utf8")).toBe("after\nlast\nafter\nlast\n");
    expect(journal(stdout, folder.path)).toContain('"How is the weather in Oslo?"');
    // Only the pass rate decides about the trial that failed.
    expect((await run("--threshold", "says=0.5")).code).toBe(0);
    writeFileSync(
      join(folder.path, "eval.yaml"),
      files["eval.yaml"].replace("exit_codes: [0, 3]", "exit_codes: [0]"),
    );
    const broken = await run();
    expect([broken.code, verdicts(JSON.parse(broken.stdout) as RunResult)]).toEqual([
      3,
      ["oslo 1 error", "rome 1 error"],
    ]);
  });

  it("runs its hooks around the whole run, those after it however it ends", async () => {
    const hook = (command: string, rest = ""): string =>
      `    - { command: ${JSON.stringify(command)}${rest} }\n`;
    const must = ", error_on_fail: true";
    const evalOf = (
      before: string,
      after = "",
    ): string => `mcp_servers: { tools: { command: sh, args: [-c, "test -f ready && exec mcp-server-everything"], required: true } }
tasks: [task.yaml]
config: { trials_per_task: 2 }
hooks:
  before_run:
${before}
  after_run:
${hook("echo after >> log")}${after}
agent: { type: scripted, plan: { rome: [{ call: echo, args: { message: Hi. } }, { say: Hi. }] } }
`;
    using folder = folderOf({
      "eval.yaml": evalOf(
        // The required server exists only after it, and what it leaves running ends with the run.
        hook("sleep 600 & echo $! > pid; touch ready; echo before >> log", must) +
          hook("test -f a.js && exit 3", `, working_directory: code, exit_codes: [0, 3]${must}`) +
          hook("echo $TOKEN >&2; exit 4"),
      ),
      "task.yaml":
        "id: rome\ninputs: { prompt: Sum? }\nexpected: { tool_calls: { required_tools: [echo] } }\n",
      "code/a.js": "",
    });
    const run = async (text?: string) => {
      if (text !== undefined) writeFileSync(join(folder.path, "eval.yaml"), text);
      return await runHere(["run", "eval.yaml"], { cwd: folder.path });
    };
    const log = (): string => readFileSync(join(folder.path, "log"), "utf8");
    const usual = await run();
    expect([usual.code, log()]).toEqual([0, "before\nafter\n"]);
    expect(usual.stderr).toContain("before_run[2] exited with 4, expected 0");
    const pid = Number(readFileSync(join(folder.path, "pid"), "utf8"));
    await vi.waitFor(() => expect(() => process.kill(pid, 0)).toThrow("ESRCH"), 10_000);
    const aborted = await run(evalOf(hook("echo why; exit 1", must)));
    expect([aborted.code, aborted.stdout, log()]).toEqual([3, "", "before\nafter\nafter\n"]);
    expect(aborted.stderr).toContain("before_run[0] exited with 1, expected 0");
    expect(aborted.stderr).toContain("why");
    const late = await run(evalOf(hook("true"), hook("exit 2", must)));
    expect(late.code).toBe(3);
    expect(late.stderr).toContain("hook: after_run[1] exited with 2, expected 0");
  });

  it("is validated, and refused with everything that is wrong", async () => {
    const valid = await runIn({ "eval.yaml": evalFile, ...tasks }, ["validate", "eval.yaml"]);
    const summary = expect.stringContaining("is valid: 2 tasks, servers memory") as string;
    expect(valid).toMatchObject({ code: 0, stdout: summary });
    const wrong = {
      "eval.yaml": `${evalFile}hooks: { before_run: [{ comand: x }] }\n`,
      ...tasks,
      "tasks/recall.yaml": "id: recall\ninputs: { prompt: x }\ngraders: [{ type: human, name: t }]\n",
    };
    const { code, stderr } = await runIn(wrong, ["run", "eval.yaml"]);
    expect(code).toBe(2);
    expect(stderr).toContain('unknown key "comand" in hooks.before_run[0]');
    expect(stderr).toContain('no grader has the type "human"');
  });
});
