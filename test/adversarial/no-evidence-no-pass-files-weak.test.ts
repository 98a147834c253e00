import { describe, expect, it } from "vitest";
import { checkExpectedResult } from "../../src/core/checks/expected-result.ts";
import type { Config } from "../../src/core/formats/config/config-schema.ts";
import type { Json } from "../../src/core/formats/model.ts";
import { load, problems } from "../load/support/load.ts";
import { fixtureServer } from "../e2e/support.ts";
import { folderOf } from "../support/cli.ts";

type Test = NonNullable<Config["toolHealthSuites"]>[number]["tests"][number];

async function notesOf(test: Partial<Test>, expectedState = "done"): Promise<readonly string[]> {
  const source: Config = {
    server: fixtureServer(),
    workflows: [{ name: "w", steps: [{ user: "Work", expectedState }] }],
    toolHealthSuites: [{ name: "s", tests: [{ name: "echo", ...test }] }],
  };
  return (await load(import.meta.dirname, { source })).notes;
}

const test0 = "toolHealthSuites[0].tests[0]";

// docs/guide.md, "Workflows" and "Tool tests": what says less than its author may think is noted.
describe("an expectation that says less than its author may think is noted", () => {
  it.each(["a", ".", "-", "E.", " x "])("expectedState %j", async (state) => {
    expect(await notesOf({}, state)).toEqual([
      `workflows[0].steps[0].expectedState: almost every text has ${JSON.stringify(state)}`,
    ]);
  });

  it.each(["5", "no", "十", "é"])("but not expectedState %j", async (state) => {
    expect(await notesOf({}, state)).toEqual([]);
  });

  it.each<[string, Omit<Test, "name">, string]>([
    ["a text", { expectedResult: "o" }, `${test0}.expectedResult: almost every text has "o"`],
    ["an error", { expectedError: "e" }, `${test0}.expectedError: almost every text has "e"`],
    [
      "an expectation among the arguments",
      { args: { message: "x", expectedResult: "y" } },
      `${test0}.args.expectedResult is an argument of the tool, and nothing is expected there; expectedResult belongs beside args`,
    ],
    [
      "a number that loses digits",
      // oxlint-disable-next-line no-loss-of-precision
      { expectedResult: { id: [9007199254740993] } },
      `${test0}.expectedResult.id[0]: 9007199254740992 cannot be distinguished from its neighbours; such numbers lose digits`,
    ],
  ])("in a tool test: %s", async (_, test, note) => {
    expect(await notesOf(test)).toEqual([note]);
  });

  const echoed = `${test0}.expectedResult is also in the arguments, so a tool that only repeats them passes`;
  it.each<[string, Pick<Test, "args" | "expectedResult">]>([
    ["a text", { args: { city: "Oslo, Norway" }, expectedResult: "oslo" }],
    ["a number", { args: { n: 5 }, expectedResult: 5 }],
    ["a number in a text", { args: { n: "it is 5" }, expectedResult: 5 }],
    ["an object", { args: { id: 7, tags: ["red"] }, expectedResult: { id: 7, tag: "red" } }],
    ["an exact one", { args: { city: "Oslo" }, expectedResult: { $equals: "Oslo" } }],
  ])("in the result of a tool that only repeats its arguments: %s", async (_, test) => {
    expect(await notesOf({ ...test, name: "weather" })).toEqual([expect.stringContaining(echoed)]);
    expect(await notesOf({ ...test, name: "get-echo" })).toEqual([]);
  });

  it.each<Pick<Test, "args" | "expectedResult">>([
    { args: { a: 2, b: 3 }, expectedResult: 5 },
    { args: { a: 25 }, expectedResult: 5 },
    { args: { city: "Oslo" }, expectedResult: { city: "Oslo", days: 3 } },
    { args: { city: "Oslo" }, expectedResult: { city: "Oslo", isRainy: false } },
    { args: { flag: true }, expectedResult: true },
    { expectedResult: "Oslo" },
  ])("but not %j", async (test) => {
    expect(await notesOf({ ...test, name: "weather" })).toEqual([]);
  });

  it("in a task", async () => {
    const verify = [
      { command: { run: "ls", expect: { stdout: { contains: ["a", "list"] } } } },
      { mcp: { tool: "echo", args: { expect: { text: "no" }, id: 2 ** 60 } } },
      { mcp: { tool: "find", args: { word: "milk" }, expect: { text: { contains: ["milk"] } } } },
      { mcp: { tool: "find", args: { word: "milk" }, expect: { text: { contains: ["milk", "bread"] } } } },
      { mcp: { tool: "find", args: { word: "{task.name}" }, expect: { text: "{task.name}" } } },
      { mcp: { tool: "echo", expect: { text: { contains: "." }, json: { path: "$.id", equals: 2 ** 60 } } } },
    ];
    const document = { kind: "Task", apiVersion: "mcp-eval/v1", metadata: { name: "t" }, spec: { verify } };
    using folder = folderOf({ "t.json": document });
    const { notes } = await load(folder.path, { source: "t.json" });
    expect(notes.map((note) => note.replace(/^t\.json:\d+: spec\./, ""))).toEqual([
      'verify[0].command.expect.stdout.contains[0]: almost every text has "a"',
      "verify[1].mcp.args.expect is an argument of the tool, and nothing is expected there; expect belongs beside args",
      "verify[1].mcp.args.id: 1152921504606847000 cannot be distinguished from its neighbours; such numbers lose digits",
      "verify[2].mcp.expect.text is also in the arguments, so a tool that only repeats them passes; expect something that only the tool can know",
      "verify[4].mcp.expect.text is also in the arguments, so a tool that only repeats them passes; expect something that only the tool can know",
      'verify[5].mcp.expect.text.contains: almost every text has "."',
      "verify[5].mcp.expect.json.equals: 1152921504606847000 cannot be distinguished from its neighbours; such numbers lose digits",
    ]);
  });
});

// docs/tasks.md, "Steps": what an agent could hardly have changed is noted.
describe("a look that says the same in every trial is noted", () => {
  async function taskNotes(verify: readonly object[]): Promise<readonly string[]> {
    const spec = { servers: { s: fixtureServer() }, verify };
    const document = { kind: "Task", apiVersion: "mcp-eval/v1", metadata: { name: "t" }, spec };
    using folder = folderOf({ "t.json": document, "own.txt": "x" });
    const { notes } = await load(folder.path, { source: "t.json" });
    return notes.map((note) => note.replace(/^t\.json:\d+: spec\./, ""));
  }

  it.each(["own.txt", "out/new.txt", "./a"])("a file beside the task: %s", async (path) => {
    for (const expected of [{ contains: "x1" }, { exists: true }, { exists: false }]) {
      const step = { file: { path, expect: expected } };
      expect(await taskNotes([{ not: step }])).toEqual([
        `verify[0].not.file.path: ${JSON.stringify(path)} is a file beside the task, which is the same in every trial unless an agent leaves its workspace; write {workspace}/… for one in it`,
      ]);
    }
  });

  it.each<[string, (rest: object) => object]>([
    ["a file", (rest) => ({ file: { path: "{workspace}/a", ...rest } })],
    ["a command", (rest) => ({ command: { run: "cat a", ...rest } })],
  ])("%s that is compared with itself", async (kind, look) => {
    const output = kind === "a file" ? "{content}" : "{stdout}";
    const key = kind === "a file" ? "equals" : "stdout";
    const first = look({
      id: "one",
      expect: kind === "a file" ? { exists: true } : {},
      outputs: { o: output },
    });
    expect(await taskNotes([first, look({ expect: { [key]: "{steps.one.outputs.o}" } })])).toEqual([
      expect.stringContaining("the step one looks at the same in the same way"),
    ]);
    const other = { command: { run: "cat b", expect: { stdout: "{steps.one.outputs.o}" } } };
    expect(await taskNotes([first, other])).toEqual([]);
  });

  it("but not a file that is only read, nor one in the workspace", async () => {
    const read = {
      file: { id: "r", path: "own.txt", expect: { exists: true }, outputs: { o: "{content}" } },
    };
    const look = { file: { path: "{workspace}/x", expect: { equals: "{steps.r.outputs.o}" } } };
    expect(await taskNotes([read, look])).toEqual([]);
    const made = { file: { path: "own.txt", content: "x" } };
    expect(await taskNotes([made, { file: { path: "own.txt", expect: { exists: true } } }])).toEqual([]);
  });
});

// docs/guide.md, "Tool tests": a number is within 0.0001 of what is expected, and within a tenth of it.
describe("an expected number is not met by another one", () => {
  const textOf = (text: string): { content: Json } => ({ content: [{ type: "text", text }] });

  it.each<[number, string, boolean]>([
    [0.0001, "0", false],
    [0.0001, "0.00019", false],
    [-0.00005, "0.00005", false],
    [0.0001, "0.0001", true],
    [0.3, "0.30000000000000004", true],
    [0.3333, "0.33333333", true],
    [0, "0.00001", false],
  ])("%d by %s: %s", (expected, text, passed) => {
    expect(checkExpectedResult(expected, textOf(text)).passed).toBe(passed);
  });

  it.each<[string, string, boolean]>([
    ["5", "15", false],
    ["5", "the sum is 5.", true],
    ["total: 5", "Total: 50", false],
  ])("a text %j by %j: %s", (expected, text, passed) => {
    const { passed: found, message } = checkExpectedResult(expected, textOf(text));
    expect(found).toBe(passed);
    if (!passed) expect(message).toContain("only as a part of another number");
  });
});

// docs/tasks.md, "Steps": a rubric passes from the judge's passThreshold on, which is above 0.
describe("a rubric that nothing could fail is refused", () => {
  it.each([
    ["a rubric", { rubric: "It is polite." }, true],
    ["a text to contain", { contains: "hello" }, false],
  ])("%s: %s", async (_, llm, isRefused) => {
    const spec = { prompt: "Say hello.", verify: [{ allOf: [{ llm }] }] };
    const document = { kind: "Task", apiVersion: "mcp-eval/v1", metadata: { name: "t" }, spec };
    using folder = folderOf({
      "t.json": document,
      "mcp-eval.config.json": {
        server: fixtureServer(),
        tasks: ["t.json"],
        judge: { model: "m", passThreshold: 0 },
      },
    });
    if (!isRefused) return expect((await load(folder.path)).eval.tasks).toHaveLength(1);
    return expect(await problems(folder.path)).toEqual([
      expect.stringMatching(
        /config\/checks-nothing the rubric of .* could not fail: the judge's passThreshold is 0$/,
      ),
    ]);
  });
});
