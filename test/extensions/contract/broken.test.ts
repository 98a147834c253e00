import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { folderOf, root } from "../../support/cli.ts";
import { isGone } from "../../support/extensions.ts";
import { told, tryProgram } from "./try-program.ts";

/** All that fails of each, as a text or a pattern, in the order of the checks. */
const broken: Readonly<Record<string, readonly (string | RegExp)[]>> = {
  "wrong-id": ["json-rpc initialize: the answer has the id 7 instead of 1"],
  "log-storm": [
    /^json-rpc unknown operation: an unknown operation: a storm of logs: \d+ of them/,
    /^json-rpc logs: a storm of logs: \d+ of them with \d+ bytes before an answer; the limits are 10000 a second and 1048576 bytes$/,
    /^one-shot stdout: what is no result on stdout: .*still here/,
  ],
  "junk-on-stdout": [
    /^json-rpc stdout: line 1 of stdout is no message: "Connecting to the server\.\.\."; line 3 .*; and \d+ more$/,
    'one-shot stdout: what is no result on stdout: "Connecting to the server..."',
  ],
  "partial-line": [
    /^json-rpc unknown operation: .* no answer to execute within 2000 ms; there is only a line without its end: "{/,
    /^json-rpc unfinished line: a line without its end on stdout: "{/,
    /^one-shot unknown operation: an unknown operation: what stands on stdout is not JSON: "{/,
    /^one-shot stdout: what is no result on stdout: "{/,
  ],
  "no-answer": [
    "json-rpc unknown operation: an unknown operation: no answer to execute within 2000 ms",
    "one-shot unknown operation: an unknown operation: the program did not end within 2000 ms",
  ],
  crash: [
    "json-rpc unknown operation: an unknown operation: the program ended with exit code 3 before it had answered; stderr ends with: panic: nil map",
    "one-shot unknown operation: an unknown operation: the program ended with exit code 3, without a result on stdout; stderr ends with: panic: nil map",
  ],
  "exit-0-without-answer": [
    "json-rpc unknown operation: an unknown operation: the program ended with exit code 0 before it had answered",
    "one-shot unknown operation: an unknown operation: the program ended with exit code 0, without a result on stdout",
  ],
  "answer-of-100-mb": [
    "json-rpc unknown operation: an unknown operation: a line of stdout is longer than 10 MB",
    "json-rpc answer size: a line of stdout is longer than 10 MB",
    "one-shot unknown operation: an unknown operation: more than 10 MB on stdout",
    "one-shot answer size: more than 10 MB on stdout",
  ],
  "grandchild-holds-pipe": [
    /^json-rpc leftovers: what the program started lives on after it, and holds its stdout: \d+ .*grandchild/,
    /^one-shot leftovers: what the program started lives on after it, and holds its stdout: \d+ .*grandchild/,
  ],
  "wrong-version": ['json-rpc protocol version: protocolVersion is "0.0.2", not "0.0.1"'],
  "unknown-operation": [
    "json-rpc unknown operation: an unknown operation was answered with success: true",
    "one-shot unknown operation: an unknown operation was answered with success: true",
  ],
  "answers-twice": [
    /^json-rpc answers once: request 2 was answered more than once; request 4 /,
    /^one-shot stdout: what is no result on stdout: "{/,
  ],
  "unasked-answer": ["json-rpc answers once: an answer with the id 99, which nobody asked for"],
  "other-code": [
    "json-rpc unknown method: an unknown method was answered with the error -32000: unknown method, not with -32601",
  ],
  "ends-with-2": ["json-rpc shutdown: after shutdown the program ended with exit code 2"],
  "log-level": [/^json-rpc logs: a log needs a message and a level, one of debug, info, warn, error: "{/],
  "drops-second": [
    "json-rpc requests in a row: two requests without a wait between them: no answer to execute within 2000 ms",
  ],
  "content-without-input": [
    "one-shot missing input: an input file that does not exist: the program ended with exit code 0, without a result on stdout",
  ],
};
/** Those that keep silent are waited for; the others need none of it, however busy the machine is. */
const silent = ["no-answer", "partial-line", "drops-second"];

test("every broken extension of the fixtures is here", () => {
  const files = readdirSync(join(root, "test/fixtures/extensions/broken"));
  expect(files.map((name) => name.replace(/\.mjs$/, "")).sort()).toEqual(Object.keys(broken).sort());
});

describe("what is broken is found and named", () => {
  test.concurrent.each(Object.entries(broken))("%s", async (name, expected) => {
    const timeoutMs = silent.includes(name) ? 2000 : 20_000;
    const verdicts = await tryProgram(`test/fixtures/extensions/broken/${name}.mjs`, { timeoutMs });
    expect(told(verdicts, "fail")).toEqual(
      expected.map((each): unknown => (typeof each === "string" ? each : expect.stringMatching(each))),
    );
  });
});

test("a flood of lines that are no messages takes no longer than silence", async () => {
  const verdicts = await tryProgram("test/fixtures/extensions/flood.mjs", { timeoutMs: 2000 });
  expect(told(verdicts, "fail")).toEqual([
    expect.stringMatching(/^json-rpc initialize: no answer to initialize within 2000 ms/),
    expect.stringMatching(/^json-rpc stdout: line 1 .*: "y"; line 2 .*; line 3 .*; and \d{5,} more$/),
    "one-shot unknown operation: an unknown operation: more than 10 MB on stdout",
    "one-shot answer size: more than 10 MB on stdout",
  ]);
}, 15_000);

test("what a program could not be asked is skipped with the reason, never passed", async () => {
  const verdicts = await tryProgram("test/fixtures/extensions/broken/wrong-id.mjs", {
    protocols: ["json-rpc"],
  });
  expect(told(verdicts, "pass")).toEqual([]);
  expect(told(verdicts, "skip")).toContain(
    "json-rpc unknown operation: initialize was not answered with a result",
  );
  expect(told(verdicts, "skip")).toContain("json-rpc stdout: the program never answered");
});

test("execute is not tried again and again when it is not answered", async () => {
  const verdicts = await tryProgram("test/fixtures/extensions/broken/crash.mjs", { protocols: ["json-rpc"] });
  expect(told(verdicts, "skip")).toEqual([
    "json-rpc manifest file: there is no extension.yaml beside the program",
    ...["arguments", "requests in a row", "long line"].map(
      (name) => `json-rpc ${name}: execute cannot be tried any more, see "unknown operation"`,
    ),
  ]);
  // A fresh process is asked what has nothing to do with it.
  expect(told(verdicts, "pass")).toContain("json-rpc unknown method: refused with -32601");
});

test("a program that cannot be started fails", async () => {
  const verdicts = await tryProgram("README.md", { command: "/nowhere/at-all" });
  expect(told(verdicts, "pass")).toEqual([]);
  expect(told(verdicts, "fail")).toEqual([
    expect.stringMatching(/^json-rpc initialize: the program could not be started: .*\/nowhere\/at-all/),
    expect.stringMatching(/^one-shot unknown operation: .*the program could not be started: /),
  ]);
});

test("neither a folder nor a process is left of what was tried", async () => {
  using folder = folderOf({});
  const notes = join(folder.path, "notes");
  const note = `require("node:fs").appendFileSync(process.env.NOTES, process.pid + " " + process.argv.at(-1) + "\\n");`;
  await tryProgram("README.md", {
    args: ["-e", `${note} setInterval(() => undefined, 1000);`, "mute"],
    env: { PATH: process.env["PATH"] ?? "", NOTES: notes },
    timeoutMs: 2000,
  });
  const started = readFileSync(notes, "utf8").trim().split("\n");
  expect(started).toEqual([
    expect.stringMatching(/^\d+ mute$/),
    expect.stringMatching(/^\d+ .*mcpvals-contract-.*input\.json$/),
  ]);
  for (const line of started) await isGone(Number(line.split(" ")[0]));
  expect(existsSync(dirname(started[1]?.replace(/^\d+ /, "") ?? folder.path))).toBe(false);
});

test("an interruption ends what was started, and is what it rejects with", async () => {
  const reason = new Error("interrupted");
  const controller = new AbortController();
  const run = tryProgram("test/fixtures/extensions/broken/no-answer.mjs", { signal: controller.signal });
  controller.abort(reason);
  await expect(run).rejects.toBe(reason);
});
