import {
  appendFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { McpvalsError } from "../../src/base/error.ts";
import type { Reporter } from "../../src/report/reporter.ts";
import type { RunResult } from "../../src/model/result.ts";
import { load } from "../../src/formats/load.ts";
import { gradeRun } from "../../src/run/grade-run.ts";
import { openRun } from "../../src/store/run-folder.ts";
import { fixtureServer } from "../e2e/support.ts";
import { folderOf, type HereOutcome, runHere } from "../support/cli.ts";
import { startFakeProvider } from "../support/fake-provider.ts";

const call = { call: "echo", args: { message: "hi" } };
const plan = { good: [call, { say: "it said hi" }], bad: [call, { say: "no idea" }] };
const config = (graders: readonly object[], rest: object = {}): object => ({
  server: fixtureServer(),
  concurrency: 1,
  agent: { type: "scripted", plan },
  workflows: Object.keys(plan).map((name) => ({ name, steps: [{ user: "greet" }] })),
  graders,
  ...rest,
});
/** With only one of the workflows. */
const goodOnly = (graders: readonly object[], step: object = {}, rest: object = {}): object =>
  config(graders, {
    agent: { type: "scripted", plan: { good: plan.good } },
    workflows: [{ name: "good", steps: [{ user: "greet", ...step }] }],
    ...rest,
  });
const says = (text: string): object => ({ type: "text", config: { contains: [text] } });

class Folder implements Disposable {
  readonly #files;
  readonly path: string;

  constructor(first: object) {
    this.#files = folderOf({ "mcp-eval.config.json": first });
    this.path = this.#files.path;
  }

  write(changed: object): void {
    writeFileSync(join(this.path, "mcp-eval.config.json"), JSON.stringify(changed));
  }

  cli(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<HereOutcome> {
    return runHere(args, { cwd: this.path, env });
  }

  async json(
    args: readonly string[],
    env?: Readonly<Record<string, string>>,
  ): Promise<HereOutcome & { readonly result: RunResult }> {
    const outcome = await this.cli([...args, "--reporter", "json"], env);
    if (outcome.stdout === "") throw new Error(outcome.stderr);
    return { ...outcome, result: JSON.parse(outcome.stdout) as RunResult };
  }

  get runs(): readonly string[] {
    return readdirSync(join(this.path, ".mcpvals/runs")).toSorted();
  }

  file(run: string, name: string): string {
    return join(this.path, ".mcpvals/runs", run, name);
  }

  read(run: string, name: string): string {
    return readFileSync(this.file(run, name), "utf8");
  }

  [Symbol.dispose](): void {
    this.#files[Symbol.dispose]();
  }
}

const verdictsOf = ({ trials }: RunResult): readonly string[] => trials.map(({ verdict }) => verdict);

it("grades the record with the graders that are declared now, as a new run that says so", async () => {
  using folder = new Folder(config([says("hi")]));
  const first = await folder.json(["run"]);
  expect([first.code, verdictsOf(first.result)]).toEqual([1, ["pass", "fail"]]);
  const [recorded = ""] = folder.runs;
  const before = ["run.json", "plan.json", "journal.jsonl", "result.json"].map((name) =>
    folder.read(recorded, name),
  );

  folder.write(config([says("idea"), { type: "behavior", config: { max_mcp_calls: 1 } }]));
  const { code, result, stderr } = await folder.json(["grade"]);
  expect([code, stderr, verdictsOf(result)]).toEqual([1, "", ["fail", "pass"]]);
  expect(result.trials[1]?.grades.map(({ grader, verdict }) => [grader, verdict])).toEqual([
    ["end-to-end-success", "skip"],
    ["tool-invocation-order", "skip"],
    ["tool-call-health", "pass"],
    ["text", "pass"],
    ["behavior", "pass"],
  ]);
  expect(result.gradedFrom).toEqual({ id: recorded, startedAt: first.result.startedAt });
  expect(result.id).toBe(folder.runs[1]);
  expect(result.trials.map(({ durationMs }) => durationMs)).toEqual(
    first.result.trials.map(({ durationMs }) => durationMs),
  );

  // The recorded run stays as it was, and the new one has its events.
  expect(
    ["run.json", "plan.json", "journal.jsonl", "result.json"].map((name) => folder.read(recorded, name)),
  ).toEqual(before);
  const eventsOf = (run: string): readonly string[] =>
    folder
      .read(run, "journal.jsonl")
      .split("\n")
      .filter((line) => line !== "" && !line.includes('"trial.graded"'));
  expect(eventsOf(result.id)).toEqual(eventsOf(recorded));

  // A stored result is that of its folder; a run that was graded again can be graded again.
  expect((await folder.json(["show"])).result).toEqual(result);
  expect((await folder.json(["show", recorded])).result).toEqual(first.result);
  const again = await folder.json(["grade"]);
  expect([again.result.gradedFrom, verdictsOf(again.result)]).toEqual([result.gradedFrom, ["fail", "pass"]]);
});

it.each([
  [
    "console",
    /^mcpvals .*\n.*\ngraded again from the record of run ID, which began \S+\n[^]*2 trials graded again in /,
  ],
  ["markdown", / · graded again from the record of run ID, which began /],
  ["junit", /<property name="mcpvals.gradedFrom" value="ID"\/>/],
  ["sarif", /"properties":\{"gradedFrom":\{"id":"ID","startedAt":"/],
  ["github", /::FAIL · .*graded again from the record of run ID/],
])("%s says what was graded again", async (reporter, told) => {
  using folder = new Folder(config([says("hi")]));
  await folder.cli(["run", "--reporter", "junit=first.xml"]);
  const expected = new RegExp(told.source.replace("ID", folder.runs[0] ?? ""));
  for (const args of [["grade", "latest"], ["show"]]) {
    const { code, stdout } = await folder.cli([...args, "--reporter", reporter]);
    expect([code, stdout]).toEqual([1, expect.stringMatching(expected)]);
  }
  expect(readFileSync(join(folder.path, "first.xml"), "utf8")).not.toContain("gradedFrom");
});

it("takes another file, and thresholds", async () => {
  using folder = new Folder(config([says("hi")]));
  await folder.cli(["run"]);
  const other = { ...config([{ ...says("hi"), name: "hello" }]), thresholds: { passRate: 0.5 } };
  writeFileSync(join(folder.path, "other.json"), JSON.stringify(other));
  const { code, result } = await folder.json(["grade", "latest", "--config", "other.json"]);
  expect([code, result.verdict, result.gates]).toMatchObject([0, "pass", [{ name: "passRate", value: 0.5 }]]);
  const args = ["grade", "latest", "--config", "other.json", "--threshold"];
  expect((await folder.cli([...args, "hello=0.6"])).code).toBe(1);
  const unknown = await folder.cli([...args, "helo=0.6"]);
  expect([unknown.code, unknown.stderr]).toEqual([2, expect.stringContaining('Did you mean "hello"?')]);
});

it("expects what the file expects now of the same prompts", async () => {
  using folder = new Folder(goodOnly([], { expectedState: "hi" }));
  expect((await folder.cli(["run"])).code).toBe(0);
  folder.write(goodOnly([], { expectedState: "farewell" }));
  expect((await folder.cli(["grade"])).code).toBe(1);
  folder.write(goodOnly([says("hi")], { user: "say goodbye", expectedState: "farewell" }));
  const changed = await folder.cli(["grade", folder.runs[0] ?? ""]);
  expect([changed.code, changed.stderr]).toEqual([
    0,
    'note: the prompts of "good" have changed since the run: its turns are graded as they were then\n',
  ]);
  folder.write(goodOnly([], { expectedState: "hi" }));
  const fewer = await folder.cli(["grade"]);
  expect([fewer.code, fewer.stderr]).toEqual([
    0,
    'note: the grader "text" graded the run before, and not this time\n',
  ]);
});

it("keeps messages that are in files of their own", async () => {
  const message = "hi ".repeat(100_000);
  const long = (graders: readonly object[]): object =>
    goodOnly(
      graders,
      {},
      {
        agent: {
          type: "scripted",
          plan: { good: [{ call: "echo", args: { message } }, { say: "it said hi" }] },
        },
      },
    );
  using folder = new Folder(long([says("hi")]));
  expect((await folder.cli(["run"])).code).toBe(0);
  folder.write(long([{ type: "tool_calls", config: { required_tools: ["echo"] } }]));
  const { code, result } = await folder.json(["grade"]);
  expect(code).toBe(0);
  rmSync(folder.file(folder.runs[0] ?? "", "."), { recursive: true });
  expect((await folder.json(["show"])).result).toEqual(result);
  expect((await folder.cli(["show", "--tools"])).stdout).toContain(message);
});

it("what the record does not say is an error of the grade", async () => {
  using folder = new Folder(config([says("i")]));
  await folder.cli(["run"]);
  folder.write(config([says("i"), { type: "file", config: { must_exist: ["a.txt"] } }]));
  const { code, result } = await folder.json(["grade"]);
  expect([code, verdictsOf(result)]).toEqual([3, ["error", "error"]]);
});

it("asks judges only where something has changed, or when it is told to", async () => {
  const scored = (score: number): { readonly text: string } => ({
    text: JSON.stringify({ score, reason: "So it is." }),
  });
  await using provider = await startFakeProvider([scored(0.9), scored(0.9), scored(0.1), scored(1)]);
  const judged = (rubric: string, weight = 1): object =>
    goodOnly(
      [{ type: "prompt", weight, config: { rubric } }],
      { expectedState: "hi" },
      { judge: { model: "anthropic/claude-sonnet-4-5" } },
    );
  using folder = new Folder(judged("Is it polite?"));
  expect((await folder.cli(["run", "--llm"], provider.env)).code).toBe(0);
  expect(provider.requests).toHaveLength(2);

  folder.write(judged("Is it polite?", 2));
  const kept = await folder.json(["grade", "--llm"]);
  expect([kept.code, kept.stderr, provider.requests.length]).toEqual([0, "", 2]);
  expect(kept.result.trials[0]).not.toHaveProperty("judgeUsage");
  expect(kept.result.trials[0]?.grades).toEqual(
    expect.arrayContaining([
      expect.objectContaining({ grader: "llm-judge", score: 0.9 }),
      expect.objectContaining({ grader: "prompt", score: 0.9, weight: 2 }),
    ]),
  );

  folder.write(judged("Is it short?", 2));
  const changed = await folder.json(["grade", "--llm"], provider.env);
  expect([changed.code, provider.requests.length]).toEqual([1, 3]);
  expect(changed.result.trials[0]?.judgeUsage).toMatchObject({ requests: 1 });

  const asked = await folder.json(["grade", "--ask-judges"], provider.env);
  expect([asked.code, provider.requests.length]).toEqual([0, 4]);
  expect(asked.stderr).toBe('note: the grader "llm-judge" graded the run before, and not this time\n');
});

it("asks a judge again when a file that its grader names has another text", async () => {
  await using provider = await startFakeProvider(() => ({ text: '{"score": 0.9, "reason": "So it is."}' }));
  const judged = { type: "prompt", config: { rubric_file: "rubric.md" } };
  using folder = new Folder(goodOnly([judged], {}, { judge: { model: "anthropic/claude-sonnet-4-5" } }));
  const write = (rubric: string): void => writeFileSync(join(folder.path, "rubric.md"), rubric);
  write("Is it polite?");
  expect((await folder.cli(["run"], provider.env)).code).toBe(0);
  expect((await folder.cli(["grade"], provider.env)).code).toBe(0);
  expect(provider.requests).toHaveLength(1);
  write("Is it short?");
  expect((await folder.cli(["grade"], provider.env)).code).toBe(0);
  expect(provider.requests).toHaveLength(2);
});

it("is not a run before it has ended, however it ends", async () => {
  const plans = `require("node:fs").globSync(".mcpvals/runs/*/plan.json")`;
  const args = ["-e", `process.exit(${plans}.length === 1 ? 0 : 1)`];
  using folder = new Folder(goodOnly([{ type: "program", config: { command: process.execPath, args } }]));
  expect((await folder.cli(["run"])).code).toBe(0);
  expect((await folder.cli(["grade"])).code).toBe(0);
  expect((await folder.cli(["show"])).stdout).toContain("graded again");
});

it("says of a copied folder which run is in it", async () => {
  using folder = new Folder(goodOnly([says("hi")]));
  await folder.cli(["run"]);
  const [run = ""] = folder.runs;
  renameSync(folder.file(run, "."), join(folder.path, "copy"));
  const { code, stderr } = await folder.cli(["grade", "copy"]);
  expect([code, stderr]).toEqual([0, `note: the folder "copy" has the record of the run ${run}\n`]);
});

it("compares the stored scores of judges with a new threshold", async () => {
  await using provider = await startFakeProvider(() => ({
    text: JSON.stringify({ score: 0.7, reason: "So it is." }),
  }));
  const judged = (threshold: number): object =>
    goodOnly(
      [{ type: "prompt", config: { rubric: "Is it polite?", votes: 3, threshold } }],
      { expectedState: "hi" },
      { judge: { model: "anthropic/claude-sonnet-4-5" }, passThreshold: threshold },
    );
  using folder = new Folder(judged(0.8));
  const gradesOf = ({ trials }: RunResult): unknown =>
    trials[0]?.grades
      .filter(({ judge }) => judge !== undefined)
      .map(({ grader, verdict, reason, judge }) => [grader, verdict, reason, judge?.threshold]);
  const first = await folder.json(["run", "--llm"], provider.env);
  expect(gradesOf(first.result)).toEqual([
    ["llm-judge", "fail", "So it is.", 0.8],
    ["prompt", "fail", "score 0.7 (votes: 0.7, 0.7, 0.7; 3 of 3 agree), at least 0.8 passes: So it is.", 0.8],
  ]);
  const asked = provider.requests.length;

  folder.write(judged(0.6));
  const { code, result } = await folder.json(["grade", "--llm"]);
  expect([code, provider.requests.length]).toEqual([0, asked]);
  expect(gradesOf(result)).toEqual([
    ["llm-judge", "pass", "So it is.", 0.6],
    ["prompt", "pass", "score 0.7 (votes: 0.7, 0.7, 0.7; 3 of 3 agree), at least 0.6 passes: So it is.", 0.6],
  ]);
});

it("asks again for a new threshold where a second judge is compared", async () => {
  await using provider = await startFakeProvider(() => ({ text: '{"score": 0.7, "reason": "So it is."}' }));
  const judge = "anthropic/claude-sonnet-4-5";
  const judged = (threshold: number): object =>
    goodOnly([
      { type: "prompt", config: { rubric: "Polite?", model: judge, second_model: judge, threshold } },
    ]);
  using folder = new Folder(judged(0.8));
  await folder.cli(["run"], provider.env);
  folder.write(judged(0.6));
  const { code, result } = await folder.json(["grade"], provider.env);
  expect([code, provider.requests.length]).toEqual([0, 4]);
  expect(result.trials[0]?.grades.at(-1)).toMatchObject({ verdict: "pass", secondJudge: { threshold: 0.6 } });
});

it("grades a long record with the same result, and keeps nothing of what does not end", async () => {
  const calls = Array.from({ length: 10 }, (_, n) => ({ call: n % 5 === 0 ? "drop" : "read", args: { n } }));
  const tools = {
    read: { responses: [{ return: "hi ".repeat(40_000) }] },
    drop: { responses: [{ error: "nö" }] },
  };
  const agents = Object.fromEntries(["a", "b"].map((name) => [name, [...calls, { say: name }]]));
  using folder = new Folder(
    config([says("a")], {
      server: { transport: "mock", mock: { tools } },
      agent: { type: "scripted", plan: agents },
      workflows: Object.keys(agents).map((name) => ({ name, steps: [{ user: "greet" }] })),
    }),
  );
  const {
    id: _id,
    startedAt: _startedAt,
    durationMs: _durationMs,
    ...first
  } = (await folder.json(["run", "--trials", "5"])).result;
  const [run = ""] = folder.runs;
  expect(statSync(folder.file(run, "journal.jsonl")).size).toBeGreaterThan(8 * 1024 * 1024);
  const { code, result } = await folder.json(["grade"]);
  expect(code).toBe(1);
  expect(result).toMatchObject(first);
  expect((await folder.json(["show"])).result).toEqual(result);

  const interrupt = new AbortController();
  const reason = new McpvalsError("run/interrupted", "interrupted");
  const { path: cwd } = folder;
  const reporter: Reporter = { onTrialEnd: () => interrupt.abort(reason) };
  const interrupted = gradeRun(
    await openRun(join(cwd, ".mcpvals/runs"), run),
    await load({ sources: [join(cwd, "mcp-eval.config.json")], cwd }),
    { cwd, signal: interrupt.signal, reporters: [{ name: "interrupts", reporter }] },
  );
  await expect(interrupted).rejects.toBe(reason);
  expect(folder.runs).toHaveLength(2);

  appendFileSync(folder.file(run, "journal.jsonl"), '{"crc":"00000000","event":{}}\n');
  const damaged = await folder.cli(["grade", run]);
  expect([damaged.code, damaged.stderr]).toEqual([3, expect.stringContaining("does not match its checksum")]);
  expect(folder.runs).toHaveLength(2);
});

it("grades what a run was interrupted before it could grade, and does not pass without the rest", async () => {
  using folder = new Folder(config([says("i")]));
  await folder.cli(["run"]);
  const [run = ""] = folder.runs;
  const lines = folder.read(run, "journal.jsonl").split("\n");
  const graded = lines.findIndex((line) => line.includes('"trial.graded"'));
  writeFileSync(folder.file(run, "journal.jsonl"), `${lines.slice(0, graded).join("\n")}\n{"crc":`);
  rmSync(folder.file(run, "result.json"));
  const { code, result } = await folder.json(["grade"]);
  expect([code, result.verdict, verdictsOf(result)]).toEqual([130, "interrupted", ["pass", "skip"]]);
  expect((await folder.json(["show"])).result).toEqual(result);
});

const refusals: readonly (readonly [
  string,
  number,
  string,
  (folder: Folder, run: string) => readonly string[],
])[] = [
  ["a run that does not exist", 2, 'no single run matches "2019"', () => ["2019"]],
  [
    "a run of a task that is not declared any more",
    2,
    'the run has trials of the workflow "bad"',
    (folder) => {
      folder.write(goodOnly([says("hi")]));
      return [];
    },
  ],
  [
    "a run without events",
    2,
    "has no trial that was recorded",
    (folder, run) => {
      truncateSync(folder.file(run, "journal.jsonl"));
      return [];
    },
  ],
  [
    "a run that does not say what it has run",
    2,
    "does not say what it has run",
    (folder, run) => {
      const { source: _, ...head } = JSON.parse(folder.read(run, "run.json")) as Record<string, unknown>;
      writeFileSync(folder.file(run, "run.json"), JSON.stringify(head));
      return [];
    },
  ],
  [
    "a damaged record",
    3,
    "does not match its checksum",
    (folder, run) => {
      appendFileSync(folder.file(run, "journal.jsonl"), '{"crc":"00000000","event":{}}\n');
      return [];
    },
  ],
];

it.each(refusals)("%s is not graded, and leaves nothing", async (_, code, message, prepare) => {
  using folder = new Folder(config([says("hi")]));
  await folder.cli(["run"]);
  const before = folder.runs;
  const args = prepare(folder, before[0] ?? "");
  const outcome = await folder.cli(["grade", ...args]);
  expect([outcome.code, outcome.stderr]).toEqual([code, expect.stringContaining(message)]);
  expect(folder.runs).toEqual(before);
});

it("a check is not graded", async () => {
  using folder = new Folder(config([says("hi")]));
  await folder.cli(["check"]);
  const { code, stderr } = await folder.cli(["grade"]);
  expect([code, stderr]).toEqual([2, expect.stringContaining("is a check")]);
  expect(existsSync(folder.file(folder.runs[0] ?? "", "result.json"))).toBe(true);
});
