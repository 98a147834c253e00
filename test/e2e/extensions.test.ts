import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { RunResult } from "../../src/core/report/result.ts";
import { folderOf, runHere, runIn } from "../support/cli.ts";
import { shopRelease, startReleaseMirror } from "../support/release-mirror.ts";

const operations = {
  greet: {
    params: {
      type: "object",
      properties: { name: { type: "string" }, times: { type: "integer", default: 1 } },
      required: ["name", "times"],
      additionalProperties: false,
    },
    phases: ["verify"],
  },
  clean: { params: { type: "object", additionalProperties: false }, phases: ["setup", "cleanup"] },
};

/** An extension that leaves a file when it is started. */
const program = `
import { appendFileSync } from "node:fs";
import { createInterface } from "node:readline";
appendFileSync(new URL("./started", import.meta.url), "x");
const operations = ${JSON.stringify(operations)};
const answers = {
  initialize: () => ({ name: "greeter", version: "1.0.0", protocolVersion: "0.0.1", operations }),
  execute: ({ operation, args }) => ({ success: true, message: operation + JSON.stringify(args) }),
  shutdown: () => ({}),
};
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, result: answers[method](params) }) + "\\n");
  if (method === "shutdown") break;
}
process.exit(0);
`;
const manifest = { name: "greeter", version: "1.0.0", program: "greeter.mjs", operations };

interface TaskParts {
  readonly requires?: readonly object[];
  readonly setup?: readonly object[];
  readonly verify: readonly object[];
}

function task(spec: TaskParts, name = "hello"): object {
  const imports = [{ package: "./greeter.mjs", as: "greeter" }];
  return {
    kind: "Task",
    apiVersion: "mcp-eval/v1",
    metadata: { name },
    spec: { imports, prompt: "Greet.", ...spec },
  };
}

const good = task({
  setup: [{ "greeter.clean": {} }],
  verify: [{ "greeter.greet": { name: "{workspace}" } }, { "greeter.greet": { name: "a", times: 2 } }],
});
const bad = `kind: Task
apiVersion: mcp-eval/v1
metadata: { name: bad }
spec:
  imports: [{ package: ./greeter.mjs, as: greeter }]
  prompt: Greet.
  setup:
    - greeter.greet: { name: x }
  verify:
    - greeter.great: {}
    - greeter.greet: { nam: "{workspace}" }
    - foreach:
        var: each
        in: [1]
        steps:
          - greeter.greet: { name: "{each}", times: often }
`;
const problems = [
  'bad.yaml:8:7: error step setup[0] of the task "bad": greeter.greet cannot be used in setup (task/extension)',
  'bad.yaml:10:7: error step verify[0] of the task "bad": the extension greeter has no operation "great" (task/extension)',
  'bad.yaml:11:7: error step verify[1] of the task "bad": greeter.greet needs name (task/extension)',
  'bad.yaml:11:7: error step verify[1] of the task "bad": greeter.greet has no argument "nam" (task/extension)',
  'bad.yaml:16:13: error step steps[0] of the task "bad": greeter.greet: times must be integer, is "often" (task/extension)',
];

function errorsIn(stderr: string): string[] {
  return stderr.split("\n").filter((line) => /^\S+: error /.test(line));
}

describe("a task whose steps use an extension", () => {
  it("runs, with arguments completed", async () => {
    using folder = folderOf({ "greeter.mjs": program, "hello.json": good });
    const args = ["run", "hello.json", "--agent", "null", "--reporter", "json"];
    const { code, stdout, stderr } = await runHere(args, { cwd: folder.path });
    const { trials } = JSON.parse(stdout) as RunResult;
    expect([code, stderr, trials.map(({ verdict, error }) => [verdict, error])]).toEqual([
      0,
      "",
      [["pass", undefined]],
    ]);
    // Once to be asked what it offers, once for the trial.
    expect(readFileSync(join(folder.path, "started"), "utf8")).toBe("xx");
    expect(existsSync(join(folder.path, "mcp-eval.lock"))).toBe(false);
  });

  it("is refused before anything starts, every step with its place, when it uses it wrongly", async () => {
    using folder = folderOf({ "greeter.mjs": program, "extension.yaml": manifest, "bad.yaml": bad });
    for (const args of [
      ["validate", "bad.yaml"],
      ["run", "bad.yaml", "--agent", "null"],
      ["validate", "--run", "bad.yaml"],
    ]) {
      const { code, stdout, stderr } = await runHere(args, { cwd: folder.path });
      expect([code, stdout, errorsIn(stderr)]).toEqual([2, "", problems]);
      expect(stderr).toContain('hint: Did you mean "greet"? Known operations: greet, clean.');
      expect(stderr).toContain("hint: It takes name, times. It needs name, times.");
      expect(stderr).toContain("> 10 |     - greeter.great: {}\n       |       ^^^^^^^^^^^^^");
    }
    expect([existsSync(join(folder.path, "started")), existsSync(join(folder.path, ".mcpvals"))]).toEqual([
      false,
      false,
    ]);
  });

  it("is refused before anything starts where a program that the extension needs is not here", async () => {
    const needs = { ...manifest, requires: [{ command: "node" }, { command: "no-such-program" }] };
    using folder = folderOf({ "greeter.mjs": program, "extension.yaml": needs, "hello.json": good });
    const { code, stdout, stderr } = await runHere(["run", "hello.json", "--agent", "null"], {
      cwd: folder.path,
    });
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toMatch(
      /^hello\.json:\d+:\d+: error the extension greeter \(\.\/greeter\.mjs\) needs the program "no-such-program", which is not on its PATH \(extension\/missing-command\)$/m,
    );
    expect(stderr).not.toContain('program "node"');
    expect(existsSync(join(folder.path, "started"))).toBe(false);
    // A file can be checked on a machine that it will not run on.
    expect((await runHere(["validate", "hello.json"], { cwd: folder.path })).code).toBe(0);
  });

  it("gives durations as texts, which are looked at before anything starts", async () => {
    const args = {
      name: { type: "string" },
      times: { type: "integer" },
      within: { type: "duration", default: "90s" },
    };
    const timed = { ...manifest, operations: { greet: { args, phases: ["verify"] } } };
    const step = (within: string): object => ({ "greeter.greet": { name: "x", times: 1, within } });
    using folder = folderOf({
      "greeter.mjs": program,
      "extension.yaml": timed,
      "good.json": task({ verify: [{ "greeter.greet": { name: "x" } }, step("1m30s")] }),
      "bad.json": task({ verify: [step("5 minutes")] }),
    });
    const run = (file: string) =>
      runHere(["run", file, "--agent", "null", "-r", "json"], { cwd: folder.path });
    expect((await run("bad.json")).stderr).toContain(
      'greeter.greet: within must be a duration, such as 90s or 1m30s, is "5 minutes" (task/extension)',
    );
    const { code, stdout } = await run("good.json");
    expect(code).toBe(0);
    expect(stdout).toContain('greet{\\"name\\":\\"x\\",\\"within\\":\\"90s\\"}');
  });

  it("is refused by a run that has to ask the extension first", async () => {
    using folder = folderOf({ "greeter.mjs": program, "bad.yaml": bad });
    const { code, stderr } = await runHere(["run", "bad.yaml", "--agent", "null"], { cwd: folder.path });
    expect([code, errorsIn(stderr)]).toEqual([2, problems]);
    expect(readFileSync(join(folder.path, "started"), "utf8")).toBe("x");
  });

  it("is validated without starting anything, and what was not checked is said", async () => {
    using folder = folderOf({ "greeter.mjs": program, "bad.yaml": bad });
    const text = await runHere(["validate", "bad.yaml"], { cwd: folder.path });
    const note =
      "not checked: steps of the extension greeter: it has no extension.yaml, so it would have to be started";
    expect([text.code, text.stderr]).toEqual([0, `note: ${note}\n`]);
    const json = await runHere(["validate", "bad.yaml", "--json"], { cwd: folder.path });
    expect(JSON.parse(json.stdout)).toMatchObject({ valid: true, notes: [note] });
    expect(existsSync(join(folder.path, "started"))).toBe(false);
  });

  it("is listed and validated although its extension would have to be fetched", async () => {
    const fetched = JSON.parse(
      JSON.stringify(good).replace("./greeter.mjs", "npm:@acme/greeter@1"),
    ) as object;
    using folder = folderOf({ "hello.json": fetched });
    const list = await runHere(["list", "hello.json"], { cwd: folder.path });
    expect([list.code, list.stderr]).toEqual([0, ""]);
    const { code, stderr } = await runHere(["validate", "hello.json"], { cwd: folder.path });
    expect([code, stderr.split("\n")]).toEqual([
      0,
      [
        expect.stringMatching(
          /^note: not checked: steps of the extension greeter: npm:@acme\/greeter@1 is not in the cache.* Fetch it once with the network: mcpvals extensions add npm:@acme\/greeter@1\.$/m,
        ),
        "",
      ],
    ]);
    expect(existsSync(join(folder.path, "mcp-eval.lock"))).toBe(false);
  });

  it("is refused when its extension is no program", async () => {
    for (const command of ["validate", "run"]) {
      const { code, stderr } = await runIn({ "greeter.mjs/x": "", "hello.json": good }, [
        command,
        "hello.json",
      ]);
      expect([code, stderr]).toEqual([
        2,
        expect.stringMatching(/(?:^|\n)hello\.json:9:7: error .*\(extension\/not-found\)/),
      ]);
    }
  });

  it("is skipped when it lacks what it requires, whatever its extension is", async () => {
    const skipped = task({ requires: [{ command: "no-such-program" }], verify: [{ "greeter.greet": {} }] });
    using folder = folderOf({ "greeter.mjs": program, "skipped.json": skipped });
    const args = ["run", "skipped.json", "--agent", "null", "--reporter", "json"];
    const { code, stdout } = await runHere(args, { cwd: folder.path });
    expect([code, (JSON.parse(stdout) as RunResult).trials.map(({ verdict }) => verdict)]).toEqual([
      3,
      ["skip"],
    ]);
    expect(existsSync(join(folder.path, "started"))).toBe(false);
  });

  it("does not keep another task from running", async () => {
    using folder = folderOf({
      "greeter.mjs": program,
      "bad.yaml": bad,
      "other.json": task({ verify: [{ command: { run: "test -d ." } }] }, "other"),
    });
    const args = ["run", ".", "--task", "other", "--agent", "null", "--reporter", "json"];
    const { code, stdout } = await runHere(args, { cwd: folder.path });
    expect([code, (JSON.parse(stdout) as RunResult).summary.pass]).toEqual([0, 1]);
    expect(existsSync(join(folder.path, "started"))).toBe(false);
  });
});

describe("what an eval says of extensions", () => {
  const evalFile = (extensions: object): object => ({
    kind: "Eval",
    metadata: { name: "e" },
    config: {
      agent: { type: "builtin.llm-agent", model: "openai:m" },
      extensions,
      taskSets: [{ path: "hello.json" }],
    },
  });

  it("refuses sources that are not allowed, before anything is looked up", async () => {
    using folder = folderOf({
      "greeter.mjs": program,
      "hello.json": good,
      "eval.json": evalFile({ allowedSources: ["npm:*", "github.com/acme/*"] }),
    });
    for (const command of ["validate", "run"]) {
      const { code, stderr } = await runHere([command, "eval.json"], { cwd: folder.path });
      expect([code, stderr]).toEqual([2, expect.stringContaining("(extension/source-not-allowed)")]);
      expect(stderr).toContain("hint: allowedSources has npm:*, github.com/acme/*.");
    }
  });

  it("refuses to run without the sandbox that was asked for", async () => {
    const sandbox = { kind: "docker", runtime: "no-such-program" };
    using folder = folderOf({
      "greeter.mjs": program,
      "hello.json": good,
      "eval.json": evalFile({ greeter: { package: "./greeter.mjs", sandbox } }),
    });
    const { code, stdout, stderr } = await runHere(["run", "eval.json", "--agent", "null"], {
      cwd: folder.path,
    });
    expect([code, stdout, stderr]).toEqual([2, "", expect.stringMatching(/\(sandbox\/unavailable\)/)]);
    expect(stderr).toMatch(/^eval\.json:\d+:\d+: error /);
    expect(existsSync(join(folder.path, "started"))).toBe(false);
    // Nothing is started to validate it, so that a file can be checked where the sandbox is not.
    expect((await runHere(["validate", "eval.json"], { cwd: folder.path })).code).toBe(0);
  });

  it("leaves steps to the trial when an extension cannot be asked yet", async () => {
    using folder = folderOf({
      "greeter.mjs": program,
      "hello.json": good,
      "eval.json": evalFile({ greeter: { package: "./greeter.mjs", config: { at: "{workspace}" } } }),
    });
    const args = ["run", "eval.json", "--agent", "null", "--reporter", "json"];
    const { code, stderr } = await runHere(args, { cwd: folder.path });
    expect([code, stderr]).toEqual([
      0,
      "note: not checked: steps of the extension greeter: its settings have templates that only a trial can replace\n",
    ]);
    expect(readFileSync(join(folder.path, "started"), "utf8")).toBe("x");
  });

  it("asks an extension that has several names where its settings are known", async () => {
    const verify = [{ "plain.great": {} }, { "later.great": {} }];
    using folder = folderOf({
      "greeter.mjs": program,
      "hello.json": task({ verify }),
      "eval.json": evalFile({
        plain: { package: "./greeter.mjs" },
        later: { package: "./greeter.mjs", config: { at: "{workspace}" } },
      }),
    });
    const { code, stderr } = await runHere(["run", "eval.json", "--agent", "null"], { cwd: folder.path });
    expect([code, stderr]).toEqual([
      2,
      expect.stringMatching(/verify\[0\].* no operation "great"[^]*verify\[1\].* no operation "great"/),
    ]);
    const looked = await runHere(["validate", "eval.json"], { cwd: folder.path });
    expect(looked.stderr).toContain(
      "not checked: steps of the extensions plain, later: it has no extension.yaml",
    );
  });
});

const shopTask = (name: string, version: string): object => ({
  kind: "Task",
  apiVersion: "mcp-eval/v1",
  metadata: { name },
  spec: {
    imports: [{ package: `github.com/acme/shop@${version}`, as: "shop" }],
    prompt: "Look.",
    verify: [{ "shop.look": {} }],
  },
});

/** What the steps of each task say. */
const reasons = ({ trials }: RunResult): unknown =>
  Object.fromEntries(
    trials.map(({ task: name, grades }) => [
      name,
      grades.find(({ grader }) => grader === "verify-steps")?.reason,
    ]),
  );

it("settings of extensions are those of the eval: where from, where to, and the versions of one package for each task", async () => {
  await using mirror = await startReleaseMirror({ "acme/shop": ["2.0.0", "1.1.0"].map(shopRelease) });
  const evalFile = (who: string, shop: object): object => ({
    kind: "Eval",
    metadata: { name: who },
    config: {
      taskSets: [{ glob: "../tasks/*.json" }],
      extensions: { releasesUrl: mirror.url, cacheDir: "../kept", ...shop },
    },
  });
  using folder = folderOf({
    ".git/HEAD": "",
    "tasks/old.json": shopTask("old", "v1"),
    "tasks/new.json": shopTask("new", "v2"),
    "evals/own.json": evalFile("own", {}),
    "evals/one.json": evalFile("one", {
      shop: { package: "github.com/acme/shop@v1.1.0", config: { task: "{task.name}" } },
    }),
  });
  const run = async (file: string): Promise<RunResult> => {
    const args = ["run", file, "--agent", "null", "--reporter", "json"];
    const { stdout, stderr } = await runHere(args, { cwd: folder.path });
    if (stdout === "") throw new Error(stderr);
    return JSON.parse(stdout) as RunResult;
  };
  const own = await run("evals/own.json");
  expect(reasons(own)).toEqual({
    new: expect.stringContaining("this is 2.0.0 with"),
    old: expect.stringContaining("this is 1.1.0 with"),
  });
  expect(own.environment.extensions?.map(({ version }) => version)).toEqual(["v2.0.0", "v1.1.0"]);
  expect(reasons(await run("evals/one.json"))).toEqual({
    new: expect.stringContaining('this is 1.1.0 with {"task":"new"}'),
    old: expect.stringContaining('this is 1.1.0 with {"task":"old"}'),
  });
  expect(readdirSync(join(folder.path, "kept", "github.com", "acme", "shop")).toSorted()).toEqual([
    "v1.1.0",
    "v2.0.0",
  ]);
  expect(readdirSync(folder.path)).toContain("mcp-eval.lock");
});

it("mcpvals extensions test tells once why the rest was not tried", async () => {
  const { code, stdout, stderr } = await runIn(
    { "gone.mjs": 'console.error("no DATABASE_URL");\nprocess.exit(3);\n' },
    ["extensions", "test", "gone.mjs"],
  );
  expect([code, stderr, stdout]).toEqual([
    1,
    "",
    `gone.mjs  json-rpc
  fail  initialize  extension "gone.mjs" ended with exit code 3 before it had answered initialize; its output ends with: no DATABASE_URL
  skip  11 more     initialize was not answered with a result
  skip  6 more      the program never answered
0 passed, 1 failed, 17 skipped
`,
  ]);
});

it("mcpvals extensions test asks of a program that keeps silent whether it holds back what it writes", async () => {
  const { code, stdout } = await runIn({ "mute.mjs": "process.stdin.resume();\n" }, [
    "extensions",
    "test",
    "./mute.mjs",
    "--timeout",
    "500ms",
  ]);
  expect([code, stdout.split("\n")[1]]).toEqual([
    1,
    '  fail  initialize  extension "mute.mjs" did not answer initialize within 500 ms; does the program flush its stdout after each line?',
  ]);
});

it("an operation that there is not is told with the package, where the task's name for it says little", async () => {
  const task = {
    kind: "Task",
    apiVersion: "mcp-eval/v1",
    metadata: { name: "t" },
    spec: {
      imports: [{ package: "mcpvals:csv", as: "table" }],
      prompt: "Do it.",
      verify: [{ "table.cuont": { path: "a.csv" } }],
    },
  };
  const { code, stderr } = await runIn({ "task.json": task }, ["validate", "task.json"]);
  expect([code, stderr]).toEqual([
    2,
    expect.stringMatching(
      /the extension table, which is mcpvals:csv, has no operation "cuont" [^]*Did you mean "count"\?/,
    ),
  ]);
});
