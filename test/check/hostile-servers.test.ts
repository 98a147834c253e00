import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import type { RunResult } from "../../src/core/report/result.ts";
import { folderOf, root, runCli, runHere } from "../support/cli.ts";

// A server that sends too much gets findings, and the check stays under 1 GB of memory.

const program = join(root, "test/fixtures/servers/faulty-server.mjs");

/** Codes and messages of the findings of severity error, each once. */
function errorsIn(stdout: string): string[] {
  const { trials } = JSON.parse(stdout) as RunResult;
  const findings = trials.flatMap(({ grades }) => grades.flatMap((grade) => grade.findings ?? []));
  const errors = findings.filter(({ severity }) => severity === "error");
  return [...new Set(errors.map(({ code, message }) => `${code}: ${message}`))];
}

const tooMuch =
  'protocol/broken-connection: server "faulty-server" sent more than 32 MiB in one part of the check, which is all that mcpvals reads';

it.each([
  ["100,000 tools", "pages=100", [tooMuch]],
  [
    "a schema of 60,000 properties",
    "huge-schema=60000",
    ["schema/invalid: it cannot be used: it has more than 20,000 parts"],
  ],
  ["40,000 notifications", "flood=40000", [tooMuch]],
])(
  "%s",
  async (_what, fault, errors) => {
    using folder = folderOf({});
    const peakFile = join(folder.path, "peak.txt");
    const command = ["--call-timeout", "1m", "--", process.execPath, program, fault];
    const outcome = await runCli(["check", "--reporter", "json", ...command], {
      cwd: folder.path,
      env: { NODE_OPTIONS: `--import=${join(root, "test/fixtures/peak-memory.mjs")}`, PEAK_FILE: peakFile },
    });
    expect(errorsIn(outcome.stdout)).toEqual(errors);
    expect(outcome.code).toBe(1);
    expect(Number(readFileSync(peakFile, "utf8")) / 1024).toBeLessThan(1000);
  },
  120_000,
);

it.each([
  [
    "a schema 500 levels deep",
    "deep-schema=500",
    'protocol/broken-connection: server "faulty-server" sent a message nested more than 400 levels deep',
  ],
  [
    "a line without an end",
    "line-without-end",
    'protocol/broken-connection: server "faulty-server" sent a message of more than 10485760 bytes, which is all that mcpvals reads',
  ],
  ["200,000 lines that are no messages", "stdout-flood", 'protocol/stdout: a line is "line 0"'],
  [
    "an answer that breaks off",
    "half-answer",
    "protocol/list-failed: tools/list got no answer: the server ended (exit code 7)",
  ],
  [
    "two answers to one request",
    "two-answers",
    "protocol/malformed-message: an answer has an id that no request waits for",
  ],
])(
  "%s",
  async (_what, fault, error) => {
    using folder = folderOf({});
    const args = ["check", "--reporter", "json", "--", process.execPath, program, fault];
    const { code, stdout } = await runHere(args, { cwd: folder.path });
    expect(errorsIn(stdout)).toContain(error);
    expect(code).toBe(1);
  },
  60_000,
);

it("50 MB on stderr are no defect, and do not hold up the check", async () => {
  using folder = folderOf({});
  const args = ["check", "--reporter", "json", "--", process.execPath, program, "stderr-flood=50000000"];
  const { stdout } = await runHere(args, { cwd: folder.path });
  expect(errorsIn(stdout)).toEqual([]);
}, 60_000);

it("terminal escapes of a description are not sent to the terminal", async () => {
  using folder = folderOf({});
  const { stdout } = await runHere(["check", "--", process.execPath, program, "escapes"], {
    cwd: folder.path,
  });
  expect(stdout).toContain("definition/invisible-characters");
  expect(stdout).not.toContain("\u001B]0;title");
  expect(stdout).not.toContain("\u001B[2J");
});
