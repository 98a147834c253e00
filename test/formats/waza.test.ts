import { symlinkSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { folderOf } from "../support/cli.ts";
import { load, loadIn, problems, problemsIn } from "./support/load.ts";

/** An eval with one server and a grader, and one task. */
function filesOf(parts: {
  readonly config?: string;
  readonly root?: string;
  readonly task?: string;
  readonly grader?: string;
  readonly servers?: string;
}): Record<string, string> {
  const {
    config = "  executor: copilot-sdk\n",
    root = "",
    task = "",
    grader = "{ type: behavior, config: { max_tool_calls: 2 } }",
    servers = "    main: { command: node, args: [s.js] }\n",
  } = parts;
  return {
    "eval.yaml": `name: demo\nconfig:\n${config}${servers === "" ? "" : `  mcp_servers:\n${servers}`}tasks: [tasks/*.yaml]\n${
      grader === "" ? "" : `graders:\n  - ${grader}\n`
    }${root}`,
    "tasks/a.yaml": `id: a\nname: First\ninputs:\n  prompt: Do it.\n${task}`,
  };
}

async function loaded(parts: Parameters<typeof filesOf>[0], options: Parameters<typeof load>[1] = {}) {
  return await loadIn(filesOf(parts), { source: "eval.yaml", ...options });
}

async function refusals(
  parts: Parameters<typeof filesOf>[0],
  options: Parameters<typeof load>[1] = {},
): Promise<string[]> {
  return await problemsIn(filesOf(parts), { source: "eval.yaml", ...options });
}

describe("an eval of waza", () => {
  it("is its tasks, servers, agent and limits", async () => {
    using folder = folderOf({
      "eval.yaml": `name: demo
description: A demonstration.
skill: demo
version: 1.0
config:
  trials_per_task: 3
  timeout_seconds: 1.5
  executor: copilot-sdk
  model: gpt-5
  parallel: true
  workers: 6
  mcp_server_lifetime: per_benchmark
  mcp_servers:
    main:
      type: stdio
      command: node
      args: ["\${SCRIPT}", "\${MODE:-fast}"]
      workingDir: sub
      lifetime: per_task
    web: { type: http, url: "http://127.0.0.1:1/mcp", headers: { Authorization: "Bearer \${TOKEN}" } }
metrics: [{ name: trigger_accuracy, enabled: false }]
tasks: [tasks/b.yaml, "tasks/*.yaml"]
mcp_mocks:
  - name: weather
    tools:
      forecast: { responses: [{ match: { city: Oslo }, return: rain }] }
`,
      "tasks/a.yaml": `id: a
name: First
description: The first.
tags: [quick]
context_dir: ../files
timeout_seconds: 2
inputs:
  prompt: Say {task.name}.
  files: [{ path: ./x/in.txt }, { path: out.txt, content: "{y}" }]
expected:
  tool_calls: { required_tools: [add], forbidden_tools: [drop], min_calls: 1, max_calls: 4 }
  behavior: { max_tool_calls: 3, required_tools: [list], max_response_time_ms: 900 }
  output_contains: [sum]
  output_not_contains: [error]
`,
      "tasks/b.yaml": `id: b
inputs: { prompt: Go. }
graders:
  - type: tool_constraint
    name: tools
    weight: 2
    config:
      expect_tools:
        - { tool: add, source: "mcp:main" }
        - { source: "mcp:web" }
        - { tool: bash, source: builtin }
        - { source: skill }
        - { tool: get_.+ }
      reject_tools: [{ tool: drop }]
  - { type: behavior, name: calm, config: { max_mcp_calls: 0, forbidden_mcp_servers: [web] } }
  - { type: tool_calls, config: { min_calls: 1 } }
  - { type: tool_calls, config: { max_calls: 9 } }
`,
      "tasks/off.yaml":
        "id: off\nenabled: false\ninputs: { prompt: x }\nexpected: { tool_calls: { min_calls: 1 } }\n",
      "files/x/in.txt": "in",
    });
    const env = { SCRIPT: "s.js", TOKEN: "abcdefghijkl" };
    const result = await load(folder.path, { source: "eval.yaml", env });
    expect(result).toMatchObject({
      file: join(folder.path, "eval.yaml"),
      eval: {
        name: "demo",
        trials: 3,
        concurrency: 6,
        limits: { trialMs: 1500 },
        servers: {
          main: {
            transport: "stdio",
            command: "node",
            args: ["s.js", "fast"],
            cwd: join(folder.path, "sub"),
            lifetime: "per_task",
            required: true,
          },
          web: { transport: "shttp", headers: { Authorization: "Bearer abcdefghijkl" }, lifetime: "per_run" },
          weather: {
            transport: "mock",
            mock: { tools: { forecast: { responses: [{ match: { city: "Oslo" } }] } } },
          },
        },
        agents: [
          {
            type: "acp",
            name: "copilot",
            preset: "copilot",
            command: "copilot",
            model: "gpt-5",
            permissions: "allow",
          },
        ],
        tasks: [
          {
            name: "b",
            servers: ["main", "web", "weather"],
            graders: [
              {
                type: "tool_constraint",
                name: "tools",
                weight: 2,
                required: true,
                servers: ["main", "web"],
                config: {
                  expect_tools: [
                    { tool: "add", source: "mcp:main" },
                    { source: "mcp:web" },
                    { tool: "bash", source: "builtin" },
                    { source: "skill" },
                    { tool: "/(?i)get_.+/" },
                  ],
                  reject_tools: [{ tool: "drop" }],
                },
              },
              { name: "calm", config: { max_mcp_calls: 0, forbidden_mcp_servers: ["web"] } },
              { name: "tool_calls", weight: 1, config: { min_calls: 1 } },
              { name: "tool_calls 2", config: { max_calls: 9 } },
            ],
          },
          {
            name: "a",
            form: "task",
            description: "First: The first.",
            turns: [{ user: "Say {{task.name}}." }],
            verify: [],
            parallel: true,
            location: { file: "tasks/a.yaml", line: 1 },
            portable: {
              format: "waza",
              dir: join(folder.path, "files"),
              tags: ["quick"],
              timeoutMs: 2000,
              fixtures: ["x/in.txt"],
              setup: [
                {
                  type: "file",
                  path: "{workspace}/out.txt",
                  action: { kind: "create", content: "{{y}}", mode: 0o644 },
                },
              ],
            },
            graders: [
              {
                type: "tool_calls",
                name: "expected.tool_calls",
                weight: 1,
                required: true,
                config: { required_tools: ["add"], forbidden_tools: ["drop"], min_calls: 1, max_calls: 4 },
              },
              {
                type: "behavior",
                name: "expected.behavior",
                config: { max_tool_calls: 3, required_tools: ["list"], max_duration_ms: 900 },
              },
              {
                type: "text",
                name: "expected.output",
                config: { contains: ["sum"], not_contains: ["error"] },
              },
            ],
          },
        ],
      },
    });
    expect(result.notes).toEqual([
      "tasks/b.yaml:7:5: tools are rejected by their whole names; write .*NAME.* for a part of one",
      'the task "off" is left out: enabled is false',
    ]);
    expect(result.secrets.map(({ value }) => value)).toContain("abcdefghijkl");
  });

  it("is recognised by mcp_servers", async () => {
    using folder = folderOf({
      "eval.yaml": "mcp_servers: { main: { command: node } }\ngraders: []\ntasks: [tasks/*.yaml]\n",
      "tasks/a.yaml": "id: a\ninputs: { prompt: Add. }\nexpected: { output_contains: [x] }\n",
    });
    const { eval: spec } = await load(folder.path, { source: "eval.yaml" });
    expect(spec.tasks.map(({ name, portable }) => [name, portable?.format])).toEqual([["a", "waza"]]);
    expect(spec.agents).toMatchObject([{ type: "acp", name: "copilot" }]);
    expect(Object.keys(spec.servers)).toEqual(["main"]);
  });

  it("may have its servers at the top, which serve the whole eval unless they or the eval say otherwise", async () => {
    const table = `mcp_servers:
  main: { command: node, args: ["\${SCRIPT}"] }
  own: { command: node, lifetime: per_trial }
`;
    const options = { env: { SCRIPT: "s.js" } };
    const { eval: spec } = await loaded({ servers: "", root: table }, options);
    expect(spec.servers).toMatchObject({
      main: { transport: "stdio", args: ["s.js"], required: true, lifetime: "per_run" },
      own: { lifetime: "per_trial" },
    });
    const config = "  executor: copilot-sdk\n  mcp_server_lifetime: per_task\n";
    const said = await loaded({ servers: "", root: table, config }, options);
    expect(said.eval.servers).toMatchObject({ main: { lifetime: "per_task" } });
    expect(await refusals({ root: "mcp_servers: { other: { command: x } }\n" })).toEqual([
      "eval.yaml:9:1 config/invalid-value mcp_servers is given both in config and at the top",
    ]);
  });

  it("lays the servers of tasks over its own, and those of variants over both", async () => {
    using folder = folderOf({
      ...filesOf({
        root: `variants:
  plain: {}
  other: { mcp_servers: { main: { args: [other.js] }, extra: null } }
  none: { mcp_servers: { inherit: false } }
`,
        servers:
          "    main: { command: node, args: [s.js], env: { A: '1' } }\n    extra: { url: 'http://127.0.0.1:1/mcp' }\n",
      }),
      "tasks/b.yaml": `id: b
inputs: { prompt: x }
mcp_servers:
  main: { env: { B: "2" }, tools: [add], lifetime: per_run }
  extra: null
  own: { command: node }
`,
      "tasks/c.yaml":
        "id: c\ninputs: { prompt: x }\nmcp_servers: { inherit: false, own: { command: other } }\n",
    });
    const { eval: spec } = await load(folder.path, { source: "eval.yaml" });
    expect(spec.tasks.map(({ name, servers }) => [name, servers])).toEqual([
      ["a", ["main", "extra"]],
      ["b", ["main", "own"]],
      ["c", ["own"]],
    ]);
    expect(spec.taskServers).toMatchObject({
      b: {
        main: {
          command: "node",
          args: ["s.js"],
          env: { A: "1", B: "2" },
          tools: ["add"],
          lifetime: "per_run",
          cwd: folder.path,
        },
      },
      c: { own: { command: "other" } },
    });
    const shown = spec.variants?.map(({ name, servers }) => [
      name,
      Object.entries(servers).map(([task, table]) => `${task}: ${Object.keys(table).join(" ")}`),
    ]);
    expect(shown).toEqual([
      ["plain", ["a: main extra", "b: main own", "c: own"]],
      ["other", ["a: main", "b: main own", "c: own"]],
      ["none", ["a: ", "b: ", "c: "]],
    ]);
    expect(spec.variants?.[1]?.servers["b"]?.["main"]).toMatchObject({
      args: ["other.js"],
      env: { A: "1", B: "2" },
      tools: ["add"],
    });
  });

  it("is played by whom it declares, or by whom is asked for", async () => {
    const agents = "agents: { one: { type: scripted, plan: { a: [{ say: x }] } }, two: openai/gpt-5 }\n";
    const names = async (parts: Parameters<typeof filesOf>[0], asked: readonly string[] = []) => {
      const { eval: spec, notes } = await loaded(parts, { agents: asked });
      return { names: spec.agents.map(({ name }) => name), notes };
    };
    expect(await names({ config: "", root: agents })).toEqual({ names: ["one", "two"], notes: [] });
    expect((await names({ config: "", root: agents }, ["two"])).names).toEqual(["two"]);
    expect((await names({ config: "", root: `agent: two\n${agents}` })).names).toEqual(["two"]);
    expect(await names({ config: "  executor: mock\n  model: x\n" }, ["null"])).toEqual({
      names: ["null"],
      notes: [
        "eval.yaml:3:3: executor has no effect: --agent wins",
        "eval.yaml:4:3: model has no effect: --agent wins",
      ],
    });
  });

  it("runs as many at once as max_workers says, which is another name of workers, with parallel", async () => {
    const concurrency = async (more: string) =>
      (await loaded({ config: `  executor: copilot-sdk\n${more}` })).eval.concurrency;
    expect(await concurrency("  parallel: true\n  max_workers: 2\n")).toBe(2);
    expect(await concurrency("  parallel: true\n  workers: 3\n")).toBe(3);
    expect(await concurrency("  parallel: true\n")).toBe(4);
    expect(await concurrency("  max_workers: 2\n")).toBeUndefined();
  });

  it("has a mock in the place of a server of its name, in variants too", async () => {
    const { eval: spec, notes } = await loaded({
      root: "mcp_mocks: [{ name: main, tools: { t: { responses: [{ return: x }] } } }]\nvariants: { same: {}, part: { mcp_servers: { main: { required: false } } } }\n",
    });
    const tables = [spec.servers, ...(spec.variants ?? []).map(({ servers }) => servers["a"])];
    expect(tables.map((table) => table?.["main"]?.transport)).toEqual(["mock", "mock", "mock"]);
    // The servers as they are run too.
    expect(notes).toEqual([]);
  });

  it("ends with the first trial that does not pass, has thresholds, and a judge where a grader asks one", async () => {
    const config = "  executor: copilot-sdk\n  fail_fast: true\n  judge_model: gpt-5\n  group_by: model\n";
    const root = `metrics:
  - { name: task_completion, threshold: 0.5, weight: 3 }
  - { name: behavior, weight: 2 }
  - { name: quality, threshold: 0.9, enabled: false }
`;
    const { eval: spec } = await loaded({ config, root });
    expect(spec).toMatchObject({ bail: true, thresholds: { passRate: 0.5 } });
    expect(spec).not.toHaveProperty("judge");
    expect(spec.tasks[0]?.graders).toMatchObject([{ name: "behavior", weight: 2 }]);
  });

  it("has tasks in rows of a CSV file, with its inputs and their columns in prompts", async () => {
    const root = "tasks_from: cases.csv\nrange: [1, 2]\ninputs: { units: 20, city: none }\n";
    const rows = `id,name,city,prompt\na,First,Oslo,"Say {x}, {{.Vars.units}} {{.Vars.city}} {{.TaskName}}"\n,Second,Rome,Go\nc,,,\n`;
    const files = { ...filesOf({ root }), "cases.csv": rows };
    const { eval: spec, notes } = await loadIn(files, { source: "eval.yaml" });
    expect(notes).toEqual(["eval.yaml:6:1: tasks has no effect beside tasks_from"]);
    expect(spec.tasks).toMatchObject([
      {
        name: "a",
        description: "First",
        turns: [{ user: "Say {{x}}, 20 Oslo First" }],
        location: { file: "cases.csv", line: 2 },
        graders: [{ type: "behavior" }],
      },
      { name: "Second", turns: [{ user: "Go" }] },
    ]);
    const wrong = { ...files, "cases.csv": "id,prompt\na,{{.Vars.town}}\na,x\n,\n" };
    const unranged = { ...wrong, ...filesOf({ root: root.replace("range: [1, 2]\n", "") }) };
    expect(await problemsIn(unranged, { source: "eval.yaml" })).toEqual([
      "cases.csv:2:1 config/invalid-value inputs.prompt: {{.Vars.town}} names no variable",
      expect.stringMatching(/^cases\.csv:4:1 .*inputs\.prompt/),
    ]);
    const short = { ...files, "cases.csv": "id,prompt\na\n" };
    expect(await problemsIn(short, { source: "eval.yaml" })).toEqual([
      "cases.csv:2:1 config/invalid-value cases.csv has a row with 1 cells and a header with 2",
    ]);
  });

  it("gives its agents the skills that it has", async () => {
    const config = "  executor: copilot-sdk\n  skill_directories: [skills]\n  required_skills: [demo]\n";
    using folder = folderOf({ ...filesOf({ config }), "skills/demo/SKILL.md": "# Demo\n" });
    const { eval: spec } = await load(folder.path, { source: "eval.yaml" });
    const folders = [join(folder.path, "skills")];
    expect(spec.agents).toMatchObject([
      { name: "copilot", skills: { folders, mountPath: ".github/skills" } },
    ]);
    const missing = { ...filesOf({ config }), "skills/other/SKILL.md": "# Other\n" };
    expect(await problemsIn(missing, { source: "eval.yaml" })).toEqual([
      'eval.yaml:5:21 config/not-found no skill "demo" is in the skill_directories',
    ]);
    expect(await refusals({ config })).toContainEqual(
      expect.stringMatching(/^eval\.yaml:4:23 .* there is no folder \S+skills$/),
    );
  });

  it("has prompts in files, further turns, and outcomes that are calls", async () => {
    const task = (inputs: string): string => `id: a
golden: true
inputs: ${inputs}
expected: { outcomes: [{ type: task_completed }, { type: tool_called, tool_name: add }] }
`;
    const inputs = "{ prompt_file: prompts/a.md, follow_up_prompts: ['And {{.TaskName}}?'] }";
    const files = {
      ...filesOf({
        root: "inputs: { who: Ada }\nschemaVersion: '1.4'\n",
        config: "  executor: copilot-sdk\n  workers: 0\n",
      }),
      "tasks/a.yaml": task(inputs),
      "tasks/prompts/a.md": "Greet {{.Vars.who}}.\n",
    };
    const { eval: spec, notes } = await loadIn(files, { source: "eval.yaml" });
    expect(notes).toEqual([]);
    expect(spec.tasks[0]?.turns).toEqual([{ user: "Greet Ada." }, { user: "And a?" }]);
    expect(spec.tasks[0]?.graders?.[1]).toMatchObject({
      name: "expected.outcomes",
      type: "tool_calls",
      config: { required_tools: ["add"] },
    });
    for (const [wrong, problem] of [
      [
        "{ prompt_file: ../eval.yaml }",
        '3:24 config/not-found inputs.prompt_file: there is no file "../eval.yaml" in the task\'s folder',
      ],
      [
        "{ prompt: x, prompt_file: prompts/a.md }",
        "3:9 config/invalid-value inputs must have prompt or prompt_file",
      ],
      ["{}", "3:9 config/invalid-value inputs must have prompt or prompt_file"],
      [
        "{ prompt: x, responder: { instructions: y } }",
        "3:22 config/invalid-value responder is refused: no model plays the user",
      ],
    ] as const)
      expect(await problemsIn({ ...files, "tasks/a.yaml": task(wrong) }, { source: "eval.yaml" })).toEqual([
        `tasks/a.yaml:${problem}`,
      ]);
  });

  it("fills its inputs into the prompts of task files", async () => {
    const parts = { root: "inputs: { city: Oslo }\n" };
    const files = filesOf(parts);
    const task = (prompt: string): Record<string, string> => ({
      ...files,
      "tasks/a.yaml": `id: a\ninputs: { prompt: "${prompt}" }\n`,
    });
    const { eval: spec } = await loadIn(task("{{.Vars.city}}, {{.TaskName}}"), { source: "eval.yaml" });
    expect(spec.tasks[0]?.turns).toEqual([{ user: "Oslo, a" }]);
    expect(await problemsIn(task("{{.Timestamp}}"), { source: "eval.yaml" })).toEqual([
      "tasks/a.yaml:2:19 config/invalid-value inputs.prompt: {{.Timestamp}} cannot be filled in",
    ]);
  });

  it("has graders whose settings that tool writes in another way", async () => {
    const graders = [
      { type: "program", config: { command: "grade", timeout: 5 } },
      { type: "code", assertions: ["len(output) > 1"] },
      {
        type: "prompt",
        rubric: "Is it kind?",
        model: "openai/x",
        config: { mode: "independent", continue_session: false },
      },
      { type: "program", name: "own", config: { command: "grade", timeout: "9s", workspace: [] } },
      {
        type: "trigger",
        config: { skill_path: "./skills/triage/SKILL.md", mode: "negative", threshold: 0.6 },
      },
    ];
    const task = `graders: ${JSON.stringify(graders)}\n`;
    const config = "  executor: copilot-sdk\n  judge_model: gpt-5\n";
    const { eval: spec, notes } = await loaded({ config, task });
    expect(notes).toEqual([
      expect.stringContaining("threshold has no effect: what a prompt triggers is recorded, not estimated"),
    ]);
    expect(spec.tasks[0]?.graders?.slice(1)).toMatchObject([
      { config: { command: "grade", timeout: 5000, input: "output", workspace: ["**"] } },
      { config: { assertions: ["len(output) > 1"] } },
      { config: { rubric: "Is it kind?", model: "openai/x", mode: "pointwise" } },
      { config: { timeout: 9000, workspace: [] } },
      { config: { skill: "triage", mode: "negative" } },
    ]);
    expect(spec.judge?.model).toBe("openai/gpt-5");
    expect((await loaded({ config, task }, { judgeModel: "openai/other" })).eval.judge?.model).toBe(
      "openai/other",
    );
  });

  it("says what has no effect", async () => {
    const { notes } = await loaded({
      config: "  executor: copilot-sdk\n  max_workers: 2\n  max_attempts: 1\n",
      root: "variants: { none: { mcp_servers: { main: null } } }\n",
    });
    expect(notes).toEqual([
      "eval.yaml:11:1: only the variants run; to compare with the servers as they are, add NAME: {}",
      "eval.yaml:4:3: max_workers has no effect without parallel: true",
    ]);
  });
});

/**
 * Parts of the files, a line each, and after `!` what is wrong with them: LINE:COLUMN of the eval, or of the task after `task:`.
 */
const refused = String.raw`
root hoks: {}
! 9:1 config/unknown-key unknown key "hoks"

config executor: copilot-sdk
config trials: 2
! 4:3 config/unknown-key unknown key "trials" in config

root hooks: { before_run: [{ command: x, exit_codes: [] }] }
! 9:49 config/invalid-value hooks.before_run[0].exit_codes must have at least 1 item

root tasks_from: x.csv
! 9:13 config/not-found tasks_from is not a file

root tasks_from: ../x.csv
! 9:13 config/not-found tasks_from leads out of the eval's folder

root range: [2, 1]
! 9:1 config/invalid-value range has no effect without tasks_from
! 9:8 config/invalid-value range begins after its end

root metrics: [{ name: quality }, { name: behavior, threshold: 2 }]
! 9:59 config/invalid-value metrics[1].threshold must be at most 1

root metrics: [{ name: quality }, { name: behavior, threshold: 1 }]
! 9:19 config/unknown-reference no task has a grader "quality", so that nothing measures this metric

root metrics: [{ name: task_completion }, { name: passRate }]
! 9:46 config/duplicate-name two metrics are named "passRate"

root baseline: true
! 9:1 config/invalid-value baseline is refused: every trial counts, so that the run would fail where skills make a difference

root metrics: [{ name: trigger_accuracy, threshold: 0.9 }]
! 9:19 config/unknown-reference no task has a grader "trigger_accuracy", so that nothing measures this metric

config executor: copilot-sdk
config required_skills: [x]
config skill_directories: [gone]
config max_attempts: 2
! 4:21 config/not-found no skill "x" is in the skill_directories
! 6:17 config/invalid-value max_attempts over 1 is refused: trying again until it passes hides flakiness

config executor: mock
! 3:13 config/invalid-value the executor mock calls no tools, so its trials say nothing of a server

config executor: copilot-sdk
config workers: 1
config max_workers: 2
! 5:16 config/invalid-value workers and max_workers are the same setting, with two values

servers main: { comand: node }
! 5:5 config/missing-key missing key "command" or "url" in config.mcp_servers.main
! 5:13 config/unknown-key unknown key "comand" in config.mcp_servers.main

servers main: { url: '${"$"}{NOWHERE}' }
! 5:19 config/unset-variable config.mcp_servers.main.url: the variable NOWHERE is not set

root mcp_mocks: [{ name: w, tool: {} }]
! 9:13 config/invalid-value mcp_mocks[0] must have tools or fixtures
! 9:24 config/unknown-key unknown key "tool" in mcp_mocks[0]

root variants: { none: { mcp_servers: { mian: null } } }
! 9:42 config/unknown-reference no server is named "mian"

task graders:
task   - { type: human, name: f, config: { criteria: [x] } }
task   - { type: fiel, name: g }
! task:6:13 config/invalid-value no grader has the type "human"
! task:7:13 config/invalid-value no grader has the type "fiel"

task graders:
task   - { type: behavior, name: f, config: { max_tokens: 5, max_tool_calls: 1 }, rubric: x }
task   - { type: tool_constraint, config: { expect_tools: [{ tool: x, args: { a: 1 } }, { tool: "(" }] } }
task   - { type: tool_constraint, config: { reject_tools: [{ tool: x, source: buildin }, { tool: y, source: "mcp:z" }] } }
! task:6:40 config/unknown-key unknown key "rubric" in graders[0].config
! task:7:92 config/invalid-value graders[1].config.expect_tools[1].tool is not a valid RE2 pattern: error parsing regexp: missing closing ): ${"`"}(?i)(${"`"}
! task:8:74 config/invalid-value graders[2].config.reject_tools[0].source must be mcp:SERVER, builtin or skill

task graders: [{ type: tool_constraint, config: { reject_tools: [{ tool: y, source: 'mcp:nowhere' }] } }]
! task:5:60 config/unknown-reference the grader "tool_constraint": no server is named "nowhere"

task expected:
task   output_contains: [x]
task   behavior: { max_tokens: 5, max_tool_call: 1 }
! task:7:30 config/unknown-key unknown key "max_tool_call" in expected.behavior

task expected:
task   should_trigger: false
task   outcomes: [{ type: task_completed }, { type: tool_called }, { type: task_completed, condition: x }]
task   behavior: { max_iterations: -5 }
! task:6:3 config/invalid-value should_trigger has no skill to look for
! task:7:40 config/invalid-value outcomes[1] is refused: nothing says how it is recognised
! task:7:63 config/invalid-value outcomes[2] is refused: nothing says how it is recognised
! task:8:31 config/invalid-value expected.behavior.max_iterations must be at least 0

grader { type: behavior, name: one, config: { max_tool_calls: 1 } }
task graders: [{ type: behavior, name: one, config: { max_tool_calls: 2 } }]
! task:5:11 config/duplicate-name two graders of the same tasks are named "one"

task   context: { a: 1 }
task   environment: { A: b }
! task:5:3 config/invalid-value context is refused: no agent takes anything but the prompt
! task:6:3 config/invalid-value environment is refused: the task starts no program of its own that could get it

grader { type: behavior, name: one }
! 8:5 config/invalid-value graders[0].config must have a limit, or a tool or server to look for

grader
! task:1:5 config/checks-nothing the task "a" checks nothing, so it could not fail

task   files: [{ path: ../x, content: a }, { path: /x, content: a }, { path: C:/x, content: a }]
! task:5:19 config/invalid-value inputs.files[0].path must stay inside the workspace: relative, and without ..
! task:5:47 config/invalid-value inputs.files[1].path must stay inside the workspace: relative, and without ..
! task:5:73 config/invalid-value inputs.files[2].path must stay inside the workspace: relative, and without ..

task   files: [{ path: x, content: a }, { path: ./x, content: b }]
! task:5:44 config/invalid-value inputs.files[1].path is a duplicate

task mcp_servers: { main: { args: x }, gone: null, part: { args: [] } }
! task:5:30 config/invalid-value mcp_servers.main.args must be a list, not a string
! task:5:41 config/unknown-reference no server is named "gone"
! task:5:47 config/unknown-reference no server is named "part"

root variants: { other: { mcp_servers: { main: { env: { A: b } } } } }
task mcp_servers: { main: { type: http, command: null, args: null, url: 'http://x/mcp' } }
! 9:50 config/invalid-value with the servers of the task "a": variants.other.mcp_servers.main.env must not be given without command

root variants: { other: { mcp_servers: { main: { arg: [] } } } }
task mcp_servers: { main: { env: { A: b } } }
! 9:45 config/unknown-key unknown key "arg" in variants.other.mcp_servers.main

config
root agents: { one: { type: scripted, plan: { b: [{ say: x }] } } }
! 8:34 agent/no-plan agents.one.plan has no plan for the task "a"
! 8:42 config/unknown-reference no workflow or task is named "b"
`;

const indents: Readonly<Record<string, string>> = { config: "  ", servers: "    " };

describe("an eval of waza is refused, by name and with the place", () => {
  it.each(refused.trim().split("\n\n"))("%s", async (text) => {
    const parts: Record<string, string> = {};
    const expected: string[] = [];
    for (const [, part = "", rest = ""] of text.matchAll(/^(\S+) ?(.*)$/gm)) {
      const [, place = "", message = ""] = /^(?:task:)?(\S+) (.*)$/.exec(rest) ?? [];
      if (part === "!")
        expected.push(`${rest.startsWith("task:") ? "tasks/a" : "eval"}.yaml:${place} ${message}`);
      else if (part === "grader" || rest === "") parts[part] = rest;
      else parts[part] = `${parts[part] ?? ""}${indents[part] ?? ""}${rest}\n`;
    }
    expect((await refusals(parts)).toSorted()).toEqual(expected.toSorted());
  });

  it("two tasks of one name", async () => {
    expect(
      await problemsIn(
        { ...filesOf({}), "tasks/b.yaml": "id: a\ninputs: { prompt: x }\n" },
        { source: "eval.yaml" },
      ),
    ).toEqual(['tasks/b.yaml:1:5 config/duplicate-name two tasks are named "a"']);
  });

  it("a file that a link leads to, out of its folder", async () => {
    using folder = folderOf({
      ...filesOf({ task: "  files: [{ path: link.txt }]\n" }),
      "secret.txt": "x",
      "fixtures/other.txt": "x",
    });
    symlinkSync(join(folder.path, "secret.txt"), join(folder.path, "fixtures/link.txt"));
    expect(await problems(folder.path, { source: "eval.yaml" })).toEqual([
      "tasks/a.yaml:5:19 config/invalid-value inputs.files[0].path leads out of its folder, through a link",
    ]);
    const { eval: spec } = await load(folder.path, { source: "eval.yaml", allowOutside: true });
    expect(spec.tasks[0]?.portable?.fixtures).toEqual(["link.txt"]);
  });

  it("all files at once, with tasks that are not there and files that are not", async () => {
    using folder = folderOf({
      ...filesOf({ root: "hooks: { after_runs: [{ command: x }] }\n" }),
      "tasks/a.yaml": "id: a\ninputs: { prompt: x, files: [{ path: in.txt }] }\n",
      "tasks/b.yaml": "id: b\nname: [\n",
    });
    const found = await problems(folder.path, { source: "eval.yaml" });
    expect(found.map((problem) => problem.split(" ").slice(0, 2).join(" "))).toEqual([
      "eval.yaml:9:10 config/unknown-key",
      "tasks/b.yaml:3:1 config/syntax",
      "tasks/a.yaml:2:38 config/not-found",
    ]);
    using none = folderOf({ "eval.yaml": "config: { executor: copilot-sdk }\ntasks: [nowhere/*.yaml]\n" });
    expect(await problems(none.path, { source: "eval.yaml" })).toEqual([
      'eval.yaml:2:9 config/not-found tasks: there is no task file at "nowhere/*.yaml"',
    ]);
  });
});

describe("fixtures of mocks", () => {
  const mocked = filesOf({ servers: "", root: "mcp_mocks: [{ name: db, fixtures: answers }]\n" });

  it("are bundles, and files named after their tools", async () => {
    using folder = folderOf({
      ...mocked,
      "answers/all.json": { tools: { get: { responses: [{ match_regex: { a: "^x" }, return: "y" }] } } },
      "answers/more/put.json": { description: "puts", responses: [{ error: "no" }] },
      "answers/.hidden/not.json": { responses: [] },
      "answers/readme.md": "no JSON",
    });
    const server = (await load(folder.path, { source: "eval.yaml" })).eval.servers["db"];
    expect(server).toMatchObject({
      transport: "mock",
      mock: { tools: { get: {}, put: { description: "puts" } } },
    });
  });

  it.each([
    [{}, "there is no folder answers"],
    [{ answers: "a file" }, "answers is not a folder"],
    [{ "answers/a.json": "{" }, "answers: a.json: "],
    [{ "answers/a.txt": "" }, "no JSON file there has a tool"],
  ])("are refused: %j", async (files, reason) => {
    const [problem] = await problemsIn({ ...mocked, ...files }, { source: "eval.yaml" });
    expect(problem).toContain(`mcp_mocks[0].fixtures: ${reason}`);
  });
});

describe("a document is an eval of waza", () => {
  it.each<[string, string, RegExp]>([
    ["by its config", "config: { executor: mock }\n", /the eval has no tasks|executor mock/],
    [
      "by any config, beside servers at the top",
      "mcp_servers: { a: { command: x } }\nconfig: { model: x }\ntasks: []\n",
      /the eval has no tasks/,
    ],
    ["by its skill", "skill: x\ntasks: []\n", /the eval has no tasks/],
    [
      "but not with the servers of a config",
      "servers: {}\nconfig: { executor: mock }\n",
      /unknown key "config"/,
    ],
    ["by its servers", "mcp_servers: {}\ngraders: []\ntasks: []\n", /the eval has no tasks/],
    ["but not with an Eval's config", "config: { taskSets: [] }\n", /unknown key "config"/],
  ])("%s", async (_, text, expected) => {
    expect((await problemsIn({ "eval.yaml": text }, { source: "eval.yaml" })).join("\n")).toMatch(expected);
  });
});
