import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Config } from "../../src/formats/config/config-schema.ts";
import { failure, load, problems } from "../formats/support/load.ts";
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

function evalOf(...taskSets: string[]): string {
  return `kind: Eval
apiVersion: mcp-eval/v1
metadata: { name: e }
config:
  agent: { type: builtin.llm-agent, model: "anthropic:claude-sonnet-4-5" }
  taskSets:
${taskSets.map((set) => `    - ${set}\n`).join("")}`;
}

const config = "server: { transport: stdio, command: node }\ntasks: ['t/**/*.yaml']\n";

/** What is said of a folder with a good task and another file: its problems, or its notes if it loads. */
async function saidOf(other: string): Promise<readonly string[]> {
  using folder = folderOf({ "t/a.yaml": task("a"), "t/b.yaml": other });
  const loaded = load(folder.path, { source: "t" }).then(({ notes }) => notes);
  return await loaded.catch(() => problems(folder.path, { source: "t" }));
}

// docs/tasks.md, "The first task".
describe("a task file that has lost its content is refused, not left out", () => {
  const comments = ["# kind: Task\n  # verify\n", "%YAML 1.2\n---\n# a task\n...\n", "--- ~ # nothing\n"];
  it.each(["", " \n\r\n\t\n", "---\n---\n", "\uFEFF", "null\n", ...comments])("%j", async (text) => {
    using folder = folderOf({ "t/a.yaml": task("a"), "t/below/b.yaml": text });
    const file = join("t", "below", "b.yaml");
    expect(await problems(folder.path, { source: "t" })).toEqual([
      `${file} config/invalid-value ${file} is empty, so it is not a task`,
    ]);
  });

  const a = { "t/a.yaml": task("a") };
  it.each([
    ["alone in a folder", "t", {}],
    ["in a glob", "t/*.yaml", a],
    ["as JSON", "t", { ...a, "t/b.yaml": "x: 1", "t/b.json": "" }],
    ["in the tasks of a config", "mcp-eval.config.yaml", { ...a, "mcp-eval.config.yaml": config }],
    ["in a task set", "eval.yaml", { ...a, "eval.yaml": evalOf("glob: t/*.yaml") }],
  ])("%s", async (_, source, files) => {
    using folder = folderOf({ "t/b.yaml": "# later\n", ...files });
    const empty = /^t.b\.(yaml|json) config\/invalid-value t.b\.\S+ is empty, so it is not a task$/;
    expect(await problems(folder.path, { source })).toContainEqual(expect.stringMatching(empty));
  });

  it("but a fixture may be empty", async () => {
    const fixtures = { "t/data/deep/empty.yaml": "", "t/one.yaml": "", "t/data.yaml": "" };
    using folder = folderOf({ "t/a.yaml": task("a", "  fixtures: [data, one.yaml]\n"), ...fixtures });
    const found = await problems(folder.path, { source: "t" });
    expect(found).toEqual([expect.stringMatching(/t.data\.yaml is empty/)]);
  });

  it("in UTF-16", async () => {
    using folder = folderOf({ "t/a.yaml": task("a") });
    writeFileSync(join(folder.path, "t/b.yaml"), Buffer.from(`\uFEFF${task("b")}`, "utf16le"));
    const found = await problems(folder.path, { source: "t" });
    expect(found).toEqual([expect.stringMatching(/^t.b\.yaml:1:1 config\/unreadable .* is not UTF-8 text$/)]);
  });

  const nested = (indent: string): string => task("b").trim().replaceAll("\n", `\n${indent}`);
  const several = /^t.b\.yaml:\d+:1 config\/syntax the file holds more than one document/;
  const version = /^t.b\.yaml:1:13 config\/invalid-value apiVersion must be one of mcp-eval\/v1/;
  const list = /^t.b\.yaml has tasks in a list, which are not taken/;
  it.each([
    ["after another document", `a: 1\n---\n${task("b")}`, several],
    ["after an empty document", `---\n# nothing\n---\n${task("b")}`, several],
    ["before another", `${task("b")}---\n${task("c")}`, several],
    ["of another version", task("b").replace("mcp-eval/v1", "mcp-eval/v2"), version],
    ["of only a name", "metadata: { name: b }\n", /^t.b\.yaml has no kind, so it is not taken as a task/],
    ["in a list", `- ${nested("  ")}\n`, list],
    ["in a list in a map", `kind: List\nitems:\n  - ${nested("    ")}\n`, list],
  ])("%s", async (_, text, message) => {
    expect(await saidOf(text)).toEqual([expect.stringMatching(message)]);
  });
});

// docs/tasks.md, "Many tasks".
describe("a task set that reaches no task is refused", () => {
  const files = { "t/a.yaml": task("a"), "t/b.yaml": task("b"), "t/x.yaml": "a: 1\n" };

  it.each(["glob: t/x*.yaml", "path: t/x.yaml"])("%s", async (set) => {
    using folder = folderOf({ ...files, "eval.yaml": evalOf("path: t/a.yaml", set) });
    expect(await problems(folder.path, { source: "eval.yaml" })).toEqual([
      `eval.yaml:8:7 config/not-found config.taskSets[1]: no file of kind Task is at the ${set.replace(":", "")}`,
    ]);
  });

  it("by its labels, also where another set reaches the tasks", async () => {
    const sets = ["glob: t/*.yaml", "{ glob: t/*.yaml, labelSelector: { area: c } }"];
    using folder = folderOf({ ...files, "eval.yaml": evalOf(...sets) });
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
});

/** A config as a program may return it. */
function programConfig(test: unknown, rest: object = {}): Config {
  const made: unknown = {
    server: { transport: "stdio", command: "node", args: ["server.js"], env: {}, cwd: undefined },
    toolHealthSuites: [{ name: "sums", tests: [{ name: "add", ...Object(test) }] }],
    ...rest,
  };
  return made as Config;
}

class Sum {
  readonly sum = 5;
}

const cyclic: { self?: unknown } = {};
cyclic.self = cyclic;

// docs/reference/config.md.
describe("a value that JSON cannot hold is refused, with its place", () => {
  it.each<[string, unknown]>([
    [".sum: undefined is not JSON", { sum: undefined }],
    ["[0]: undefined is not JSON", [undefined]],
    ["[0]: undefined is not JSON", Object.assign([], { length: 1 })],
    [': a list with the member "sum" is not JSON', Object.assign([1], { sum: 5 })],
    [": NaN is not a number that JSON has", NaN],
    [": a value of type function is not JSON", () => 5],
    [": a key that is a symbol", { [Symbol("s")]: 1 }],
    [": a value of type bigint is not JSON", 5n],
    [".at: a Date is not JSON", { at: new Date(0) }],
    [": a Sum is not JSON", new Sum()],
    [".toJSON: a value of type function", { toJSON: () => ({}) }],
  ])("expectedResult%s", async (message, expectedResult) => {
    const found = await problems(import.meta.dirname, { source: programConfig({ expectedResult }) });
    const place = "toolHealthSuites[0].tests[0].expectedResult";
    expect(found).toEqual([expect.stringContaining(`${place}${message}`)]);
  });

  it("a cycle", async () => {
    const found = await problems(import.meta.dirname, { source: programConfig({ expectedResult: cyclic }) });
    expect(found).toEqual([expect.stringContaining("nested deeper than 200 levels")]);
  });

  const workflow = (steps: object): object => ({ workflows: [{ name: "w", steps }] });
  it.each<[string, object]>([
    ["toolHealthSuites[0].tests[0].expectedError", programConfig({ expectedError: undefined })],
    ["toolHealthSuites[0].tests[0].args.a", programConfig({ args: { a: undefined } })],
    ["server.env.KEY", { server: { transport: "stdio", command: "x", env: { KEY: undefined } } }],
    ["servers.a", { server: undefined, servers: { a: undefined } }],
    ["workflows[0].steps[0].expectedState", workflow([{ user: "x", expectedState: undefined }])],
    ["tasks[0]", { tasks: [undefined] }],
  ])("undefined as %s", async (place, rest) => {
    const found = await problems(import.meta.dirname, { source: programConfig({}, rest) });
    expect(found).toContain(`(config) config/invalid-value ${place}: undefined is not JSON`);
  });

  it("but a setting that is undefined counts as absent", async () => {
    const absent = { name: undefined, timeout: undefined, limits: { trial: undefined }, judge: undefined };
    const agents = { a: { type: "model", model: "openai/gpt-5", maxSteps: undefined } };
    const source = programConfig({}, { ...absent, agents, workflows: [] });
    const { eval: spec } = await load(import.meta.dirname, { source });
    expect([spec.limits.callMs, spec.tasks.length]).toEqual([30_000, 1]);
  });
});
