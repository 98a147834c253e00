import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import type { RunResult } from "../../src/model/result.ts";
import { fixtureServer } from "../e2e/support.ts";
import { folderOf, runHere } from "../support/cli.ts";
import { startFakeProvider } from "../support/fake-provider.ts";

const labelled = (verdict: string, answer: string): object => ({ task: "What is 2 + 3?", answer, verdict });
const cases = [
  labelled("pass", "5, good"),
  labelled("pass", "five, good"),
  labelled("pass", "5, bad"),
  labelled("fail", "6, bad"),
  { ...labelled("fail", "7, good"), calls: [{ tool: "add", args: { a: 2 }, error: "b is missing" }] },
];
const config = { rubric: "Is the answer right?" };
const model = "anthropic/claude-sonnet-4-5";

/** A judge that passes answers with the word "good". */
function judge() {
  return startFakeProvider(({ users }) => {
    const score = /"assistant":"[^"]*good/.test(users[0] ?? "") ? 1 : 0;
    return { text: JSON.stringify({ score, reason: "because" }) };
  });
}

const flags = ["judge", "calibrate", "--judge", model];

it("reports how far a judge agrees with labels, and keeps it in a file that names the judge", async () => {
  await using provider = await judge();
  using folder = folderOf({ "labels.json": { config, cases } });
  const { code, stdout, stderr } = await runHere([...flags, "labels.json"], {
    cwd: folder.path,
    env: provider.env,
  });
  expect([code, stderr]).toEqual([0, ""]);
  for (const line of [
    `judge ${model}, 1 vote, at least 0.8 passes, instructions sha256:`,
    "5 labels",
    "label pass             2           1",
    "label fail             1           1",
    "agreement   0.600  [0.231, 0.882]",
    "sensitivity 0.667  [0.208, 0.939]",
    "specificity 0.500  [0.095, 0.905]",
    "kappa       0.167",
    "flip rate   unknown: one vote a case",
  ])
    expect(stdout).toContain(line);
  const kept = JSON.parse(readFileSync(join(folder.path, "mcp-eval.calibration.json"), "utf8")) as object;
  expect(kept).toMatchObject({
    schema: "mcpvals.calibration/1",
    judges: [{ model, threshold: 0.8, votes: 1, labels: 5, unscored: 0 }],
  });
  expect(provider.requests.map(({ users }) => users[0]).join("\n")).toContain('"result":"b is missing"');
});

const [goodPass, , badPass, badFail, goodFail] = cases;

it.each<[string, readonly (object | undefined)[], string]>([
  ["passes every case", [goodPass, goodFail], "0.000  interval unknown: the judge passes every case"],
  ["fails every case", [badPass, badFail], "0.000  interval unknown: the judge fails every case"],
  [
    "agrees with every label",
    [goodPass, badFail],
    "1.000  interval unknown: the judge agrees with every label",
  ],
  [
    "disagrees with every label",
    [badPass, goodFail],
    "-1.000  interval unknown: the judge disagrees with every",
  ],
  ["has only pass to compare with", [goodPass, badPass], "0.000  interval unknown: all labels have the same"],
])("says why kappa has no interval when the judge %s", async (_, some, line) => {
  await using provider = await judge();
  using folder = folderOf({ "labels.json": { config, cases: some } });
  const { stdout } = await runHere([...flags, "labels.json"], { cwd: folder.path, env: provider.env });
  expect(stdout).toContain(`kappa       ${line}`);
});

it("reads JSON Lines, takes settings from flags, and tells how often votes disagree", async () => {
  const asked = new Map<string, number>();
  await using provider = await startFakeProvider(({ users }) => {
    const answer = /"assistant":"[^"]*"/.exec(users[0] ?? "")?.[0] ?? "";
    const number = (asked.get(answer) ?? 0) + 1;
    asked.set(answer, number);
    return { text: JSON.stringify({ score: number === 3 ? 0 : 1, reason: "because" }) };
  });
  using folder = folderOf({ "labels.jsonl": cases.map((one) => JSON.stringify(one)).join("\n") });
  const settings = ["--rubric", "task_completion", "--votes", "3", "--json"];
  const options = { cwd: folder.path, env: provider.env };
  const { code, stdout } = await runHere([...flags, "labels.jsonl", ...settings], options);
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({
    threshold: 1,
    votes: 3,
    confusion: { passPass: 3, passFail: 0, failPass: 2, failFail: 0 },
    flipRate: 1,
  });
});

it("a case without a verdict is in no number, and the exit code says so", async () => {
  await using provider = await startFakeProvider((_, index) => ({
    text: index === 0 ? "hm" : JSON.stringify({ score: 1, reason: "because" }),
  }));
  using folder = folderOf({ "labels.json": { config, cases } });
  const options = { cwd: folder.path, env: provider.env };
  const { code, stdout, stderr } = await runHere([...flags, "labels.json", "--json"], options);
  expect(code).toBe(3);
  expect(JSON.parse(stdout)).toMatchObject({ labels: 4, unscored: 1 });
  expect(stderr).toContain("no verdict: ");
});

it("a run says how far its judge agrees with people, and that it is not known before", async () => {
  await using provider = await judge();
  using folder = folderOf({
    "labels.json": { config, cases: [...cases, ...cases.slice(0, 2), labelled("fail", "8, bad")] },
    "mcp-eval.config.json": {
      server: fixtureServer(),
      agent: { type: "scripted", plan: { add: [{ call: "echo", args: {} }, { say: "good" }] } },
      judge: { model },
      graders: [{ type: "prompt", config }],
      workflows: [{ name: "add", steps: [{ user: "What is 2 + 3?" }] }],
    },
  });
  const options = { cwd: folder.path, env: provider.env };
  const before = await runHere(["run"], options);
  expect(before.stdout).toContain(`prompt, judged by ${model}: uncalibrated`);
  expect((await runHere([...flags, "labels.json"], options)).code).toBe(0);
  const after = await runHere(["run"], options);
  expect(after.stdout).toContain(
    `prompt, judged by ${model}: agreement 0.75, sensitivity 0.80, specificity 0.67, kappa 0.47 with 8 labels; passed 1 of 1, corrected 1.00 [`,
  );
  const shown = await runHere(["show", "--json"], options);
  expect((JSON.parse(shown.stdout) as RunResult).judges).toMatchObject([
    {
      grader: "prompt",
      model,
      graded: 1,
      passed: 1,
      calibration: { labels: 8 },
      correctedRate: { value: 1 },
    },
  ]);
});

/** A config whose agent says "good" in one workflow and "bad" in the other, judged in every way there is for workflows. */
function judgedConfig(url: string): object {
  const rubric = { rubric: "Is the answer right?" };
  return {
    server: fixtureServer(),
    agent: { type: "scripted", plan: { yes: [{ say: "good" }], no: [{ say: "bad" }] } },
    judge: { model: "local", baseURL: url, passThreshold: 0.5 },
    llmJudge: true,
    graders: [
      { type: "prompt", config: { ...rubric, votes: 3 } },
      { type: "mcp_compliance", config: { ...rubric, weights: { rubric: 0 } }, required: false },
    ],
    workflows: ["yes", "no"].map((name) => ({ name, steps: [{ user: "What is 2 + 3?" }] })),
  };
}

it("calibrates each grader of a config with its settings, about trials on record", async () => {
  await using provider = await judge();
  using folder = folderOf({
    "evals/mcp-eval.config.json": judgedConfig(`${provider.url}/v1`),
  });
  const options = { cwd: folder.path, env: {} };
  const run = ["run", "evals/mcp-eval.config.json", "--reporter", "json"];
  const first = await runHere(run, options);
  const { id, trials, judges: before } = JSON.parse(first.stdout) as RunResult;
  expect(before?.map(({ grader, calibration }) => [grader, calibration])).toEqual([
    ["llm-judge", null],
    ["prompt", null],
    ["mcp_compliance", null],
  ]);
  const labelOf = (trial: string, verdict: string): object => ({ run: id, trial, verdict });
  const [yes, no] = trials.map((trial) => trial.id);
  const labels = [labelOf(yes ?? "", "pass"), labelOf(no ?? "", "fail")];
  writeFileSync(join(folder.path, "labels.json"), JSON.stringify(labels));
  const command = ["judge", "calibrate", "labels.json", "-c", "evals/mcp-eval.config.json", "--json"];
  for (const grader of ["llm-judge", "prompt", "mcp_compliance"]) {
    const { code, stdout, stderr } = await runHere([...command, "--grader", grader], options);
    expect([grader, code, stderr]).toEqual([grader, 0, ""]);
    expect(JSON.parse(stdout)).toMatchObject({
      model: "local",
      labels: 2,
      confusion: { passPass: 1, passFail: 0, failPass: 0, failFail: 1 },
    });
  }
  const { judges } = JSON.parse((await runHere(run, options)).stdout) as RunResult;
  expect(judges).toMatchObject([
    { grader: "llm-judge", graded: 2, passed: 1, calibration: { threshold: 0.5, votes: 1 } },
    { grader: "prompt", graded: 2, passed: 1, calibration: { threshold: 0.8, votes: 3 } },
    // What the judge said, not the grade: its part has no weight there.
    { grader: "mcp_compliance", graded: 2, passed: 1, calibration: { threshold: 0.8, votes: 1 } },
  ]);
});

it("calibrates the criteria of llm steps", async () => {
  await using provider = await startFakeProvider(({ system, users }) => {
    const passed = /JUDGED-TEXT[^\n]*\n.*five/.test(users[0] ?? "");
    const verdict = system.includes("rubric") ? { score: passed ? 1 : 0 } : { passed };
    return { text: JSON.stringify({ ...verdict, reason: "because" }) };
  });
  const criteria = { contains: "five", exact: "It is five.", rubric: "Is it right?" };
  const verify = Object.entries(criteria).map(([kind, text]) => ({ llm: { [kind]: text } }));
  using folder = folderOf({
    "task.json": {
      apiVersion: "mcp-eval/v1",
      kind: "Task",
      metadata: { name: "add" },
      spec: { prompt: "What is 2 + 3?", verify: [{ allOf: verify }] },
    },
    "mcp-eval.config.json": {
      agent: { type: "scripted", plan: { add: [{ say: "It is five." }] } },
      judge: { model },
      tasks: ["task.json"],
    },
    "labels.yaml": cases.slice(0, 3).map((one) => ({ ...one, reference: "five" })),
  });
  const options = { cwd: folder.path, env: provider.env };
  const flagsOf = { contains: [], exact: [], rubric: ["--rubric", criteria.rubric] };
  for (const [grader, more] of Object.entries(flagsOf)) {
    const config = ["-c", "mcp-eval.config.json"];
    const command = ["judge", "calibrate", "labels.yaml", ...config, "--grader", grader, ...more];
    const { code, stdout, stderr } = await runHere(command, options);
    expect([grader, code, stderr]).toEqual([grader, 0, ""]);
    expect(stdout).toContain("label pass             1           2");
  }
  const { stdout } = await runHere(["run", "--reporter", "json"], options);
  const { judges } = JSON.parse(stdout) as RunResult;
  expect(judges).toMatchObject(
    Object.keys(criteria).map((kind) => ({
      grader: `verify-steps: ${kind}`,
      graded: 1,
      passed: 1,
      calibration: { labels: 3 },
    })),
  );
});

const sameCase = (verdict: string): string => `{ task: q, answer: a, verdict: ${verdict} }`;
const graderConfig = ["-c", "evals/mcp-eval.config.json", "--grader"];

it.each<[string, string, string, readonly string[], readonly string[]]>([
  [
    "settings that a grader of the config replaces",
    "labels.yaml",
    `config: { rubric: x, votes: 3 }\ncases:\n  - ${sameCase("pass")}`,
    [...graderConfig, "prompt"],
    [
      "labels.yaml:1:11: error config.rubric has no effect with --grader prompt",
      "labels.yaml:1:22: error config.votes has no effect with --grader prompt",
    ],
  ],
  [
    "settings that the criterion rubric does not have",
    "labels.yaml",
    `config: { rubric: x, votes: 3 }\ncases:\n  - ${sameCase("pass")}`,
    ["--grader", "rubric"],
    ["labels.yaml:1:22: error config.votes has no effect with --grader rubric"],
  ],
  [
    "one case with opposite verdicts",
    "labels.yaml",
    `- ${sameCase("pass")}\n- ${sameCase("pass")}\n- { answer: a, task: q, calls: [], reference: r, verdict: fail }`,
    ["--rubric", "task_completion"],
    [
      "labels.yaml:3:59: error cases[2] is the same as cases[0], with the opposite verdict",
      "The other is at labels.yaml:1:34",
    ],
  ],
  [
    "one case with opposite verdicts in JSON Lines",
    "labels.jsonl",
    ["pass", "fail"].map((verdict) => JSON.stringify(labelled(verdict, "5"))).join("\n\n"),
    ["--rubric", "task_completion"],
    ["labels.jsonl:3:1: error cases[1] is the same as cases[0]", "The other is at labels.jsonl:1:1"],
  ],
  [
    "unknown runs",
    "labels.yaml",
    `- ${sameCase("pass")}\n- { run: gone, trial: t1, verdict: pass }\n- { run: gone, trial: t2, verdict: pass }`,
    ["--rubric", "task_completion"],
    ['labels.yaml:2:10: error no single run matches "gone"', "It is the same in 1 other place, on line 3."],
  ],
  [
    "a case without a reference",
    "labels.yaml",
    `cases:\n  - ${sameCase("pass")}`,
    ["--grader", "exact"],
    ["labels.yaml:2:5: error cases[0] has no reference, which the criterion exact needs"],
  ],
])("%s: refused with the place", async (_, file, text, args, messages) => {
  await using provider = await judge();
  using folder = folderOf({
    [file]: text,
    "evals/mcp-eval.config.json": judgedConfig(`${provider.url}/v1`),
  });
  const options = { cwd: folder.path, env: provider.env };
  const { code, stderr } = await runHere([...flags, file, ...args], options);
  expect([code, provider.requests.length]).toEqual([2, 0]);
  for (const message of messages) expect(stderr).toContain(message);
});

it("opposite verdicts on one text are labels where the references differ, and one trial is known by any name of its run", async () => {
  await using provider = await startFakeProvider(() => ({ text: '{"passed": true, "reason": "because"}' }));
  using folder = folderOf({
    "evals/mcp-eval.config.json": judgedConfig(`${provider.url}/v1`),
    "references.json": ["pass", "fail"].map((verdict) => ({
      ...labelled(verdict, "5"),
      reference: `is ${verdict}`,
    })),
  });
  const options = { cwd: folder.path, env: provider.env };
  expect((await runHere([...flags, "references.json", "--grader", "contains"], options)).code).toBe(0);
  const { stdout } = await runHere(["run", "evals/mcp-eval.config.json", "--reporter", "json"], options);
  const { id, trials } = JSON.parse(stdout) as RunResult;
  const trial = trials[0]?.id;
  const recorded = [
    { run: id, trial, verdict: "pass" },
    { run: "latest", trial, verdict: "fail" },
    { run: id, trial: "t99", verdict: "fail" },
  ];
  writeFileSync(join(folder.path, "recorded.jsonl"), recorded.map((one) => JSON.stringify(one)).join("\n"));
  const { code, stderr } = await runHere(
    [...flags, "recorded.jsonl", "--rubric", "task_completion"],
    options,
  );
  expect(code).toBe(2);
  expect(stderr).toContain(
    "recorded.jsonl:2:1: error cases[1] is the same as cases[0], with the opposite verdict",
  );
  expect(stderr).toContain(`recorded.jsonl:3:1: error the run ${id} has no trial "t99"`);
});

it.each<[string, unknown, readonly string[], string]>([
  ["a wrong verdict", { config, cases: [labelled("good", "5")] }, flags, "cases[0]"],
  ["no rubric", cases, flags, "the grader prompt: config must have a rubric"],
  ["no model", { config, cases }, ["judge", "calibrate"], "no model is named that is to be calibrated"],
  ["a grader that asks no judge", cases, [...flags, "--grader", "text"], 'no grader named "text"'],
  [
    "votes where one is asked",
    cases,
    [...flags, "--grader", "llm-judge", "--votes", "3"],
    "--votes has no effect",
  ],
  [
    "a threshold of yes and no",
    cases,
    [...flags, "--grader", "exact", "--threshold", "1"],
    "--threshold has no",
  ],
  ["a score over 1", cases, [...flags, "--threshold", "2"], "Must be a number from 0 to 1"],
  [
    "a file that is not there",
    { config: { rubric_file: "no.txt" }, cases },
    flags,
    'there is no file "no.txt"',
  ],
  ["an unknown run", { config, cases: [{ run: "none", trial: "t1", verdict: "pass" }] }, flags, "none"],
])("%s is refused", async (_, labels, args, message) => {
  await using provider = await judge();
  using folder = folderOf({ "labels.json": labels });
  const { code, stderr } = await runHere([...args, "labels.json"], { cwd: folder.path, env: provider.env });
  expect([code, provider.requests.length]).toEqual([2, 0]);
  expect(stderr).toContain(message);
});
