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
import type { McpvalsError } from "../../src/core/errors/error.ts";
import type { JsonObject } from "../../src/core/formats/model.ts";
import type { ScriptStep } from "../../src/core/formats/step.ts";
import {
  playStep,
  type PlayedStep,
  type PlayStepOptions,
  scriptStepOf as script,
  testTrial,
  writeTaskFile,
} from "../support/program-steps.ts";
import { trustedScope } from "../support/step-context.ts";

const outputs = { out: "{stdout}", err: "{stderr}", code: "{exitCode}" };

/** Temporary files of these tests alone: others run scripts at the same time. */
const temporary = realpathSync(mkdtempSync(join(tmpdir(), "mcpvals-scripts-")));
beforeAll(() => void vi.stubEnv("TMPDIR", temporary));
afterAll(() => {
  vi.unstubAllEnvs();
  rmSync(temporary, { recursive: true, force: true });
});

/** Names of the folders for texts of scripts that are there now. */
function leftFolders(): string[] {
  return readdirSync(tmpdir()).filter((name) => name.startsWith("mcpvals-script-"));
}

function inline(text: string, parts: Partial<ScriptStep> = {}): ScriptStep {
  return script({ inline: text }, { outputs, ...parts });
}

describe("a script's file", () => {
  it("is started itself when it is executable", async () => {
    const trial = testTrial();
    const path = writeTaskFile(
      trial,
      "bin/check.js",
      "#!/usr/bin/env node\nconsole.log(process.argv[1])",
      0o755,
    );
    const { outcome, outputs: given } = await playStep(script({ file: "bin/check.js" }, { outputs }), {
      trial,
    });
    expect([outcome, given]).toEqual(["passed", { out: realpathSync(path), err: "", code: "0" }]);
  });

  it("may be a program that no interpreter runs", async () => {
    const trial = testTrial();
    copyFileSync("/bin/echo", join(trial.dir, "say"));
    const { outputs: given } = await playStep(script({ file: "say" }, { args: ["hello"], outputs }), {
      trial,
    });
    expect(given).toMatchObject({ out: "hello" });
  });

  it.each([
    ["python3", '#!/usr/bin/env python3\nprint("py", 2 ** 3)', "py 8"],
    ["node", "#!/usr/bin/env node\nconsole.log(`js ${2 ** 3}`)", "js 8"],
    ["an interpreter with an argument", "#!/bin/sh -u\necho $-", "u"],
    [
      "an interpreter with several arguments",
      "#!/usr/bin/env -S sh -u -f\necho $- && set +u && echo $-",
      "f",
    ],
    ["the shell, without a first line for it", 'echo "sh $0"', "sh "],
  ])("that is not executable is run by %s, and keeps its mode", async (_, text, said) => {
    const trial = testTrial();
    const path = writeTaskFile(trial, "check", text, 0o640);
    const { outcome, outputs: given } = await playStep(script({ file: "check" }, { outputs }), { trial });
    expect(outcome).toBe("passed");
    expect(given).toMatchObject({ out: expect.stringContaining(said) as unknown });
    expect(statSync(path).mode & 0o777).toBe(0o640);
  });

  it("that is executable but says not by what is run by the shell of the task", async () => {
    const trial = testTrial();
    const shell = writeTaskFile(trial, "shell", '#!/bin/sh\necho "mine $#"\n', 0o755);
    writeTaskFile(trial, "check", "echo no\n", 0o755);
    const { outputs: given } = await playStep(script({ file: "check" }, { env: { SHELL: shell }, outputs }), {
      trial,
    });
    expect(given).toMatchObject({ out: "mine 1" });
  });

  it("runs in the task's folder, or in its own", async () => {
    const trial = testTrial({ "sub/check.sh": "pwd" });
    const folder = realpathSync(trial.dir);
    const file = { file: "sub/check.sh" };
    const task = await playStep(script(file, { outputs }), { trial });
    const own = await playStep(script(file, { workdir: "script", outputs }), { trial });
    expect([task.outputs?.["out"], own.outputs?.["out"]]).toEqual([folder, join(folder, "sub")]);
  });

  it("has to be inside the task's folder, and to be there", async () => {
    const outside = await playStep(script({ file: "../check.sh" }));
    expect(outside.report).toMatchObject({ outcome: "error", error: { code: "task/outside" } });
    const missing = await playStep(script({ file: "check.sh" }));
    expect(missing.report).toMatchObject({ outcome: "error", error: { code: "step/cannot-run" } });
    expect(missing.report.error).toMatchObject({ message: expect.stringContaining("check.sh") as unknown });
    const trial = testTrial();
    mkdirSync(join(trial.dir, "folder"));
    const folder = await playStep(script({ file: "folder" }), { trial });
    expect(folder.report).toMatchObject({ outcome: "error", error: { code: "step/cannot-run" } });
    execFileSync("mkfifo", [join(trial.dir, "pipe")]);
    const pipe = await playStep(script({ file: "pipe" }), { trial });
    expect(pipe.report).toMatchObject({ outcome: "error", error: { code: "step/cannot-run" } });
  });

  it.each([0o644, 0o755])("whose interpreter is missing makes an error (%o)", async (mode) => {
    const trial = testTrial();
    writeTaskFile(trial, "check", "#!/no/such/interpreter\n", mode);
    const { report } = await playStep(script({ file: "check" }), { trial });
    expect(report).toMatchObject({ outcome: "error", error: { code: "step/cannot-run" } });
    expect(report.error).toMatchObject({
      message: expect.stringMatching(/^the script cannot be started: .*\/no\/such\/interpreter|\/check/),
      details: { hint: expect.stringContaining("first line") as unknown },
    });
  });
});

describe("a script's text", () => {
  it("is run by the shell in the task's folder, from a file outside of it that goes afterwards", async () => {
    const trial = testTrial();
    const before = leftFolders();
    const { text } = await playStep(inline('pwd; ls -A; echo "$0"; cat'), { trial });
    const [folder, file, ...rest] = text("out").split("\n");
    expect([folder, rest]).toEqual([realpathSync(trial.dir), []]);
    expect(file).toMatch(/mcpvals-script-[\w-]+.script$/);
    expect(file).not.toContain(trial.dir);
    expect(leftFolders()).toEqual(before);
  });

  it("goes too when its time is up, and when it cannot be started", async () => {
    const before = leftFolders();
    const late = await playStep(inline("exec sleep 1000", { timeoutMs: 300 }));
    const broken = await playStep(inline("#!/no/such/interpreter"));
    expect([late.outcome, broken.outcome]).toEqual(["timeout", "error"]);
    expect(leftFolders()).toEqual(before);
  });

  it.each([
    ["python3", "#!/usr/bin/env python3\nimport sys\nprint(sys.argv[1:], sys.stdin.read() == '')"],
    ["node", "\n  #!/usr/bin/env node\nconsole.log(JSON.stringify(process.argv.slice(2)))"],
    ["the shell", `printf '["%s", "%s"] True' "$1" "$2"`],
  ])("is run by %s, with its arguments", async (_, source) => {
    const { outcome, text } = await playStep(inline(source, { args: ["a b", "$HOME"] }));
    expect(outcome).toBe("passed");
    expect(text("out").replaceAll(/['"]/g, "")).toMatch(/^\[a b, ?\$HOME\]( True)?$/);
  });

  it("is told to the ports' keeper with everything else that it starts with", async () => {
    const trial = testTrial();
    await playStep(inline(": 1001", { args: ["1002"], env: { P: "1003" } }), { trial });
    expect(trial.released).toEqual(expect.arrayContaining([": 1001", "1002", "1003"]));
  });
});

describe("a script", () => {
  it("gets the task's environment and the step's on top", async () => {
    const trial = testTrial();
    const env = { ...trial.env, A: "world", B: "world" };
    const { outputs: given } = await playStep(inline('echo "$A $B"', { env: { B: "step" } }), {
      trial: { ...trial, env },
    });
    expect(given).toMatchObject({ out: "world step" });
  });

  it("has templates in all its texts", async () => {
    const trial = testTrial({ "check.sh": "exit 7" });
    const scope = trustedScope({ v: "x y", name: "check" });
    const text = await playStep(inline('echo {v | sh} "$1" "$A"', { args: ["1 {v}"], env: { A: "2 {v}" } }), {
      trial,
      scope,
    });
    expect(text.outputs).toMatchObject({ out: "x y 1 x y 2 x y" });
    expect(text.input).toEqual({
      inline: `echo 'x y' "$1" "$A"`,
      args: ["1 x y"],
      env: { A: "2 x y" },
      protocol: "exit-code",
    });
    const file = await playStep(script({ file: "{name}.sh" }), { trial, scope });
    expect([file.outcome, file.input]).toEqual(["failed", { file: "check.sh", protocol: "exit-code" }]);
  });

  it("passes with exit code 0 only; what it wrote is kept either way", async () => {
    const passed = await playStep(inline("echo fine; echo really >&2"));
    expect(passed.report.checks).toMatchObject([
      { name: "exit code", passed: true, expected: 0, message: "it exited with 0" },
    ]);
    expect(passed.report.checks[0]?.actual).toMatchObject({ exitCode: 0 });
    const failed = await playStep(inline("echo one; sleep 0.1; echo two >&2; sleep 0.1; echo three; exit 9"));
    expect(failed.outcome).toBe("failed");
    expect(failed.report.checks).toEqual([
      {
        name: "exit code",
        passed: false,
        expected: 0,
        actual: { exitCode: 9, output: "one\ntwo\nthree" },
        message: "it exited with 9, expected 0: two",
        untried: true,
      },
    ]);
  });

  it("fails when a signal ended it, and tells what was dropped of its output", async () => {
    const killed = await playStep(inline("kill -9 $$"));
    expect([killed.outcome, killed.checks]).toEqual([
      "failed",
      [["exit code", false, "it was ended by SIGKILL, expected 0"]],
    ]);
    const long = await playStep(inline("head -c 10000003 /dev/zero | tr '\\0' x", { outputs: {} }));
    expect(long.checks).toEqual([
      ["exit code", true, "it exited with 0 (3 bytes of its output were dropped)"],
    ]);
  });
});

const json: Partial<ScriptStep> = { protocol: "json", outputs: {} };

/** Plays a script that answers with a JSON value. */
function answering(answer: unknown, options: PlayStepOptions = {}): Promise<PlayedStep> {
  return playStep(inline(`cat > input.json\ncat <<'END'\n${JSON.stringify(answer)}\nEND`, json), options);
}

describe("a script with the JSON protocol", () => {
  it("reads what there is to know from its stdin", async () => {
    const toolCall = {
      serverName: "calc",
      toolName: "add",
      arguments: { a: 2 },
      result: { content: [] },
      timestamp: "2026-01-01T00:00:00.000Z",
    };
    const trial = testTrial(
      {},
      {
        task: "sums",
        prompt: "Add 🦊.",
        agent: { output: "It is 5.", exitCode: 0 },
        outputs: new Map([["make", { id: "7" }]]),
        history: () => ({ toolCalls: [toolCall], resourceReads: [], promptGets: [] }),
      },
    );
    await answering({ passed: true }, { trial });
    expect(JSON.parse(readFileSync(join(trial.dir, "input.json"), "utf8"))).toEqual({
      task: { name: "sums", prompt: "Add 🦊." },
      agent: { output: "It is 5.", exitCode: 0 },
      mcp: { callHistory: { toolCalls: [toolCall], resourceReads: [], promptGets: [] } },
      env: trial.env,
      steps: { make: { outputs: { id: "7" } } },
      workspace: trial.workspace,
    });
  });

  it("sees no agent before there was one", async () => {
    const trial = testTrial();
    await answering({ passed: true }, { trial });
    const input = JSON.parse(readFileSync(join(trial.dir, "input.json"), "utf8")) as JsonObject;
    expect([input["agent"], input["steps"]]).toEqual([null, {}]);
  });

  it.each([
    [
      "python3",
      `#!/usr/bin/env python3
import json, sys
given = json.load(sys.stdin)
print("looking", file=sys.stderr)
print(json.dumps({"passed": given["task"]["name"] == "sums", "reason": "saw " + given["agent"]["output"]}))`,
    ],
    [
      "node",
      `#!/usr/bin/env node
import { text } from "node:stream/consumers";
const given = JSON.parse(await text(process.stdin));
console.error("looking");
console.log(JSON.stringify({ passed: given.task.name === "sums", reason: "saw " + given.agent.output }, null, 2));`,
    ],
  ])("works in %s", async (_, text) => {
    const agent = { output: "It is 5 🦊.", exitCode: 0 };
    const play = (task: string): Promise<PlayedStep> =>
      playStep(inline(text, json), { trial: testTrial({}, { task, agent }) });
    const [passed, failed] = [await play("sums"), await play("other")];
    expect([passed.outcome, passed.checks]).toEqual(["passed", [["passed", true, "saw It is 5 🦊."]]]);
    expect([failed.outcome, failed.checks]).toEqual(["failed", [["passed", false, "saw It is 5 🦊."]]]);
  });

  it("gives its checks and outputs", async () => {
    const played = await answering({
      passed: true,
      reason: "all there",
      checks: [
        { name: "pod exists", passed: true, message: "found" },
        { name: "pod runs", passed: true },
      ],
      outputs: { uid: "a-1", labels: { app: ["web", 1, null] } },
    });
    expect(played.report).toMatchObject({
      outcome: "passed",
      checks: [
        { name: "passed", passed: true, expected: true, actual: true, message: "all there" },
        { name: "pod exists", passed: true, expected: true, actual: true, message: "found" },
        { name: "pod runs", passed: true, message: "it holds" },
      ],
      outputs: { uid: "a-1", labels: { app: ["web", 1, null] } },
    });
  });

  it("may take further outputs from its own, and from what it wrote", async () => {
    const text = `echo log >&2; echo '{"passed": true, "outputs": {"uid": "a-1"}}'`;
    const named = {
      protocol: "json",
      outputs: { id: "id {outputs.uid}", err: "{stderr} {exitCode}" },
    } as const;
    const { outputs: given } = await playStep(inline(text, named));
    expect(given).toEqual({ uid: "a-1", id: "id a-1", err: "log 0" });
  });

  it("fails when it says so, and when one of its checks failed", async () => {
    const said = await answering({ passed: false, checks: [{ name: "a", passed: true }] });
    expect([said.outcome, said.checks]).toEqual([
      "failed",
      [
        ["passed", false, "the script says that it failed"],
        ["a", true, "it holds"],
      ],
    ]);
    const contradicts = await answering({
      passed: true,
      checks: [{ name: "a", passed: false, message: "not" }],
    });
    expect([contradicts.outcome, contradicts.checks]).toEqual([
      "failed",
      [
        ["passed", true, "the script says that it passed"],
        ["a", false, "not"],
      ],
    ]);
  });

  it("may write null for what it does not give, and more than is asked", async () => {
    const nothing = { reason: null, checks: null, outputs: null };
    const played = await answering({ passed: true, ...nothing, score: 3 });
    expect([played.outcome, played.report.outputs]).toEqual(["passed", undefined]);
    expect(
      (await answering({ passed: true, checks: [{ name: "a", passed: true, message: null }] })).outcome,
    ).toBe("passed");
  });

  it.each<[unknown, string]>([
    [[], "what it wrote on stdout is a list, not an object"],
    ["yes", "what it wrote on stdout is a string, not an object"],
    [null, "what it wrote on stdout is null, not an object"],
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
  ])("is broken, which is an error and no failure, when it answers %j", async (answer, problem) => {
    const { report } = await answering(answer);
    expect(report).toMatchObject({ outcome: "error", checks: [], error: { code: "step/broken-script" } });
    expect(report.error).toMatchObject({ message: `the script is broken: ${problem}` });
    expect(report.outputs).toBeUndefined();
  });

  it.each([
    ["echo why >&2; exit 1", "it exited with 1", "stderr:\nwhy"],
    [`echo '{"passed": true}'; exit 3`, "it exited with 3", 'stdout:\n{"passed": true}'],
    [`echo '{"passed": false}'; exit 1`, "it exited with 1", 'stdout:\n{"passed": false}'],
    ["kill -9 $$", "it was ended by SIGKILL", undefined],
    ["true", "it wrote nothing on stdout", undefined],
    ["echo hello", "what it wrote on stdout is not one JSON object", "stdout:\nhello"],
    [
      `echo log; echo '{"passed": true}'`,
      "what it wrote on stdout is not one JSON object",
      'stdout:\nlog\n{"passed": true}',
    ],
    [
      `echo '{"passed": false, "p\\u0061ssed": true}'`,
      'what it wrote on stdout is not one JSON object: duplicate key "passed"',
      'stdout:\n{"passed": false, "p\\u0061ssed": true}',
    ],
    [
      `echo '{"passed": true}'; echo '{"passed": true}'`,
      "what it wrote on stdout is not one JSON object",
      'stdout:\n{"passed": true}\n{"passed": true}',
    ],
  ])("is broken when it does %s", async (text, problem, detail) => {
    const { report } = await playStep(inline(text, json));
    expect(report).toMatchObject({ outcome: "error", error: { code: "step/broken-script" } });
    const { message, details } = report.error as McpvalsError;
    expect(message).toContain(`the script is broken: ${problem}`);
    expect(details.detail).toBe(detail);
  });

  it("is broken when its answer was too long to be kept, even if the rest is blank", async () => {
    const text = `printf '{"passed": true}'; head -c 10000000 /dev/zero | tr '\\0' ' '`;
    const { report } = await playStep(inline(text, json));
    expect(report).toMatchObject({ outcome: "error", error: { code: "step/broken-script" } });
    expect(report.error).toMatchObject({
      message: "the script is broken: its answer is too long and was cut",
    });
  });
});

describe("a script without a first line that the shell ran", () => {
  const remark = "The file has no #! line, so the shell ran it; begin it with #!/usr/bin/env python3, say.";

  it("is told so when it fails", async () => {
    const trial = testTrial({ "check.py": "echo no; exit 3", "check.sh": "echo no; exit 3" });
    const failed = await playStep(script({ file: "check.py" }), { trial });
    expect(failed.checks).toEqual([["exit code", false, `it exited with 3, expected 0: no. ${remark}`]]);
    const named = await playStep(script({ file: "check.sh" }), { trial });
    expect(named.checks).toEqual([["exit code", false, "it exited with 3, expected 0: no"]]);
  });

  it("is told so when it is broken", async () => {
    const trial = testTrial({ "check.py": "exit 3", "good.py": "#!/bin/sh\nexit 3" });
    const broken = await playStep(script({ file: "check.py" }, { protocol: "json" }), { trial });
    expect((broken.report.error as McpvalsError).details.hint).toBe(remark);
    const good = await playStep(script({ file: "good.py" }, { protocol: "json" }), { trial });
    expect((good.report.error as McpvalsError).details.hint).toMatch(/^With protocol: json/);
  });
});
