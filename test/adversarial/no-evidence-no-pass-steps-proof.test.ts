import { existsSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { proveTasks } from "../../src/cli/prove-tasks.ts";
import { load } from "../../src/config/load.ts";
import type { TaskProof } from "../../src/core/report/proof.ts";
import type { TraceEvent } from "../../src/core/trace/events.ts";
import { rememberFolders, type StateMemory } from "../../src/execute/state-comparison.ts";
import { prepare } from "../../src/prepare.ts";
import { folderOf } from "../support/cli.ts";
import { playTrial, portableTask, taskFolder } from "../support/portable.ts";

type Files = Readonly<Record<string, unknown>>;

/** `NAME STATUS`, and what differs, of every task of a folder. */
async function prove(files: Files): Promise<readonly string[]> {
  using folder = folderOf(files);
  const { signal } = new AbortController();
  const options = { cwd: folder.path, sources: ["."], agents: ["null", "oracle"], signal };
  const loaded = prepare(await load(options), {});
  const proofs = await proveTasks(loaded, { cwd: folder.path, output: false, concurrency: 4, signal });
  return proofs.map(shown);
}

function shown({ task, variant, status, problems }: TaskProof): string {
  const name = variant === undefined ? task.name : `${task.name} in ${variant}`;
  const differences = problems.flatMap(({ differences: all = [] }) => all.map((each) => each.split(" ")[1]));
  return [`${name} ${status}`, ...differences].join(", ");
}

function task(name: string, spec: object, metadata: object = {}): object {
  return {
    kind: "Task",
    apiVersion: "mcp-eval/v1",
    metadata: { name, ...metadata },
    spec: {
      prompt: "Say ready.",
      verify: [{ command: { run: "test {agent.output | sh} = ready" } }],
      solution: [{ say: "ready" }],
      ...spec,
    },
  };
}

const run = (line: string): object => ({ command: { run: line } });
const probe = { command: { id: "p", run: "cat {env.STORE | sh}", outputs: { value: "{stdout}" } } };

const leaks: readonly (readonly [string, Files, string])[] = [
  ["changes a file", { "t.json": task("t", { setup: [run("echo new > f")] }), f: "old" }, "folder/f"],
  ["adds a file", { "t.json": task("t", { setup: [run("echo new > f")] }) }, "folder/f"],
  ["removes a file", { "t.json": task("t", { setup: [run("rm -f f")] }), f: "old" }, "folder/f"],
  ["makes a folder", { "t.json": task("t", { setup: [run("mkdir -p f")] }) }, "folder/f"],
  [
    "leaves a file behind that its agent's success makes",
    { "t.json": task("t", { verify: [run("test {agent.output | sh} = ready && echo x > f")] }) },
    "folder/f",
  ],
  [
    "changes what its stateProbe looks at",
    {
      "t/t.json": task(
        "t",
        { setup: [probe, run("echo new > $STORE")], env: { STORE: "../u/store" } },
        {
          stateProbe: ["p.value"],
        },
      ),
      "u/store": "old",
      "u/u.json": task("u", { setup: [] }),
    },
    "was",
  ],
];

describe("validate --run says PROVEN only for a task that leaves everything as it was (docs/tasks.md, The first task)", () => {
  it.each(leaks)("finds a setup that %s, however often it did that before", async (_, files, what) => {
    expect((await prove(files))[0]).toBe(`t not-proven, ${what}`);
  });

  it("finds it beside tasks that leave nothing", async () => {
    const tidy = { setup: [run("echo x > {workspace}/x")], cleanup: [run("rm {workspace}/x")] };
    const files = Object.fromEntries(
      ["a", "b", "c"].map((name) => [`${name}/${name}.json`, task(name, tidy)]),
    );
    const leaky = { "t/t.json": task("t", { setup: [run("echo new > f")] }), "t/f": "old" };
    expect(await prove({ ...files, ...leaky })).toEqual([
      "a proven",
      "b proven",
      "c proven",
      "t not-proven, folder/f",
    ]);
  });

  it("finds what one of several variants leaves, and in which one the solution fails", async () => {
    const mock = (text: string): object => ({
      transport: "mock",
      mock: { tools: { get: { responses: [{ return: text }] } } },
    });
    const one = task("t", {
      verify: [{ "db.get": { expect: { text: "good" } } }, run("test {agent.output | sh} = ready")],
    });
    const config = {
      servers: { db: mock("bad") },
      variants: { first: {}, second: { servers: { db: mock("good") } } },
      tasks: ["t.json"],
    };
    const files = { "mcp-eval.config.json": config, "t.json": one };
    expect(await prove(files)).toEqual(["t in first not-proven", "t in second proven"]);
  });
});

describe("what another task did meanwhile is not held against a task", () => {
  const differences = (events: readonly TraceEvent[]): readonly string[] | undefined =>
    events.find((event) => event.type === "state.compared")?.differences;

  /** A trial of "b" while one of "a" has made a file, or removed one; then "b" alone. */
  async function beside(act: (file: string) => void, undo: (file: string) => void): Promise<unknown> {
    using folder = taskFolder();
    const { path: dir } = folder;
    const file = join(dir, "shared");
    undo(file);
    const changes: StateMemory["changes"] = new Map();
    const memory = { changes, folders: new Map() };
    const together = { ports: { compareState: memory } };
    const b = portableTask({ dir }, { name: "b" });
    await rememberFolders(memory, [b]);
    const seen: unknown[] = [];
    const agent = async (): Promise<void> => {
      act(file);
      seen.push(differences((await playTrial(b, together)).events));
      undo(file);
    };
    const a = portableTask({ dir }, { name: "a", turns: [{ user: "go" }] });
    seen.push(differences((await playTrial(a, { ...together, agent })).events));
    seen.push(differences((await playTrial(b, { ports: { compareState: { changes } } })).events));
    return seen.map((each) => (Array.isArray(each) ? each.length : each));
  }

  const make = (file: string): void => writeFileSync(file, "x");
  const remove = (file: string): void => rmSync(file, { force: true });

  it.each([
    ["made and removed", make, remove],
    ["removed and made again", remove, make],
  ])("such as a file that it %s", async (_, act, undo) => {
    expect(await beside(act, undo)).toEqual([1, 0, 0]);
  });

  it("but what is still changed afterwards is", async () => {
    expect(await beside(make, (file) => void existsSync(file))).toEqual([1, 1, 1]);
  });
});
