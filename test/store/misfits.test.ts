import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { valueAt } from "../../src/base/json.ts";
import type { TraceEvent } from "../../src/model/event.ts";
import { replayRun } from "../../src/report/replay.ts";
import { McpvalsError } from "../../src/base/error.ts";
import { misfitIn } from "../../src/store/misfits.ts";
import type { RecordedRun } from "../../src/model/result.ts";
import { readRun } from "../../src/store/run-folder.ts";
import { openDashboard } from "../dashboard/support.ts";
import { fixtureServer } from "../e2e/support.ts";
import { folderOf, runHere, startCli } from "../support/cli.ts";

const config = {
  server: fixtureServer(),
  agent: { type: "scripted", plan: { greets: [{ call: "echo", args: { message: "hi" } }, { say: "hi" }] } },
  workflows: [{ name: "greets", steps: [{ user: "greet", expectedState: "hello" }] }],
};

interface RunFolder extends Disposable {
  readonly cwd: string;
  readonly path: string;
  /** Writes the journal again, each event changed, with right checksums. */
  change: (change: (event: TraceEvent) => object) => void;
}

async function recorded(): Promise<RunFolder> {
  const folder = folderOf({ "mcp-eval.config.json": config });
  await runHere(["run"], { cwd: folder.path });
  const runs = join(folder.path, ".mcpvals/runs");
  const path = join(runs, readdirSync(runs)[0] ?? "");
  const journal = join(path, "journal.jsonl");
  const lines = readFileSync(journal, "utf8").trim().split("\n");
  const events = lines.map((line) => (JSON.parse(line) as { event: TraceEvent }).event);
  return {
    cwd: folder.path,
    path,
    change(change) {
      const changed = events.map((event) => JSON.stringify(change(event)));
      const crc = (text: string): string => crc32(text).toString(16).padStart(8, "0");
      writeFileSync(journal, changed.map((text) => `{"crc":"${crc(text)}","event":${text}}\n`).join(""));
    },
    [Symbol.dispose]: () => folder[Symbol.dispose](),
  };
}

/** Changes the events of one type. */
const ofType =
  (type: TraceEvent["type"], members: object) =>
  (event: TraceEvent): object =>
    event.type === type ? { ...event, ...members } : event;

describe("a run folder in which an event is not of its type", () => {
  let run: RunFolder;
  beforeAll(async () => {
    run = await recorded();
  });
  afterAll(() => run[Symbol.dispose]());

  it("has nothing to say as it was recorded", async () => {
    expect(await misfitIn(run.path)).toBeUndefined();
  });

  it("says where and what, in show, grade and the dashboard", async () => {
    run.change(ofType("agent.message", { text: undefined }));
    const wrong = /event \d+ of trial t1 \(agent\.message\) is not as mcpvals writes it: text: /;
    for (const args of [["show"], ["grade", "--output", "."]]) {
      // It copies the record that is not as the schemas say.
      const { stdout, stderr } = await startCli([...args, run.path], { cwd: run.cwd }).finished;
      expect(stdout + stderr).toMatch(wrong);
      expect(stdout + stderr).toContain("store/corrupt");
      expect(stdout + stderr).not.toContain("internal/unexpected");
    }
    await using dashboard = await openDashboard(run.cwd);
    await expect(dashboard.json(`runs/${run.path.split("/").at(-1)}/trials/t1`)).rejects.toThrow(wrong);
  });

  it.each([
    ["of an unknown type", { type: "turn.begun" }, 'has an event of an unknown type, "turn.begun"'],
    ["without a time", { at: undefined }, "does not match its checksum"],
    ["without a place in its trial", { seq: "2" }, "does not match its checksum"],
  ])("refuses one %s", async (_, members, message) => {
    run.change(ofType("turn.started", members));
    for (const args of [["show"], ["show", "--trial", "t1"], ["grade"]]) {
      const { code, stderr } = await runHere([...args, run.path], { cwd: run.cwd });
      expect([code, stderr]).toEqual([
        3,
        expect.stringMatching(new RegExp(`line \\d+ of the journal ${message}`)),
      ]);
    }
  });

  it("is not taken for a bug, whatever is missing or has another type", async () => {
    run.change((event) => event);
    const stored = await readRun(run.cwd, run.path);
    const bugs: string[] = [];
    for (const [index, event] of stored.events.entries()) {
      for (const path of pathsIn(event)) {
        for (const value of [undefined, null, 5, "x", [null], {}]) {
          const changed = structuredClone(event);
          Object.assign(valueAt(changed, path.slice(0, -1)) as object, { [path.at(-1) ?? ""]: value });
          const reason = unreadable({ ...stored, events: stored.events.with(index, changed) });
          if (reason !== undefined)
            bugs.push(`${event.type} ${path.join(".")} ${JSON.stringify(value)}: ${reason}`);
        }
      }
    }
    expect(bugs).toEqual([]);
  });
});

/** What is said of a run that cannot be read and has nothing that its schema refuses; undefined: it can be, or it has. */
function unreadable(run: RecordedRun): string | undefined {
  try {
    const bug = replayRun(run).result.trials.find(({ error }) => error?.code === "internal/unexpected");
    return bug?.error?.message;
  } catch (error) {
    return error instanceof McpvalsError && error.code === "store/corrupt" ? undefined : String(error);
  }
}

/** Paths of all members that an event of its type has, besides its stamp; messages of servers may have any. */
function pathsIn(value: object, parent: readonly (string | number)[] = []): (string | number)[][] {
  return Object.entries(value).flatMap(([key, member]: [string, unknown]) => {
    if (parent.length === 0 && ["seq", "at", "trial", "type"].includes(key)) return [];
    const path = [...parent, key];
    const isObject = typeof member === "object" && member !== null && parent.length < 2;
    return [path, ...(isObject ? pathsIn(member, path) : [])];
  });
}
