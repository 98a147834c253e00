import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, vi } from "vitest";
import type { RunResult } from "../../src/model/result.ts";
import { runProgram } from "../../src/graders/run-program.ts";
import { fixtureServer } from "../e2e/support.ts";
import { folderOf, linkPackage, runHere, runInline } from "../support/cli.ts";

const base = {
  server: fixtureServer(),
  agent: {
    type: "scripted",
    plan: { greet: [{ call: "echo", args: { message: "hi" } }, { say: "it said hi" }] },
  },
  workflows: [{ name: "greet", steps: [{ user: "say hi", expectedState: "hi" }] }],
};

/** The grades that graders of the user's own give, with the exit code of the run. */
async function gradesOf(
  graders: readonly unknown[],
  files: Readonly<Record<string, unknown>> = {},
  env: Readonly<Record<string, string>> = {},
) {
  const { code, result } = await runInline(
    { "mcp-eval.config.json": { ...base, graders }, ...files },
    [],
    env,
  );
  const names = new Set(graders.map((grader) => (grader as { readonly type: string }).type));
  return { code, grades: (result.trials[0]?.grades ?? []).filter(({ grader }) => names.has(grader)) };
}

const node = process.execPath;

it("a program grades the trial that it reads from its stdin, in the folder of the file", async () => {
  const config = { command: node, args: ["grade.mjs"], inheritEnv: ["TEAM"], timeout: "60s" };
  const text = `import { readFileSync } from "node:fs";
const { calls } = JSON.parse(readFileSync(0, "utf8"));
const [call] = calls;
const { TEAM, OTHER = "unset" } = process.env;
const reason = [call.tool, call.result.content[0].text, TEAM, OTHER].join(" ");
console.log(JSON.stringify({ score: 0.75, passed: true, reason, evidence: [call.seq] }));`;
  const { code, grades } = await gradesOf(
    [{ type: "program", weight: 2, config }],
    { "grade.mjs": text },
    { TEAM: "red", OTHER: "blue" },
  );
  expect([code, grades]).toMatchObject([
    0,
    [{ grader: "program", verdict: "pass", score: 0.75, weight: 2, reason: "echo hi red unset" }],
  ]);
});

it("what cannot run, hangs, is killed or answers nonsense is that grader's error; the others stand", async () => {
  const program = (name: string, config: object): unknown => ({ type: "program", name, config });
  const inline = (text: string, rest = {}): object => ({ command: node, args: ["-e", text], ...rest });
  const graders = [
    program("hangs", inline("setInterval(() => {}, 1000)", { timeout: "300ms" })),
    program("killed", inline("process.kill(process.pid, 'SIGKILL')")),
    program("nonsense", inline("console.log('{nothing')")),
    program("flood", inline("console.log('{' + 'x'.repeat(2e6))")),
    program("good", inline("console.log('fine')")),
  ];
  const { code, result } = await runInline({ "mcp-eval.config.json": { ...base, graders } });
  const [trial] = result.trials;
  const grades = Object.fromEntries((trial?.grades ?? []).map((grade) => [grade.grader, grade]));
  expect([code, trial?.verdict]).toEqual([3, "error"]);
  expect(grades).toMatchObject({
    "end-to-end-success": { verdict: "pass" },
    hangs: { verdict: "error", error: { code: "grader/timeout", kind: "timeout" } },
    killed: { verdict: "error", error: { code: "grader/cannot-run" } },
    nonsense: { verdict: "error", error: { code: "grader/broken" } },
    flood: { verdict: "error", error: { code: "grader/broken" } },
    good: { verdict: "pass", score: 1, reason: "fine" },
  });
});

it("one that is not required and has no verdict leaves the trial as it is", async () => {
  const program = (text: string): object => ({ command: node, args: ["-e", text] });
  const { code, grades } = await gradesOf([
    { type: "program", name: "broken", required: false, config: program("console.log('{nothing')") },
    { type: "program", config: program("") },
  ]);
  expect([code, grades]).toMatchObject([0, [{ verdict: "pass" }]]);
});

it("a script that is not there is refused", async () => {
  await expect(gradesOf([{ type: "script", config: { file: "none.ts" } }])).rejects.toThrow(
    'there is no file "none.ts"',
  );
});

it("an abort ends the program with everything that it started", async () => {
  using folder = folderOf({
    "grade.mjs": `import { spawn } from "node:child_process";
import { renameSync, writeFileSync } from "node:fs";
const child = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { stdio: "ignore" });
writeFileSync("new", String(child.pid));
renameSync("new", "pid");
setInterval(() => {}, 1000);`,
  });
  const stop = new AbortController();
  const program = { command: node, args: ["grade.mjs"], stdin: "", cwd: folder.path, inheritEnv: [] };
  const run = runProgram({ ...program, timeoutMs: 600_000 }, { env: {}, signal: stop.signal });
  const pid = join(folder.path, "pid");
  await vi.waitFor(() => expect(existsSync(pid)).toBe(true), { timeout: 60_000 });
  stop.abort(new Error("enough"));
  await expect(run).rejects.toThrow("enough");
  const child = Number(readFileSync(pid, "utf8"));
  await vi.waitFor(() => expect(() => process.kill(child, 0)).toThrow(), { timeout: 60_000 });
});

it("a program has copies of the files of the workspace in a folder that is removed afterwards", async () => {
  const text = `const folder = process.env.WAZA_WORKSPACE_DIR;
console.log(folder + "\\n" + require("node:fs").readFileSync(folder + "/out/a.txt", "utf8"));`;
  const workspace = new Map([["out/a.txt", "A"]]);
  const program = { command: node, args: ["-e", text], stdin: "", cwd: import.meta.dirname, inheritEnv: [] };
  const { exitCode, stdout } = await runProgram(
    { ...program, workspace, timeoutMs: 60_000 },
    { env: {}, signal: new AbortController().signal },
  );
  const [folder = "", content] = stdout.split("\n");
  expect([exitCode, content, existsSync(folder)]).toEqual([0, "A", false]);
});

it("a path of a program that is not there is found before anything runs", async () => {
  const graders = [{ type: "program", config: { command: "./grade.sh" } }];
  await expect(gradesOf(graders)).rejects.toThrow('there is no file "./grade.sh"');
});

it("no secret reaches a program, and what it tells of one is removed from the record", async () => {
  const config = {
    command: node,
    args: ["-e", "console.log(process.env.GRADER_TOKEN)"],
    inheritEnv: ["GRADER_TOKEN"],
  };
  const { grades } = await gradesOf(
    [{ type: "program", config }],
    {},
    { GRADER_TOKEN: "s3cr3t-of-the-grader" },
  );
  expect(grades).toMatchObject([{ verdict: "pass", reason: "[secret:GRADER_TOKEN]" }]);
});

it("a function of a TypeScript file grades the trial, with settings that its schema has read", async () => {
  using folder = folderOf({
    "package.json": { type: "module" },
    "mcp-eval.config.json": {
      ...base,
      graders: [{ type: "script", config: { file: "./grade.ts", settings: { most: "2" }, timeout: "60s" } }],
    },
    "grade.ts": `import { defineGrader } from "mcpvals";
import * as z from "zod";
import { plural } from "./plural.ts";
export default defineGrader({
  settings: z.object({ most: z.coerce.number(), least: z.number().default(1) }),
  async grade({ calls }, { settings: { most, least } }) {
    console.log("looking");
    setInterval(() => {}, 1000);
    const passed: boolean = calls.length >= least && calls.length <= most;
    return { score: 0.5, passed, reason: plural(calls.length), evidence: calls.map(({ seq }) => seq) };
  },
});`,
    "plural.ts": "export const plural = (count: number): string => `${count} calls`;",
  });
  linkPackage(folder.path, ["zod"]);
  const { code, stdout } = await runHere(["run", "--reporter", "json"], { cwd: folder.path });
  const { trials } = JSON.parse(stdout) as RunResult;
  expect(code).toBe(0);
  expect(trials[0]?.grades).toContainEqual(
    expect.objectContaining({ grader: "script", verdict: "pass", score: 0.5, reason: "1 calls" }),
  );
});

it("a script that throws, blocks, crashes or answers nonsense is that grader's error", async () => {
  const broken = {
    throws: "export default { grade() { throw new Error('no pods'); } };",
    // It blocks its thread for ever, as an endless loop would, without using the processor.
    blocks: "export default { grade() { Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0); } };",
    leaves: "export default { grade() { process.exit(0); } };",
    empty: "export default { grade() {} };",
    nan: "export default { grade: () => ({ score: 0 / 0, reason: 'a share of nothing' }) };",
    infinite: "export default { grade: () => ({ score: 1 / 0 }) };",
    big: "export default { grade: () => ({ score: 1n }) };",
    odd: "export default { grade() { throw Object.create(null); } };",
    late: "export default { grade: () => new Promise(() => { setTimeout(() => { throw new Error('later'); }); }) };",
    skips: "export default { grade: () => ({ score: null, reason: 'nothing here' }) };",
  };
  const graders = Object.keys(broken).map((name) => ({
    type: "script",
    name,
    required: name !== "skips",
    config: { file: `${name}.mjs`, timeout: name === "blocks" ? "10s" : "60s" },
  }));
  const files = Object.fromEntries(Object.entries(broken).map(([name, text]) => [`${name}.mjs`, text]));
  const { code, result } = await runInline({ "mcp-eval.config.json": { ...base, graders }, ...files });
  const grades = Object.fromEntries((result.trials[0]?.grades ?? []).map((grade) => [grade.grader, grade]));
  expect(code).toBe(3);
  expect(grades).toMatchObject({
    "end-to-end-success": { verdict: "pass" },
    throws: {
      verdict: "error",
      reason: "throws.mjs threw Error: no pods (line 1)",
      error: { hint: expect.stringContaining("Correct the code") },
    },
    big: { verdict: "error", reason: expect.stringContaining("gave an answer that is not JSON: ") },
    odd: { verdict: "error", reason: "odd.mjs threw [Object: null prototype] {}" },
    blocks: { verdict: "error", error: { code: "grader/timeout" } },
    leaves: { verdict: "error", reason: "leaves.mjs ended without an answer" },
    empty: { verdict: "error", reason: "the answer of the grader is unusable: it is not an object" },
    nan: {
      verdict: "error",
      reason: "nan.mjs gave an answer that is not JSON: TypeError: score is NaN",
      error: { code: "grader/broken" },
    },
    infinite: { verdict: "error", error: { code: "grader/broken" } },
    late: { verdict: "error", error: { code: "grader/broken", detail: expect.stringContaining("later") } },
    skips: { verdict: "skip", score: null, reason: "nothing here" },
  });
});

it("what cannot be right is refused before anything runs, all at once and with its place", async () => {
  const files = {
    "strict.mjs":
      "export default { settings: { '~standard': { validate: () => ({ issues: [{ message: 'is missing', path: ['most'] }] }) } }, grade() {} };",
    "nameless.mjs": "export const grade = () => ({ score: 1 });",
    "syntax.mjs": "export default {",
    "imports.mjs": "import './none.mjs'; export default { grade() {} };",
    "good.mjs": "export default { grade: () => ({ score: 1 }) };",
    "schema.json": { $ref: "#/nowhere" },
    "mcp-eval.config.yaml": `
servers: ${JSON.stringify({ s: { transport: "stdio", command: "no-such-program" } })}
agent: { type: scripted, plan: { greet: [{ say: hi }] } }
graders:
  - { type: script, name: strict, config: { file: strict.mjs } }
  - { type: script, name: nameless, config: { file: nameless.mjs } }
  - { type: script, name: syntax, config: { file: syntax.mjs } }
  - { type: script, name: imports, config: { file: imports.mjs } }
  - { type: script, name: good, config: { file: good.mjs } }
  - { type: code, name: js, config: { language: javascript, assertions: ["tool_calls[0].name == 'x'", "outptu == 1"] } }
  - { type: code, name: py, config: { assertions: ["tool_calls[0]['name'] == 'x'", "len(output"] } }
  - { type: json_schema, name: file, config: { schema_file: schema.json } }
  - { type: program, name: away, config: { command: no-such-grader } }
workflows:
  - name: greet
    steps: [{ user: say hi, expectedState: hi }]
    graders:
      - { type: tool_constraint, name: args, config: { expect_tools: [{ tool: add, args: { a: { json_schema: { pattern: "(" } } } }] } }
      - { type: action_sequence, name: order, config: { expected_actions: [{ any_of: [{ tool: a, args: { b: { json_schema: { pattern: ")" } } } }] }] } }
`,
  };
  const wrong = [
    'config.yaml:5:51: error the grader "strict": strict.mjs refuses its settings: most: is missing',
    'config.yaml:6:53: error the grader "nameless": nameless.mjs has no grader as its default export',
    'config.yaml:7:51: error the grader "syntax": syntax.mjs threw',
    'config.yaml:8:52: error the grader "imports": imports.mjs threw',
    'config.yaml:10:73: error the grader "js": an assertion is wrong: outptu == 1: ReferenceError',
    'config.yaml:11:51: error the grader "py": an assertion is wrong: len(output: SyntaxError',
    'config.yaml:12:61: error the grader "file": the schema cannot be used',
    'config.yaml:13:53: error the grader "away": "no-such-grader" is not on PATH',
    'config.yaml:18:70: error the grader "args": the json_schema of the argument a cannot be used',
    'config.yaml:19:75: error the grader "order": the json_schema of the argument b cannot be used',
  ];
  using folder = folderOf(files);
  for (const command of ["validate", "run"]) {
    const { code, stdout, stderr } = await runHere([command], { cwd: folder.path });
    expect([command, code, stdout]).toEqual([command, 2, ""]);
    expect(stderr.split("\n").filter((line) => /:\d+:\d+: error/.test(line))).toEqual(
      wrong.map((text) => expect.stringContaining(text) as string),
    );
  }
  expect(existsSync(join(folder.path, ".mcpvals"))).toBe(false);
});

it("a grader that cannot run here is not a mistake in a file", async () => {
  const graders = [{ type: "code", config: { assertions: ["True"] } }];
  using folder = folderOf({ "mcp-eval.config.json": { ...base, graders } });
  const { code } = await runHere(["validate"], { cwd: folder.path, env: { PATH: "/nowhere" } });
  expect(code).toBe(0);
});

it("a script that hangs while it loads is refused before anything runs", async () => {
  const graders = [{ type: "script", config: { file: "loops.mjs", timeout: "300ms" } }];
  using folder = folderOf({ "mcp-eval.config.json": { ...base, graders }, "loops.mjs": "for (;;);" });
  for (const command of ["validate", "run"]) {
    const { code, stderr } = await runHere([command], { cwd: folder.path });
    expect([command, code]).toEqual([command, 2]);
    expect(stderr).toContain(
      'error the grader "script": when it was tried before the run, the code of the grader took longer than 300 ms',
    );
  }
});
