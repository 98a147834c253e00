import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Config } from "../../src/core/formats/config/config-schema.ts";
import { exitCode } from "../../src/core/report/trial-result.ts";
import type { RunResult } from "../../src/core/report/result.ts";
import { type CliOutcome, folderOf, root, runCli, startCli } from "../support/cli.ts";
import { startFakeProvider } from "../support/fake-provider.ts";
import { runShell } from "../support/shell.ts";
import { fixtureServer, gradesOf, processTag, trialOf } from "./support.ts";

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

const mcpvals = (...args: string[]): Promise<CliOutcome> => runCli(args, { cwd: folder.path });

/** Runs with the JSON reporter and gives the result too. */
async function run(...args: string[]): Promise<CliOutcome & { readonly result: RunResult }> {
  const outcome = await mcpvals("run", "-r", "json", ...args);
  return { ...outcome, result: parse(outcome) };
}

function parse({ stdout, stderr }: CliOutcome): RunResult {
  if (stdout === "") throw new Error(`nothing on stdout; stderr: ${stderr}`);
  return JSON.parse(stdout) as RunResult;
}

const tasksOf = (result: RunResult): string[] => result.trials.map((trial) => trial.task);

describe("run", () => {
  it("in a folder that is gone says so", async () => {
    using parent = folderOf({ "gone/a": "" });
    const script = `cd gone && rm -r ../gone && exec "${process.execPath}" "${join(root, "dist/main.js")}" run`;
    expect(await runShell(script, { cwd: parent.path })).toMatchObject({
      code: 2,
      stderr:
        "error the working folder no longer exists (config/not-found)\n  hint: Change to a folder that exists.\n",
    });
  });

  it("finds the config in a folder above, takes it by name or folder, and is also called eval", async () => {
    const below = { cwd: join(folder.path, "below/deeper") };
    const outcomes = await Promise.all([
      runCli(["run", "-r", "json"], below),
      runCli(["run", "-r", "json", "../.."], below),
      runCli(["run", "-r", "json", "--config", `../../${file}`], below),
      runCli(["eval", "-r", "json", "-c", file, file], { cwd: folder.path }),
    ]);
    for (const outcome of outcomes) {
      expect([outcome.code, outcome.stderr]).toEqual([0, ""]);
      expect(tasksOf(parse(outcome))).toEqual(tasks);
    }
  });

  it("gives a result that its published schema describes", async () => {
    const { code, result } = await run("--agent", "ada", "--agent", "bob");
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
    const args = ["run", "-r", "json", "-t", "sums", "-a", "openai/gpt-5", "--llm"];
    const outcome = await runCli(args, { cwd: folder.path, env: provider.env });
    const trial = trialOf(parse(outcome), "sums");
    expect(trial).toMatchObject({ agent: "openai/gpt-5", verdict: "pass" });
    expect(gradesOf(trial)).toMatchObject({ "llm-judge": "pass 1" });
    expect(outcome).toMatchObject({ code: 0, stderr: "" });
  });

  it.concurrent.each([
    ["a name", ["arithmetic/add"], ["arithmetic/add"]],
    ["a glob", ["arithmetic/*"], tasks.slice(0, 2)],
    ["a suite", ["arithmetic"], tasks.slice(0, 2)],
    ["a title", ["adds again"], ["arithmetic/adds again"]],
    ["several", ["s*", "talk"], ["talk/env", "sums"]],
  ])("--task takes %s", async (_, patterns, expected) => {
    const { code, result } = await run(...patterns.flatMap((pattern) => ["--task", pattern]));
    expect([code, tasksOf(result)]).toEqual([0, expected]);
  });

  it("--trials repeats each task", async () => {
    const { result } = await run("-n", "3", "-t", "sums");
    expect(result.trials.map(({ task, attempt }) => [task, attempt])).toEqual([
      ["sums", 1],
      ["sums", 2],
      ["sums", 3],
    ]);
  });

  it("--concurrency runs trials at once", async () => {
    using slow = folderOf({
      [file]: {
        ...config,
        agents: { ada: { type: "scripted", plan: { sums: [{ call: "slow", args: { ms: 300 } }] } } },
        workflows: [{ name: "sums", steps: [{ user: "Wait.", expectedState: "at last" }] }],
      },
    });
    const mostAtOnce = async (...more: string[]): Promise<number> => {
      await runCli(["run", "-t", "sums", "-n", "4", "-o", "runs", ...more], { cwd: slow.path });
      const [id = ""] = readdirSync(join(slow.path, "runs")).toSorted().slice(-1);
      const journal = readFileSync(join(slow.path, "runs", id, "journal.jsonl"), "utf8");
      let running = 0;
      const counts = [...journal.matchAll(/"type":"trial\.(started|finished)"/g)].map(
        ([, what]) => (running += what === "started" ? 1 : -1),
      );
      return Math.max(...counts);
    };
    expect(await mostAtOnce()).toBe(1);
    expect(await mostAtOnce("-j", "4")).toBe(4);
  });

  it("--reporter writes to stdout and to files, the same result to each", async () => {
    const args = ["-r", "console", "-r", "json=out/a.json", "-r", "junit=out/b.xml", "-o", "elsewhere"];
    const outcome = await mcpvals("run", ...args);
    expect(outcome).toMatchObject({ code: 0, stderr: "" });
    expect(outcome.stdout).toMatch(/4 passed/);
    expect(outcome.stdout).not.toContain("\u001b");
    const result = JSON.parse(readFileSync(join(folder.path, "out/a.json"), "utf8")) as RunResult;
    expect(result.summary).toMatchObject({ total: 4, pass: 4 });
    expect(readFileSync(join(folder.path, "out/b.xml"), "utf8")).toMatch(/<testsuites[^>]* tests="4"/);
    // --output: the run's folder is there, with the same result.
    expect(readdirSync(join(folder.path, "elsewhere"))).toEqual([result.id]);
    const kept = readFileSync(join(folder.path, "elsewhere", result.id, "result.json"), "utf8");
    expect(JSON.parse(kept)).toEqual(result);
  });

  it("--env sets variables of the config and of its servers", async () => {
    const { code, result } = await run("-t", "talk", "-e", "GREETING=good day", "--env", "MORE=a=b");
    expect(code).toBe(1);
    const [grade] = trialOf(result, "talk/env").grades.filter(({ verdict }) => verdict === "fail");
    expect(grade?.reason).toContain("FROM_CONFIG");
    const { journal } = readRun(result.id);
    expect(journal).toContain(String.raw`\"FROM_CONFIG\":\"good day\"`);
    expect(journal).toContain(String.raw`\"MORE\":\"a=b\"`);
  });

  it("--timeout ends a trial that takes longer, --bail everything after the first that does not pass", async () => {
    using slow = folderOf({
      [file]: {
        ...config,
        workflows: [],
        agents: {},
        agent: "openai/none",
        toolHealthSuites: [
          {
            name: "suite",
            tests: [
              { name: "add", args: { a: 1, b: 1 } },
              { name: "slow", args: { ms: 20_000 } },
              { name: "echo", args: { message: "hi" } },
            ],
          },
        ],
      },
    });
    const outcome = await runCli(["run", "-r", "json", "--timeout", "4s", "--bail"], { cwd: slow.path });
    const result = parse(outcome);
    expect(result.trials.map(({ verdict, error }) => [verdict, error?.code])).toEqual([
      ["pass", undefined],
      ["timeout", expect.stringMatching(/timeout$/)],
      ["skip", "run/bailed"],
    ]);
    expect([outcome.code, result.verdict]).toEqual([3, "incomplete"]);
  });

  it("tells of what is valid but has no effect", async () => {
    const notes = folderOf({ [file]: { ...config, judge: { model: "openai/gpt-4o" } } });
    using _ = notes;
    const { code, stderr } = await runCli(["run", "-r", "json", "-t", "talk"], { cwd: notes.path });
    expect([code, stderr]).toEqual([0, "note: judge is not asked: set llmJudge to true, or pass --llm\n"]);
  });
});

function readRun(id: string): { readonly path: string; readonly journal: string } {
  const path = join(folder.path, ".mcpvals/runs", id);
  return { path, journal: readFileSync(join(path, "journal.jsonl"), "utf8") };
}

describe.concurrent("what is wrong on a command line", () => {
  const refusals: readonly (readonly [args: string, message: RegExp])[] = [
    ["rnu", /unknown command 'rnu'\n\(Did you mean run\?\)/],
    ["run --trails 3", /unknown option '--trails'\n\(Did you mean --trials\?\)/],
    ["list --jsn", /unknown option '--jsn'\n\(Did you mean --json\?\)/],
    ["run one two", /there is no file or folder .*one/],
    ["run -n 0", /whole number from 1 to 10000/],
    ["run -j many", /whole number from 1 to 1024/],
    ["run -e NAME", /NAME=VALUE/],
    ["run --timeout soon", /500ms, 2s or 5m/],
    ["run --timeout 5", /Give it a unit: 5s, 5m or 5ms/],
    ["list -a adda", /no agent is named "adda"[^]*Did you mean "ada"\?/],
    ["validate -a adda", /no agent is named "adda"[^]*Did you mean "ada"\?/],
    ["validate --run -a null", /--run proves tasks with the agents null and oracle/],
    [`run ${file} -c other.yaml`, /two configs were given: mcp-eval.config.json and --config other.yaml/],
    ["list a.yaml -c b.yaml", /two configs were given/],
    ["validate a.yaml -c b.yaml", /two configs were given/],
    ["run none.yaml", /there is no file or folder .*none\.yaml/],
    ["run -t arithmetic/ad", /no task matches "arithmetic\/ad"[^]*Did you mean "arithmetic\/add"\?/],
    ["run -a adda", /no agent is named "adda"[^]*Did you mean "ada"\?/],
    ["run -a nobody/x", /providers are/],
    ["run -r jsno", /there is no reporter "jsno"[^]*Did you mean "json"\?/],
    ["run -r json -r junit", /json and junit would both write to stdout/],
    ["run -r json=", /names no file/],
    [`run -r json=${file}/x.json`, /cannot be written/],
    [`run -o ${file}`, /store\/unwritable/],
    ["show 1999", /no single run matches "1999"/],
    ["show latest --trial t99", /no trial "t99"[^]*t4 \(sums\)/],
  ];
  beforeAll(async () => {
    await mcpvals("run", "-r", "json=shown.json");
  });

  it.each(refusals)("mcpvals %s", async (args, message) => {
    const before = readdirSync(join(folder.path, ".mcpvals/runs"));
    const { code, stdout, stderr } = await mcpvals(...args.split(" "));
    expect(stderr).toMatch(message);
    expect([code, stdout]).toEqual([2, ""]);
    expect(readdirSync(join(folder.path, ".mcpvals/runs"))).toEqual(before);
  });

  it("is told when there is no config at all, with the places that were searched", async () => {
    using empty = folderOf({ "below/note.txt": "" });
    const { code, stderr } = await runCli(["run"], { cwd: join(empty.path, "below") });
    expect(code).toBe(2);
    expect(stderr).toContain(`looked for ${join(empty.path, "below", "mcp-eval.config.{ts,")}`);
    expect(stderr).toContain(`looked for ${join(empty.path, "mcp-eval.config.{ts,")}`);
  });
});

describe("list and validate", () => {
  it("list shows what there is", async () => {
    const { code, stdout, stderr } = await mcpvals("list");
    expect([code, stderr]).toEqual([0, ""]);
    expect(stdout.replace(/^ {2}default {2}.*$/m, "  default  SERVER")).toBe(
      [
        "example",
        "",
        "Workflows",
        "  sums  (1 turn, expects add)",
        "    Adds two numbers.",
        "",
        "Tool tests: arithmetic",
        "  add",
        "  adds again  (add)",
        "",
        "Tool tests: talk",
        "  env",
        "",
        "Agents",
        "  ada  a written plan, no model",
        "",
        "Servers",
        "  default  SERVER",
        "",
      ].join("\n"),
    );
  });

  it("list and validate show the agents that are asked for, and none that no task has a part for", async () => {
    const [asked, valid, none] = await Promise.all([
      mcpvals("list", "--agent", "claude-code", "--agent", "null"),
      mcpvals("validate", "--json", "--agent", "codex"),
      mcpvals("list", "--task", "talk/*"),
    ]);
    expect(asked.stdout).toMatch(
      /\nAgents\n {2}claude-code {2}acp {2}claude-agent-acp\n {2}null {2}does nothing\n/,
    );
    expect(JSON.parse(valid.stdout)).toMatchObject({ valid: true, agents: ["codex"] });
    expect([none.code, none.stdout.includes("Agents")]).toEqual([0, false]);
  });

  it("run --help names the presets", async () => {
    const { stdout } = await mcpvals("run", "--help");
    expect(stdout.replaceAll(/\s+/g, " ")).toContain("(claude-code, codex, gemini, copilot, opencode)");
  });

  it("list --json and validate --json are JSON", async () => {
    const [list, validate] = await Promise.all([mcpvals("list", "--json"), mcpvals("validate", "--json")]);
    expect(JSON.parse(list.stdout)).toMatchObject({
      name: "example",
      file: join(folder.path, file),
      agents: ["ada"],
      servers: ["default"],
      tasks: tasks.map((name) => ({ name })),
    });
    expect(JSON.parse(validate.stdout)).toEqual({
      valid: true,
      file: join(folder.path, file),
      name: "example",
      servers: ["default"],
      agents: ["ada"],
      variants: [],
      workflows: 1,
      toolTests: 3,
      tasks: 0,
      notes: [],
    });
    expect([list.code, list.stderr, validate.code, validate.stderr]).toEqual([0, "", 0, ""]);
  });

  it("validate says so in words, for a valid config and for one that is not", async () => {
    using broken = folderOf({ "broken.yaml": "server:\n  transport: stdio\n  comand: node\n" });
    const [good, bad] = await Promise.all([
      mcpvals("validate"),
      runCli(["validate", "broken.yaml"], { cwd: broken.path }),
    ]);
    expect([good?.code, good?.stdout]).toEqual([
      0,
      expect.stringMatching(/is valid: 1 workflow, 3 tool tests/),
    ]);
    expect([bad?.code, bad?.stdout]).toEqual([2, ""]);
    expect(bad?.stderr).toMatch(/^broken\.yaml:3:3: error unknown key "comand" in server/m);
  });
});

describe("show", () => {
  let result: RunResult;
  beforeAll(async () => {
    ({ result } = await run("-a", "bob"));
  });

  it("reports a run again, by latest, by the start of its id, and by its folder", async () => {
    const { id } = result;
    const outcomes = await Promise.all([
      mcpvals("show"),
      mcpvals("show", "latest"),
      mcpvals("show", id.slice(0, -2)),
      mcpvals("show", readRun(id).path),
    ]);
    for (const { code, stdout, stderr } of outcomes) {
      expect([code, stderr]).toEqual([1, ""]);
      expect(stdout).toMatch(/FAIL +exit 1/);
      expect(stdout).toMatch(/1 failed/);
      expect(stdout).toContain('neither the last assistant message nor the last tool result contains "5"');
    }
  });

  it("--json gives the result document, the same as the run gave", async () => {
    const { code, stdout } = await mcpvals("show", "--json");
    expect(code).toBe(1);
    expect(JSON.parse(stdout)).toEqual(result);
  });

  it("--trial shows every event of one trial, as text and as JSON Lines", async () => {
    const [text, json] = await Promise.all([
      mcpvals("show", "latest", "--trial", "t4"),
      mcpvals("show", "latest", "--trial", "sums", "--json"),
    ]);
    const events = json.stdout
      .trimEnd()
      .split("\n")
      .map(
        (line) => JSON.parse(line) as { readonly trial: string; readonly type: string; readonly seq: number },
      );
    expect(new Set(events.map(({ trial }) => trial))).toEqual(new Set(["t4"]));
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
    expect([events[0]?.type, events.at(-1)?.type]).toEqual(["trial.started", "trial.graded"]);
    const [verdict, trace] = text.stdout.trimEnd().split("\n\n");
    expect(verdict).toMatch(/^t4 sums, agent \w+, attempt 1: fail\n {2}fail end-to-end-success: /);
    expect(trace?.split("\n")).toHaveLength(events.length);
    expect(text.stdout).toContain("assistant: I would not know.");
    expect([text.code, json.code]).toEqual([0, 0]);
  });

  it("reports what is whole when the journal was cut off", async () => {
    const { path, journal } = readRun(result.id);
    const cut = join(folder.path, "cut");
    mkdirSync(cut);
    for (const name of ["run.json", "plan.json"]) {
      writeFileSync(join(cut, name), readFileSync(join(path, name)));
    }
    writeFileSync(join(cut, "journal.jsonl"), journal.slice(0, -40));
    const { code, stdout, stderr } = await mcpvals("show", cut, "--json");
    const shown = JSON.parse(stdout) as RunResult;
    expect([code, stderr]).toEqual([exitCode(shown.verdict), expect.stringContaining("incomplete")]);
    expect(shown.verdict).not.toBe("pass");
    expect(trialOf(shown, "arithmetic/add").verdict).toBe("pass");
    expect(trialOf(shown, "sums").verdict).not.toBe("fail");
  });
});

describe("the terminal", () => {
  it("--version and --help", async () => {
    const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };
    const [long, short, help, none] = await Promise.all(
      [["--version"], ["-v"], ["--help"], []].map((args) => mcpvals(...args)),
    );
    expect([long?.code, long?.stdout]).toEqual([0, `${version}\n`]);
    expect([short?.code, short?.stdout]).toEqual([0, `${version}\n`]);
    expect([help?.code, help?.stdout]).toEqual([
      0,
      expect.stringMatching(/run\|eval[^]*list[^]*validate[^]*show/),
    ]);
    expect([none?.code, none?.stderr]).toEqual([2, expect.stringContaining("Usage: mcpvals")]);
  });

  it("gets colours only when it is one, unless FORCE_COLOR asks for them and NO_COLOR does not forbid", async () => {
    const args = ["show", "-r", "console"];
    const at = (env: Record<string, string>): Promise<CliOutcome> => runCli(args, { cwd: folder.path, env });
    const [plain, forced, forbidden, off] = await Promise.all([
      at({}),
      at({ FORCE_COLOR: "1" }),
      at({ FORCE_COLOR: "1", NO_COLOR: "1" }),
      at({ FORCE_COLOR: "0" }),
    ]);
    expect(forced.stdout).toContain("\u001b[");
    for (const { stdout } of [plain, forbidden, off]) {
      expect(stdout).not.toContain("\u001b");
      expect(stdout).toBe(plain.stdout);
    }
  });

  it("may stop reading: a closed stdout is no crash, and the verdict stays", async () => {
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

  it("may interrupt: servers are stopped, the result is written, exit 130", async () => {
    const tag = processTag();
    using slow = folderOf({
      [file]: {
        server: { ...fixtureServer("--grandchild"), env: tag.env },
        toolHealthSuites: [
          {
            name: "suite",
            tests: [
              { name: "add", args: { a: 1, b: 1 } },
              { name: "slow", args: { ms: 60_000 } },
              { name: "cwd" },
            ],
          },
        ],
        timeout: "2m",
      },
    });
    const running = startCli(["run", "-r", "json=result.json", "-r", "console"], { cwd: slow.path });
    await running.until(/✓ .*add/);
    running.child.kill("SIGINT");
    const { code, stderr } = await running.finished;
    expect([code, stderr]).toEqual([130, expect.stringContaining("Interrupted")]);
    expect(await tag.living()).toEqual([]);
    const result = JSON.parse(readFileSync(join(slow.path, "result.json"), "utf8")) as RunResult;
    expect(result.verdict).toBe("interrupted");
    expect(result.trials.map(({ verdict }) => verdict)).toEqual(["pass", "skip", "skip"]);
  });

  it("may interrupt a config that never ends", async () => {
    using folder = folderOf({
      "mcp-eval.config.mjs": `process.stderr.write("loading\\n"); setInterval(() => {}, 1000); await new Promise(() => {});`,
    });
    const running = startCli(["run"], { cwd: folder.path });
    await running.until(/loading/);
    running.child.kill("SIGINT");
    const { code, stderr } = await running.finished;
    expect(code).toBe(130);
    expect(stderr).not.toContain("bug");
  });
});
