import { execFileSync, spawnSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { proveTasks } from "../../src/cli/commands/validate-run.ts";
import { load } from "../../src/formats/load.ts";
import type { TaskProof } from "../../src/report/proof.ts";
import type { TraceEvent } from "../../src/model/event.ts";
import { rememberFolders, type StateMemory } from "../../src/run/state-comparison.ts";
import { prepare } from "../../src/run/prepare.ts";
import { folderOf } from "../support/cli.ts";
import { playTrial, portableTask, taskFolder } from "../support/portable.ts";
import { command, taskOf } from "./task-verdicts.ts";

/** `NAME STATUS`, and what differs, of every task of a folder. */
async function prove(files: Readonly<Record<string, unknown>>, git = false): Promise<readonly string[]> {
  using folder = folderOf(files);
  const { path: cwd } = folder;
  if (git) execFileSync("git", ["init", "-q"], { cwd, stdio: "ignore" });
  const { signal } = new AbortController();
  const loaded = prepare(await load({ cwd, sources: ["."], agents: ["null", "oracle"], signal }), {});
  return (await proveTasks(loaded, { cwd, output: false, concurrency: 4, signal })).map(shown);
}

function shown({ task, variant, status, problems }: TaskProof): string {
  const name = variant === undefined ? task.name : `${task.name} in ${variant}`;
  const differences = problems.flatMap(({ differences: all = [] }) => all.map((each) => each.split(" ")[1]));
  return [`${name} ${status}`, ...differences].join(", ");
}

/** A task that is proven unless its spec changes that. */
function task(name: string, spec: object, metadata: object = {}): object {
  const verify = [command("test {agent.output | sh} = ready")];
  const proven = taskOf(name, { prompt: "Say ready.", verify, solution: [{ say: "ready" }], ...spec });
  return { ...proven, metadata: { name, ...metadata } };
}

// docs/tasks.md, "The first task".
describe("validate --run says PROVEN only for a task that an agent has to act for, and that leaves no changes", () => {
  const setup = (line: string): object => ({ setup: [command(line)] });
  const verify = (line: string): object => ({ verify: [command(line)] });
  const probe = { command: { id: "p", run: "cat {env.STORE | sh}", outputs: { value: "{stdout}" } } };
  const probed = { setup: [probe, command("echo new > $STORE")], env: { STORE: "../other/store" } };

  it("also of several in one run", async () => {
    const tasks: Readonly<Record<string, object>> = {
      changes: setup("echo new > f"),
      adds: setup("echo new > new"),
      removes: setup("rm -f f"),
      "makes a folder": setup("mkdir -p new"),
      "adds on success": verify("test {agent.output | sh} = ready && echo x > new"),
      "changes what its stateProbe reads": probed,
      "checks that there is an answer": verify("test -n {agent.output | sh}"),
      "checks a word of the prompt": verify("case {agent.output | sh} in *ready*) exit 0;; esac; exit 1"),
      "is tidy": { ...setup("echo x > {workspace}/x"), cleanup: [command("rm {workspace}/x")] },
      "does nothing else": {},
    };
    const files = Object.entries(tasks).flatMap(([name, spec]) => [
      [`${name}/t.json`, task(name, spec, spec === probed ? { stateProbe: ["p.value"] } : {})],
      [`${name}/f`, "old"],
    ]);
    const proofs = await prove({ ...Object.fromEntries(files), "other/store": "old" });
    expect(proofs.toSorted()).toEqual([
      "adds not-proven, folder/new",
      "adds on success not-proven, folder/new",
      "changes not-proven, folder/f",
      "changes what its stateProbe reads not-proven, was",
      "checks a word of the prompt not-proven",
      "checks that there is an answer not-proven",
      "does nothing else proven",
      "is tidy proven",
      "makes a folder not-proven, folder/new",
      "removes not-proven, folder/f",
    ]);
  });

  it("per variant", async () => {
    const mock = (text: string): object => {
      return { transport: "mock", mock: { tools: { get: { responses: [{ return: text }] } } } };
    };
    const good = { "db.get": { expect: { text: "good" } } };
    const config = {
      servers: { db: mock("bad") },
      variants: { first: {}, second: { servers: { db: mock("good") } } },
      tasks: ["t.json"],
    };
    const both = { verify: [good, command("test {agent.output | sh} = ready")] };
    const files = { "mcp-eval.config.json": config, "t.json": task("t", both) };
    expect(await prove(files)).toEqual(["t in first not-proven", "t in second proven"]);
  });
});

describe("what something outside the run did is not held against a task", () => {
  it("such as a file that was saved in its folder during a trial", async () => {
    // The marker outlives the trial outside every folder that is compared: only the first trial finds none.
    using elsewhere = folderOf({});
    const once = "test -f $MARK || { touch $MARK; echo new > no''tes; }";
    const spec = { setup: [command(once)], env: { MARK: join(elsewhere.path, "mark") } };
    expect(await prove({ "t/t.json": task("t", spec), "t/notes": "old" })).toEqual(["t proven"]);
  });

  it.skipIf(spawnSync("git", ["--version"]).status !== 0)(
    "such as what git ignores, and packages",
    async () => {
      const left = ["build", "node_modules/a"].map((folder) => `mkdir -p ${folder} && echo x > ${folder}/x`);
      const files = {
        ".gitignore": "*.log\nbuild/\n",
        "t.json": task("t", { setup: [command(`${left.join(" && ")} && echo x > x.log`)] }),
      };
      expect(await prove(files, true)).toEqual(["t proven"]);
    },
  );

  /** How many differences are found in a trial of "b" while one of "a" acts on a file, in that of "a", and in "b" alone. */
  async function beside(act: (file: string) => void, undo: (file: string) => void): Promise<unknown> {
    using folder = taskFolder();
    const { path: dir } = folder;
    const file = join(dir, "shared");
    const memory: StateMemory = { changes: new Map(), known: new Map(), folders: new Map() };
    const differences = (events: readonly TraceEvent[]): number | undefined =>
      events.find((event) => event.type === "state.compared")?.differences?.length;
    if (undo !== leave) undo(file);
    const b = portableTask({ dir }, { name: "b" });
    const a = portableTask({ dir }, { name: "a", turns: [{ user: "go" }] });
    await rememberFolders(memory, [b]);
    const seen: unknown[] = [];
    const agent = async (): Promise<void> => {
      act(file);
      seen.push(differences((await playTrial(b, { services: { compareState: memory } })).events));
      undo(file);
    };
    seen.push(differences((await playTrial(a, { services: { compareState: memory }, agent })).events));
    const { changes, known } = memory;
    seen.push(differences((await playTrial(b, { services: { compareState: { changes, known } } })).events));
    return seen;
  }

  const make = (file: string): void => writeFileSync(file, "x");
  const remove = (file: string): void => rmSync(file, { force: true });
  const leave = (): void => undefined;

  it.each([
    ["made and removed", make, remove, [1, 0, 0]],
    ["removed and made again", remove, make, [1, 0, 0]],
    ["made and left, once a repeated trial has not touched it", make, leave, [1, 1, 0]],
  ])("such as a file that another task %s meanwhile", async (_, act, undo, expected) => {
    expect(await beside(act, undo)).toEqual(expected);
  });
});
