import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { proveTasks } from "../../src/cli/commands/validate-run.ts";
import { load } from "../../src/load/load.ts";
import type { TaskProof } from "../../src/core/report/proof.ts";
import type { TraceEvent } from "../../src/core/trace/events.ts";
import { rememberFolders, type StateMemory } from "../../src/run/state-comparison.ts";
import { prepare } from "../../src/run/prepare.ts";
import { folderOf } from "../support/cli.ts";
import { playTrial, portableTask, taskFolder } from "../support/portable.ts";

type Files = Readonly<Record<string, unknown>>;

/** `NAME STATUS`, and what differs, of every task of a folder. */
async function prove(files: Files): Promise<readonly string[]> {
  using folder = folderOf(files);
  return await proveFolder(folder.path);
}

async function proveFolder(cwd: string): Promise<readonly string[]> {
  const { signal } = new AbortController();
  const loaded = prepare(await load({ cwd, sources: ["."], agents: ["null", "oracle"], signal }), {});
  const proofs = await proveTasks(loaded, { cwd, output: false, concurrency: 4, signal });
  return proofs.map(shown);
}

const hasGit = spawnSync("git", ["--version"]).status === 0;

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

describe("validate --run says PROVEN only for a task that an agent has to do something for", () => {
  it.each([
    ["that there is an answer", "test -n {agent.output | sh}"],
    ["a word of the prompt", "case {agent.output | sh} in *ready*) exit 0;; esac; exit 1"],
  ])("finds one that checks only %s", async (_, line) => {
    expect(await prove({ "t.json": task("t", { verify: [run(line)] }) })).toEqual(["t not-proven"]);
  });
});

describe("what something outside the run did is not held against a task", () => {
  it("such as a file that was saved in its folder during a trial", async () => {
    // The marker outlives the trial outside every folder that is compared: only the first trial finds none.
    using elsewhere = folderOf({});
    const once = "test -f $MARK || { touch $MARK; echo new > no''tes; }";
    const spec = { setup: [run(once)], env: { MARK: join(elsewhere.path, "mark") } };
    expect(await prove({ "t/t.json": task("t", spec), "t/notes": "old" })).toEqual(["t proven"]);
  });

  it.skipIf(!hasGit)("such as what git ignores, and what packages bring", async () => {
    using folder = folderOf({ ".gitignore": "*.log\nbuild/\n" });
    execFileSync("git", ["init", "-q"], { cwd: folder.path, stdio: "ignore" });
    const left =
      "mkdir -p build node_modules/a && echo x > build/x && echo x > node_modules/a/x && echo x > x.log";
    writeFileSync(join(folder.path, "t.json"), JSON.stringify(task("t", { setup: [run(left)] })));
    expect(await proveFolder(folder.path)).toEqual(["t proven"]);
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
    const known: StateMemory["known"] = new Map();
    const memory = { changes, known, folders: new Map() };
    const together = { services: { compareState: memory } };
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
    seen.push(differences((await playTrial(b, { services: { compareState: { changes, known } } })).events));
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

  it("and what it left is not, once a repeated trial has not touched it", async () => {
    expect(await beside(make, (file) => void existsSync(file))).toEqual([1, 1, 0]);
  });
});
