import { mkdirSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { TextExpectation } from "../../src/core/formats/step.ts";
import { commandStepOf as command, playStep, testTrial, writeTaskFile } from "../support/program-steps.ts";
import { trustedScope } from "../support/step-context.ts";

const outputs = { out: "{stdout}", err: "{stderr}", code: "{exitCode}" };

describe("a command", () => {
  it("runs in the task's folder with exactly the task's environment and the step's on top", async () => {
    const trial = testTrial();
    const env = { PATH: process.env["PATH"] ?? "", A: "world", B: "world" };
    const { outcome, outputs: given } = await playStep(
      command('pwd; echo "$A $B $C"; env | grep -c "^HOME="', {
        env: { B: "step", C: "step" },
        outputs,
        expect: { exitCode: 1 },
      }),
      { trial: { ...trial, env } },
    );
    expect([outcome, given]).toEqual([
      "passed",
      { out: `${realpathSync(trial.dir)}\nworld step step\n0`, err: "", code: "1" },
    ]);
  });

  it("runs in the folder that it names", async () => {
    const trial = testTrial();
    mkdirSync(join(trial.dir, "sub"));
    const { outputs: given } = await playStep(command("pwd", { workdir: "sub", outputs }), { trial });
    expect(given).toMatchObject({ out: join(realpathSync(trial.dir), "sub") });
  });

  it("does not run in a folder outside the task's", async () => {
    const { report } = await playStep(command("echo no", { workdir: "../.." }));
    expect(report).toMatchObject({ outcome: "error", error: { code: "task/outside" } });
  });

  it("cannot run in a folder that is not there, or is none", async () => {
    const trial = testTrial({ file: "" });
    const { report } = await playStep(command("echo no", { workdir: "sub" }), { trial });
    expect(report).toMatchObject({ outcome: "error", error: { code: "step/cannot-run" } });
    expect(report.error).toMatchObject({
      message: `the folder to run in does not exist: ${join(trial.dir, "sub")}`,
    });
    const other = await playStep(command("echo no", { workdir: "file" }), { trial });
    expect(other.report.error).toMatchObject({ message: expect.stringContaining("is not a folder") });
  });

  it("gets what stands in stdin, and an empty stdin without", async () => {
    const given = await playStep(command("cat; echo .", { stdin: "one\ntwo 🦊", outputs }));
    expect(given.outputs).toMatchObject({ out: "one\ntwo 🦊." });
    const none = await playStep(command("cat; echo .", { outputs }));
    expect(none.outputs).toMatchObject({ out: "." });
  });

  it("may leave a long stdin unread", async () => {
    const { outcome } = await playStep(command("exit 0", { stdin: "x".repeat(5_000_000) }));
    expect(outcome).toBe("passed");
  });

  it("gives what it wrote without the line ends after the last line", async () => {
    const { outputs: given } = await playStep(
      command(String.raw`printf ' a \n\nb\n\n'; printf 'c\r\n' >&2; exit 3`, {
        expect: { exitCode: 3 },
        outputs,
      }),
    );
    expect(given).toEqual({ out: " a \n\nb", err: "c", code: "3" });
  });

  it("keeps characters whole that come in two pieces", async () => {
    const line = String.raw`printf '\360\237'; sleep 0.05; printf '\246\212'; printf '\303' >&2`;
    const { outputs: given } = await playStep(command(line, { outputs }));
    expect(given).toEqual({ out: "🦊", err: "\uFFFD", code: "0" });
  });

  it("shows in its events what it ran", async () => {
    const shown = { run: "cat; exit", shell: "/bin/sh", workdir: ".", env: { A: "1" }, stdin: "x" };
    const full = await playStep(command("cat; exit", shown));
    expect(full.input).toEqual(shown);
    expect((await playStep(command("true"))).input).toEqual({ run: "true" });
  });

  it("tells the ports' keeper everything that it starts with", async () => {
    const trial = testTrial({}, { env: { PATH: process.env["PATH"] ?? "", PORT: "1001" } });
    await playStep(command(": 1002", { env: { OTHER: "1003" }, stdin: "1004" }), { trial });
    expect(trial.released).toEqual(expect.arrayContaining([": 1002", "1001", "1003", "1004"]));
  });

  it("replaces templates in all its texts", async () => {
    const trial = testTrial();
    mkdirSync(join(trial.dir, "sub"));
    const {
      outcome,
      input,
      outputs: given,
    } = await playStep(
      command("echo {v | sh} $A; cat; pwd; exit 4", {
        shell: "/bin/{sh}",
        workdir: "{sub}",
        env: { A: "a-{v}" },
        stdin: "in {v}\n",
        outputs: { first: "{v}: {stdout}" },
        expect: { exitCode: 4, stdout: { contains: ["{v}"] }, stderr: { equals: "{none}" } },
      }),
      { trial, scope: trustedScope({ v: "it's", sh: "sh", sub: "sub", none: "" }) },
    );
    expect(input).toMatchObject({
      shell: "/bin/sh",
      workdir: "sub",
      env: { A: "a-it's" },
      stdin: "in it's\n",
    });
    expect(given).toEqual({ first: `it's: it's a-it's\nin it's\n${join(realpathSync(trial.dir), "sub")}` });
    expect(outcome).toBe("passed");
  });
});

describe("the shell of a command", () => {
  /** A program that takes `-c` and says that it is called. */
  const shell = '#!/bin/sh\necho "mine $1 <$2>"\n';

  it("is the one that the step names", async () => {
    const trial = testTrial();
    const path = writeTaskFile(trial, "shell", shell, 0o755);
    const { outputs: given } = await playStep(command("a 'line'", { shell: path, outputs }), { trial });
    expect(given).toMatchObject({ out: "mine -c <a 'line'>" });
  });

  it("else the variable SHELL, also of the step itself", async () => {
    const trial = testTrial();
    const path = writeTaskFile(trial, "shell", shell, 0o755);
    const env = { ...trial.env, SHELL: path };
    const inherited = await playStep(command("x", { outputs }), { trial: { ...trial, env } });
    expect(inherited.outputs).toMatchObject({ out: "mine -c <x>" });
    const own = await playStep(command("y", { env: { SHELL: path }, outputs }), { trial });
    expect(own.outputs).toMatchObject({ out: "mine -c <y>" });
  });

  it("else /bin/sh", async () => {
    const { outputs: given } = await playStep(command('echo "$0"', { outputs }));
    expect(given).toMatchObject({ out: "/bin/sh" });
  });

  it("makes the step an error when it is not there", async () => {
    const { report } = await playStep(command("echo", { shell: "/no/such/shell" }));
    expect(report).toMatchObject({
      outcome: "error",
      checks: [],
      error: {
        code: "step/cannot-run",
        message: "the shell cannot be started: command not found: /no/such/shell",
        details: { hint: expect.stringMatching(/shell.*SHELL/) as unknown },
        cause: { code: "server/spawn-failed" },
      },
    });
  });

  it("says what to do about a text that no program can be given", async () => {
    const { report } = await playStep(command("true && test -n $A", { env: { A: "a\0b" } }));
    expect(report).toMatchObject({ outcome: "error", error: { code: "step/cannot-run" } });
    const hint = expect.stringContaining("NUL character") as unknown;
    expect(report.error).toMatchObject({ details: { hint } });
  });

  it("says what to do about a line that is too long for the system", async () => {
    const { report } = await playStep(command(`: ${"x".repeat(10_000_000)}`));
    expect(report).toMatchObject({ outcome: "error", error: { code: "step/cannot-run" } });
    expect(report.error).toMatchObject({ details: { hint: expect.stringContaining("stdin") as unknown } });
  });
});

describe("what is expected of a command", () => {
  it("is exit code 0 unless it says so; the end of what it wrote is shown", async () => {
    const failed = await playStep(command("echo out; echo 'no such pod' >&2; exit 2"));
    expect(failed.outcome).toBe("failed");
    expect(failed.report.checks).toEqual([
      {
        name: "exit code",
        passed: false,
        expected: 0,
        actual: { exitCode: 2, stderr: "no such pod", stdout: "out" },
        message: "it exited with 2, expected 0: no such pod",
        untried: true,
      },
    ]);
    const passed = await playStep(command("test -d ."));
    expect(passed.report.checks).toEqual([
      { name: "exit code", passed: true, expected: 0, actual: 0, message: "it exited with 0" },
    ]);
  });

  it("can be another exit code, and then 0 fails", async () => {
    const expect3 = { expect: { exitCode: 3 } };
    expect((await playStep(command("exit 3", expect3))).outcome).toBe("passed");
    const { outcome, checks } = await playStep(command("echo said; exit 0", expect3));
    expect([outcome, checks]).toEqual([
      "failed",
      [["exit code", false, "it exited with 0, expected 3: said"]],
    ]);
  });

  it("never holds when a signal ended it", async () => {
    const { outcome, report, checks } = await playStep(command("echo a; kill -9 $$"));
    expect([outcome, checks]).toEqual([
      "failed",
      [["exit code", false, "it was ended by SIGKILL, expected 0: a"]],
    ]);
    expect(report.checks[0]?.actual).toEqual({ signal: "SIGKILL", stdout: "a" });
  });

  it.each<[string, TextExpectation, string]>([
    ["equals", { equals: "one\ntwo" }, "passed"],
    ["equals", { equals: "one" }, "failed"],
    ["contains", { contains: ["two", "one"] }, "passed"],
    ["contains", { contains: ["one", "three"] }, "failed"],
    ["matches", { matches: ["^one\ntwo"] }, "passed"],
    ["matches", { matches: ["^two"] }, "failed"],
  ])("can be about stdout and about stderr (%s %j: %s)", async (_, expectation, outcome) => {
    const out = await playStep(
      command("echo one; echo two", { expect: { exitCode: 0, stdout: expectation } }),
    );
    const err = await playStep(
      command("(echo one; echo two) >&2", { expect: { exitCode: 0, stderr: expectation } }),
    );
    expect([out.outcome, err.outcome]).toEqual([outcome, outcome]);
    expect(out.checks.slice(1).map(([name]) => name.split(" ")[0])).toContain("stdout");
    expect(err.checks.slice(1).map(([name]) => name.split(" ")[0])).toContain("stderr");
  });

  it("can be about JSON that it wrote", async () => {
    const stdout = { json: [{ path: "$.items[0].name", equals: "web" }] };
    const good = command(`echo '{"items": [{"name": "web"}]}'`, { expect: { exitCode: 0, stdout } });
    expect((await playStep(good)).outcome).toBe("passed");
    const bad = command(`echo '{"items": []}'`, { expect: { exitCode: 0, stdout } });
    expect((await playStep(bad)).outcome).toBe("failed");
  });

  it("is all looked at, also when the exit code is wrong", async () => {
    const { checks } = await playStep(
      command("echo a; exit 1", { expect: { exitCode: 0, stdout: { equals: "a" } } }),
    );
    expect(checks.map(([, passed]) => passed)).toEqual([false, true]);
  });
});

describe("a command that writes very much", () => {
  const flood = (bytes: number, to: string): string => `head -c ${bytes} /dev/zero | tr '\\0' x${to}`;

  it("is kept up to 10 MB, and the rest is dropped and told", async () => {
    const { outcome, checks, text } = await playStep(
      command(`${flood(10_000_007, "")}; ${flood(1_000_000, " >&2")}`, { outputs }),
    );
    expect([outcome, checks]).toEqual([
      "passed",
      [
        ["exit code", true, "it exited with 0"],
        ["stdout kept", true, "its last 7 bytes were dropped"],
      ],
    ]);
    expect([text("out").length, text("err").length]).toEqual([10_000_000, 1_000_000]);
  });

  it("is an error when what was dropped is expected to be something", async () => {
    const { report } = await playStep(
      command(flood(10_000_001, ""), { expect: { exitCode: 0, stdout: { contains: ["x"] } } }),
    );
    expect(report).toMatchObject({ outcome: "error", error: { code: "step/cannot-run" } });
    expect(report.error).toMatchObject({
      message: "stdout is too long to be checked: its last 1 bytes were dropped",
    });
  });

  it("is killed all the same when its time is up", async () => {
    const { report } = await playStep(command("while :; do echo xxxxxxxx; done", { timeoutMs: 300 }));
    expect(report).toMatchObject({ outcome: "timeout", error: { code: "step/timeout" } });
  });
});

describe("a command that takes too long", () => {
  it("is a timeout that shows what it wrote so far", async () => {
    const { report, checks } = await playStep(
      command("echo begun; echo waiting >&2; exec sleep 1000", { timeoutMs: 400 }),
    );
    expect(report).toMatchObject({
      outcome: "timeout",
      error: {
        code: "step/timeout",
        message: "step run: it took longer than 400 ms",
        details: { detail: "stdout:\nbegun\nstderr:\nwaiting" },
      },
    });
    expect(checks).toEqual([]);
  });
});
