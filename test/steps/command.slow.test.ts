import { mkdirSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { CommandStep, TextExpectation } from "../../src/model/step.ts";
import {
  commandStepOf as command,
  playStep,
  testTrial,
  trustedScope,
  writeTaskFile,
} from "../support/step-context.ts";

const outputs = { out: "{stdout}", err: "{stderr}", code: "{exitCode}" };

function withOutputs(run: string, parts: Partial<CommandStep> = {}): CommandStep {
  return command(run, { outputs, ...parts });
}

function expecting(run: string, expectation: Partial<CommandStep["expect"]>): CommandStep {
  return command(run, { expect: { exitCode: 0, ...expectation } });
}

describe("a command", () => {
  it("runs in the task's folder with exactly the task's environment and the step's on top", async () => {
    const trial = testTrial();
    const env = { PATH: process.env["PATH"] ?? "", A: "world", B: "world" };
    const step = withOutputs('pwd; echo "$A $B $C"; env | grep -c "^HOME="', {
      env: { B: "step", C: "step" },
      expect: { exitCode: 1 },
    });
    const { outcome, outputs: given } = await playStep(step, { trial: { ...trial, env } });
    const out = `${realpathSync(trial.dir)}\nworld step step\n0`;
    expect([outcome, given]).toEqual(["passed", { out, err: "", code: "1" }]);
  });

  it.each<[string, string | undefined, string]>([
    ["sub", undefined, ""],
    ["../..", "task/outside", "leads to"],
    ["none", "step/cannot-run", "the folder to run in does not exist: "],
    ["file", "step/cannot-run", "is not a folder"],
  ])("runs in the folder that it names, in the task's: %s", async (workdir, code, message) => {
    const trial = testTrial({ file: "" });
    mkdirSync(join(trial.dir, "sub"));
    const { report, outputs: given } = await playStep(withOutputs("pwd", { workdir }), { trial });
    if (code === undefined) expect(given).toMatchObject({ out: join(realpathSync(trial.dir), workdir) });
    else expect(report.error).toMatchObject({ code, message: expect.stringContaining(message) as string });
  });

  it.each<[string, Partial<CommandStep>, object]>([
    ["cat; echo .", { stdin: "one\ntwo 🦊" }, { out: "one\ntwo 🦊." }],
    ["cat; echo .", {}, { out: "." }],
    ["exit 0", { stdin: "x".repeat(5_000_000) }, { code: "0" }],
    // Without the line ends after the last line.
    [
      String.raw`printf ' a \n\nb\n\n'; printf 'c\r\n' >&2; exit 3`,
      { expect: { exitCode: 3 } },
      { out: " a \n\nb", err: "c", code: "3" },
    ],
    // Characters that come in two pieces.
    [
      String.raw`printf '\360\237'; sleep 0.05; printf '\246\212'; printf '\303' >&2`,
      {},
      { out: "🦊", err: "\uFFFD", code: "0" },
    ],
  ])("reads its stdin and gives its output: %s", async (run, parts, expected) => {
    const { outcome, outputs: given } = await playStep(withOutputs(run, parts));
    expect([outcome, given]).toMatchObject(["passed", expected]);
  });

  it("is shown in its events, and releases the ports in everything that it starts with", async () => {
    const shown = { run: "cat; exit", shell: "/bin/sh", workdir: ".", env: { A: "1" }, stdin: "x" };
    expect((await playStep(command("cat; exit", shown))).input).toEqual(shown);
    expect((await playStep(command("true"))).input).toEqual({ run: "true" });
    const trial = testTrial({}, { env: { PATH: process.env["PATH"] ?? "", PORT: "1001" } });
    await playStep(command(": 1002", { env: { OTHER: "1003" }, stdin: "1004" }), { trial });
    expect(trial.released).toEqual(expect.arrayContaining([": 1002", "1001", "1003", "1004"]));
  });

  it("replaces templates in all its texts", async () => {
    const trial = testTrial();
    mkdirSync(join(trial.dir, "sub"));
    const step = command("echo {v | sh} $A; cat; pwd; exit 4", {
      shell: "/bin/{sh}",
      workdir: "{sub}",
      env: { A: "a-{v}" },
      stdin: "in {v}\n",
      outputs: { first: "{v}: {stdout}" },
      expect: { exitCode: 4, stdout: { contains: ["{v}"] }, stderr: { equals: "{none}" } },
    });
    const scope = trustedScope({ v: "it's", sh: "sh", sub: "sub", none: "" });
    const { outcome, input, outputs: given } = await playStep(step, { trial, scope });
    const shown = { shell: "/bin/sh", workdir: "sub", env: { A: "a-it's" }, stdin: "in it's\n" };
    expect(input).toMatchObject(shown);
    const folder = join(realpathSync(trial.dir), "sub");
    expect(given).toEqual({ first: `it's: it's a-it's\nin it's\n${folder}` });
    expect(outcome).toBe("passed");
  });
});

describe("the shell of a command", () => {
  it("is the one that the step names, else the variable SHELL, else /bin/sh", async () => {
    const trial = testTrial();
    const shell = writeTaskFile(trial, "shell", '#!/bin/sh\necho "mine $1 <$2>"\n', 0o755);
    const inherited = { ...trial, env: { ...trial.env, SHELL: shell } };
    const named = await playStep(withOutputs("a 'line'", { shell }), { trial });
    const fromTask = await playStep(withOutputs("x"), { trial: inherited });
    const fromStep = await playStep(withOutputs("y", { env: { SHELL: shell } }), { trial });
    const usual = await playStep(withOutputs('echo "$0"'));
    const texts = [named, fromTask, fromStep, usual].map(({ text }) => text("out"));
    expect(texts).toEqual(["mine -c <a 'line'>", "mine -c <x>", "mine -c <y>", "/bin/sh"]);
  });

  it("makes the step an error when it does not exist", async () => {
    const { report } = await playStep(command("echo", { shell: "/no/such/shell" }));
    const error = {
      code: "step/cannot-run",
      message: "the shell cannot be started: command not found: /no/such/shell",
      details: { hint: expect.stringMatching(/shell.*SHELL/) as unknown },
      cause: { code: "server/spawn-failed" },
    };
    expect(report).toMatchObject({ outcome: "error", checks: [], error });
  });

  it.each<[string, CommandStep, string]>([
    ["a text with NUL", command("true && test -n $A", { env: { A: "a\0b" } }), "NUL character"],
    ["a line that is too long", command(`: ${"x".repeat(10_000_000)}`), "stdin"],
  ])("gets a hint for %s", async (_, step, hint) => {
    const { report } = await playStep(step);
    const details = { hint: expect.stringContaining(hint) as unknown };
    expect(report.error).toMatchObject({ code: "step/cannot-run", details });
  });
});

describe("the expectation of a command", () => {
  const expect3 = { expect: { exitCode: 3 } };
  it.each<[CommandStep, string, object]>([
    [
      command("echo out; echo 'no such pod' >&2; exit 2"),
      "failed",
      {
        expected: 0,
        actual: { exitCode: 2, stderr: "no such pod", stdout: "out" },
        message: "it exited with 2, expected 0: no such pod",
        evidence: "notRun",
      },
    ],
    [command("test -d ."), "passed", { expected: 0, actual: 0, message: "it exited with 0" }],
    [command("exit 3", expect3), "passed", { expected: 3, actual: 3, message: "it exited with 3" }],
    [
      command("echo said; exit 0", expect3),
      "failed",
      { expected: 3, actual: { exitCode: 0, stdout: "said" }, message: "it exited with 0, expected 3: said" },
    ],
    [
      command("echo a; kill -9 $$"),
      "failed",
      {
        expected: 0,
        actual: { signal: "SIGKILL", stdout: "a" },
        message: "it was ended by SIGKILL, expected 0: a",
        evidence: "notRun",
      },
    ],
  ])("is an exit code, 0 unless it says so: $run has %s", async (step, outcome, check) => {
    const { report } = await playStep(step);
    expect(report.outcome).toBe(outcome);
    expect(report.checks).toEqual([{ name: "exit code", passed: outcome === "passed", ...check }]);
  });

  it.each<[TextExpectation, string]>([
    [{ equals: "one\ntwo" }, "passed"],
    [{ equals: "one" }, "failed"],
  ])("can be about stdout and about stderr: %j has %s", async (text, outcome) => {
    const out = await playStep(expecting("echo one; echo two", { stdout: text }));
    const err = await playStep(expecting("(echo one; echo two) >&2", { stderr: text }));
    expect([out.outcome, err.outcome]).toEqual([outcome, outcome]);
    expect(out.checks.slice(1).every(([name]) => name.startsWith("stdout "))).toBe(true);
    expect(err.checks.slice(1).every(([name]) => name.startsWith("stderr "))).toBe(true);
  });

  it("can be about JSON, and is checked whole even if the exit code is wrong", async () => {
    const { checks } = await playStep(expecting("echo a; exit 1", { stdout: { equals: "a" } }));
    expect(checks.map(([, passed]) => passed)).toEqual([false, true]);
  });
});

describe("a command that writes very much", () => {
  const flood = (bytes: number, to: string): string => `head -c ${bytes} /dev/zero | tr '\\0' x${to}`;

  it("is kept up to 10 MB, and the rest is dropped and reported", async () => {
    const step = withOutputs(`${flood(10_000_007, "")}; ${flood(1_000_000, " >&2")}`);
    const { outcome, checks, text } = await playStep(step);
    expect([outcome, checks]).toEqual([
      "passed",
      [
        ["exit code", true, "it exited with 0"],
        ["stdout kept", true, "its last 7 bytes were dropped"],
      ],
    ]);
    expect([text("out").length, text("err").length]).toEqual([10_000_000, 1_000_000]);
  });

  it("is an error when something is expected of what was dropped", async () => {
    const { report } = await playStep(expecting(flood(10_000_001, ""), { stdout: { contains: ["x"] } }));
    const message = "stdout is too long to be checked: its last 1 bytes were dropped";
    expect(report).toMatchObject({ outcome: "error", error: { code: "step/cannot-run", message } });
  });
});

it.each([
  ["echo begun; echo waiting >&2; exec sleep 1000", "stdout:\nbegun\nstderr:\nwaiting"],
  ["while :; do echo xxxxxxxx; done", expect.stringContaining("xxxxxxxx\n")],
])("a command that takes too long is a timeout with what it wrote: %s", async (run, detail) => {
  const { report, checks } = await playStep(command(run, { timeoutMs: 400 }));
  const error = {
    code: "step/timeout",
    message: "step run: it took longer than 400 ms",
    details: { detail: detail as string },
  };
  expect(report).toMatchObject({ outcome: "timeout", error });
  expect(checks).toEqual([]);
});
