import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdirSync, openSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Config } from "../../src/formats/config/config-schema.ts";
import type { RunResult } from "../../src/model/result.ts";
import { type CliOutcome, folderOf, root, runCli, runHere } from "../support/cli.ts";
import { runsOf, startRun } from "../support/faults.ts";
import { configFile, fixtureServer } from "../e2e/support.ts";

const echo = { name: "echo", args: { message: "hi" }, expectedResult: "hi" };

/** A config that passes, on a server that leaves the file `started` behind. */
function passing(...tests: NonNullable<Config["toolHealthSuites"]>[number]["tests"]): Config {
  const { command, args = [] } = fixtureServer();
  const script = `: > started; exec "$0" "$@"`;
  return {
    server: { transport: "stdio", command: "sh", args: ["-c", script, command, ...args] },
    toolHealthSuites: [{ name: "s", tests: tests.length === 0 ? [echo] : tests }],
  };
}

describe.concurrent("before anything starts, exit 2 and the reason, when", () => {
  it.each([
    ["the output folder is a file", ["--output", "blocked"], "the run cannot be written to", "blocked"],
    [
      "a report's file is a folder",
      ["--reporter", "json=folder"],
      "the report cannot be written to",
      "EISDIR",
    ],
    [
      "a report's folder is a file",
      ["--reporter", "json=blocked/a.json"],
      "the report cannot be written to",
      "",
    ],
  ])("%s", async (_name, args, message, reason) => {
    using folder = folderOf({ ...configFile(passing()), blocked: "", "folder/keep": "" });
    const { code, stdout, stderr } = await runCli(["run", ...args], { cwd: folder.path });
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toContain(message);
    expect(stderr).toContain(reason);
    expect(stderr).toContain("(store/unwritable)");
    expect(stderr).toMatch(/hint: (Make the folder writable|Choose a file that can be written)/);
    expect(existsSync(join(folder.path, "started"))).toBe(false);
  });
});

describe.concurrent("what cannot be written", () => {
  it("is not a problem when it is only the report's folder that is missing", async () => {
    using folder = folderOf(configFile(passing()));
    const outcome = await runCli(["run", "--reporter", "json=new/deep/report.json"], { cwd: folder.path });
    expect([outcome.code, outcome.stdout, outcome.stderr]).toEqual([0, "", ""]);
    const report = readFileSync(join(folder.path, "new/deep/report.json"), "utf8");
    expect(JSON.parse(report)).toMatchObject({ verdict: "pass" });
  });

  it.runIf(existsSync("/dev/full"))("costs a report its file, and the run its green", async () => {
    using folder = folderOf(configFile(passing()));
    const outcome = await runCli(["run", "--reporter", "json=/dev/full", "--reporter", "console"], {
      cwd: folder.path,
    });
    expect(outcome.code).toBe(3);
    expect(outcome.stdout).toContain("PASS");
    expect(outcome.stderr).toBe(
      "json=/dev/full: ENOSPC: no space left on device, write\nEverything passed, but not all reports could be written, or a hook failed: exit 3.\n",
    );
    const shown = await runHere(["show", "-r", "console", "-r", "json=/dev/full"], { cwd: folder.path });
    expect([shown.code, shown.stderr]).toEqual([3, expect.stringMatching(/^json=\/dev\/full: /)]);
  });

  it.runIf(existsSync("/dev/full")).each(["json", "console"])(
    "on stdout costs the run its green (%s)",
    async (reporter) => {
      using folder = folderOf(configFile(passing()));
      const full = openSync("/dev/full", "w");
      const { code, stderr } = await finished(startMain(folder.path, ["run", "--reporter", reporter], full));
      expect([code, stderr]).toEqual([
        3,
        "stdout could not be written: ENOSPC: no space left on device, write\n",
      ]);
      const shown = await runHere(["show", "latest", "--json"], { cwd: folder.path });
      expect((JSON.parse(shown.stdout) as RunResult).verdict).toBe("pass");
    },
  );

  it("because the disk is full is told, with the whole result in the report", async () => {
    const many = Array.from({ length: 6 }, (_one, index) => ({
      name: "huge",
      description: `huge ${index + 1}`,
      args: { bytes: 50_000 },
    }));
    using folder = folderOf(configFile(passing(...many)));
    // No file may grow beyond 128 blocks of 512 bytes, or of 1024 where the shell counts so: a disk that is full then.
    const command = 'ulimit -f 128; exec "$0" "$@"';
    const child = spawn("sh", ["-c", command, process.execPath, main, "run", "--reporter", "json"], {
      cwd: folder.path,
      env: environment(folder.path),
    });
    const { code, stdout, stderr } = await finished(child);
    const result = JSON.parse(stdout) as RunResult;
    expect([code, result.verdict, result.summary.pass]).toEqual([3, "pass", 6]);
    expect(stderr).toMatch(/^run folder .*: EFBIG: file too large, write\nEverything passed, but/);
    const shown = await runHere(["show", "latest", "--json"], { cwd: folder.path });
    const kept = JSON.parse(shown.stdout) as RunResult;
    expect([shown.code, kept.verdict]).toEqual([130, "interrupted"]);
    expect(kept.summary.pass).toBeGreaterThan(0);
    expect(kept.summary.pass + kept.summary.skip).toBe(6);
  });

  it("because the disk is full does not look green at its end, which says how to go on", async () => {
    const many = Array.from({ length: 6 }, (_one, index) => ({
      name: "huge",
      description: `huge ${index + 1}`,
      args: { bytes: 50_000 },
    }));
    using folder = folderOf(configFile(passing(...many)));
    const child = spawn("sh", ["-c", 'ulimit -f 128; exec "$0" "$@"', process.execPath, main, "run"], {
      cwd: folder.path,
      env: environment(folder.path),
    });
    const { code, stdout } = await finished(child);
    expect(code).toBe(3);
    const [, end = ""] = stdout.split("6 passed");
    expect(end).toMatch(
      /^ {2}INCOMPLETE {3}exit 3\n {2}Incomplete: the record of the run could not be written\.$/m,
    );
    expect(end).not.toContain("PASS");
    const [, command = ""] = /to go on: npx mcpvals (resume \S+)/.exec(end) ?? [];
    const resumed = await runHere(command.split(" "), { cwd: folder.path });
    expect([resumed.code, resumed.stdout]).toEqual([0, expect.stringMatching(/6 passed[^]* PASS/)]);
  });

  it("because the run's folder was deleted is told, with the whole result in the report", async () => {
    using run = startRun(passing({ name: "slow", args: { ms: 1000 } }));
    await run.untilJournal(/"name":"slow","arguments"/);
    rmSync(runsOf(run.folder), { recursive: true });
    const ended = await run.ended();
    expect([ended.code, ended.result.verdict]).toEqual([3, "pass"]);
    expect(ended.stderr).toMatch(/^run folder .*: ENOENT: no such file or directory/);
  });

  it("because nobody reads stdout any more changes nothing else", async () => {
    using folder = folderOf(configFile(passing()));
    mkdirSync(join(folder.path, "reports"));
    const child = startMain(
      folder.path,
      ["run", "--reporter", "console", "--reporter", "json=report.json"],
      "pipe",
    );
    child.stdout?.destroy();
    expect(await finished(child)).toMatchObject({ code: 0, stderr: "" });
    const report = JSON.parse(readFileSync(join(folder.path, "report.json"), "utf8")) as RunResult;
    expect(report.verdict).toBe("pass");
  });
});

const main = join(root, "dist/main.js");

function environment(home: string): Record<string, string> {
  return { PATH: process.env["PATH"] ?? "", HOME: home };
}

function startMain(cwd: string, args: readonly string[], stdout: number | "pipe"): ChildProcess {
  return spawn(process.execPath, [main, ...args], {
    cwd,
    env: environment(cwd),
    stdio: ["ignore", stdout, "pipe"],
  });
}

async function finished(child: ChildProcess): Promise<Pick<CliOutcome, "code" | "stdout" | "stderr">> {
  const read = { stdout: "", stderr: "" };
  child.stdout?.on("data", (chunk: Buffer) => (read.stdout += chunk.toString("utf8")));
  child.stderr?.on("data", (chunk: Buffer) => (read.stderr += chunk.toString("utf8")));
  return new Promise((resolve) => {
    child.on("close", (code) => resolve({ code, ...read }));
  });
}
