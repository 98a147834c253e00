import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { failure, load, problems } from "../load/support/load.ts";
import { folderOf } from "../support/cli.ts";

function task(name: string, spec = ""): string {
  return `apiVersion: mcp-eval/v1
kind: Task
metadata: { name: ${name}, labels: { area: ${name} } }
spec:
  prompt: Do ${name}.
  verify: [{ command: { run: "test -e {workspace}/${name}" } }]
${spec}`;
}

const model = "anthropic:claude-sonnet-4-5";

function evalOf(taskSets: string): string {
  return `kind: Eval
apiVersion: mcp-eval/v1
metadata: { name: e }
config:
  agent: { type: builtin.llm-agent, model: "${model}" }
  taskSets:
${taskSets}`;
}

const config = "server: { transport: stdio, command: node }\ntasks: ['t/**/*.yaml']\n";

// docs/tasks.md, "The first task": a file without content among tasks is refused.
describe("a task file that has lost its content is refused, not left out", () => {
  const contents: readonly (readonly [string, string])[] = [
    ["nothing", ""],
    ["blanks", " \n\r\n\t\n"],
    ["comments", "# kind: Task\n  # verify\n"],
    ["a mark", "---\n"],
    ["marks and comments", "%YAML 1.2\n---\n# a task\n...\n"],
    ["two empty documents", "---\n---\n"],
    ["a byte order mark", "\uFEFF"],
    ["null", "null\n"],
    ["~", "--- ~ # nothing\n"],
  ];

  it.each(contents)("%s, in a folder", async (_, text) => {
    using folder = folderOf({ "t/a.yaml": task("a"), "t/below/b.yaml": text });
    const file = join("t", "below", "b.yaml");
    expect(await problems(folder.path, { source: "t" })).toEqual([
      `${file} config/invalid-value ${file} is empty, so it is not a task`,
    ]);
  });

  it.each([
    ["alone in a folder", "t", {}],
    ["in a glob", "t/*.yaml", { "t/a.yaml": task("a") }],
    ["as JSON", "t", { "t/a.yaml": task("a"), "t/b.yaml": "x: 1", "t/b.json": "" }],
    [
      "in the tasks of a config",
      "mcp-eval.config.yaml",
      { "t/a.yaml": task("a"), "mcp-eval.config.yaml": config },
    ],
    ["in a task set", "eval.yaml", { "t/a.yaml": task("a"), "eval.yaml": evalOf("    - glob: t/*.yaml\n") }],
  ])("%s", async (_, source, files) => {
    using folder = folderOf({ "t/b.yaml": "# later\n", ...files });
    expect(await problems(folder.path, { source })).toContainEqual(
      expect.stringMatching(
        /^t.b\.(yaml|json) config\/invalid-value t.b\.\S+ is empty, so it is not a task$/,
      ),
    );
  });

  it("but a fixture may be empty", async () => {
    const fixtures = "  fixtures: [data, one.yaml]\n";
    using folder = folderOf({
      "t/a.yaml": task("a", fixtures),
      "t/data/deep/empty.yaml": "",
      "t/one.yaml": "",
      "t/data.yaml": "",
    });
    expect(await problems(folder.path, { source: "t" })).toEqual([
      expect.stringMatching(/t.data\.yaml is empty/),
    ]);
  });

  it("a task in UTF-16 is refused", async () => {
    using folder = folderOf({ "t/a.yaml": task("a") });
    const file = join(folder.path, "t", "b.yaml");
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, Buffer.from(`\uFEFF${task("b")}`, "utf16le"));
    expect(await problems(folder.path, { source: "t" })).toEqual([
      expect.stringMatching(/^t.b\.yaml:1:1 config\/unreadable .* is not UTF-8 text$/),
    ]);
  });

  it.each([
    ["after another document", `a: 1\n---\n${task("b")}`],
    ["after a manifest", `apiVersion: v1\nkind: Pod\n---\n${task("b")}`],
    ["after an empty document", `---\n# nothing\n---\n${task("b")}`],
    ["before another", `${task("b")}---\n${task("c")}`],
  ])("a task %s in one file is refused", async (_, text) => {
    using folder = folderOf({ "t/a.yaml": task("a"), "t/b.yaml": text });
    expect(await problems(folder.path, { source: "t" })).toEqual([
      expect.stringMatching(/^t.b\.yaml:\d+:1 config\/syntax the file holds more than one document/),
    ]);
  });

  it.each([
    ["another group", task("b").replace("mcp-eval/v1", "mcp.eval/v1")],
    ["another version", task("b").replace("mcp-eval/v1", "mcp-eval/v2")],
  ])("a task of %s is refused", async (_, text) => {
    using folder = folderOf({ "t/a.yaml": task("a"), "t/b.yaml": text });
    expect(await problems(folder.path, { source: "t" })).toEqual([
      expect.stringMatching(/^t.b\.yaml:1:13 config\/invalid-value apiVersion must be one of mcp-eval\/v1/),
    ]);
  });

  it("a task of which only the name is left is noted", async () => {
    using folder = folderOf({ "t/a.yaml": task("a"), "t/b.yaml": "metadata: { name: b }\n" });
    const { notes } = await load(folder.path, { source: "t" });
    expect(notes).toEqual([expect.stringMatching(/^t.b\.yaml has no kind, so it is not taken as a task/)]);
  });

  it.each([
    ["a list", `- ${task("b").trim().replaceAll("\n", "\n  ")}\n`],
    ["a list in a map", `kind: List\nitems:\n  - ${task("b").trim().replaceAll("\n", "\n    ")}\n`],
  ])("tasks in %s are noted", async (_, text) => {
    using folder = folderOf({ "t/a.yaml": task("a"), "t/b.yaml": text });
    const { notes } = await load(folder.path, { source: "t" });
    expect(notes).toEqual([expect.stringMatching(/^t.b\.yaml has tasks in a list, which are not taken/)]);
  });
});

// docs/tasks.md, "Many tasks": a task set that reaches no task is refused.
describe("a task set that reaches no task is refused", () => {
  const files = { "t/a.yaml": task("a"), "t/b.yaml": task("b"), "t/x.yaml": "a: 1\n" };

  it.each([
    [
      "a glob that matches no file",
      "glob: t/none-*.yaml",
      "no file of kind Task is at the glob t/none-*.yaml",
    ],
    ["a glob that matches no task", "glob: t/x*.yaml", "no file of kind Task is at the glob t/x*.yaml"],
    ["a path", "path: t/gone.yaml", "no file of kind Task is at the path t/gone.yaml"],
    ["a path to something else", "path: t/x.yaml", "no file of kind Task is at the path t/x.yaml"],
  ])("by %s", async (_, set, message) => {
    using folder = folderOf({ ...files, "eval.yaml": evalOf(`    - path: t/a.yaml\n    - ${set}\n`) });
    expect(await problems(folder.path, { source: "eval.yaml" })).toEqual([
      `eval.yaml:8:7 config/not-found config.taskSets[1]: ${message}`,
    ]);
  });

  it("by its labels, also where another set reaches the tasks", async () => {
    const sets = "    - glob: t/*.yaml\n    - { glob: t/*.yaml, labelSelector: { area: c } }\n";
    using folder = folderOf({ ...files, "eval.yaml": evalOf(sets) });
    const { details, code } = await failure(folder.path, { source: "eval.yaml" });
    expect(code).toBe("usage/no-match");
    expect(details.diagnostics).toMatchObject([
      {
        message: "config.taskSets[1] reaches no task: labelSelector leaves out all that it names",
        hint: "None of the 2 tasks of this set has the labels area: c.",
        location: { file: "eval.yaml", line: 8 },
      },
    ]);
  });

  it("in an eval of waza", async () => {
    const waza = "config: { trials_per_task: 1 }\ntasks: ['w/*.yaml']\n";
    using folder = folderOf({ "eval.yaml": waza });
    expect(await problems(folder.path, { source: "eval.yaml" })).toContain(
      'eval.yaml:2:9 config/not-found tasks: there is no task file at "w/*.yaml"',
    );
    using empty = folderOf({ "eval.yaml": waza, "w/a.yaml": "# nothing\n" });
    expect(await problems(empty.path, { source: "eval.yaml" })).toContainEqual(
      expect.stringMatching(/^w.a\.yaml:1:1 config\/syntax the file is empty$/),
    );
  });

  it("in a config", async () => {
    using folder = folderOf({ "mcp-eval.config.yaml": config });
    expect(await problems(folder.path)).toContainEqual(
      expect.stringContaining('tasks: no file of kind Task is at "t/**/*.yaml"'),
    );
  });
});
