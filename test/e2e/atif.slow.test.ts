import { cpSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { RunResult, TrialResult } from "../../src/model/result.ts";
import { copyTasks } from "../examples/support.ts";
import { strictTrajectory } from "../support/atif-rules.ts";
import { folderOf, linkPackage, root, runCli, runHere } from "../support/cli.ts";
import { startFakeProvider } from "../support/fake-provider.ts";
import { runsBelow } from "../support/records.ts";
import { fixtureServer } from "./support.ts";

/** What the CLI prints as JSON. */
async function resultOf(args: readonly string[], cwd: string, env = {}): Promise<RunResult> {
  const { stdout, stderr } = await runHere(args, { cwd, env });
  expect(stdout, stderr).toMatch(/^\{/);
  return JSON.parse(stdout) as RunResult;
}

async function exportTo(cwd: string, to: string): Promise<readonly string[]> {
  const { code, stderr } = await runHere(["export", "--format", "atif", "--to", to], { cwd });
  expect([code, stderr]).toEqual([0, ""]);
  return readdirSync(join(cwd, to));
}

/** What is the same of a trial wherever it is graded. */
function gradedAs(trials: readonly TrialResult[]) {
  return trials
    .filter(({ agent }) => agent !== null)
    .map(({ task, agent, variant, attempt, verdict, score, grades, usage, tools, measurements }) => ({
      trial: [task, agent, variant, attempt],
      verdict,
      score,
      grades,
      usage,
      tools,
      measurements,
    }));
}

function copyOf(example: string): ReturnType<typeof folderOf> {
  const copy = folderOf({});
  cpSync(join(root, "examples", example), copy.path, { recursive: true });
  linkPackage(copy.path, ["@modelcontextprotocol/server", "zod"]);
  return copy;
}

describe("out and in again gives the same grades", () => {
  test.each([
    ["quickstart", copyOf, ["mcp-eval.config.yaml"]],
    ["mcp-eval", copyOf, ["eval.yaml", "--agent", "hasty", "--trials", "2"]],
    ["waza", copyOf, ["eval.yaml"]],
    ["tasks", copyTasks, ["notes-summary.yaml", "--agent", "oracle", "--agent", "null"]],
    ["tasks", copyTasks, ["log-report.yaml", "--agent", "oracle", "--agent", "null"]],
  ] as const)("%s (%#)", async (example, copy, args) => {
    using folder = copy(example);
    const env = { TMPDIR: folder.path };
    const ran = await resultOf(["run", ...args, "--reporter", "json"], folder.path, env);
    expect(ran.trials.filter(({ agent }) => agent !== null).length).toBeGreaterThan(0);
    const files = await exportTo(folder.path, "out");
    for (const file of files) {
      const text = readFileSync(join(folder.path, "out", file), "utf8");
      expect(strictTrajectory.safeParse(JSON.parse(text)).error?.issues ?? []).toEqual([]);
    }
    const imported = await resultOf(["import", "out", "--json"], folder.path);
    expect(gradedAs(imported.trials)).toEqual(gradedAs(ran.trials));
    for (const { warnings } of imported.trials)
      expect(warnings?.[0]).toContain(`that mcpvals recorded in the run ${ran.id}`);
    // And so does their own file.
    const graded = await resultOf(["grade", "--config", args[0], "--reporter", "json"], folder.path, env);
    expect(gradedAs(graded.trials)).toEqual(gradedAs(ran.trials));
    // Once more, from the file of the file.
    await exportTo(folder.path, "again");
    const again = await resultOf(["import", "again", "--json"], folder.path);
    expect(gradedAs(again.trials)).toEqual(gradedAs(ran.trials));
  });
});

const config = {
  server: fixtureServer(),
  agent: { model: "anthropic/claude-sonnet-4-5" },
  workflows: [
    {
      name: "add",
      steps: [{ user: "What is 2 and 3?", expectedState: { contains: "5", in: "answer" } }],
      expectTools: ["add"],
    },
  ],
};

test("a model's steps have its words, calls, results and tokens; a file is for nobody else", async () => {
  await using model = await startFakeProvider([
    { text: "Let me see.", tool: "add", args: { a: 2, b: 3 }, usage: { input: 20, output: 6 } },
    { text: "It is 5.", usage: { input: 30, output: 4 } },
  ]);
  using folder = folderOf({ "mcp-eval.config.json": config });
  const ran = await resultOf(["run", "--reporter", "json"], folder.path, { ...model.env });
  await exportTo(folder.path, "out");
  const file = join(folder.path, "out/t1.trajectory.json");
  expect(statSync(file).mode & 0o077).toBe(0);
  const document = strictTrajectory.parse(JSON.parse(readFileSync(file, "utf8")));
  expect(document).toMatchObject({
    session_id: ran.id,
    agent: { model_name: "anthropic/claude-sonnet-4-5", version: expect.stringMatching(/^\d/) as string },
    steps: [
      { source: "user", message: "What is 2 and 3?" },
      {
        source: "agent",
        model_name: "anthropic/claude-sonnet-4-5",
        llm_call_count: 1,
        metrics: { prompt_tokens: 20, completion_tokens: 6 },
        tool_calls: [
          {
            function_name: "add",
            arguments: { a: 2, b: 3 },
            extra: { mcpvals: { server: "default", tool: "add" } },
          },
        ],
        observation: { results: [{ content: "5", extra: { mcpvals: { isError: false } } }] },
      },
      { source: "agent", message: "It is 5.", metrics: { prompt_tokens: 30 } },
    ],
    final_metrics: { total_prompt_tokens: 50, total_completion_tokens: 10, total_steps: 3 },
  });
  expect(document.steps[1]?.metrics).not.toHaveProperty("cost_usd");
  const imported = await resultOf(["import", "out", "--json"], folder.path);
  expect(gradedAs(imported.trials)).toEqual(gradedAs(ran.trials));
  expect(imported.verdict).toBe("pass");

  // Whoever changes the steps has another trajectory, of which there is no other record.
  document.steps[2]!.message = "It is 6.";
  writeFileSync(file, JSON.stringify(document));
  const changed = await resultOf(["import", "out", "--json"], folder.path);
  const [trial] = changed.trials;
  expect([changed.verdict, trial?.verdict, trial?.agent]).toEqual([
    "incomplete",
    "skip",
    document.agent.name,
  ]);
  expect(trial?.warnings?.join("\n")).toContain("its steps were changed since mcpvals wrote it");
  expect(trial?.tools).toMatchObject({ servers: { default: { calls: 1, errors: 0 } } });
});

const scripted = {
  server: fixtureServer(),
  agents: {
    scripted: {
      type: "scripted",
      plan: { echo: [{ call: "echo", args: { message: "x" } }, { say: "Done." }] },
    },
  },
  agent: "scripted",
  workflows: [
    { name: "echo", steps: [{ user: "Echo.", expectedState: { contains: "Done", in: "answer" } }] },
  ],
};

test("the keys of a run are not in its trajectories", async () => {
  const key = "sk-test-0123456789abcdef";
  using folder = folderOf({
    "mcp-eval.config.json": {
      server: { ...fixtureServer(), env: { TOKEN: "${TOKEN}" } },
      agents: {
        scripted: {
          type: "scripted",
          plan: { echo: [{ call: "echo", args: { message: "${TOKEN}" } }, { say: "Done." }] },
        },
      },
      agent: "scripted",
      workflows: [
        { name: "echo", steps: [{ user: "Echo.", expectedState: { contains: "Done", in: "answer" } }] },
      ],
    },
  });
  const ran = await resultOf(["run", "--reporter", "json"], folder.path, { TOKEN: key });
  await exportTo(folder.path, "out");
  const text = readFileSync(join(folder.path, "out/t1.trajectory.json"), "utf8");
  expect(text).not.toContain(key);
  expect(text).toContain("[secret:TOKEN]");
  const imported = await resultOf(["import", "out", "--json"], folder.path);
  expect(gradedAs(imported.trials)).toEqual(gradedAs(ran.trials));
  // The mark is still one.
  const [run = ""] = runsBelow(folder.path).toSorted().toReversed();
  expect(readFileSync(join(run, "journal.jsonl"), "utf8")).toContain("[secret:TOKEN]");
});

test("import runs no program that a file names, and what it cannot grade does not pass", async () => {
  using folder = folderOf({
    "grade.mjs": `import { writeFileSync } from "node:fs";\nwriteFileSync("ran", "");\nconsole.log(JSON.stringify({ score: 1, reason: "fine" }));\n`,
    "mcp-eval.config.json": {
      ...scripted,
      graders: [{ type: "program", config: { command: process.execPath, args: ["grade.mjs"] } }],
    },
  });
  const ran = await resultOf(["run", "--reporter", "json"], folder.path);
  expect(ran.verdict).toBe("pass");
  await exportTo(folder.path, "out");
  const marks = () => readdirSync(folder.path).filter((name) => name === "ran");
  expect(marks()).toEqual(["ran"]);
  writeFileSync(join(folder.path, "grade.mjs"), "throw new Error('it ran');");
  const imported = await resultOf(["import", "out", "--json"], folder.path);
  expect([imported.verdict, imported.trials[0]?.verdict]).toEqual(["incomplete", "error"]);
  expect(imported.trials[0]?.grades.at(-1)).toMatchObject({
    grader: "program",
    verdict: "error",
    error: { code: "grader/not-imported" },
  });
});

test("a verdict of a judge is not taken over, and none is asked", async () => {
  await using provider = await startFakeProvider([
    { text: JSON.stringify({ score: 0, reason: "It is wrong." }) },
  ]);
  using folder = folderOf({
    "mcp-eval.config.json": {
      ...scripted,
      llmJudge: true,
      judge: { model: "local", baseURL: `${provider.url}/v1`, apiKey: "k" },
    },
  });
  const ran = await resultOf(["run", "--reporter", "json"], folder.path);
  expect(ran.trials[0]?.grades.at(-1)?.judge).toBeDefined();
  await exportTo(folder.path, "out");
  const imported = await resultOf(["import", "out", "--json"], folder.path);
  expect(imported.trials[0]?.verdict).toBe("error");
  expect(imported.trials[0]?.grades.slice(0, -1)).toEqual(ran.trials[0]?.grades.slice(0, -1));
  expect(imported.trials[0]?.grades.at(-1)).toMatchObject({
    grader: ran.trials[0]?.grades.at(-1)?.grader,
    verdict: "error",
    error: { code: "grader/not-imported" },
  });
  expect(provider.requests).toHaveLength(1);
});

test("a file whose record gives another verdict than it says does not pass", async () => {
  using folder = folderOf({ "mcp-eval.config.json": scripted });
  await resultOf(["run", "--reporter", "json"], folder.path);
  await exportTo(folder.path, "out");
  const file = join(folder.path, "out/t1.trajectory.json");
  writeFileSync(
    file,
    readFileSync(file, "utf8").replace(
      '"verdict": "pass",\n      "score"',
      '"verdict": "fail",\n      "score"',
    ),
  );
  const { verdict, trials } = await resultOf(["import", "out", "--json"], folder.path);
  expect([verdict, trials[0]?.verdict]).toEqual(["incomplete", "error"]);
  expect(trials[0]?.grades.at(-1)).toMatchObject({
    grader: "recorded-verdict",
    reason: "the file says that the verdict was fail, and its record gives pass",
    error: { code: "transcript/contradicts-itself" },
  });
});

test("a trial does not count twice because there is a copy of its file", async () => {
  using folder = folderOf({ "mcp-eval.config.json": scripted });
  const ran = await resultOf(["run", "--reporter", "json"], folder.path);
  await exportTo(folder.path, "out");
  cpSync(join(folder.path, "out/t1.trajectory.json"), join(folder.path, "out/t2.trajectory.json"));
  const { code, stderr } = await runHere(["import", "out"], { cwd: folder.path });
  expect([code, runsBelow(folder.path)]).toEqual([2, [expect.stringContaining(ran.id)]]);
  expect(stderr).toContain(`t1 of the run ${ran.id}`);
});

test("an imported session, and a trial that was cut off, go out and in as well", async () => {
  using folder = folderOf({ "mcp-eval.config.json": scripted });
  const session = join(root, "test/fixtures/transcripts/codex");
  const first = await resultOf(["import", session, "--json"], folder.path);
  await exportTo(folder.path, "out");
  const second = await resultOf(["import", "out", "--json"], folder.path);
  expect(gradedAs(second.trials)).toEqual(gradedAs(first.trials));
  expect(second.trials[0]?.warnings?.join("\n")).toContain("the transcript of codex says");

  const ran = await resultOf(["run", "--reporter", "json"], folder.path);
  const run = join(folder.path, ".mcpvals/runs", ran.id);
  const lines = readFileSync(join(run, "journal.jsonl"), "utf8").split("\n");
  const end = lines.findIndex((line) => line.includes('"phase.finished","phase":"agent"'));
  writeFileSync(join(run, "journal.jsonl"), `${lines.slice(0, end).join("\n")}\n`);
  await exportTo(folder.path, "cut");
  const cut = await resultOf(["import", "cut", "--json"], folder.path);
  expect([cut.verdict, cut.trials[0]]).toMatchObject([
    "incomplete",
    { verdict: "skip", grades: [], error: { message: "the trial was cut off before it ended" } },
  ]);
});

const foreign = join(root, "test/fixtures/transcripts/atif");

describe("a trajectory of another tool", () => {
  const graders = (...list: readonly object[]): object => ({ graders: list });

  test("becomes a session without a verdict; what it does not say is unknown", async () => {
    using folder = folderOf({});
    const { trials, verdict } = await resultOf(
      ["import", join(foreign, "terminus.json"), "--server", "shop", "--json"],
      folder.path,
    );
    const [trial] = trials;
    expect([verdict, trial?.verdict, trial?.agent]).toEqual(["incomplete", "skip", "terminus-2"]);
    expect(trial?.ran).toEqual({ programs: ["terminus-2 2.0.0"], models: ["anthropic/claude-sonnet-4-5"] });
    expect(trial?.usage).toEqual({
      inputTokens: 900,
      outputTokens: 70,
      cacheReadTokens: 100,
      cost: { amount: 0.0125, currency: "USD" },
    });
    expect(trial?.tools).toMatchObject({ toolCalls: 3, mcpToolCalls: 2, servers: { shop: { calls: 2 } } });
    expect(trial?.tools?.servers["shop"]).not.toHaveProperty("errors");
    expect(trial).not.toHaveProperty("measurements");
    const notes = trial?.warnings?.join("\n");
    expect(notes).toContain("the transcript of terminus-2 says");
    expect(notes).toContain("messages of the system are left out");
    expect(notes).toContain("results without the calls that they are of");
  });

  test("is graded by a config, but not by what is unknown", async () => {
    using folder = folderOf({
      "good.yaml": graders(
        {
          type: "tool_calls",
          config: { required_tools: ["shop.get_order"], forbidden_tools: ["shop.delete"] },
        },
        { type: "text", config: { contains: ["sent yesterday"] } },
      ),
      "unknown.yaml": graders({ type: "behavior", config: { max_tool_errors: 5 } }),
    });
    await resultOf(["import", join(foreign, "terminus.json"), "--server", "shop", "--json"], folder.path);
    expect((await runHere(["grade", "--config", "good.yaml"], { cwd: folder.path })).code).toBe(0);
    const unknown = await runHere(["grade", "--config", "unknown.yaml"], { cwd: folder.path });
    expect([unknown.code, unknown.stdout]).toEqual([
      1,
      expect.stringContaining("the number of failed tool calls is not known, at most 5 allowed"),
    ]);
  });

  test("whose tools could be of any server is an error until the servers are named", async () => {
    using folder = folderOf({});
    const { trials } = await resultOf(["import", join(foreign, "terminus.json"), "--json"], folder.path);
    expect(trials[0]).toMatchObject({
      verdict: "error",
      error: { code: "transcript/unclear-tools", hint: expect.stringContaining("--server") as string },
    });
  });

  test("no result of a call is lost: two of one call, and one of no call of the step", async () => {
    const call = { tool_call_id: "c1", function_name: "mcp__shop__pay", arguments: {} };
    const ended = (isError: boolean) => ({
      source_call_id: "c1",
      content: isError ? "refused" : "paid",
      extra: { mcpvals: { isError } },
    });
    using folder = folderOf({
      "two.json": {
        schema_version: "ATIF-v1.7",
        agent: { name: "other", version: "1" },
        steps: [
          { step_id: 1, source: "user", message: "Pay." },
          {
            step_id: 2,
            source: "agent",
            message: "Paid.",
            tool_calls: [call],
            observation: { results: [ended(false), ended(true), { source_call_id: "c9", content: "lost" }] },
          },
        ],
      },
    });
    const { trials } = await resultOf(["import", "two.json", "--json"], folder.path);
    const notes = trials[0]?.warnings?.join("\n");
    expect(notes).toContain("it contradicts itself about what a tool did");
    expect(notes).toContain("results without the calls that they are of");
    const { stdout } = await runHere(["show", "--trial", "t1", "--json"], { cwd: folder.path });
    expect(stdout).toMatch(/"status":"failed".*"refused"/);
  });

  test("subagents in the same file work for the call that started them", async () => {
    using folder = folderOf({});
    await resultOf(["import", join(foreign, "subagent.json"), "--json"], folder.path);
    const { stdout } = await runHere(["show", "--trial", "t1", "--json"], { cwd: folder.path });
    expect(stdout).toMatch(/"tool":"search".*"parentCallId":"c1"/);
  });

  test.each([
    ["cut off", (text: string) => text.slice(0, 900), "it is no JSON, or was cut off"],
    [
      "another version",
      (text: string) => text.replace("ATIF-v1.6", "ATIF-v2.0"),
      'it has the version "ATIF-v2.0"',
    ],
    ["no version", (text: string) => text.replace("ATIF-v1.6", "ATIF"), "is no transcript"],
    ["a list of steps", (text: string) => text.replace('"steps": [', '"steps": 1, "other": ['), "steps"],
    ["a source", (text: string) => text.replace('"source": "user"', '"source": "tool"'), "steps.1.source"],
    [
      "arguments that are no object",
      (text: string) => text.replace('"arguments": { "id": 7 }', '"arguments": "id"'),
      "steps.2.tool_calls.0.arguments",
    ],
  ])("with %s is refused", async (_, change, said) => {
    const text = readFileSync(join(foreign, "terminus.json"), "utf8");
    const changed = change(text);
    expect(changed).not.toBe(text);
    using folder = folderOf({ "t.json": changed });
    const { code, stderr } = await runHere(["import", "t.json"], { cwd: folder.path });
    expect([code, runsBelow(folder.path)]).toEqual([2, []]);
    expect(stderr).toContain("t.json");
    expect(stderr).toContain(said);
  });
});

test("a record that is not as mcpvals writes it is refused", async () => {
  using folder = folderOf({ "mcp-eval.config.json": config });
  await using model = await startFakeProvider([{ text: "It is 5." }]);
  await runHere(["run"], { cwd: folder.path, env: { ...model.env } });
  await exportTo(folder.path, "out");
  const document = JSON.parse(readFileSync(join(folder.path, "out/t1.trajectory.json"), "utf8")) as {
    extra: { mcpvals: Record<string, unknown> & { events: { seq: number; type: string }[] } };
  };
  const changes: readonly (readonly [string, (record: (typeof document)["extra"]["mcpvals"]) => object])[] = [
    ["cannot read", (record) => ({ ...record, format: "mcpvals.atif/2" })],
    ["events.0", (record) => ({ ...record, events: [{ ...record.events[0], seq: "1" }] })],
    ["cannot read", (record) => ({ ...record, events: [{ ...record.events[0], type: "trial.new" }] })],
    ["a gap", (record) => ({ ...record, events: record.events.slice(1) })],
    [
      "no grader has the type",
      (record) => ({
        ...record,
        task: {
          ...(record["task"] as object),
          graders: [{ type: "nope", name: "x", weight: 1, required: true, config: {}, dir: "/" }],
        },
      }),
    ],
  ];
  for (const [said, change] of changes) {
    mkdirSync(join(folder.path, "bad"), { recursive: true });
    const extra = { mcpvals: change(document.extra.mcpvals) };
    writeFileSync(join(folder.path, "bad/t.json"), JSON.stringify({ ...document, extra }));
    const { code, stderr } = await runCli(["import", "bad/t.json"], { cwd: folder.path });
    expect([code, stderr]).toEqual([2, expect.stringContaining(said)]);
  }
});

test("options of the other format are refused, and a folder that cannot be written", async () => {
  using folder = folderOf({
    "mcp-eval.config.json": { ...config, agent: undefined, workflows: [] },
    file: "",
  });
  for (const [args, code, said] of [
    [["--format", "atif", "--url", "http://127.0.0.1:1"], 2, "--format atif does not go with --url"],
    [["--format", "atif", "--content"], 2, "--format atif does not go with --content"],
    [["--to", "x"], 2, "--format otlp does not go with --to"],
  ] as const) {
    const refused = await runHere(["export", ...args], { cwd: folder.path });
    expect([refused.code, refused.stderr]).toEqual([code, expect.stringContaining(said)]);
  }
});
