import {
  chmodSync,
  copyFileSync,
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { RunResult, TrialResult } from "../../src/model/result.ts";
import { folderOf, root, runCli } from "../support/cli.ts";
import { startFakeProvider } from "../support/fake-provider.ts";
import { runsBelow } from "../support/records.ts";

// Transcripts that real programs wrote: two turns, in each a call of `echo`, a call of `get-sum` with a wrong argument, and one with the right one.
const fixtures = join(root, "test/fixtures/transcripts");
const files = {
  "claude-code": "claude-code/8f84835a-cd31-43f6-986f-d2fbf41e86e4.jsonl",
  codex: "codex/rollout-2026-11-28.jsonl",
  gemini: "gemini/session-2026-11-28.jsonl",
  opencode: "opencode/session.json",
} as const;
const programs = Object.keys(files) as (keyof typeof files)[];

function place(program: keyof typeof files): string {
  return join(fixtures, files[program]);
}

interface Imported {
  readonly code: number | null;
  readonly result: RunResult;
  readonly trial: TrialResult;
  readonly stderr: string;
}

async function importInto(cwd: string, ...args: readonly string[]): Promise<Imported> {
  const { code, stdout, stderr } = await runCli(["import", "--json", ...args], { cwd });
  expect(stdout, stderr).not.toBe("");
  const result = JSON.parse(stdout) as RunResult;
  // What happened in a session that is an error is open.
  expect(code, stderr).toBe(result.trials.some(({ verdict }) => verdict === "error") ? 3 : 0);
  const [trial] = result.trials;
  if (trial === undefined) throw new Error("no trial");
  return { code, result, trial, stderr };
}

const graders = (...list: readonly object[]): object => ({ graders: list });

describe.each(programs)("a transcript of %s", (program) => {
  test("becomes a run without a verdict, with what it says and nothing else", async () => {
    using folder = folderOf({});
    const { result, trial } = await importInto(folder.path, place(program), "--server", "everything");
    expect([result.verdict, trial.verdict, trial.score]).toEqual(["incomplete", "skip", null]);
    expect(result.environment.agents).toEqual([{ name: program, type: "transcript", preset: program }]);
    expect(trial.tools).toMatchObject({
      mcpToolCalls: 6,
      serversUsed: ["everything"],
      servers: { everything: { calls: 6, errors: 2, distinctTools: 2 } },
    });
    expect(trial.usage).toMatchObject({ inputTokens: 800, outputTokens: 160, cacheReadTokens: 80 });
    expect(trial.usage?.requests).toBeUndefined();
    const { measurements = {} } = trial;
    expect(measurements).toMatchObject({ calls: 6, errors: 2, recoveredErrors: 2 });
    for (const unknown of ["unknownTools", "invalidCalls", "definitionTokens", "unsupportedClaims"])
      expect(measurements).not.toHaveProperty(unknown);
    expect(result.measurements).not.toHaveProperty("definitions");
    expect(trial.warnings?.[0]).toContain("mcpvals has seen no message to a server");
    expect(trial.ran?.models).toHaveLength(1);
    // Only these two say how long a call took.
    const isTimed = program === "codex" || program === "opencode";
    expect(trial.tools?.servers["everything"]?.p50Ms === undefined).toBe(!isTimed);
  });

  test("is graded by the graders of a config", async () => {
    using folder = folderOf({
      "good.yaml": graders(
        { type: "tool_calls", config: { required_tools: ["everything.echo", "get-sum"], max_calls: 6 } },
        { type: "text", config: { contains: ["Echo: hello"] } },
        { type: "behavior", config: { required_mcp_servers: ["everything"], max_tool_errors: 2 } },
        { type: "metric", config: { name: "errorRecoveryRate", min: 1 } },
      ),
      // Programs replace characters in names of tools.
      "bad.yaml": graders({ type: "tool_calls", config: { forbidden_tools: ["get.sum"] } }),
      "unknown.yaml": graders({ type: "metric", config: { name: "invalidCalls", max: 0 } }),
    });
    await importInto(folder.path, place(program), "--server", "everything");
    const grade = async (...args: readonly string[]): Promise<[number | null, readonly string[]]> => {
      const { code, stdout, stderr } = await runCli(["grade", "-r", "json", ...args], { cwd: folder.path });
      const [trial] = stderr.includes("error") ? [] : (JSON.parse(stdout) as RunResult).trials;
      return [code, trial?.grades.map(({ grader, verdict }) => `${grader} ${verdict}`) ?? []];
    };
    const builtIn = ["end-to-end-success skip", "tool-invocation-order skip", "tool-call-health skip"];
    expect(await grade("--config", "good.yaml")).toEqual([
      0,
      [...builtIn, "tool_calls pass", "text pass", "behavior pass", "metric pass"],
    ]);
    // The graded run names its config.
    expect((await grade())[0]).toBe(0);
    expect(await grade("--config", "bad.yaml")).toEqual([1, [...builtIn, "tool_calls fail"]]);
    expect(await grade("--config", "unknown.yaml")).toEqual([3, [...builtIn, "metric skip"]]);
    const shown = await runCli(["show"], { cwd: folder.path });
    expect(shown.code, shown.stderr).toBe(3);
  });
});

test("a limit of tokens does not pass for tokens that are known in part", async () => {
  using folder = folderOf({
    "limit.yaml": graders({ type: "behavior", config: { max_tokens: 10_000 } }),
  });
  await importInto(folder.path, place("gemini"));
  const { code, stdout } = await runCli(["grade", "--config", "limit.yaml"], { cwd: folder.path });
  expect(code).toBe(1);
  expect(stdout).toContain("the number of tokens is not known");
});

test("a judge gets the calls, and is told that the tools on offer are not known", async () => {
  await using provider = await startFakeProvider([
    { text: JSON.stringify({ score: 1, reason: "It echoed." }) },
    { text: JSON.stringify({ score: 0, reason: "It did not." }) },
  ]);
  using folder = folderOf({
    "judge.yaml": {
      judge: { model: "local", baseURL: `${provider.url}/v1`, apiKey: "k" },
      graders: [{ type: "prompt", config: { rubric: "task_completion" } }],
    },
    "llm.yaml": { judge: { model: "local", baseURL: `${provider.url}/v1`, apiKey: "k" } },
  });
  await importInto(folder.path, place("claude-code"));
  const judged = await runCli(["grade", "--config", "judge.yaml"], { cwd: folder.path });
  expect(judged.code, judged.stdout + judged.stderr).toBe(0);
  const asked = JSON.stringify(provider.requests[0]?.body);
  for (const part of ["Once more, please.", "everything", "The sum of 19 and 23 is 42.", "Not known"])
    expect(asked).toContain(part);
  const llm = await runCli(["grade", "--llm", "--config", "llm.yaml"], { cwd: folder.path });
  expect(llm.code, llm.stdout + llm.stderr).toBe(1);
  expect(llm.stdout).toContain("It did not.");
});

test("calls of a subagent, in a file of its own, belong to the use that started it", async () => {
  using folder = folderOf({});
  const { trial } = await importInto(folder.path, join(fixtures, "claude-code-subagent"));
  expect(trial.tools).toMatchObject({ toolCalls: 3, mcpToolCalls: 2 });
  const { stdout } = await runCli(["show", "--tools"], { cwd: folder.path });
  const uses = stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as { callId: string; parentCallId?: string; unrecorded?: true });
  expect(uses.map(({ callId, parentCallId }) => [callId, parentCallId])).toEqual([
    ["toolu_1", undefined],
    ["toolu_2", undefined],
    ["toolu_3", "toolu_1"],
  ]);
});

test("a folder: each session is a task, whatever else is there", async () => {
  using folder = folderOf({
    "sessions/notes.jsonl": '{"note": 1}\n',
    "sessions/package.json": { name: "x" },
    "sessions/readme.md": "# x",
  });
  for (const program of programs)
    cpSync(join(fixtures, program), join(folder.path, "sessions", program), { recursive: true });
  const args = ["sessions", "sessions", join("sessions", files.codex), "--server", "everything"];
  const { result } = await importInto(folder.path, ...args);
  expect(result.trials.map(({ agent }) => agent)).toEqual([...programs]);
  expect(new Set(result.trials.map(({ task }) => task)).size).toBe(4);
  const { code, stdout } = await runCli(["runs", "--json"], { cwd: folder.path });
  expect([code, stdout.includes('"incomplete"')]).toEqual([0, true]);
});

test("a session in which nothing happened, which Gemini CLI leaves behind when it resumes another one, is left out", async () => {
  const name = "session-2026-11-28T21-38-18d870d5.jsonl";
  const first = readFileSync(place("gemini"), "utf8").split("\n").slice(0, 2).join("\n");
  using folder = folderOf({ [`chats/${name}`]: `${first}\n` });
  const alone = await runCli(["import", "chats"], { cwd: folder.path });
  expect([alone.code, runsBelow(folder.path)]).toEqual([2, []]);
  expect(alone.stderr).toContain("has no transcript that mcpvals knows in which anything happened");
  copyFileSync(place("gemini"), join(folder.path, "chats", "whole.jsonl"));
  const { result, stderr } = await importInto(folder.path, "chats");
  expect(result.trials).toHaveLength(1);
  expect(stderr).toContain(`${name} is left out: nobody said or did anything in it`);
});

test("tools of servers that are not named make a session an error, not a session without calls", async () => {
  using folder = folderOf({
    "graders.yaml": graders({ type: "tool_calls", config: { forbidden_tools: ["echo"] } }),
  });
  const { trial } = await importInto(folder.path, place("opencode"));
  expect([trial.verdict, trial.error?.code]).toEqual(["error", "transcript/unclear-tools"]);
  const { code } = await runCli(["grade", "--config", "graders.yaml"], { cwd: folder.path });
  expect(code).toBe(3);
});

test("a session that goes on is graded as far as it goes, and a damaged one is not", async () => {
  const lines = readFileSync(place("codex"), "utf8").trimEnd().split("\n");
  const upTo = lines.findIndex((line) => line.includes('"call_id":"call_6"'));
  using folder = folderOf({
    "open.jsonl": `${lines.slice(0, upTo + 1).join("\n")}\n${lines[upTo + 1]?.slice(0, 40)}`,
    "damaged.jsonl": [...lines.slice(0, 12), "\0\0\0\0", ...lines.slice(12)].join("\n"),
    "twice.jsonl": [...lines.slice(0, 12), '{"type":"a","type":"b"}', ...lines.slice(12)].join("\n"),
    "deep.jsonl": [...lines, `{"type":"x","payload":${"[".repeat(1000)}${"]".repeat(1000)}}`].join("\n"),
    "graders.yaml": graders({ type: "tool_calls", config: { required_tools: ["echo"] } }),
  });
  const open = await importInto(folder.path, "open.jsonl");
  expect(open.trial.error).toBeUndefined();
  expect(open.trial.warnings?.slice(1)).toEqual([
    "its last line is cut off: the session may go on, or the program was killed",
    "its last turn has no end: the session may go on, or the program was killed",
    "1 use of tools without a result, which count as failed",
  ]);
  expect((await runCli(["grade", "--config", "graders.yaml"], { cwd: folder.path })).code).toBe(0);
  for (const [name, what] of [
    ["damaged.jsonl", "line 13 is no JSON object, or too long"],
    [
      "twice.jsonl",
      'nothing from line 13 on was read: the program wrote a message with the key "type" twice',
    ],
    ["deep.jsonl", "nested more than 400 levels deep"],
  ] as const) {
    const { trial } = await importInto(folder.path, name);
    expect([trial.verdict, trial.error?.code]).toEqual(["error", "transcript/damaged"]);
    expect(trial.error?.message).toContain(what);
    expect((await runCli(["grade", "--config", "graders.yaml"], { cwd: folder.path })).code).toBe(3);
  }
});

test("an error of one session is said at the end and by the exit code; the others are graded", async () => {
  const lines = readFileSync(place("codex"), "utf8").trimEnd().split("\n");
  using folder = folderOf({ "damaged.jsonl": [...lines, "\0", ...lines].join("\n") });
  const { code, stdout } = await runCli(["import", place("codex"), "damaged.jsonl"], { cwd: folder.path });
  expect([code, stdout]).toEqual([
    3,
    expect.stringMatching(/^ +error: the transcript .* was not read whole/m),
  ]);
  expect(stdout).toContain("1 session with an error, which cannot be graded: exit code 3");
});

test("a forbidden tool that no call fits may be misspelt, since the tools on offer are not known", async () => {
  const config = { forbidden_tools: ["everything.ecko", "get-sum", "/drop.*/", "gone"] };
  using folder = folderOf({ "graders.yaml": graders({ type: "tool_calls", config }) });
  await importInto(folder.path, place("codex"));
  const { stdout } = await runCli(["grade", "--config", "graders.yaml", "-r", "json"], { cwd: folder.path });
  const [trial] = (JSON.parse(stdout) as RunResult).trials;
  expect(trial?.warnings).toContain(
    'a transcript does not say which tools servers offer, so that a misspelt one would pass as not called: "everything.ecko" (did you mean "everything.echo", which was called?), "^(?:drop.*)$", "gone"',
  );
  // Grading is at any later time.
  const shown = await runCli(["show", "--trial", "t1"], { cwd: folder.path });
  expect(shown.stdout).toMatch(/^\d+ +[\d.]+ ms {2}trial.finished .*\n\d+ {2,}graded fail/m);
});

describe("what is no transcript is refused, and leaves no run", () => {
  test.each([
    ["garbage", "\u0001\u0002 not a transcript"],
    ["nothing", ""],
    ["NULs", "\0".repeat(1000)],
    ["a list", "[1, 2]"],
    ["another document", '{\n  "name": "x"\n}\n'],
    ["other lines", '{"a":1}\n'.repeat(500)],
    ["a stream of Claude Code", '{"type":"assistant","session_id":"x","message":{"content":[]}}\n'],
    ["half a document", '{\n  "info": {"id": "ses_1", "time": {}},\n  "messages": ['],
    ["a deep document", `{\n"info":{"id":"a","time":{}},"messages":${"[".repeat(5000)}${"]".repeat(5000)}}`],
  ])("%s", async (_, text) => {
    using folder = folderOf({ "given.jsonl": text });
    const { code, stderr } = await runCli(["import", "given.jsonl"], { cwd: folder.path });
    expect([code, runsBelow(folder.path)]).toEqual([2, []]);
    expect(stderr).toContain("given.jsonl is no transcript that mcpvals knows");
    expect(stderr).toContain("~/.claude/projects");
  });

  test("a missing file, a folder without any, and one after another that is none", async () => {
    using folder = folderOf({ "bad.jsonl": "x" });
    mkdirSync(join(folder.path, "empty"));
    for (const [args, said] of [
      [["none.jsonl"], "cannot be read"],
      [["empty"], "the folder empty has no transcript"],
      [[place("codex"), "bad.jsonl"], "bad.jsonl is no transcript"],
    ] as const) {
      const { code, stderr } = await runCli(["import", ...args], { cwd: folder.path });
      expect([code, runsBelow(folder.path)]).toEqual([2, []]);
      expect(stderr).toContain(said);
    }
  });

  test.skipIf(process.getuid?.() === 0)("a file that may not be read", async () => {
    using folder = folderOf({});
    const file = join(folder.path, "given.jsonl");
    copyFileSync(place("codex"), file);
    chmodSync(file, 0);
    const { code, stderr } = await runCli(["import", "given.jsonl"], { cwd: folder.path });
    expect([code, stderr.includes("cannot be read")]).toEqual([2, true]);
  });
});

test("keys of model providers in the environment are not written", async () => {
  using folder = folderOf({});
  const key = "sk-test-0123456789abcdef";
  const text = readFileSync(place("codex"), "utf8").replaceAll("hello", key).replaceAll("Use the echo", key);
  writeFileSync(join(folder.path, "keyed.jsonl"), text);
  const { code, stdout, stderr } = await runCli(["import", "keyed.jsonl"], {
    cwd: folder.path,
    env: { OPENAI_API_KEY: key },
  });
  expect(code, stderr).toBe(0);
  const [run = ""] = runsBelow(folder.path);
  const written = readdirSync(run).map((name) => readFileSync(join(run, name), "utf8"));
  expect([stdout, ...written].join("\n")).not.toContain(key);
});

test("a config without required graders, and an import without a config, are refused by grade", async () => {
  using folder = folderOf({
    "none.yaml": { graders: [{ type: "text", required: false, config: { contains: ["x"] } }] },
  });
  await importInto(folder.path, place("codex"));
  const without = await runCli(["grade"], { cwd: folder.path });
  expect([without.code, without.stderr.includes("--config")]).toEqual([2, true]);
  const none = await runCli(["grade", "--config", "none.yaml"], { cwd: folder.path });
  expect([none.code, none.stderr.includes("no required graders")]).toEqual([2, true]);
});

test("prices give the cost of tokens that are all known", async () => {
  using folder = folderOf({
    "prices.yaml": "currency: EUR\nmodels:\n  fake: { input: 10, output: 100 }\n",
    "wrong.yaml": "models: 1\n",
  });
  const costs = async (program: keyof typeof files): Promise<unknown> => {
    const args = [place(program), "--server", "everything", "--prices", "prices.yaml"];
    return (await importInto(folder.path, ...args)).trial.usage?.cost;
  };
  expect(await costs("codex")).toMatchObject({ currency: "EUR", amount: expect.closeTo(0.024, 9) as number });
  expect(await costs("opencode")).toBeUndefined();
  const wrong = await runCli(["import", place("codex"), "--prices", "wrong.yaml"], { cwd: folder.path });
  expect(wrong.code).toBe(2);
});

test("a call that the user stopped is not one that worked", async () => {
  using folder = folderOf({
    "graders.yaml": graders({
      type: "tool_calls",
      config: { required_tools: ["trigger-long-running-operation"] },
    }),
  });
  const { trial } = await importInto(folder.path, join(fixtures, "codex-interrupted"));
  expect(trial.tools).toMatchObject({ servers: { everything: { calls: 1, errors: 1 } } });
  expect(trial.warnings).toContain("turn 1 ended early: the user, or the program, stopped it");
  const { code } = await runCli(["grade", "--config", "graders.yaml"], { cwd: folder.path });
  expect(code).toBe(1);
});
