import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { expectSameWhenRead, type FaultyRun, startRun, until } from "../support/faults.ts";
import { fixtureServer, trialOf } from "../e2e/support.ts";

const toProcess = (pid: number): boolean => process.kill(pid, "SIGINT");
/** As Ctrl-C does. */
const toGroup = (pid: number): boolean => process.kill(-pid, "SIGINT");

/** A step that notes in the task's folder that it ran. */
const note = (id: string): object => ({ command: { id, run: `echo ${id} >> log && test -f log` } });
/** A step that hangs, with a process of its own that it would leave behind. */
const hang = (id: string): object => ({ command: { id, run: "sleep 1001 & exec sleep 1002" } });

interface Spec {
  readonly setup?: readonly object[];
  readonly solution?: readonly object[];
  readonly verify?: readonly object[];
  readonly cleanup?: readonly object[];
}

/** Runs the task `victim` with these parts, and after it one that must not run. */
function start(spec: Spec): FaultyRun {
  const document = (name: string, parts: Spec): object => ({
    apiVersion: "mcp-eval/v1",
    kind: "Task",
    metadata: { name },
    spec: {
      prompt: "Go.",
      solution: [{ say: "gone" }],
      verify: [{ command: { run: "test -d ." } }],
      ...parts,
    },
  });
  const files = {
    "tasks/a/task.json": document("victim", { cleanup: [note("c1"), note("c2")], ...spec }),
    "tasks/b/task.json": document("unstarted", { setup: [note("started")] }),
  };
  const config = { servers: { main: fixtureServer() }, tasks: ["tasks/*/task.json"] };
  return startRun(config, { args: ["--agent", "oracle", "-j", "1"], files });
}

/** Waits for the journal to match; a run that ends before never will. */
async function reach(run: FaultyRun, pattern: RegExp): Promise<void> {
  const ended = run.cli.finished.then(({ code, stderr }) => {
    throw new Error(`it ended before with ${code}: ${stderr}`);
  });
  ended.catch(() => undefined); // it also ends later, when nobody waits for it here
  await Promise.race([run.untilJournal(pattern), ended]);
}

/** What the steps of the task `victim` noted, in order. */
function notes(run: FaultyRun): string[] {
  const file = join(run.folder, "tasks/a/log");
  return existsSync(file) ? readFileSync(file, "utf8").trim().split("\n") : [];
}

const group = (id: string, steps: readonly object[]): object => ({
  group: {
    id,
    setup: [note(`${id}-setup`)],
    steps: [...steps, note(`${id}-never`)],
    cleanup: [note(`${id}-1`), note(`${id}-2`)],
  },
});

const slowCall = { "main.slow": { args: { ms: 1_000_000 } } };
const cases: Record<
  string,
  { readonly spec: Spec; readonly reached: RegExp; readonly before: string[]; readonly after: string[] }
> = {
  setup: {
    spec: { setup: [note("s1"), hang("victim-step"), note("s2")] },
    reached: /"step.started".*"step":"victim-step"/,
    before: ["s1"],
    after: ["c2", "c1"],
  },
  "a call of the solution": {
    spec: { setup: [note("s1")], solution: [slowCall, { say: "late" }], verify: [note("never")] },
    reached: /"name":"slow","arguments"/,
    before: ["s1"],
    after: ["c2", "c1"],
  },
  "a verify step": {
    spec: { verify: [note("v1"), hang("victim-step"), note("never")] },
    reached: /"step.started".*"step":"victim-step"/,
    before: ["v1"],
    after: ["c2", "c1"],
  },
  "a group in a group": {
    spec: { verify: [group("outer", [group("inner", [hang("victim-step")])]), note("never")] },
    reached: /"step.started".*"step":"outer\/inner\/victim-step"/,
    before: ["outer-setup", "inner-setup"],
    after: ["inner-2", "inner-1", "outer-2", "outer-1", "c2", "c1"],
  },
  "a group in setup": {
    spec: { setup: [group("g", [hang("victim-step")]), note("never")], verify: [note("nor-this")] },
    reached: /"step.started".*"step":"g\/victim-step"/,
    before: ["g-setup"],
    after: ["g-2", "g-1", "c2", "c1"],
  },
  "the wait between two attempts": {
    spec: {
      verify: [
        { command: { id: "poll", run: "echo poll >> log; false", retry: { for: "500s", every: "500s" } } },
        note("never"),
      ],
    },
    reached: /"step.finished".*"step":"poll"/,
    before: ["poll"],
    after: ["c2", "c1"],
  },
};

describe("an interruption", () => {
  it.concurrent.each(Object.entries(cases).map((entry, index) => [...entry, index] as const))(
    "in %s cleans up once, in reverse",
    async (_name, { spec, reached, before, after }, index) => {
      const send = index % 2 === 0 ? toProcess : toGroup;
      using run = start(spec);
      await reach(run, reached);
      expect(notes(run)).toEqual(before);
      send(run.cli.child.pid ?? 0);
      const ended = await run.ended();
      expect(notes(run)).toEqual([...before, ...after]);
      expect([ended.code, ended.result.verdict]).toEqual([130, "interrupted"]);
      for (const task of ["victim", "unstarted"]) {
        expect(trialOf(ended.result, task)).toMatchObject({
          verdict: "skip",
          error: { code: "run/interrupted" },
        });
      }
      expect(existsSync(join(run.folder, "tasks/b/log"))).toBe(false);
      expect(ended.left).toEqual([]);
      await expectSameWhenRead(run.folder, ended.result);
    },
  );

  it.concurrent("during cleanup lets it come to its end, once", async () => {
    using run = start({
      cleanup: [
        note("c1"),
        { command: { id: "slow", run: "echo slow >> log; while ! test -e go; do sleep 0.05; done" } },
        note("c3"),
      ],
    });
    await until(() => notes(run).includes("slow"), "the slow step of cleanup");
    toGroup(run.cli.child.pid ?? 0);
    await run.cli.until(/Interrupted: cleaning up/);
    writeFileSync(join(run.folder, "tasks/a/go"), "");
    const ended = await run.ended();
    expect(notes(run)).toEqual(["c3", "slow", "c1"]);
    expect([ended.code, ended.result.verdict, ended.left]).toEqual([130, "interrupted", []]);
  });

  it.concurrent("once more ends everything at once", async () => {
    using run = start({ verify: [hang("victim-step")], cleanup: [note("c1"), hang("stuck"), note("c3")] });
    await reach(run, /"step.started".*"step":"victim-step"/);
    const pid = run.cli.child.pid ?? 0;
    toGroup(pid);
    await reach(run, /"step.started".*"step":"stuck"/);
    // Two signals that come closer together are one.
    await setTimeout(500);
    toGroup(pid);
    const { code, stdout, stderr } = await run.cli.finished;
    expect([code, stdout]).toEqual([130, ""]);
    expect(stderr).toContain("Ended immediately. Finished trials are kept: npx mcpvals show latest");
    expect(notes(run)).toEqual(["c3"]);
    await until(() => run.living().length === 0, "the end of all processes");
  });
});
