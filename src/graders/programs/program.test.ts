import { expect, it } from "vitest";
import { AgentTrial, gradeBy, settingIssues, trialThatLeft } from "../../../test/support/grading.ts";
import type { GraderProgram, ProgramEnd } from "../grader.ts";
import { trajectoryRecordSchema } from "./trajectory-record.ts";

let listed = 0;
let said = 0;
const busy = new AgentTrial((trial) => {
  listed = trial.use("list", { all: true }, "3 pods");
  trial.fail("get", { name: "a" });
  trial.report("shell", { args: { command: "ls" }, result: "a.txt" });
  trial.send("resources/read", { uri: "pods://all" });
  said = trial.say("There are 3 pods.");
});

/** Grades by a program that ends as given; `asked` is what it was started with. */
async function gradeByProgram(end: Partial<ProgramEnd>, settings = {}, trial = busy) {
  let asked: GraderProgram | undefined;
  const runProgram = async (program: GraderProgram): Promise<ProgramEnd> => {
    asked = program;
    return { exitCode: 0, stdout: "", omitted: 0, stderr: "", ...end };
  };
  const grade = await gradeBy("program", { command: "grade", ...settings }, trial, {
    runProgram,
    dir: "/evals",
  });
  return { ...grade, asked };
}

it.each([
  [0, "", {}, "pass", 1, "it exited with 0"],
  [0, "All is well.\n", {}, "pass", 1, "All is well."],
  [1, "Two pods are missing.", {}, "fail", 0, "Two pods are missing. (it exited with 1)"],
  [3, "", {}, "fail", 0, "Traceback: no pods (it exited with 3)"],
  [0, "[info] all is well", {}, "pass", 1, "[info] all is well"],
  [0, "5", {}, "pass", 1, "5"],
  [0, '{"passed": false}', {}, "fail", 0, "score 0"],
  [0, '{"score": 0.5, "reason": "half of it"}', {}, "fail", 0.5, "half of it"],
  [0, '{"score": 0.5, "reason": "half of it"}', { threshold: 0.5 }, "pass", 0.5, "half of it"],
  [0, '{"score": 0.5, "passed": true}', {}, "pass", 0.5, "score 0.5"],
  [0, 'looking\n{\n  "score": 1\n}\n', {}, "pass", 1, "score 1"],
  [0, '{"score": null, "reason": "no pods to look at"}', {}, "skip", null, "no pods to look at"],
  [1, '{"score": 0.9, "passed": true, "reason": "good"}', {}, "fail", 0.9, "good (it exited with 1)"],
])("exit code %i, stdout %j, %j: %s", async (exitCode, stdout, settings, verdict, score, reason) => {
  const stderr = exitCode === 3 ? "Traceback: no pods\n" : "";
  expect(await gradeByProgram({ exitCode, stdout, stderr }, settings)).toMatchObject({
    verdict,
    score,
    reason,
  });
});

it.each([
  ["{'score': 0.2}", "stdout begins with { and is not an answer: it is not one JSON object"],
  ['{"score": 1}\ndone', "not one JSON object"],
  ['{"scroe": 1}', 'stdout begins with { and is not an answer: unknown key "scroe"'],
  ['{"score": 1e999}', "score must be a number, not Infinity"],
  ['{"score": 2}', "score"],
  ['{"reason": "good"}', "neither `score` nor `passed`"],
  ['looking\n[{"passed": false}]', "stdout is not an answer: it is not an object"],
  ["false", "stdout is not an answer: it is not an object"],
  ['{"passed": true, "evidence": [999]}', "the trial has no event 999"],
])("stdout %s is not a verdict", async (stdout, message) => {
  await expect(gradeByProgram({ stdout })).rejects.toMatchObject({
    code: "grader/broken",
    message: expect.stringContaining(message),
  });
});

it("cites what the program cites, else what the agent said and did", async () => {
  const cited = await gradeByProgram({
    stdout: `{"passed": true, "evidence": [${said}, ${listed}, ${said}]}`,
  });
  expect(cited.evidence).toEqual([listed, said]);
  expect((await gradeByProgram({})).evidence).toEqual(expect.arrayContaining([listed, said]));
});

it("gives the trial as JSON, or the agent's last message", async () => {
  const { asked } = await gradeByProgram({}, { args: ["--strict"], timeout: "2s", inheritEnv: ["TEAM"] });
  expect(asked).toMatchObject({ command: "grade", args: ["--strict"], cwd: "/evals", timeoutMs: 2000 });
  const record = trajectoryRecordSchema.parse(JSON.parse(asked?.stdin ?? ""));
  expect(record).toMatchObject({
    output: "There are 3 pods.",
    turns: [{ prompt: "Do it.", ended: "done" }],
    messages: [{ seq: said, turn: 0, text: "There are 3 pods." }],
    calls: [
      { seq: listed, turn: 0, tool: "list", source: "mcp:k8s", args: { all: true } },
      { tool: "get", source: "mcp:k8s", error: "no such thing", result: { isError: true } },
      { tool: "shell", source: "builtin", args: { command: "ls" }, result: "a.txt" },
    ],
    resourceReads: [{ server: "k8s", uri: "pods://all", error: "never answered" }],
    durationMs: 1200,
  });
  expect((await gradeByProgram({}, { input: "output" })).asked?.stdin).toBe("There are 3 pods.");
});

it("gives what the agent left in its workspace, or says that it is not known", async () => {
  const left = trialThatLeft({ "out/a.txt": "A", "*.png": [{ path: "b.png", kind: "file", size: 9 }] });
  const { asked } = await gradeByProgram({}, { workspace: ["out/a.txt"] }, left);
  expect(asked?.workspace).toEqual(new Map([["out/a.txt", "A"]]));
  const { files } = trajectoryRecordSchema.parse(JSON.parse(asked?.stdin ?? ""));
  expect(files).toMatchObject([{ path: "out/a.txt", text: "A" }, { path: "b.png" }]);
  await expect(gradeByProgram({}, { workspace: ["*.png"] }, left)).rejects.toMatchObject({
    code: "grader/cannot-run",
    message: expect.stringContaining("b.png (9 bytes) is too large to be read"),
  });
});

it("gives the verify steps, without those that are part of another", async () => {
  const trial = new AgentTrial((each) => each.say("Done."));
  const started = {
    type: "step.started",
    phase: "verify",
    attempt: 1,
    stepType: "group",
    input: {},
  } as const;
  const step = { phase: "verify", attempt: 1, outcome: "passed", checks: [], durationMs: 1 } as const;
  trial.emit({ ...started, step: "all" });
  trial.emit({ ...started, step: "all[0]", parent: "all" });
  trial.emit({ type: "step.finished", ...step, step: "all[0]", parent: "all" });
  trial.emit({ type: "step.finished", ...step, step: "all" });
  trial.emit({ ...started, phase: "cleanup", step: "remove" });
  trial.emit({ type: "step.finished", ...step, phase: "cleanup", step: "remove" });
  const { asked } = await gradeByProgram({}, {}, trial);
  const { verify } = trajectoryRecordSchema.parse(JSON.parse(asked?.stdin ?? ""));
  expect(verify).toEqual([{ step: "all", outcome: "passed", checks: [] }]);
});

it("does not run where the record has not all files of the workspace", async () => {
  const left = new AgentTrial((trial) => trial.say("Done."));
  left.emit({ type: "workspace.files", name: "**", files: [], incomplete: "more than 100 files fit" });
  await expect(gradeByProgram({}, { workspace: ["**"] }, left)).rejects.toMatchObject({
    code: "grader/cannot-run",
    message: expect.stringContaining("**: more than 100 files fit"),
  });
});

it("refuses an answer of which the end is missing", async () => {
  await expect(gradeByProgram({ stdout: '{"passed": true}', omitted: 9 })).rejects.toMatchObject({
    code: "grader/broken",
    message: expect.stringContaining("it is too long and was cut"),
  });
  expect(await gradeByProgram({ stdout: "much text", omitted: 9 })).toMatchObject({ verdict: "pass" });
});

it("runs nothing for a trial that shows nothing of the agent", async () => {
  const grade = await gradeByProgram({}, {}, new AgentTrial());
  expect(grade).toMatchObject({ verdict: "skip", asked: undefined });
});

it("refuses settings that start nothing", () => {
  expect(settingIssues("program", {})).toHaveLength(1);
  expect(settingIssues("program", { command: "grade", timeout: 0 })).toHaveLength(1);
  expect(settingIssues("program", { command: "grade", timeout: "999h" })).toEqual([
    "must be at most 24 days",
  ]);
  expect(settingIssues("program", { command: "grade", args: ["a\0"] })).toEqual([
    "must not contain a NUL character",
  ]);
  expect(settingIssues("program", { command: "grade", inheritEnv: ["A=B"] })).toEqual([
    "must be the name of a variable",
  ]);
  expect(settingIssues("program", { command: "grade", input: "trace" })).toHaveLength(1);
  expect(settingIssues("program", { command: "grade", workspace: ["../a"] })).toHaveLength(1);
});
