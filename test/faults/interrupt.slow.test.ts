import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Config } from "../../src/formats/config/config-schema.ts";
import { folderOf, root, runHere, startCli } from "../support/cli.ts";
import { type FakeScript, startFakeProvider } from "../support/fake-provider.ts";
import { type Ended, expectSameWhenRead, type FaultyRun, runsOf, startRun } from "../support/faults.ts";
import { fixtureServer, trialOf } from "../e2e/support.ts";

type Test = NonNullable<Config["toolHealthSuites"]>[number]["tests"][number];

const hi: Test = { name: "echo", description: "first", args: { message: "hi" }, expectedResult: "hi" };
const hanging: Test = { name: "slow", description: "victim", args: { ms: 1_000_000 } };
const unstarted: Test = { ...hi, description: "last" };

/** Three tests, one after the other; the second is the one that is interrupted. */
function three(victim: Test, victimFlags: readonly string[] = []): Config {
  return {
    timeout: 60_000,
    servers: { good: fixtureServer(), victim: fixtureServer(...victimFlags) },
    toolHealthSuites: [
      {
        name: "s",
        tests: [
          { ...hi, server: "good" },
          { ...victim, server: "victim" },
          { ...unstarted, server: "good" },
        ],
      },
    ],
  };
}

/** To everyone in the process's group, as from a terminal; test/faults/kill.slow.test.ts signals the process alone. */
const send = (pid: number): boolean => process.kill(-pid, "SIGINT");

async function interrupt(run: FaultyRun): Promise<Ended> {
  send(run.cli.child.pid ?? 0);
  return run.ended();
}

/** What holds of every interrupted run. */
async function expectInterrupted(
  run: FaultyRun,
  ended: Ended,
  verdicts: Record<string, string>,
): Promise<void> {
  expect([ended.code, ended.result.verdict]).toEqual([130, "interrupted"]);
  const found = Object.keys(verdicts).map((task) => {
    const { verdict, error } = trialOf(ended.result, task);
    return [task, error === undefined ? verdict : `${verdict} ${error.code}`];
  });
  expect(Object.fromEntries(found)).toEqual(verdicts);
  expect(ended.stderr).toContain("Interrupted: cleaning up, stopping servers and writing results");
  expect(ended.console).toMatch(/INTERRUPTED +exit 130/);
  expect(ended.left).toEqual([]);
  await expectSameWhenRead(run.folder, ended.result);
}

const notFinished = "skip run/interrupted";

describe("an interruption", () => {
  it.concurrent("while the config is loading ends with 130, and nothing has run", async () => {
    using run = startRun(
      {},
      {
        args: ["slow.config.ts"],
        files: {
          "slow.config.ts": 'console.error("loading"); await new Promise((r) => setTimeout(r, 1e8));',
        },
      },
    );
    await run.cli.until(/loading/);
    send(run.cli.child.pid ?? 0);
    const { code, stdout, stderr } = await run.cli.finished;
    expect([code, stdout]).toEqual([130, ""]);
    expect(stderr).toContain("run/interrupted");
    expect(stderr).not.toContain("bug");
    expect(existsSync(runsOf(run.folder))).toBe(false);
  });

  it.concurrent("while a server starts", async () => {
    using run = startRun(three({ ...hi, description: "victim" }, ["--mute=initialize"]));
    await run.untilJournal(/"server":"victim".*"method":"initialize"/);
    await expectInterrupted(run, await interrupt(run), {
      "s/first": "pass",
      "s/victim": notFinished,
      "s/last": notFinished,
    });
  });

  it.concurrent("while a tool is called", async () => {
    using run = startRun(three(hanging));
    await run.untilJournal(/"name":"slow","arguments"/);
    const ended = await interrupt(run);
    await expectInterrupted(run, ended, {
      "s/first": "pass",
      "s/victim": notFinished,
      "s/last": notFinished,
    });
    expect(ended.console).toContain(
      "The run was interrupted before 2 trials of 3 could finish: 1 cut off, 1 not run.",
    );
  });

  it.concurrent("while a server stops keeps the trial", async () => {
    using run = startRun(three({ ...hi, description: "victim" }, ["--linger=900"]));
    await run.untilJournal(/"trial":"t2".*"phase.started","phase":"stop"/);
    await expectInterrupted(run, await interrupt(run), {
      "s/first": "pass",
      "s/victim": "pass",
      "s/last": notFinished,
    });
  });

  it.concurrent("between trials", async () => {
    const tests = Array.from({ length: 100 }, (_one, index) => ({ ...hi, description: `test ${index + 1}` }));
    using run = startRun({ server: fixtureServer(), toolHealthSuites: [{ name: "s", tests }] });
    await run.untilJournal(/"trial":"t2",.*"trial.graded"/);
    const ended = await interrupt(run);
    await expectInterrupted(run, ended, {
      "s/test 1": "pass",
      "s/test 2": "pass",
      "s/test 100": notFinished,
    });
    const { total, pass, skip } = ended.result.summary;
    expect([total, pass + skip]).toEqual([100, 100]);
  });

  it.concurrent("with several trials at once", async () => {
    const quick = Array.from({ length: 3 }, (_one, index) => ({ ...hi, description: `quick ${index + 1}` }));
    const slow = Array.from({ length: 6 }, (_one, index) => ({
      ...hanging,
      description: `slow ${index + 1}`,
    }));
    using run = startRun({
      server: fixtureServer("--grandchild", "--daemon"),
      timeout: 60_000,
      concurrency: 3,
      toolHealthSuites: [{ name: "s", parallel: true, tests: [...quick, ...slow] }],
    });
    await run.untilJournal(/("name":"slow","arguments"[^]*){3}/);
    await expectInterrupted(run, await interrupt(run), {
      ...Object.fromEntries(quick.map(({ description }) => [`s/${description}`, "pass"])),
      ...Object.fromEntries(slow.map(({ description }) => [`s/${description}`, notFinished])),
    });
  });

  it.concurrent("while the model thinks", async () => {
    await using provider = await startFakeProvider(playing({ victim: "agent" }));
    using run = startRun(workflows(), { env: provider.env });
    await provider.received(2);
    await expectInterrupted(run, await interrupt(run), {
      first: "pass",
      victim: notFinished,
      last: notFinished,
    });
  });

  it.concurrent("while the judge thinks", async () => {
    await using provider = await startFakeProvider(playing({ victim: "judge" }));
    const judged = { ...workflows(), llmJudge: true, judge: { model: "openai/judge" } };
    using run = startRun(judged, { env: provider.env });
    await provider.received(4);
    const ended = await interrupt(run);
    await expectInterrupted(run, ended, { first: "pass", victim: notFinished, last: notFinished });
    expect(trialOf(ended.result, "victim").error?.message).toBe(
      "the run was interrupted before this trial was graded",
    );
    const shown = await runHere(["show", "latest"], { cwd: run.folder });
    expect([shown.code, shown.stderr]).toEqual([130, ""]);
    expect(shown.stdout).toMatch(/INTERRUPTED +exit 130/);
  });
});

it("a grading that is interrupted keeps nothing, and does not say that it does", async () => {
  await using provider = await startFakeProvider(playing({ victim: "judge" }));
  const judged = { ...workflows(), judge: { model: "openai/judge" } };
  using folder = folderOf({ "mcp-eval.config.json": judged });
  await runHere(["run"], { cwd: folder.path, env: provider.env });
  const runs = readdirSync(runsOf(folder.path));
  const cli = startCli(["grade", "--llm"], { cwd: folder.path, env: provider.env });
  await provider.received(4);
  send(cli.child.pid ?? 0);
  const { code, stderr } = await cli.finished;
  expect(code).toBe(130);
  expect(stderr).toContain("Interrupted: cleaning up and stopping what was started. Interrupt again");
  expect(readdirSync(runsOf(folder.path))).toEqual(runs);
});

it("SIGTERM while the schemas of a checked server are validated ends the check", async () => {
  const command = [join(root, "test/fixtures/servers/faulty-server.mjs"), "slow-patterns=20"];
  const slow = { transport: "stdio", command: process.execPath, args: command } as const;
  using run = startRun({ servers: { slow }, check: { calls: "none" } }, { command: "check" });
  await run.untilJournal(
    /"type":"probe.started","server":"slow","probe":"second-start"[^]*"type":"trial.finished"/,
  );
  run.cli.child.kill("SIGTERM");
  const ended = await run.ended();
  expect([ended.code, ended.result.verdict, ended.left]).toEqual([130, "interrupted", []]);
  expect(trialOf(ended.result, "slow: definitions")).toMatchObject({ verdict: "skip", grades: [] });
});

/** Three workflows for a model. */
function workflows(): Config {
  return {
    server: fixtureServer(),
    agent: { model: "openai/agent" },
    workflows: ["first", "victim", "last"].map((name) => ({
      name,
      steps: [{ user: `Play ${name}.`, expectedState: "done" }],
    })),
  };
}

/** A provider that is done at once and judges well, but never answers the agent or the judge of the victim. */
function playing({ victim }: { readonly victim: "agent" | "judge" }): FakeScript {
  return ({ model, users }) => {
    if (model === victim && users.join("\n").includes("Play victim")) return { hang: true };
    return { text: model === "judge" ? '{"score": 1, "reason": "fine"}' : "It is done." };
  };
}
