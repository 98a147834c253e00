import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import type { Config } from "../../src/formats/config/config-schema.ts";
import { exitCode } from "../../src/report/result.ts";
import type { RunResult } from "../../src/model/result.ts";
import { root, runHere } from "../support/cli.ts";
import { expectSameWhenRead, type FaultyRun, startRun, until } from "../support/faults.ts";
import { fixtureServer } from "../e2e/support.ts";

const quick = Array.from({ length: 3 }, (_one, index) => ({
  name: "echo",
  description: `quick ${index + 1}`,
  args: { message: "hi" },
  expectedResult: "hi",
  server: "calm",
}));
const slow = Array.from({ length: 4 }, (_one, index) => ({
  name: "slow",
  description: `slow ${index + 1}`,
  args: { ms: 1_000_000 },
  server: "stubborn",
}));

/** Three tests that pass and four that hang, two at once, on a server that only SIGKILL ends, as it does what it starts. */
const config: Config = {
  servers: { calm: fixtureServer(), stubborn: fixtureServer("--stubborn", "--grandchild", "--daemon") },
  timeout: 60_000,
  concurrency: 2,
  toolHealthSuites: [{ name: "s", parallel: true, tests: [...quick, ...slow] }],
};

/** The same with one server for all trials. */
const shared: Config = {
  ...config,
  servers: {
    calm: fixtureServer(),
    stubborn: { ...fixtureServer("--stubborn", "--grandchild", "--daemon"), lifetime: "per_run" },
  },
};

/** Starts it and waits until two calls hang. */
async function startHanging(
  env: Readonly<Record<string, string>> = {},
  started: Config = config,
): Promise<FaultyRun> {
  const run = startRun(started, { env });
  await run.untilJournal(/("name":"slow","arguments"[^]*){2}/);
  expect(run.living()).not.toEqual([]);
  return run;
}

/** What `mcpvals show` has to tell of it: the finished trials, and nothing green of the others. */
async function expectShown(run: FaultyRun): Promise<void> {
  const shown = await runHere(["show", "latest", "--json"], { cwd: run.folder });
  const result = JSON.parse(shown.stdout) as RunResult;
  expect(shown).toMatchObject({ code: exitCode(result.verdict), stderr: "" });
  expect(result.verdict).toBe("interrupted");
  expect(result.summary).toEqual({ total: 7, pass: 3, fail: 0, error: 0, timeout: 0, skip: 4 });
  expect(result.trials.map((trial) => trial.error?.message ?? trial.verdict)).toEqual([
    ...quick.map(() => "pass"),
    "the trial was cut off before it ended",
    "the trial was cut off before it ended",
    "the run was interrupted before this trial started",
    "the run was interrupted before this trial started",
  ]);
}

function untilNothingLives(run: FaultyRun): Promise<void> {
  return until(() => run.living().length === 0, "the end of all servers");
}

function signal(run: FaultyRun, name: NodeJS.Signals): void {
  process.kill(run.cli.child.pid ?? 0, name);
}

describe.concurrent("a run whose servers heed nothing", () => {
  it.each([
    ["SIGINT", config],
    ["SIGTERM", config],
    ["SIGHUP", shared],
  ] as const)("ends in order on %s, and complete", async (name, started) => {
    using run = await startHanging({}, started);
    signal(run, name);
    const ended = await run.ended();
    expect([ended.code, ended.result.verdict]).toEqual([130, "interrupted"]);
    expect(ended.left).toEqual([]);
    expect(ended.result.summary).toEqual({ total: 7, pass: 3, fail: 0, error: 0, timeout: 0, skip: 4 });
    await expectSameWhenRead(run.folder, ended.result);
  });

  it("takes a signal that comes to the process and to its group for one", async () => {
    using run = await startHanging();
    const pid = run.cli.child.pid ?? 0;
    // Stopped, it takes both when it goes on, however long this process needs to send them.
    process.kill(pid, "SIGSTOP");
    process.kill(pid, "SIGTERM");
    process.kill(-pid, "SIGHUP");
    process.kill(pid, "SIGCONT");
    const ended = await run.ended();
    expect([ended.code, ended.result.verdict, ended.left]).toEqual([130, "interrupted", []]);
  });

  it("ends at once on the second Ctrl-C", async () => {
    using run = await startHanging();
    signal(run, "SIGINT");
    await run.cli.until(/Interrupt again to end immediately/);
    // Long enough to be another key press; stopping the servers takes two seconds.
    await setTimeout(500);
    signal(run, "SIGINT");
    const { code, stderr } = await run.cli.finished;
    await untilNothingLives(run);
    expect(code).toBe(130);
    expect(stderr).toContain("Ended immediately. Finished trials are kept: npx mcpvals show latest\n");
    await expectShown(run);
  });

  it.each([
    ["per_trial", config],
    ["per_run", shared],
  ])("leaves nothing behind but the journal when it is killed with SIGKILL (%s)", async (_, started) => {
    using run = await startHanging({}, started);
    signal(run, "SIGKILL");
    expect(await run.cli.finished).toMatchObject({ code: null, signal: "SIGKILL" });
    await untilNothingLives(run);
    await expectShown(run);
  });

  it.each(["throw", "reject"])(
    "goes on without the trials at work when our own code has a bug (%s)",
    async (how) => {
      const preload = join(root, "test/fixtures/throw-when-told.mjs");
      const env = { NODE_OPTIONS: `--import=${preload}`, THROW_FILE: "now", THROW_HOW: how };
      const tests = [...slow.slice(0, 2), ...quick];
      const last = { ...config, toolHealthSuites: [{ name: "s", parallel: true, tests }] };
      using run = await startHanging(env, last);
      writeFileSync(join(run.folder, "now"), "");
      const { code, left, result, stderr } = await run.ended();
      expect([code, left, stderr]).toEqual([3, [], ""]);
      expect(result.verdict).toBe("incomplete");
      expect(result.trials.map(({ verdict, error }) => [verdict, error?.code, error?.message])).toEqual([
        ...[1, 2].map(() => ["error", "internal/unexpected", "nobody catches this"]),
        ...quick.map(() => ["pass", undefined, undefined]),
      ]);
      expect(result.trials[0]?.error?.detail).toMatch(/^Error: nobody catches this\n {4}at /);
      await expectSameWhenRead(run.folder, result);
    },
  );
});
