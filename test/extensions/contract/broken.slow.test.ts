import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { folderOf } from "../../support/cli.ts";
import { isGone } from "../../support/extensions.ts";
import type { ContractOptions } from "../../../src/extensions/contract/run-contract.ts";
import { told, tryProgram, tryVariant } from "./try-program.ts";

/** The limit where an answer never comes: long enough for every answer that does come. */
const silentMs = 3000;

const json = "json-rpc unknown operation: an unknown operation: extension";
const once = "one-shot unknown operation: an unknown operation: extension";

/** All that fails of each, as texts or patterns, in the order of the checks. */
const broken: Readonly<Record<string, readonly (string | RegExp)[]>> = {
  "wrong-id": [
    /^json-rpc initialize: extension "speak.mjs" sent an answer with the id 7, which was not requested/,
    /^json-rpc stdout: unexpected output: "{/,
  ],
  "log-storm": [
    /^json-rpc logs: \d+ logs over the limit of one process were not recorded/,
    /^one-shot unknown operation: an unknown operation: .*ended with exit code 1 before/,
    /^one-shot stdout: unexpected output: .*still here/,
  ],
  "junk-on-stdout": [
    'json-rpc stdout: unexpected output: "Connecting to the server..."',
    /^one-shot unknown operation: .*ended with exit code 1 before .*unexpected on stdout: Connecting to the server/,
    /^one-shot stdout: unexpected output: "Connecting to the server/,
  ],
  "partial-line": [
    /^json-rpc unknown operation: .*did not answer execute within \d+ ms; .*a line without its end: "{/,
    /^json-rpc stdout: unexpected output: "{/,
    /^json-rpc unfinished line: a line without its end: "{/,
    /^one-shot unknown operation: .*ended with exit code 1 before/,
    /^one-shot stdout: unexpected output: "{/,
  ],
  "no-answer": [
    `${json} "speak.mjs" did not answer execute within ${silentMs} ms`,
    `${once} "speak.mjs" did not end within ${silentMs} ms`,
  ],
  crash: [
    `${json} "speak.mjs" ended with exit code 3 before it had answered execute; its output ends with: panic: nil map`,
    `${once} "speak.mjs" ended with exit code 3 before it had answered an unknown operation; its output ends with: panic: nil map`,
  ],
  "exit-0-without-answer": [
    `${json} "speak.mjs" ended with exit code 0 before it had answered execute`,
    `${once} "speak.mjs" broke the protocol in an unknown operation: its stdout is empty`,
  ],
  "answer-of-16-mb": [
    `${json} "speak.mjs" wrote a line of more than 10 MiB in answer to execute`,
    /^json-rpc answer size: .*wrote a line of more than 10 MiB/,
    `${once} "speak.mjs" wrote more than 10 MiB on stdout`,
    /^one-shot answer size: .*wrote more than 10 MiB/,
  ],
  "grandchild-holds-pipe": [
    /^json-rpc leftovers: outlived the program, and holds its stdout: \d+ .*grandchild/,
    /^one-shot leftovers: outlived the program, and holds its stdout: \d+ .*grandchild/,
  ],
  "wrong-version": ['json-rpc protocol version: protocolVersion is "0.0.2", not "0.0.1"'],
  "unknown-operation": [
    "json-rpc unknown operation: an unknown operation was answered with success: true",
    "one-shot unknown operation: an unknown operation was answered with success: true",
  ],
  "answers-twice": [
    /^json-rpc answers once: answered request 2 twice; answered request 4 twice/,
    /^one-shot unknown operation: .*ended with exit code 1 before/,
    /^one-shot stdout: unexpected output: "{/,
  ],
  "unasked-answer": ["json-rpc answers once: sent an answer with the id 99, which was not requested"],
  "other-code": [
    "json-rpc unknown method: an unknown method was answered with the error -32000: unknown method, not with -32601",
  ],
  "ends-with-2": ["json-rpc shutdown: after shutdown the program ended with exit code 2"],
  flood: [
    /^json-rpc initialize: .*floods its stdout/,
    /^json-rpc stdout: unexpected output: "yyy/,
    /^one-shot unknown operation: an unknown operation: .*more than 10 MiB on stdout/,
    /^one-shot answer size: .*more than 10 MiB on stdout/,
  ],
  "log-level": [/^json-rpc logs: a log needs a message and a level, one of debug, info, warn, error: "{/],
  "drops-second": [
    /^json-rpc requests in a row: two requests without a wait between them: .*did not answer execute within \d+ ms/,
  ],
  "content-without-input": [
    /^one-shot missing input: an input file that does not exist: .*its stdout is empty/,
  ],
};
/** Programs that do not answer are waited for; the others need none of that time, however busy the machine is. */
const waits: Readonly<Record<string, Partial<ContractOptions>>> = {
  "no-answer": { timeoutMs: silentMs },
  "drops-second": { timeoutMs: silentMs },
  flood: { timeoutMs: 60_000 },
};
const noExecute = 'execute cannot be tried any more, see "unknown operation"';
/** Some of the checks that are skipped then: they never pass, and `execute` is not tried again and again. */
const skipped: Readonly<Record<string, readonly string[]>> = {
  "wrong-id": [
    "json-rpc unknown operation: initialize was not answered with a result",
    "json-rpc logs: the program never answered",
  ],
  crash: ["arguments", "requests in a row", "long line"].map((name) => `json-rpc ${name}: ${noExecute}`),
};

describe("what is broken is found and named", () => {
  test.concurrent.each(Object.entries(broken))("%s", async (name, expected) => {
    const wait = { startupMs: 20_000, timeoutMs: 20_000, ...waits[name] };
    // Its one-shot answer comes at once, its other one never.
    const verdicts =
      name === "partial-line"
        ? [
            ...(await tryVariant(name, { ...wait, timeoutMs: silentMs, protocols: ["json-rpc"] })),
            ...(await tryVariant(name, { ...wait, protocols: ["one-shot"] })),
          ]
        : await tryVariant(name, wait);
    expect(told(verdicts, "fail")).toEqual(
      expected.map((each): unknown => (typeof each === "string" ? each : expect.stringMatching(each))),
    );
    expect(told(verdicts, "skip")).toEqual(expect.arrayContaining([...(skipped[name] ?? [])]));
    const passed = told(verdicts, "pass").filter((text) => text.startsWith("json-rpc"));
    if (name === "wrong-id") expect(passed).toEqual([]);
    // A fresh process is asked what does not depend on `execute`.
    if (name === "crash") expect(passed).toContain("json-rpc unknown method: refused with -32601");
  });
});

test("a program that cannot be started fails", async () => {
  const verdicts = await tryProgram("README.md", { command: "/nowhere/at-all" });
  expect(told(verdicts, "pass")).toEqual([]);
  expect(told(verdicts, "fail")).toEqual([
    expect.stringMatching(/^json-rpc initialize: .*cannot be started: .*\/nowhere\/at-all/),
    expect.stringMatching(/^one-shot unknown operation: .*cannot be started: /),
  ]);
});

test.each([
  ["json-rpc", /^\d+ mute$/],
  ["one-shot", /^\d+ .*mcpvals-contract-.*input\.json$/],
] as const)("an interruption of %s ends what was started, and leaves no folder", async (protocol, noted) => {
  using folder = folderOf({});
  const notes = join(folder.path, "notes");
  const note = `require("node:fs").appendFileSync(process.env.NOTES, process.pid + " " + process.argv.at(-1) + "\\n");`;
  const controller = new AbortController();
  const run = tryProgram("README.md", {
    args: ["-e", `${note} setInterval(() => undefined, 1000);`, "mute"],
    env: { PATH: process.env["PATH"] ?? "", NOTES: notes },
    protocols: [protocol],
    timeoutMs: 60_000,
    signal: controller.signal,
  });
  await expect
    .poll(() => existsSync(notes) && readFileSync(notes, "utf8").endsWith("\n"), { timeout: 100_000 })
    .toBe(true);
  const reason = new Error("interrupted");
  controller.abort(reason);
  await expect(run).rejects.toBe(reason);
  const line = readFileSync(notes, "utf8").trim();
  expect(line).toMatch(noted);
  await isGone(Number(line.split(" ")[0]));
  if (protocol === "one-shot") expect(existsSync(dirname(line.replace(/^\d+ /, "")))).toBe(false);
});
