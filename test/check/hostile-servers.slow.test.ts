import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import type { CheckKind } from "../../src/model/check.ts";
import type { Finding } from "../../src/model/finding.ts";
import type { RunResult } from "../../src/model/result.ts";
import { stdioSpec } from "../servers/support.ts";
import { folderOf, root, runCli, runHere } from "../support/cli.ts";
import { faultyServer, findingsIn } from "./support.ts";

const program = join(root, "test/fixtures/servers/faulty-server.mjs");

/** Messages of the findings of severity error, each once. */
function errorsIn(findings: readonly Finding[]): string[] {
  const errors = findings.filter(({ severity }) => severity === "error");
  return [...new Set(errors.map(({ code, message }) => `${code}: ${message}`))];
}

const tooMuch = (server: string): string =>
  `protocol/broken-connection: server "${server}" sent more than 32 MiB in one part of the check, which is all that mcpvals reads`;

it("100,000 tools are one finding, and the check stays under 1 GB of memory", async () => {
  using folder = folderOf({});
  const peakFile = join(folder.path, "peak.txt");
  const command = ["--call-timeout", "1m", "--", process.execPath, program, "pages=100"];
  const { code, stdout } = await runCli(["check", "--reporter", "json", ...command], {
    cwd: folder.path,
    env: { NODE_OPTIONS: `--import=${join(root, "test/fixtures/peak-memory.mjs")}`, PEAK_FILE: peakFile },
  });
  const { trials } = JSON.parse(stdout) as RunResult;
  const findings = trials.flatMap(({ grades }) => grades.flatMap((grade) => grade.findings ?? []));
  expect([code, errorsIn(findings)]).toEqual([1, [tooMuch("faulty-server")]]);
  expect(Number(readFileSync(peakFile, "utf8")) / 1024).toBeLessThan(1000);
});

it.each<readonly [what: string, part: CheckKind, fault: string, errors: readonly string[]]>([
  ["a schema of 60,000 properties is not a defect", "definitions", "huge-schema=60000", []],
  ["40,000 notifications", "stability", "flood=40000", [tooMuch("s")]],
  [
    "a schema 500 levels deep",
    "stability",
    "deep-schema=500",
    ['protocol/broken-connection: server "s" sent a message nested more than 400 levels deep'],
  ],
  [
    "a line without an end",
    "stability",
    "line-without-end",
    [
      'protocol/broken-connection: server "s" sent a message of more than 10000000 bytes, which is all that mcpvals reads',
    ],
  ],
  ["200,000 lines that are no messages, written at the start", "stability", "stdout-flood", []],
  [
    "an answer that breaks off",
    "definitions",
    "half-answer",
    ["protocol/list-failed: tools/list got no answer: the server ended (exit code 7)"],
  ],
  [
    "JSON that is no message at the end",
    "definitions",
    "other-json-at-the-end",
    [
      'protocol/stdout: a line is "{\\"level\\":\\"info\\"}"',
      "protocol/list-failed: tools/list got no answer: the server ended (exit code 7)",
    ],
  ],
  [
    "two answers to one request",
    "requests",
    "two-answers",
    ["protocol/malformed-message: an answer has an id that no request waits for"],
  ],
  ["50 MB on stderr are no defect, and do not hold up the check", "stability", "stderr-flood=50000000", []],
])(
  "%s",
  async (_what, part, fault, errors) => {
    expect(errorsIn(await findingsIn(part, faultyServer(fault), { callMs: 60_000 }))).toEqual(errors);
  },
  60_000,
);

it("terminal escapes of a description are not sent to the terminal", async () => {
  using folder = folderOf({});
  const { stdout } = await runHere(["check", "--", process.execPath, program, "escapes"], {
    cwd: folder.path,
  });
  expect(stdout).toContain("definition/invisible-characters");
  expect(stdout).not.toContain("\u001B]0;title");
  expect(stdout).not.toContain("\u001B[2J");
});

it("a result that breaks the connection is one finding, of its tool", async () => {
  const attack = ["attack=result", "payload=deep", "bytes=20000"];
  const server = stdioSpec(process.execPath, [
    join(root, "test/fixtures/servers/hostile-server.mjs"),
    ...attack,
  ]);
  const call = { tool: "attack", args: {}, expects: "result", why: "a test" } as const;
  const findings = await findingsIn("calls", server, { calls: [call] });
  expect(findings.map(({ code, place }) => [code, place])).toEqual([
    ["protocol/broken-connection", { tool: "attack" }],
  ]);
});

it("a line on stdout at the start makes one part of the check fail", async () => {
  using folder = folderOf({});
  const { code, stdout } = await runHere(["check", "--", process.execPath, program, "stdout-text"], {
    cwd: folder.path,
  });
  expect([code, stdout.match(/^ {2}✗ \w+ +[\d.]+ m?s/gm)]).toEqual([
    1,
    [expect.stringContaining("handshake")],
  ]);
});
