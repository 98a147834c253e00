import { join } from "node:path";
import { expect, it, vi } from "vitest";
import type { RunResult } from "../../src/model/result.ts";
import { stdoutOutput, writeError, writeOut } from "../../src/cli/terminal.ts";
import { showWaiting } from "../../src/cli/waiting.ts";
import { folderOf, root, runHere } from "../support/cli.ts";

const program = join(root, "test/fixtures/servers/faulty-server.mjs");
const good = { command: process.execPath, args: [program] };
const missing = { command: "./no-such-program" };

it("a server that cannot be started does not keep the others from being checked", async () => {
  using folder = folderOf({ "mcp.json": { mcpServers: { missing, good } } });
  const { code, stdout } = await runHere(["check", "mcp.json", "--reporter", "json"], { cwd: folder.path });
  const { verdict, trials } = JSON.parse(stdout) as RunResult;
  expect([code, verdict]).toEqual([3, "incomplete"]);
  const verdicts = trials.map(({ task, verdict: own, error }) => [task, own, error?.code]);
  expect(verdicts).toContainEqual(["missing: handshake", "error", "server/spawn-failed"]);
  expect(verdicts).toContainEqual(["good: definitions", "pass", undefined]);
  expect(verdicts.filter(([task]) => String(task).startsWith("missing"))).toHaveLength(1);
});

it("without any server that can be reached, the first error is reported", async () => {
  using folder = folderOf({ "mcp.json": { mcpServers: { missing } } });
  const { code, stdout, stderr } = await runHere(["check", "mcp.json"], { cwd: folder.path });
  expect([code, stdout]).toEqual([3, ""]);
  expect(stderr).toContain("command not found: ./no-such-program");
});

it("a server that ends before it answers is an error of the environment, with what it says and what it lacks", async () => {
  const ends = { ...good, args: [program, "exit-at-start"] };
  using folder = folderOf({ "mcp.json": { mcpServers: { ends } } });
  const { code, stdout, stderr } = await runHere(["check", "mcp.json"], { cwd: folder.path });
  expect([code, stdout]).toEqual([3, ""]);
  expect(stderr).toContain('server "ends" exited with code 3 before it had answered initialize');
  expect(stderr).toContain("It gets only a small safe environment");
});

it.each([
  ["", "the file is empty"],
  ["{}", 'missing key "mcpServers"'],
])("a client's file %j that is found and has no servers is named with its problem", async (text, problem) => {
  using folder = folderOf({ ".mcp.json": text });
  const { code, stderr } = await runHere(["check"], { cwd: folder.path });
  expect(code).toBe(2);
  expect(stderr).toContain(".mcp.json");
  expect(stderr).toContain(problem);
});

it("a server that does not answer initialize is asked once, and its record is the trial's", async () => {
  const silent = { ...good, transport: "stdio", args: [program, "silent"], startupTimeout: "700ms" };
  using folder = folderOf({ "config.yaml": { servers: { silent } } });
  const { code, stdout } = await runHere(["check", "config.yaml", "--reporter", "json"], {
    cwd: folder.path,
  });
  const { trials, durationMs } = JSON.parse(stdout) as RunResult;
  expect(code).toBe(1);
  expect(trials).toHaveLength(1);
  const [found] = trials[0]?.grades.flatMap(({ findings = [] }) => findings) ?? [];
  expect(found).toMatchObject({
    code: "protocol/no-session",
    message: expect.stringMatching(/^initialize got no answer within [\d.]+ s$/) as unknown,
    fix: expect.stringContaining("such as --stdio") as unknown,
  });
  // The time of the run includes the wait.
  expect(durationMs).toBeGreaterThan(600);
});

it("a server that answers initialize with an error has one finding", async () => {
  const refusing = { ...good, args: [program, "refuses-clients"] };
  using folder = folderOf({ "mcp.json": { mcpServers: { refusing } } });
  const { code, stdout } = await runHere(["check", "mcp.json"], { cwd: folder.path });
  expect(code).toBe(1);
  expect(stdout.split("\n").slice(0, 2)).toEqual([
    expect.stringMatching(/^mcpvals \S+ {2}check$/),
    "refusing: no session could be opened",
  ]);
  expect(stdout).toContain('initialize got the error -32602 "no licence"');
  expect(stdout).toMatch(/^ {2}1 error · /m);
});

it("a terminal shows what is waited for, without control characters of a name, until it is over", () => {
  const written: string[] = [];
  const stream = { isTTY: true, columns: 40, write: (text: string) => written.push(text) > 0 };
  {
    using _ = showWaiting(`asking a\u001B[2Jb ${"c".repeat(60)}`, stream as never);
    expect(written.join("").startsWith("\r\u001B[2K  asking a")).toBe(true);
    expect(written.join("")).toMatch(/ {2}\d\.\d s$/);
    expect(written.join("")).not.toContain("\u001B[2J");
    writeError("note: a message");
    expect(written.slice(-3, -1)).toEqual(["\r\u001B[2K", "note: a message\n"]);
    const stdout = vi
      .spyOn(process.stdout, "write")
      .mockImplementation((text) => written.push(String(text)) > 0);
    writeOut("a line on stdout");
    stdoutOutput().write("a report");
    stdout.mockRestore();
    expect(written.slice(-4)).toEqual(["\r\u001B[2K", "a line on stdout\n", "\r\u001B[2K", "a report"]);
  }
  expect(written.at(-1)).toBe("\r\u001B[2K");
  const stderr = vi.spyOn(process.stderr, "write").mockReturnValue(true);
  writeError("note: another");
  expect([written.at(-1), stderr.mock.lastCall?.[0]]).toEqual(["\r\u001B[2K", "note: another\n"]);
  stderr.mockRestore();
  const unsized: string[] = [];
  const terminal = { isTTY: true, columns: 0, write: (text: string) => unsized.push(text) > 0 };
  showWaiting("asking a server", terminal as never)[Symbol.dispose]();
  expect(unsized.join("")).toContain("asking a server");
  const nothing: string[] = [];
  using _ = showWaiting("asking", { isTTY: false, write: (text: string) => nothing.push(text) > 0 } as never);
  expect(nothing).toEqual([]);
});
