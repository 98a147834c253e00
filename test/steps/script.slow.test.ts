import { execFileSync } from "node:child_process";
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { ownMark } from "../../src/process/folders.ts";
import type { McpvalsError } from "../../src/base/error.ts";
import type { JsonObject } from "../../src/base/json.ts";
import type { ScriptStep } from "../../src/model/step.ts";
import {
  type PlayedStep,
  playStep,
  type PlayStepOptions,
  scriptStepOf as script,
  testTrial,
  trustedScope,
  writeTaskFile,
} from "../support/step-context.ts";

const outputs = { out: "{stdout}", err: "{stderr}", code: "{exitCode}" };

/** Temporary files of these tests alone: others run scripts at the same time. */
const temporary = realpathSync(mkdtempSync(join(tmpdir(), "mcpvals-scripts-")));
beforeAll(() => void vi.stubEnv("TMPDIR", temporary));
afterAll(() => {
  vi.unstubAllEnvs();
  rmSync(temporary, { recursive: true, force: true });
});

/** Names of the folders for texts of scripts that exist now. */
function leftFolders(): string[] {
  return readdirSync(tmpdir()).filter((name) => name.startsWith(`mcpvals-script-${ownMark()}`));
}

function inline(text: string, parts: Partial<ScriptStep> = {}): ScriptStep {
  return script({ inline: text }, { outputs, ...parts });
}

function file(path: string, parts: Partial<ScriptStep> = {}): ScriptStep {
  return script({ file: path }, { outputs, ...parts });
}

describe("a script's file", () => {
  it("is started itself when it is executable", async () => {
    const trial = testTrial();
    const text = "#!/usr/bin/env node\nconsole.log(process.argv[1])";
    const path = writeTaskFile(trial, "bin/check.js", text, 0o755);
    const { outcome, outputs: given } = await playStep(file("bin/check.js"), { trial });
    expect([outcome, given]).toEqual(["passed", { out: realpathSync(path), err: "", code: "0" }]);
  });

  it("may be a program that no interpreter runs", async () => {
    const trial = testTrial();
    copyFileSync("/bin/echo", join(trial.dir, "say"));
    expect((await playStep(file("say", { args: ["hello"] }), { trial })).text("out")).toBe("hello");
  });

  it.each([
    ["node", "#!/usr/bin/env node\nconsole.log(`js ${2 ** 3}`)", "js 8"],
    ["an interpreter with an argument", "#!/bin/sh -u\necho $-", "u"],
    ["one with several arguments", "#!/usr/bin/env -S sh -u -f\necho $- && set +u && echo $-", "f"],
    ["the shell, without a first line", 'echo "sh $0"', "sh "],
  ])("that is not executable is run by %s, and keeps its mode", async (_, text, printed) => {
    const trial = testTrial();
    const path = writeTaskFile(trial, "check", text, 0o640);
    const played = await playStep(file("check"), { trial });
    expect(played.outcome).toBe("passed");
    expect(played.text("out")).toContain(printed);
    expect(statSync(path).mode & 0o777).toBe(0o640);
  });

  it("that is executable but has no first line is run by the shell of the task", async () => {
    const trial = testTrial();
    const shell = writeTaskFile(trial, "shell", '#!/bin/sh\necho "mine $#"\n', 0o755);
    writeTaskFile(trial, "check", "echo no\n", 0o755);
    const played = await playStep(file("check", { env: { SHELL: shell } }), { trial });
    expect(played.text("out")).toBe("mine 1");
  });

  it("runs in the task's folder, or in its own", async () => {
    const trial = testTrial({ "sub/check.sh": "pwd" });
    const folder = realpathSync(trial.dir);
    const run = async (workdir: ScriptStep["workdir"]): Promise<string> =>
      (await playStep(file("sub/check.sh", { workdir }), { trial })).text("out");
    expect([await run("task"), await run("script")]).toEqual([folder, join(folder, "sub")]);
  });

  it.each([
    ["../check.sh", "task/outside", /leads to/],
    ["check.sh", "step/cannot-run", /check\.sh/],
    ["folder", "step/cannot-run", /regular file/],
    ["pipe", "step/cannot-run", /regular file/],
  ])("has to be a file in the task's folder: %s", async (path, code, message) => {
    const trial = testTrial();
    mkdirSync(join(trial.dir, "folder"));
    execFileSync("mkfifo", [join(trial.dir, "pipe")]);
    const { report } = await playStep(file(path), { trial });
    expect(report).toMatchObject({ outcome: "error", error: { code } });
    expect((report.error as McpvalsError).message).toMatch(message);
  });

  it.each([0o644, 0o755])("whose interpreter is missing makes an error (%o)", async (mode) => {
    const trial = testTrial();
    writeTaskFile(trial, "check", "#!/no/such/interpreter\n", mode);
    const { report } = await playStep(file("check"), { trial });
    const message = expect.stringMatching(
      /^the script cannot be started: .*\/no\/such\/interpreter|\/check/,
    ) as string;
    const details = { hint: expect.stringContaining("first line") as string };
    expect(report.error).toMatchObject({ code: "step/cannot-run", message, details });
  });
});

describe("a script's text", () => {
  it("is run by the shell in the task's folder, from a file outside of it that is removed", async () => {
    const trial = testTrial();
    const before = leftFolders();
    const { text } = await playStep(inline('pwd; ls -A; echo "$0"; cat'), { trial });
    const [folder, path, ...rest] = text("out").split("\n");
    expect([folder, rest]).toEqual([realpathSync(trial.dir), []]);
    expect(path).toMatch(/mcpvals-script-[\w-]+.script$/);
    expect(path).not.toContain(trial.dir);
    const late = await playStep(inline("exec sleep 1000", { timeoutMs: 300 }));
    const broken = await playStep(inline("#!/no/such/interpreter"));
    expect([late.outcome, broken.outcome]).toEqual(["timeout", "error"]);
    expect(leftFolders()).toEqual(before);
  });

  it.each([
    ["node", "\n  #!/usr/bin/env node\nconsole.log(JSON.stringify(process.argv.slice(2)))"],
    ["the shell", `printf '["%s", "%s"] True' "$1" "$2"`],
  ])("is run by %s, with its arguments", async (_, source) => {
    const { outcome, text } = await playStep(inline(source, { args: ["a b", "$HOME"] }));
    expect(outcome).toBe("passed");
    expect(text("out").replaceAll(/['"]/g, "")).toMatch(/^\[a b, ?\$HOME\]( True)?$/);
  });

  it("releases the ports in everything that it starts with", async () => {
    const trial = testTrial();
    await playStep(inline(": 1001", { args: ["1002"], env: { P: "1003" } }), { trial });
    expect(trial.released).toEqual(expect.arrayContaining([": 1001", "1002", "1003"]));
  });
});

describe("a script", () => {
  it("gets the task's environment and the step's on top", async () => {
    const trial = testTrial();
    const env = { ...trial.env, A: "world", B: "world" };
    const played = await playStep(inline('echo "$A $B"', { env: { B: "step" } }), {
      trial: { ...trial, env },
    });
    expect(played.text("out")).toBe("world step");
  });

  it("has templates in all its texts", async () => {
    const trial = testTrial({ "check.sh": "exit 7" });
    const scope = trustedScope({ v: "x y", name: "check" });
    const step = inline('echo {v | sh} "$1" "$A"', { args: ["1 {v}"], env: { A: "2 {v}" } });
    const played = await playStep(step, { trial, scope });
    expect(played.text("out")).toBe("x y 1 x y 2 x y");
    const given = { inline: `echo 'x y' "$1" "$A"`, args: ["1 x y"], env: { A: "2 x y" } };
    expect(played.input).toEqual({ ...given, protocol: "exit-code" });
    const named = await playStep(file("{name}.sh"), { trial, scope });
    expect([named.outcome, named.input]).toEqual(["failed", { file: "check.sh", protocol: "exit-code" }]);
  });

  it("passes with exit code 0 only; its output is kept either way", async () => {
    const passed = await playStep(inline("echo fine; echo really >&2"));
    const check = { name: "exit code", passed: true, expected: 0, message: "it exited with 0" };
    expect(passed.report.checks).toMatchObject([{ ...check, actual: { exitCode: 0 } }]);
    const failed = await playStep(inline("echo one; sleep 0.1; echo two >&2; sleep 0.1; echo three; exit 9"));
    const actual = { exitCode: 9, output: "one\ntwo\nthree" };
    const message = "it exited with 9, expected 0: two";
    expect(failed.report.checks).toEqual([{ ...check, passed: false, actual, message, evidence: "notRun" }]);
  });

  it.each([
    ["kill -9 $$", "failed", "it was ended by SIGKILL, expected 0"],
    [
      "head -c 10000003 /dev/zero | tr '\\0' x",
      "passed",
      "it exited with 0 (3 bytes of its output were dropped)",
    ],
  ])("that does %s has %s: %s", async (text, outcome, message) => {
    const played = await playStep(inline(text, { outputs: {} }));
    expect([played.outcome, played.checks]).toEqual([
      outcome,
      [["exit code", outcome === "passed", message]],
    ]);
  });

  it.each([
    ["check.py", "echo no; exit 3", true],
    ["check.sh", "echo no; exit 3", false],
    ["good.py", "#!/bin/sh\necho no; exit 3", false],
  ])(
    "in %s without a first line gets a remark when it fails or is broken",
    async (path, text, isRemarked) => {
      const remark =
        "The file has no #! line, so the shell ran it; begin it with #!/usr/bin/env python3, say.";
      const trial = testTrial({ [path]: text });
      const failed = await playStep(file(path), { trial });
      const message = `it exited with 3, expected 0: no${isRemarked ? `. ${remark}` : ""}`;
      expect(failed.checks).toEqual([["exit code", false, message]]);
      const broken = await playStep(file(path, { protocol: "json" }), { trial });
      const { hint } = (broken.report.error as McpvalsError).details;
      expect(hint).toMatch(isRemarked ? remark : /^With protocol: json/);
    },
  );
});

const json: Partial<ScriptStep> = { protocol: "json", outputs: {} };

/** Plays a script that answers with a JSON value. */
function answering(answer: unknown, options: PlayStepOptions = {}): Promise<PlayedStep> {
  return playStep(inline(`cat > input.json\ncat <<'END'\n${JSON.stringify(answer)}\nEND`, json), options);
}

describe("a script with the JSON protocol", () => {
  it("reads the trial from its stdin", async () => {
    const agent = { output: "It is 5.", exitCode: 0 };
    const toolCall = {
      serverName: "calc",
      toolName: "add",
      arguments: { a: 2 },
      result: { content: [] },
      timestamp: "2026-01-01T00:00:00.000Z",
    };
    const callHistory = { toolCalls: [toolCall], resourceReads: [], promptGets: [] };
    const parts = { task: "sums", prompt: "Add 🦊.", agent, history: () => callHistory };
    const trial = testTrial({}, { ...parts, outputs: new Map([["make", { id: "7" }]]) });
    await answering({ passed: true }, { trial });
    const read = (dir: string): JsonObject =>
      JSON.parse(readFileSync(join(dir, "input.json"), "utf8")) as JsonObject;
    expect(read(trial.dir)).toEqual({
      task: { name: "sums", prompt: "Add 🦊." },
      agent,
      mcp: { callHistory },
      env: trial.env,
      steps: { make: { outputs: { id: "7" } } },
      workspace: trial.workspace,
    });
    const early = testTrial();
    await answering({ passed: true }, { trial: early });
    expect(read(early.dir)).toMatchObject({ agent: null, steps: {} });
  });

  it("gives its checks and outputs, and further outputs of the step", async () => {
    const given = { uid: "a-1", labels: { app: ["web", 1, null] } };
    const checks = [
      { name: "pod exists", passed: true, message: "found" },
      { name: "pod runs", passed: true },
    ];
    const { report } = await answering({ passed: true, reason: "all there", checks, outputs: given });
    const whole = { expected: true, actual: true };
    expect(report).toMatchObject({
      outcome: "passed",
      checks: [
        { name: "passed", passed: true, ...whole, message: "all there" },
        { ...checks[0], ...whole },
        { ...checks[1], message: "it holds" },
      ],
      outputs: given,
    });
    const text = `echo log >&2; echo '{"passed": true, "outputs": {"uid": "a-1"}}'`;
    const named = { id: "id {outputs.uid}", err: "{stderr} {exitCode}" };
    const played = await playStep(inline(text, { protocol: "json", outputs: named }));
    expect(played.outputs).toEqual({ uid: "a-1", id: "id a-1", err: "log 0" });
  });

  it.each<[object, string, unknown[]]>([
    [
      { passed: false, checks: [{ name: "a", passed: true }] },
      "failed",
      [
        ["passed", false, "the script says that it failed"],
        ["a", true, "it holds"],
      ],
    ],
    [
      { passed: true, reason: null, checks: null, outputs: null, score: 3 },
      "passed",
      [["passed", true, "the script says that it passed"]],
    ],
    [
      { passed: true, reason: " ", checks: [{ name: "a", passed: false, message: null }] },
      "failed",
      [
        ["passed", true, "the script says that it passed"],
        ["a", false, "it does not hold"],
      ],
    ],
  ])("that answers %j has %s", async (answer, outcome, checks) => {
    const played = await answering(answer);
    expect([played.outcome, played.checks, played.report.outputs]).toEqual([outcome, checks, undefined]);
  });

  it.each<[unknown, string]>([
    [[], "its stdout is a list, not an object"],
    ["yes", "its stdout is a string, not an object"],
    [null, "its stdout is null, not an object"],
    [{}, '"passed" is not there, not true or false'],
    [{ passed: "true" }, '"passed" is a string, not true or false'],
    [{ passed: 1 }, '"passed" is a number, not true or false'],
    [{ passed: null }, '"passed" is null, not true or false'],
    [{ passed: true, reason: 5 }, '"reason" is a number, not a text'],
    [{ passed: true, outputs: ["a"] }, '"outputs" is a list, not an object'],
    [{ passed: true, checks: {} }, '"checks" is an object, not a list'],
    [{ passed: true, checks: [1] }, "checks[0] is a number, not an object"],
    [{ passed: true, checks: [{ name: "a", passed: true }, { passed: true }] }, "checks[1] has no name"],
    [{ passed: true, checks: [{ name: "a" }] }, 'checks[0] has "passed" as not there, not true or false'],
    [
      { passed: true, checks: [{ name: "a", passed: true, message: 1 }] },
      'checks[0] has "message" as a number, not a text',
    ],
  ])("is broken, which is an error and not a failure, when it answers %j", async (answer, problem) => {
    const { report } = await answering(answer);
    const error = { code: "step/broken-script", message: `the script is broken: ${problem}` };
    expect(report).toMatchObject({ outcome: "error", checks: [], error });
    expect(report.outputs).toBeUndefined();
  });

  const notOne = "its stdout is not one JSON object";
  const passed = '{"passed": true}';
  const twice = String.raw`{"passed": false, "p\u0061ssed": true}`;
  it.each([
    ["echo why >&2; exit 1", "it exited with 1", "stderr:\nwhy"],
    [`echo '${passed}'; exit 3`, "it exited with 3", `stdout:\n${passed}`],
    [`echo '{"passed": false}'; exit 1`, "it exited with 1", 'stdout:\n{"passed": false}'],
    ["kill -9 $$", "it was ended by SIGKILL", undefined],
    ["true", "it wrote nothing on stdout", undefined],
    ["echo hello", notOne, "stdout:\nhello"],
    [`echo log; echo '${passed}'`, notOne, `stdout:\nlog\n${passed}`],
    [`echo '${twice}'`, `${notOne}: duplicate key "passed"`, `stdout:\n${twice}`],
    [`echo '${passed}'; echo '${passed}'`, notOne, `stdout:\n${passed}\n${passed}`],
  ])("is broken when it does %s", async (text, problem, detail) => {
    const { report } = await playStep(inline(text, json));
    expect(report).toMatchObject({ outcome: "error", error: { code: "step/broken-script" } });
    const { message, details } = report.error as McpvalsError;
    expect(message).toContain(`the script is broken: ${problem}`);
    expect(details.detail).toBe(detail);
  });

  it("is broken when its answer was too long to be kept, even if the rest is blank", async () => {
    const text = `printf '{"passed": true}'; head -c 10000000 /dev/zero | tr '\\0' ' '`;
    const message = "the script is broken: its answer is too long and was cut";
    expect((await playStep(inline(text, json))).report.error).toMatchObject({ message });
  });
});
