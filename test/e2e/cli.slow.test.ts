import { readdirSync, readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Config } from "../../src/formats/config/config-schema.ts";
import type { RunResult } from "../../src/model/result.ts";
import {
  folderOf,
  type HereOutcome,
  root,
  runCli,
  runHere,
  runIn,
  runInline,
  runShell,
} from "../support/cli.ts";
import { startFakeProvider } from "../support/fake-provider.ts";
import { configFile, fixtureServer, gradesOf, trialOf } from "./support.ts";

const config: Config = {
  name: "example",
  server: { ...fixtureServer(), env: { FROM_CONFIG: "${GREETING:-hello}" } },
  agent: "ada",
  agents: {
    ada: { type: "scripted", plan: { sums: [{ call: "add", args: { a: 2, b: 3 } }, { say: "It is 5." }] } },
    bob: { type: "scripted", plan: { sums: [{ say: "I would not know." }] } },
  },
  workflows: [
    {
      name: "sums",
      description: "Adds two numbers.",
      steps: [{ user: "What is 2 plus 3?", expectedState: "5" }],
      expectTools: ["add"],
    },
  ],
  toolHealthSuites: [
    {
      name: "arithmetic",
      tests: [
        { name: "add", args: { a: 2, b: 3 }, expectedResult: 5 },
        { name: "add", description: "adds again", args: { a: 3, b: 3 }, expectedResult: 6 },
      ],
    },
    { name: "talk", tests: [{ name: "env", expectedResult: '"FROM_CONFIG":"hello"' }] },
  ],
};
const file = "mcp-eval.config.json";
/** In the order in which they run. */
const tasks = ["arithmetic/add", "arithmetic/adds again", "talk/env", "sums"];

const folder = folderOf({ [file]: config, "below/deeper/note.txt": "" });
afterAll(() => folder[Symbol.dispose]());

/** Said of workflows that an agent with a model plays. */
const neverSeenToFail = (names: string): string =>
  `note: never seen to fail when the agent does nothing: ${names}; \`npx mcpvals validate --run\` tries that\n`;

const mcpvals = (line: string, env = {}): Promise<HereOutcome> =>
  runHere(line.split(" ").filter(Boolean), { cwd: folder.path, env });

/** Runs with the JSON reporter and gives the result too. */
async function run(line: string, env = {}): Promise<HereOutcome & { readonly result: RunResult }> {
  const outcome = await mcpvals(`run -r json ${line}`, env);
  if (outcome.stdout === "") throw new Error(`nothing on stdout; stderr: ${outcome.stderr}`);
  return { ...outcome, result: JSON.parse(outcome.stdout) as RunResult };
}

function readRun(id: string): { readonly path: string; readonly journal: string } {
  const path = join(folder.path, ".mcpvals/runs", id);
  return { path, journal: readFileSync(join(path, "journal.jsonl"), "utf8") };
}

const readJson = (...path: string[]): RunResult =>
  JSON.parse(readFileSync(join(...path), "utf8")) as RunResult;

describe("run", () => {
  it.each([
    ["run -r json", "below/deeper"],
    ["run -r json ../..", "below/deeper"],
    [`eval -r json -c ${file} ${file}`, "."],
  ])("finds the config: %s in %s", async (line, below) => {
    const outcome = await runHere(line.split(" "), { cwd: join(folder.path, below) });
    expect([outcome.code, outcome.stderr]).toEqual([0, ""]);
    expect((JSON.parse(outcome.stdout) as RunResult).trials.map(({ task }) => task)).toEqual(tasks);
  });

  it("writes a result that matches its published schema", async () => {
    const { code, result } = await run("--agent ada --agent bob");
    const schema = JSON.parse(readFileSync(join(root, "schemas/result.schema.json"), "utf8")) as object;
    const validate = new Ajv2020({ strict: true, allowUnionTypes: true }).compile(schema);
    validate(result);
    expect(validate.errors ?? []).toEqual([]);
    expect([code, result.verdict]).toEqual([1, "fail"]);
    expect(result.trials.map(({ id, task, agent, verdict }) => [id, task, agent, verdict])).toEqual([
      ["t1", "arithmetic/add", null, "pass"],
      ["t2", "arithmetic/adds again", null, "pass"],
      ["t3", "talk/env", null, "pass"],
      ["t4", "sums", "ada", "pass"],
      ["t5", "sums", "bob", "fail"],
    ]);
    validate({ ...result, verdict: "fine" });
    expect(validate.errors).not.toBeNull();
  });

  it("--agent takes a model id, and --llm adds the judge", async () => {
    await using provider = await startFakeProvider((request) => {
      if (request.model === "gpt-4o") return { text: '{"score": 1, "reason": "Right."}' };
      return request.newResults.length > 0 ? { text: "5" } : { tool: "add", args: { a: 2, b: 3 } };
    });
    const { code, stderr, result } = await run("-t sums -a openai/gpt-5 --llm", provider.env);
    const trial = trialOf(result, "sums");
    expect(trial).toMatchObject({ agent: "openai/gpt-5", verdict: "pass" });
    expect(gradesOf(trial)).toMatchObject({ "llm-judge": "pass 1" });
    expect([code, stderr]).toEqual([0, neverSeenToFail("sums")]);
  });

  it.each([
    ["--task arithmetic/*", tasks.slice(0, 2)],
    ["--task s* -t talk", ["talk/env", "sums"]],
    ["--trials 3 -t sums", ["sums", "sums", "sums"]],
  ])("%s runs %j", async (flags, expected) => {
    const { code, result } = await run(flags);
    expect([code, result.trials.map(({ task }) => task)]).toEqual([0, expected]);
  });

  it("--concurrency runs trials at once", async () => {
    const slow = {
      ...config,
      agents: { ada: { type: "scripted", plan: { sums: [{ call: "slow", args: { ms: 300 } }] } } },
      workflows: [{ name: "sums", steps: [{ user: "Wait.", expectedState: "at last" }] }],
    };
    const mostAtOnce = async (...more: string[]): Promise<number> => {
      using own = folderOf({ [file]: slow });
      await runHere(["run", "-t", "sums", "-n", "4", "-o", "runs", ...more], { cwd: own.path });
      const [id = ""] = readdirSync(join(own.path, "runs"));
      const journal = readFileSync(join(own.path, "runs", id, "journal.jsonl"), "utf8");
      let running = 0;
      const counts = [...journal.matchAll(/"type":"trial\.(started|finished)"/g)].map(
        ([, what]) => (running += what === "started" ? 1 : -1),
      );
      return Math.max(...counts);
    };
    expect([await mostAtOnce("-j", "1"), await mostAtOnce("-j", "4")]).toEqual([1, 4]);
    expect(await mostAtOnce()).toBe(Math.min(4, availableParallelism()));
  });

  it("--reporter writes to stdout and to files, the same result to each; --output keeps the run", async () => {
    const outcome = await mcpvals("run -r console -r json=out/a.json -r junit=out/b.xml -o elsewhere");
    expect(outcome).toMatchObject({ code: 0, stderr: "" });
    expect(outcome.stdout).toMatch(/4 passed/);
    expect(outcome.stdout).not.toContain("\u001b");
    const result = readJson(folder.path, "out/a.json");
    expect(result.summary).toMatchObject({ total: 4, pass: 4 });
    expect(readFileSync(join(folder.path, "out/b.xml"), "utf8")).toMatch(/<testsuites[^>]* tests="4"/);
    expect(readdirSync(join(folder.path, "elsewhere"))).toEqual([result.id]);
    expect(readJson(folder.path, "elsewhere", result.id, "result.json")).toEqual(result);
  });

  it("--env sets variables of the config and of its servers", async () => {
    const { code, result } = await run("-t talk -e GREETING=good-day --env MORE=a=b");
    expect(code).toBe(1);
    const [grade] = trialOf(result, "talk/env").grades.filter(({ verdict }) => verdict === "fail");
    expect(grade?.reason).toContain("FROM_CONFIG");
    const { journal } = readRun(result.id);
    expect(journal).toContain(String.raw`\"FROM_CONFIG\":\"good-day\"`);
    expect(journal).toContain(String.raw`\"MORE\":\"a=b\"`);
  });

  it("stops the server of a task before the next task starts", async () => {
    const program = `
      import { existsSync, rmSync, writeFileSync } from "node:fs";
      import { createInterface } from "node:readline";
      if (existsSync("running")) process.exit(1);
      writeFileSync("running", "");
      process.on("SIGTERM", () => undefined); // on a slow machine the exit below may come later
      const results = {
        initialize: ({ protocolVersion }) => ({ protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "s", version: "1" } }),
        "tools/list": () => ({ tools: [{ name: "a", inputSchema: { type: "object" } }] }),
        "tools/call": () => ({ content: [{ type: "text", text: "done" }] }),
        ping: () => ({}),
      };
      createInterface({ input: process.stdin })
        .on("line", (line) => {
          const { id, method, params } = JSON.parse(line);
          if (id !== undefined) console.log(JSON.stringify({ jsonrpc: "2.0", id, result: results[method](params) }));
        })
        .on("close", () => setTimeout(() => rmSync("running"), 100));`;
    const server = { transport: "stdio", command: "node", args: ["server.mjs"], lifetime: "per_task" };
    const tests = ["first", "second"].map((description) => ({
      name: "a",
      description,
      expectedResult: "done",
    }));
    const source = { server, toolHealthSuites: [{ name: "suite", tests }] };
    const { result } = await runInline({ "mcp-eval.config.json": source, "server.mjs": program });
    expect(result.trials.map(({ verdict }) => verdict)).toEqual(["pass", "pass"]);
  });

  it("--timeout ends a trial that takes longer, --bail everything after the first that does not pass", async () => {
    const tests = [
      { name: "add", args: { a: 1, b: 1 } },
      { name: "slow", args: { ms: 20_000 } },
      { name: "echo", args: { message: "hi" } },
    ];
    const slow = { server: fixtureServer(), toolHealthSuites: [{ name: "suite", tests }] };
    const { code, result } = await runInline(configFile(slow), ["--timeout", "4s", "--bail"]);
    expect(result.trials.map(({ verdict, error }) => [verdict, error?.code])).toEqual([
      ["pass", undefined],
      ["timeout", expect.stringMatching(/timeout$/)],
      ["skip", "run/bailed"],
    ]);
    expect([code, result.verdict]).toEqual([3, "incomplete"]);
  });

  it("a model without a key is an error of its trial, and the tool tests of the config still run", async () => {
    const { agent: _, agents: __, ...rest } = config;
    const { code, result, stderr } = await runInline(configFile(rest));
    expect([code, stderr, result.verdict]).toEqual([3, neverSeenToFail("sums"), "incomplete"]);
    expect(result.summary).toMatchObject({ total: 4, pass: 3, error: 1 });
    expect(trialOf(result, "sums")).toMatchObject({
      score: null,
      error: { code: "model/no-key", message: expect.stringContaining("ANTHROPIC_API_KEY") as string },
    });
  });

  it("a judge without a key is an error of its trial before the agent acts, and the report names no judge", async () => {
    const { code, result } = await runInline(configFile({ ...config, llmJudge: true }));
    expect([code, result.verdict]).toEqual([3, "incomplete"]);
    expect(result.summary).toMatchObject({ total: 4, pass: 3, error: 1 });
    const trial = trialOf(result, "sums");
    expect(trial).toMatchObject({ error: { code: "model/no-key" }, grades: [] });
    expect(trial.tools?.toolCalls ?? 0).toBe(0);
    const shown = await mcpvals("run --llm -t sums");
    expect(shown.stdout).not.toContain("judged by");
  });

  it("notes a valid setting that has no effect", async () => {
    const judged = configFile({ ...config, judge: { model: "openai/gpt-4o" } });
    const { code, stderr } = await runInline(judged, ["-t", "talk"]);
    expect([code, stderr]).toEqual([0, "note: judge is not asked: set llmJudge to true, or pass --llm\n"]);
  });

  it("reports that the working folder no longer exists", async () => {
    using parent = folderOf({ "gone/a": "" });
    const script = `cd gone && rm -r ../gone && exec "${process.execPath}" "${join(root, "dist/main.js")}" run`;
    expect(await runShell(script, { cwd: parent.path })).toMatchObject({
      code: 2,
      stderr:
        "error the working folder no longer exists (config/not-found)\n  hint: Change to a folder that exists.\n",
    });
  });
});

describe("an invalid command line", () => {
  beforeAll(async () => {
    await mcpvals("run -r json=shown.json");
  });

  it.each([
    ["rnu", /unknown command 'rnu'\n\(Did you mean run\?\)/],
    ["run --trails 3", /unknown option '--trails'\n\(Did you mean --trials\?\)/],
    ["run one two", /there is no file or folder .*one/],
    ["run -n 0", /whole number from 1 to 10000/],
    ["run -e NAME", /NAME=VALUE/],
    ["run --timeout soon", /500ms, 2s or 5m/],
    ["run --timeout 5", /Give it a unit: 5s, 5m or 5ms/],
    ["list -a adda", /no agent is named "adda"[^]*Did you mean "ada"\?/],
    ["validate --run -a null", /--run proves tasks with the agents null and oracle/],
    [`run ${file} -c other.yaml`, /two configs were given: mcp-eval.config.json and --config other.yaml/],
    ["run -t arithmetic/ad", /no task matches "arithmetic\/ad"[^]*Did you mean "arithmetic\/add"\?/],
    ["run -a adda", /no agent is named "adda"[^]*Did you mean "ada"\?/],
    ["run -a nobody/x", /providers are/],
    ["run -r jsno", /there is no reporter "jsno"[^]*Did you mean "json"\?/],
    ["run -r json -r junit", /json and junit would both write to stdout/],
    ["run -r json=out -r junit=./out", /json and junit would both write to .*out/],
    ["run -r json=", /names no file/],
    [`run -r json=${file}/x.json`, /cannot be written/],
    [`run -o ${file}`, /store\/unwritable/],
    ["show 1999", /no single run matches "1999"/],
    ["show latest --trial t99", /no trial "t99"[^]*t4 \(sums\)/],
  ])("mcpvals %s", async (args, message) => {
    const before = readdirSync(join(folder.path, ".mcpvals/runs"));
    const { code, stdout, stderr } = await mcpvals(args);
    expect(stderr).toMatch(message);
    expect([code, stdout]).toEqual([2, ""]);
    expect(readdirSync(join(folder.path, ".mcpvals/runs"))).toEqual(before);
  });
});

describe("list and validate", () => {
  it("list shows tasks, agents and servers", async () => {
    const { code, stdout, stderr } = await mcpvals("list");
    expect([code, stderr]).toEqual([0, ""]);
    expect(stdout.replace(/^ {2}default {2}.*$/m, "  default  SERVER")).toBe(`example

Workflows
  sums  (1 turn, expects add)
    Adds two numbers.

Tool tests: arithmetic
  add
  adds again  (add)

Tool tests: talk
  env

Agents
  ada  a written plan, no model

Servers
  default  SERVER
`);
  });

  it("show the agents of --agent, and no agents when no task uses one", async () => {
    const asked = await mcpvals("list --agent claude-code --agent null");
    expect(asked.stdout).toMatch(
      /\nAgents\n {2}claude-code {2}acp {2}claude-agent-acp\n {2}null {2}does nothing\n/,
    );
    const valid = await mcpvals("validate --json --agent codex");
    expect(JSON.parse(valid.stdout)).toMatchObject({ valid: true, agents: ["codex"] });
    const none = await mcpvals("list --task talk/*");
    expect([none.code, none.stdout.includes("Agents")]).toEqual([0, false]);
  });

  it("--model is the model of the presets that --agent names, and of nothing else", async () => {
    for (const given of ["--agent codex --model gpt-5.2", "--agent codex/gpt-5.2"]) {
      const planned = await mcpvals(`plan ${given}`);
      expect([planned.code, planned.stdout]).toEqual([0, expect.stringContaining("agent codex/gpt-5.2")]);
    }
    for (const [given, why] of [
      ["--model gpt-5.2", "--model needs the agent whose model it is"],
      ["--agent bob --model gpt-5.2", '--model is not for the agent "bob", which is no preset'],
    ] as const) {
      const refused = await mcpvals(`validate ${given}`);
      expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining(why)]);
    }
  });

  it("list --json and validate --json are JSON", async () => {
    const [list, validate] = [await mcpvals("list --json"), await mcpvals("validate --json")];
    const common = { name: "example", file: join(folder.path, file), agents: ["ada"], servers: ["default"] };
    expect(JSON.parse(list.stdout)).toMatchObject({ ...common, tasks: tasks.map((name) => ({ name })) });
    const counts = { workflows: 1, toolTests: 3, tasks: 0 };
    expect(JSON.parse(validate.stdout)).toEqual({
      valid: true,
      ...common,
      ...counts,
      variants: [],
      notes: [],
    });
    expect([list.code, list.stderr, validate.code, validate.stderr]).toEqual([0, "", 0, ""]);
  });

  it("validate describes a valid config, and the problems of an invalid one", async () => {
    const good = await mcpvals("validate");
    const summary = expect.stringMatching(/is valid: 1 workflow, 3 tool tests/);
    expect([good.code, good.stdout]).toEqual([0, summary]);
    const wrong = { "broken.yaml": "server:\n  transport: stdio\n  comand: node\n" };
    const bad = await runIn(wrong, ["validate", "broken.yaml"]);
    expect([bad.code, bad.stdout]).toEqual([2, ""]);
    expect(bad.stderr).toMatch(/^broken\.yaml:3:3: error unknown key "comand" in server/m);
  });
});

it("validate loads no code of extensions or graders for a file without them", async () => {
  const hooks = `import { registerHooks } from "node:module";
    registerHooks({ load(url, context, next) { process.stderr.write(url + "\\n"); return next(url, context); } });`;
  using folder = folderOf({
    "hooks.mjs": hooks,
    "mcp-eval.config.json": { server: fixtureServer(), toolHealthSuites: config.toolHealthSuites },
  });
  const env = { NODE_OPTIONS: `--import ${folder.path}/hooks.mjs` };
  const { code, stdout, stderr } = await runCli(["validate"], { cwd: folder.path, env });
  expect([code, stdout]).toEqual([0, expect.stringContaining("is valid")]);
  expect(stderr.match(/(?:semver|resolver|prepare-extensions|schema-validator|kinds)\b[^\n]*/g)).toBeNull();
  expect(stderr).toContain("validate");
});

describe("show", () => {
  let result: RunResult;
  beforeAll(async () => {
    ({ result } = await run("-a bob"));
  });

  it("reports a run again, by latest, by the start of its id, and by its folder", async () => {
    const { id } = result;
    for (const name of ["", "latest", id.slice(0, -2), readRun(id).path]) {
      const { code, stdout, stderr } = await mcpvals(`show ${name}`);
      expect([code, stderr]).toEqual([1, ""]);
      expect(stdout).toMatch(/1 failed[^]*FAIL +exit 1/);
      expect(stdout).toContain('neither the last assistant message nor the last tool result contains "5"');
    }
  });

  it("--json gives the result document, the same as the run gave", async () => {
    const { code, stdout } = await mcpvals("show --json");
    expect([code, JSON.parse(stdout)]).toEqual([1, result]);
  });

  it("--trial shows every event of one trial, as text and as JSON Lines", async () => {
    const text = await mcpvals("show latest --trial t4");
    const json = await mcpvals("show latest --trial sums --json");
    const events = json.stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as { trial: string; type: string; seq: number });
    expect(new Set(events.map(({ trial }) => trial))).toEqual(new Set(["t4"]));
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
    expect([events[0]?.type, events.at(-1)?.type]).toEqual(["trial.started", "trial.graded"]);
    const [verdict, trace] = text.stdout.trimEnd().split("\n\n");
    expect(verdict).toMatch(/^t4 sums, agent \w+, attempt 1: fail\n {2}fail end-to-end-success: /);
    expect(trace?.split("\n")).toHaveLength(events.length);
    expect(text.stdout).toContain("assistant: I would not know.");
    expect([text.code, json.code]).toEqual([0, 0]);
  });
});

describe("the terminal", () => {
  it("--version and --help", async () => {
    const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };
    for (const flag of ["--version", "-v"])
      expect(await mcpvals(flag)).toMatchObject({ code: 0, stdout: `${version}\n` });
    const [help, none] = [await mcpvals("--help"), await mcpvals("")];
    const run = await mcpvals("run --help");
    expect(run.stdout.replaceAll(/\s+/g, " ")).toContain(
      "(claude-code, codex, gemini, copilot, opencode, qwen-code)",
    );
    const commands = expect.stringMatching(/run\|eval[^]*list[^]*validate[^]*show/);
    expect([help.code, help.stdout]).toEqual([0, commands]);
    expect([none.code, none.stderr]).toEqual([2, expect.stringContaining("Usage: mcpvals")]);
  });

  it("shows colours only on a terminal, or with FORCE_COLOR unless NO_COLOR is set", async () => {
    const outputs = [];
    for (const env of [{ FORCE_COLOR: "1" }, {}, { FORCE_COLOR: "1", NO_COLOR: "1" }, { FORCE_COLOR: "0" }])
      outputs.push((await mcpvals("show -r console", env)).stdout);
    const [forced, ...others] = outputs;
    expect(forced).toContain("\u001b[");
    expect(new Set(others).size).toBe(1);
    expect(others[0]).not.toContain("\u001b");
    // Libraries for colours turn them on in CI systems, which show no more than a file does.
    const piped = await runCli(["show", "-r", "console"], { cwd: folder.path, env: { CI: "true" } });
    expect(piped.stdout).toBe(others[0]);
  });

  it("may close stdout early: no crash, and the same exit code", async () => {
    const command = `node "${join(root, "dist/main.js")}"`;
    const script = (args: string): string =>
      `{ ${command} ${args}; echo "exit $?" >&2; } | node -e 'process.stdin.once("data", () => process.exit())'`;
    const outcomes = await Promise.all(
      ["run -r json -n 30 -t sums -j 4", "run -a bob -t sums -n 4", "list", "show --trial t1"].map((args) =>
        runShell(script(args), { cwd: folder.path }),
      ),
    );
    expect(outcomes.map(({ stderr }) => stderr)).toEqual(["exit 0\n", "exit 1\n", "exit 0\n", "exit 0\n"]);
  });

  it("says so, with exit code 3, when a config ends the process", async () => {
    using own = folderOf({ "exits.mjs": "process.exit(0);", "fails.mjs": "process.exit(1);" });
    const ends = { "exits.mjs": 0, "fails.mjs": 1 };
    for (const [name, ended] of Object.entries(ends))
      expect(await runCli(["run", name], { cwd: own.path })).toMatchObject({
        code: 3,
        stdout: "",
        stderr: expect.stringContaining(`ended with exit code ${ended} before mcpvals was done`),
      });
  });
});
