import { join } from "node:path";
import { expect, it } from "vitest";
import { evaluate } from "../../src/evaluate.ts";
import { fixtureServer } from "../e2e/support.ts";
import { folderOf, root, runHere, runIn } from "../support/cli.ts";

const call = { call: "echo", args: { message: "hi" } };
const config = (thresholds: object): Readonly<Record<string, unknown>> => ({
  "mcp-eval.config.json": {
    server: fixtureServer(),
    agent: {
      type: "scripted",
      plan: { good: [call, { say: "it said hi" }], bad: [call, { say: "no idea" }] },
    },
    workflows: ["good", "bad"].map((name) => ({ name, steps: [{ user: "say hi" }] })),
    graders: [{ type: "text", config: { contains: ["hi"] } }],
    thresholds,
  },
});

it("a run passes at its thresholds, whatever trials failed, and show says the same", async () => {
  using folder = folderOf(config({ passRate: 0.5, text: 0.5 }));
  const cli = (...args: readonly string[]) => runHere(args, { cwd: folder.path });
  const { code, stdout } = await cli("run");
  expect([code, stdout]).toEqual([
    0,
    expect.stringMatching(
      /\n {2}✗ bad {2}[^]*\nThresholds\n\n {2}✓ passRate {3}0\.50 {2}at least 0\.5 {4}2 trials\n {2}✓ text {7}0\.50 {2}at least 0\.5 {4}2 trials\n[^]*\n {2}PASS\n {2}Passed, though 1 trial failed: passRate 0\.50, at least 0\.5 needed \(2 trials\); text/,
    ),
  ]);
  const shown = await cli("show", "--json");
  expect([shown.code, JSON.parse(shown.stdout)]).toMatchObject([
    0,
    {
      verdict: "pass",
      gates: [
        { name: "passRate", verdict: "pass", value: 0.5, threshold: 0.5, trials: 2 },
        { name: "text", verdict: "pass", value: 0.5, threshold: 0.5, trials: 2 },
      ],
    },
  ]);
  const { stdout: junit } = await cli("show", "--reporter", "junit");
  expect(junit).toMatch(/<testsuites [^>]*tests="4" failures="0" errors="0"/);
  expect(junit).toMatch(/<testsuite [^>]*tests="2" failures="0" errors="0" skipped="1"/);
  expect(junit).toMatch(/<skipped type="text" message="failed; text: [^>]*>text 0\.00/);
  expect(junit).not.toMatch(/<(failure|error)/);
  const strict = await cli(
    "run",
    "--threshold",
    "passRate=0.6",
    "--threshold",
    "score=0.2",
    "--reporter",
    "junit",
  );
  expect([strict.code, strict.stdout]).toEqual([
    1,
    expect.stringContaining('<failure type="threshold" message="passRate 0.50 is below 0.6 (2 trials)"/>'),
  ]);
  expect((await cli("run", "--task", "good", "--threshold", "text=1")).code).toBe(0);
});

it("a run fails that used too little of what its servers list", async () => {
  const everything = join(root, "node_modules/@modelcontextprotocol/server-everything/dist/index.js");
  const { code, stdout } = await runIn(
    {
      "mcp-eval.config.json": {
        server: { transport: "stdio", command: process.execPath, args: [everything, "stdio"] },
        toolHealthSuites: [{ name: "a", tests: [{ name: "echo", args: { message: "hi" } }] }],
        thresholds: { toolCoverage: 0.01, promptCoverage: 0.01 },
      },
    },
    ["run"],
  );
  expect([code, stdout]).toEqual([1, expect.stringMatching(/✓ toolCoverage [^]*✗ promptCoverage +0\.00/)]);
});

it.each(["github", "markdown", "sarif"])("%s says which threshold was missed", async (reporter) => {
  const { code, stdout } = await runIn(config({ passRate: 0, score: 0.9 }), ["run", "--reporter", reporter]);
  const said = {
    github: "score 0.75 is below 0.9 (2 trials)",
    markdown: "| score | 0.75 | at least 0.9 | 2 | fail |",
  };
  expect([code, stdout]).toEqual([
    1,
    expect.stringContaining(reporter === "markdown" ? said.markdown : said.github),
  ]);
});

it.each([
  ["an error where the run is incomplete", { passRate: 0.5, errorRecoveryRate: 0.5 }, 3, "error"],
  ["a warning where the run passes", { passRate: 0.5 }, 0, "warning"],
])("a failed trial is %s in SARIF", async (_, thresholds, exitCode, level) => {
  const { code, stdout } = await runIn(config(thresholds), ["run", "--reporter", "sarif"]);
  interface Sarif {
    readonly runs: readonly { readonly results: readonly { readonly level: string }[] }[];
  }
  const [trial] = (JSON.parse(stdout) as Sarif).runs[0]?.results ?? [];
  expect([code, trial]).toMatchObject([exitCode, { ruleId: "trial", level }]);
});

it("a threshold of a grader that no task has is refused, with its place", async () => {
  const { code, stdout, stderr } = await runIn(config({ txet: 0.5, score: 80 }), ["run"]);
  expect([code, stdout, stderr]).toEqual([
    2,
    "",
    expect.stringContaining("thresholds.score must be at most 1"),
  ]);
  const unknown = await runIn(config({ txet: 0.5 }), ["validate"]);
  expect(unknown.code).toBe(2);
  expect(unknown.stderr).toMatch(
    /mcp-eval\.config\.json:\d+:\d+[^]*no task has a grader "txet"[^]*Did you mean "text"\?/,
  );
  const flag = await runIn(config({}), ["run", "--threshold", "txet=0.5"]);
  expect([flag.code, flag.stderr]).toEqual([2, expect.stringContaining('no task has a grader "txet"')]);
  const wrong = await runIn(config({}), ["run", "--threshold", "score=80%"]);
  expect([wrong.code, wrong.stderr]).toEqual([
    2,
    expect.stringContaining("Write it as NAME=VALUE, with a number"),
  ]);
});

it("a threshold of which nothing is measured leaves the run incomplete", async () => {
  const { code, stdout } = await runIn(config({ passRate: 0, "llm-judge": 0.5 }), ["run"]);
  expect([code, stdout]).toEqual([
    3,
    expect.stringContaining("Incomplete: llm-judge was not measured, at least 0.5 needed."),
  ]);
});

it("thresholds that no run could miss are refused", async () => {
  for (const thresholds of [
    { passRate: 0 },
    { passRate: 0, score: 0, answerRate: 0, text: 0, errorRecoveryRate: 0 },
    { passRate: 0, invalidCallRate: 1 },
  ])
    expect(await runIn(config(thresholds), ["run"])).toMatchObject({
      code: 2,
      stdout: "",
      stderr: expect.stringContaining("with the threshold passRate 0 this run could not fail"),
    });
  expect((await runIn(config({}), ["run", "--threshold", "passRate=0"])).code).toBe(2);
  expect((await runIn(config({ passRate: 0, invalidCalls: 0 }), ["run"])).code).toBe(0);
});

it("evaluate takes thresholds", async () => {
  using folder = folderOf(config({ passRate: 0 }));
  const options = { cwd: folder.path, output: false } as const;
  const { verdict, gates } = await evaluate("mcp-eval.config.json", {
    ...options,
    thresholds: { passRate: 1 },
  });
  expect([verdict, gates]).toMatchObject(["fail", [{ name: "passRate", value: 0.5, threshold: 1 }]]);
  const wrong = evaluate("mcp-eval.config.json", { ...options, thresholds: { passRate: 90 } });
  await expect(wrong).rejects.toThrow("thresholds.passRate must be at most 1");
});

it("a threshold of a measurement is the highest mean of the trials that passes", async () => {
  using folder = folderOf(config({ passRate: 0, unknownTools: 0.5, errors: 0 }));
  const cli = (...args: readonly string[]) => runHere(args, { cwd: folder.path });
  const met = await cli("run", "--threshold", "definitionTokens=100000");
  expect([met.code, met.stdout]).toEqual([
    0,
    expect.stringMatching(
      /✓ unknownTools +0\.00 {2}at most 0\.5 +2 trials\n {2}✓ errors +0\.00 {2}at most 0 /,
    ),
  ]);
  const missed = await cli("grade", "latest", "--threshold", "definitionTokens=1", "--reporter", "github");
  expect([missed.code, missed.stdout]).toEqual([
    1,
    expect.stringMatching(/definitionTokens \d+\.00 is above 1 \(2 trials\)/),
  ]);
  const open = await cli("grade", "latest", "--threshold", "errorRecoveryRate=0.5");
  expect([open.code, open.stdout]).toEqual([
    3,
    expect.stringContaining("errorRecoveryRate was not measured, at least 0.5 needed"),
  ]);
  const unknown = await cli("grade", "latest", "--threshold", "invalidCallRates=0.5");
  expect([unknown.code, unknown.stderr]).toEqual([
    2,
    expect.stringContaining('Did you mean "invalidCallRate"?'),
  ]);
  const share = await cli("grade", "latest", "--threshold", "invalidCallRate=5");
  expect([share.code, share.stderr]).toEqual([
    2,
    expect.stringContaining("thresholds.invalidCallRate must be at most 1"),
  ]);
});

it("an Eval has thresholds, too", async () => {
  const task = {
    apiVersion: "mcp-eval/v1",
    kind: "Task",
    metadata: { name: "files" },
    spec: { verify: [{ command: { run: "test -d ." } }] },
  };
  const taskSets = [{ path: "task.json" }];
  const spec = (thresholds: object): object => ({
    "task.json": task,
    "eval.json": { apiVersion: "mcp-eval/v1", kind: "Eval", config: { taskSets, thresholds } },
  });
  const met = await runIn({ ...spec({ "verify-steps": 1 }) }, ["run", "eval.json"]);
  expect([met.code, met.stdout]).toEqual([0, expect.stringMatching(/✓ verify-steps {3}1\.00 {2}at least 1/)]);
  const unknown = await runIn({ ...spec({ text: 1 }) }, ["run", "eval.json"]);
  expect([unknown.code, unknown.stderr]).toEqual([
    2,
    expect.stringMatching(/eval\.json:\d+:\d+[^]*no task has a grader "text"/),
  ]);
});
