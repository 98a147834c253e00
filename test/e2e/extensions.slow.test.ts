import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { RunResult } from "../../src/model/result.ts";
import { folderOf, type HereOutcome, runHere, runIn } from "../support/cli.ts";
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

interface Named {
  readonly name?: string;
  readonly package?: string;
  readonly as?: string;
}

function task(spec: object, { name = "hello", as = "greeter", ...from }: Named = {}): object {
  const imports = [{ package: "./greeter.mjs", ...from, as }];
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

/** A folder with the extension; `started` is what its processes have left there. */
function project(files: Readonly<Record<string, unknown>>) {
  const folder = folderOf({ "greeter.mjs": program, ...files });
  const started = join(folder.path, "started");
  return {
    path: folder.path,
    [Symbol.dispose]: () => folder[Symbol.dispose](),
    cli: (...args: readonly string[]): Promise<HereOutcome> => runHere(args, { cwd: folder.path }),
    run: (...args: readonly string[]): Promise<HereOutcome> =>
      runHere(["run", ...args, "--agent", "null", "--reporter", "json"], { cwd: folder.path }),
    started: (): string => (existsSync(started) ? readFileSync(started, "utf8") : ""),
    has: (name: string): boolean => existsSync(join(folder.path, name)),
  };
}

function trialsOf({ stdout, stderr }: HereOutcome): RunResult["trials"] {
  if (stdout === "") throw new Error(stderr);
  return (JSON.parse(stdout) as RunResult).trials;
}

describe("a task whose steps use an extension", () => {
  it("runs, with arguments completed", async () => {
    using here = project({ "hello.json": good });
    const outcome = await here.run("hello.json");
    expect([outcome.code, outcome.stderr]).toEqual([0, ""]);
    expect(trialsOf(outcome)).toMatchObject([{ verdict: "pass" }]);
    expect(outcome.stdout).toContain('greet{\\"name\\":\\"a\\",\\"times\\":2}');
    // Once for its manifest, once for the trial.
    expect([here.started(), here.has("mcp-eval.lock")]).toEqual(["xx", false]);
  });

  it("is refused before anything starts, every step with its place, when it uses it wrongly", async () => {
    using here = project({ "extension.yaml": manifest, "bad.yaml": bad });
    for (const words of ["validate bad.yaml", "run bad.yaml --agent null", "validate --run bad.yaml"]) {
      const { code, stdout, stderr } = await here.cli(...words.split(" "));
      expect([code, stdout, errorsIn(stderr)]).toEqual([2, "", problems]);
      expect(stderr).toContain('hint: Did you mean "greet"? Known operations: greet, clean.');
      expect(stderr).toContain("hint: It takes name, times. It needs name, times.");
      expect(stderr).toContain("> 10 |     - greeter.great: {}\n       |       ^^^^^^^^^^^^^");
    }
    expect([here.started(), here.has(".mcpvals")]).toEqual(["", false]);
  });

  it("is refused before a run where a program that the extension needs is missing", async () => {
    const needs = { ...manifest, requires: [{ command: "node" }, { command: "no-such-program" }] };
    using here = project({ "extension.yaml": needs, "hello.json": good });
    const { code, stdout, stderr } = await here.run("hello.json");
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toMatch(
      /^hello\.json:\d+:\d+: error the extension greeter \(\.\/greeter\.mjs\) needs the program "no-such-program", which is not on its PATH \(extension\/missing-command\)$/m,
    );
    expect(stderr).not.toContain('program "node"');
    expect(here.started()).toBe("");
    // A file can be checked on a machine that it will not run on.
    expect((await here.cli("validate", "hello.json")).code).toBe(0);
  });

  it("without extension.yaml is checked by a run only, which asks the extension first", async () => {
    using here = project({ "bad.yaml": bad });
    const note =
      "not checked: steps of the extension greeter: it has no extension.yaml, so it would have to be started";
    const text = await here.cli("validate", "bad.yaml");
    expect([text.code, text.stderr]).toEqual([0, `note: ${note}\n`]);
    const json = await here.cli("validate", "bad.yaml", "--json");
    expect(JSON.parse(json.stdout)).toMatchObject({ valid: true, notes: [note] });
    expect(here.started()).toBe("");
    const { code, stderr } = await here.run("bad.yaml");
    expect([code, errorsIn(stderr), here.started()]).toEqual([2, problems, "x"]);
  });

  it("is listed and validated although its extension would have to be fetched", async () => {
    const fetched = task({ verify: [{ "greeter.x": {} }] }, { package: "github.com/acme/greeter@v1" });
    using here = project({ "hello.json": fetched });
    const list = await here.cli("list", "hello.json");
    expect([list.code, list.stderr]).toEqual([0, ""]);
    const { code, stderr } = await here.cli("validate", "hello.json");
    expect(code).toBe(0);
    expect(stderr).toMatch(
      /^note: not checked: steps of the extension greeter: github.com\/acme\/greeter@v1 is not in the cache.* Fetch it once with the network: npx mcpvals extensions add github.com\/acme\/greeter@v1\.\n$/,
    );
    expect(here.has("mcp-eval.lock")).toBe(false);
  });

  it("runs an installed npm package, and is refused without it", async () => {
    const installed = task(
      { verify: [{ "greeter.greet": { name: "x", times: 1 } }] },
      { package: "npm:@acme/greeter@1" },
    );
    using without = project({ "hello.json": installed });
    for (const command of ["validate", "run"]) {
      const { code, stderr } = await without.cli(command, "hello.json");
      expect([code, stderr]).toEqual([2, expect.stringContaining("the npm package @acme/greeter is not")]);
      expect(stderr).toContain('hint: Install it: npm install --save-dev "@acme/greeter@1".');
    }
    const home = "node_modules/@acme/greeter";
    using here = project({
      "hello.json": installed,
      [`${home}/package.json`]: { version: "1.2.3", bin: "greeter.mjs" },
      [`${home}/greeter.mjs`]: program,
    });
    const outcome = await here.cli(..."run hello.json --agent null --reporter json --frozen".split(" "));
    expect([outcome.code, outcome.stderr]).toEqual([0, ""]);
    expect([here.has(`${home}/started`), here.has("mcp-eval.lock")]).toEqual([true, false]);
  });

  it.each(["validate", "run"])("is refused when its extension is not a program: %s", async (command) => {
    const files = { "greeter.mjs/x": "", "hello.json": good };
    const { code, stderr } = await runIn(files, [command, "hello.json"]);
    expect(code).toBe(2);
    expect(stderr).toMatch(/(?:^|\n)hello\.json:\d+:\d+: error .*\(extension\/not-found\)/);
  });

  it("does not keep other tasks from running, and is not needed for a task that is skipped", async () => {
    const requires = [{ command: "no-such-program" }];
    using here = project({
      "skipped.json": task({ requires, verify: [{ "greeter.greet": {} }] }),
      "bad.yaml": bad,
      "other.json": task({ verify: [{ command: { run: "test -d ." } }] }, { name: "other" }),
    });
    for (const [words, code, verdict] of [
      [["skipped.json"], 3, "skip"],
      [[".", "--task", "other"], 0, "pass"],
    ] as const) {
      const outcome = await here.run(...words);
      expect([outcome.code, trialsOf(outcome).map((trial) => trial.verdict)]).toEqual([code, [verdict]]);
    }
    expect(here.started()).toBe("");
  });
});

describe("what an eval says of extensions", () => {
  const withEval = (extensions: object, hello = good) =>
    project({
      "hello.json": hello,
      "eval.json": {
        kind: "Eval",
        metadata: { name: "e" },
        config: {
          agent: { type: "builtin.llm-agent", model: "openai:m" },
          extensions,
          taskSets: [{ path: "hello.json" }],
        },
      },
    });

  it("refuses sources that are not allowed, before anything is looked up", async () => {
    using here = withEval({ allowedSources: ["npm:*", "github.com/acme/*"] });
    for (const command of ["validate", "run"]) {
      const { code, stderr } = await here.cli(command, "eval.json");
      expect([code, stderr]).toEqual([2, expect.stringContaining("(extension/source-not-allowed)")]);
      expect(stderr).toContain("hint: allowedSources has npm:*, github.com/acme/*.");
    }
  });

  it("refuses to run without the sandbox that was asked for", async () => {
    const sandbox = { kind: "docker", runtime: "no-such-program" };
    using here = withEval({ greeter: { package: "./greeter.mjs", sandbox } });
    const { code, stdout, stderr } = await here.run("eval.json");
    expect([code, stdout, stderr]).toEqual([2, "", expect.stringMatching(/\(sandbox\/unavailable\)/)]);
    expect(stderr).toMatch(/^eval\.json:\d+:\d+: error /);
    expect(here.started()).toBe("");
    // Nothing is started to validate it, so that a file can be checked where the sandbox is not.
    expect((await here.cli("validate", "eval.json")).code).toBe(0);
  });

  const later = { package: "./greeter.mjs", config: { at: "{workspace}" } };

  it("leaves steps to the trial when an extension cannot be asked yet", async () => {
    using here = withEval({ greeter: later });
    const { code, stderr } = await here.run("eval.json");
    const note = "its settings have templates that only a trial can replace\n";
    expect([code, stderr]).toEqual([0, `note: not checked: steps of the extension greeter: ${note}`]);
    expect(here.started()).toBe("x");
  });

  it("asks an extension that has several names where its settings are known", async () => {
    const verify = [{ "plain.great": {} }, { "later.great": {} }];
    using here = withEval({ plain: { package: "./greeter.mjs" }, later }, task({ verify }));
    const { code, stderr } = await here.run("eval.json");
    expect(code).toBe(2);
    expect(stderr).toMatch(/verify\[0\].* no operation "great"[^]*verify\[1\].* no operation "great"/);
    const looked = await here.cli("validate", "eval.json");
    const note = "not checked: steps of the extensions plain, later: it has no extension.yaml";
    expect(looked.stderr).toContain(note);
  });

  it("decides where packages come from and go to, and which version each task gets", async () => {
    await using mirror = await startReleaseMirror({ "acme/shop": ["2.0.0", "1.1.0"].map(shopRelease) });
    const shopTask = (name: string, version: string): object =>
      task(
        { verify: [{ "shop.look": {} }] },
        { name, package: `github.com/acme/shop@${version}`, as: "shop" },
      );
    const evalFile = (shop: object): object => ({
      kind: "Eval",
      metadata: { name: "e" },
      config: {
        taskSets: [{ glob: "../tasks/*.json" }],
        extensions: { releasesUrl: mirror.url, cacheDir: "../kept", ...shop },
      },
    });
    const shop = { package: "github.com/acme/shop@v1.1.0", config: { task: "{task.name}" } };
    using here = project({
      ".git/HEAD": "",
      "tasks/old.json": shopTask("old", "v1"),
      "tasks/new.json": shopTask("new", "v2"),
      "evals/own.json": evalFile({}),
      "evals/one.json": evalFile({ shop }),
    });
    const reasons = (outcome: HereOutcome): object =>
      Object.fromEntries(
        trialsOf(outcome).map(({ task: name, grades }) => [
          name,
          grades.find(({ grader }) => grader === "verify-steps")?.reason,
        ]),
      );
    const own = await here.run("evals/own.json");
    expect(reasons(own)).toEqual({
      new: expect.stringContaining("this is 2.0.0 with"),
      old: expect.stringContaining("this is 1.1.0 with"),
    });
    const { environment } = JSON.parse(own.stdout) as RunResult;
    expect(environment.extensions?.map(({ version }) => version)).toEqual(["v2.0.0", "v1.1.0"]);
    expect(reasons(await here.run("evals/one.json"))).toEqual({
      new: expect.stringContaining('this is 1.1.0 with {"task":"new"}'),
      old: expect.stringContaining('this is 1.1.0 with {"task":"old"}'),
    });
    const cached = readdirSync(join(here.path, "kept", "github.com", "acme", "shop"));
    expect([cached.toSorted(), here.has("mcp-eval.lock")]).toEqual([["v1.1.0", "v2.0.0"], true]);
  });
});

it("mcpvals extensions test tells once why the rest was not tried", async () => {
  const files = { "gone.mjs": 'console.error("no DATABASE_URL");\nprocess.exit(3);\n' };
  const { code, stdout, stderr } = await runIn(files, ["extensions", "test", "gone.mjs"]);
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

it("mcpvals extensions test asks about a silent program whether it flushes its output", async () => {
  const args = ["extensions", "test", "./mute.mjs", "--timeout", "500ms"];
  const { code, stdout } = await runIn({ "mute.mjs": "process.stdin.resume();\n" }, args);
  expect(code).toBe(1);
  expect(stdout).toContain(
    '  fail  initialize  extension "mute.mjs" did not answer initialize within 500 ms; does the program flush its stdout after each line?\n',
  );
});

it("an unknown operation is reported with the package when the alias hides it", async () => {
  const verify = [{ "table.cuont": { path: "a.csv" } }];
  const table = task({ verify }, { package: "mcpvals:csv", as: "table" });
  const { code, stderr } = await runIn({ "task.json": table }, ["validate", "task.json"]);
  expect(code).toBe(2);
  expect(stderr).toMatch(
    /the extension table, which is mcpvals:csv, has no operation "cuont" [^]*Did you mean "count"\?/,
  );
});
