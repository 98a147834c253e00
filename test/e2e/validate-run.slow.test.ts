import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { folderOf, type HereOutcome, runHere } from "../support/cli.ts";

interface Parts {
  readonly verify?: readonly unknown[];
  readonly say?: string;
  readonly solution?: null;
  readonly spec?: object;
  readonly metadata?: object;
}

const saysReady = { command: { id: "said", run: "test {agent.output | sh} = ready" } };

/** A task whose agent has to say "ready". */
function task(
  name: string,
  { verify = [saysReady], say = "ready", solution, spec = {}, metadata = {} }: Parts = {},
) {
  return {
    kind: "Task",
    apiVersion: "mcp-eval/v1",
    metadata: { name, ...metadata },
    spec: {
      prompt: "Say ready.",
      verify,
      ...(solution === null ? {} : { solution: [{ say }] }),
      ...spec,
    },
  };
}

const proven = task("good");
const leaves = { setup: [{ file: { path: "{workspace}/left.txt", content: "x" } }] };
const removes = { cleanup: [{ file: { path: "{workspace}/left.txt", absent: true } }] };
const unreachable = { http: { id: "page", url: "http://127.0.0.1:{random.port}/" } };
const tasks = {
  "good.json": proven,
  "tidy.json": task("tidy", { spec: { ...leaves, ...removes } }),
  "hollow.json": task("hollow", { verify: [{ command: { run: "test -d ." } }] }),
  "unsolved.json": task("unsolved", { solution: null }),
  "mistaken.json": task("mistaken", { say: "not yet" }),
  "messy.json": task("messy", {
    metadata: { stateProbe: ["clock.now"] },
    spec: { setup: [{ command: { id: "clock", run: "date +%N", outputs: { now: "{stdout}" } } }] },
  }),
  "broken.json": task("broken", { verify: [unreachable] }),
  "foreign.json": task("foreign", { spec: { requires: [{ command: "no-such-program-anywhere" }] } }),
};

async function validate(
  files: Readonly<Record<string, unknown>>,
  args: readonly string[] = [],
): Promise<HereOutcome & { readonly kept: readonly string[] }> {
  using folder = folderOf(files);
  const outcome = await runHere(["validate", ".", "--run", ...args], { cwd: folder.path });
  return { ...outcome, kept: readdirSync(folder.path).filter((name) => !(name in files)) };
}

const expected = `\
    task      null agent   oracle       state
  ! broken    error        error        restored
  - foreign   skipped
  ✓ good      fails        passes       restored
  ✗ hollow    passes       passes       restored
  ✗ messy     fails        passes       changed
  ✗ mistaken  fails        fails        restored
  ✓ tidy      fails        passes       restored
  ✗ unsolved  fails        no solution  restored

Not proven

  ✗ hollow  hollow.json
    null agent  an agent that does nothing passes, so the task checks nothing that an agent does: verify-steps: exit code: it exited with 0

  ✗ messy  messy.json
    null agent  once cleanup is done, not everything is as it was before setup; undo that in cleanup: the state after a task has to be the state before it
      - clock.now was N and is N
    oracle  once cleanup is done, not everything is as it was before setup; undo that in cleanup: the state after a task has to be the state before it
      - clock.now was N and is N

  ✗ mistaken  mistaken.json
    oracle  the task's own solution does not pass
      verify-steps 0.00  exit code: it exited with 1, expected 0
        step      said  (command in verify, event N)
        input     $ test "not yet" = ready
      the agent made no tool calls
        said      not yet  (event N)

  ✗ unsolved  unsolved.json
    oracle  the task has no solution, so nothing shows that it can be solved

Open

  ! broken  broken.json
    null agent  with an agent that does nothing the trial breaks
      step/cannot-run  no response to GET http://127.0.0.1:PORT/: …
        step      page  (http in verify, event N)
        input     GET http://127.0.0.1:PORT/
    oracle  with the task's own solution the trial breaks
      step/cannot-run  no response to GET http://127.0.0.1:PORT/: …
        step      page  (http in verify, event N)
        input     GET http://127.0.0.1:PORT/

Skipped

  - foreign: requirements not met: the command "no-such-program-anywhere", which is not on PATH

  2 proven · 4 not proven · 1 open · 1 skipped · 8 tasks in TIME

  NOT PROVEN   exit 1
`;

describe("mcpvals validate --run", () => {
  it("shows what each task proves, and the reasons for whatever is not right", async () => {
    const { code, stdout, stderr, kept } = await validate(tasks);
    expect(code).toBe(1);
    expect(stderr).toBe("");
    expect(kept).toEqual([".mcpvals"]);
    const steady = stdout
      .replaceAll(/in [\d.]+ m?s$/gm, "in TIME")
      .replaceAll(/127\.0\.0\.1:\d+/g, "127.0.0.1:PORT")
      .replaceAll(/(no response to GET \S+).*\n.*/g, "$1 …")
      .replaceAll(/event \d+/g, "event N")
      .replaceAll(/was \d+ and is \d+/g, "was N and is N");
    expect(steady).toBe(expected);
  });

  it("gives 0 when all that could be tried is proven; what is left in the workspace is thrown away", async () => {
    const { "good.json": good, "tidy.json": tidy, "foreign.json": foreign } = tasks;
    const untidy = task("untidy", { spec: leaves });
    const files = { "good.json": good, "tidy.json": tidy, "untidy.json": untidy, "foreign.json": foreign };
    const outcome = await validate(files);
    expect(outcome.code).toBe(0);
    expect(outcome.stdout).toContain("3 proven · 1 skipped · 4 tasks");
    expect(outcome.stdout).toContain("- foreign: requirements not met");
  });

  it.each([
    [
      "a task that lacks something, under --strict",
      { "a.json": proven, "foreign.json": tasks["foreign.json"] },
      ["--strict"],
      3,
    ],
    ["a wrong file", { "a.json": proven, "b.json": { ...proven, spec: {} } }, [], 2],
    ["a filter that leaves no task", { "a.json": proven }, ["--task", "x*"], 2],
  ])(
    "gives the right code for %s",
    async (_, files, args, code) => {
      expect((await validate(files, args)).code).toBe(code);
    },
    60_000,
  );

  it("proves workflows with the agents that do nothing and that repeat the prompt", async () => {
    const steps = (step: object): object[] => [{ user: "Say the word ready.", ...step }];
    const ready = { type: "text", name: "says ready", config: { contains: ["ready"] } };
    const config = {
      server: { transport: "mock", mock: { tools: { wait: { responses: [{ return: "ready" }] } } } },
      workflows: [
        { name: "answered", steps: steps({ expectedState: { contains: "done", in: "answer" } }) },
        { name: "echoed", steps: steps({}), graders: [ready] },
      ],
      toolHealthSuites: [{ name: "calls", tests: [{ name: "wait" }] }],
    };
    const { code, stdout, stderr } = await validate({ "mcp-eval.config.json": config }, ["--json"]);
    expect([code, stderr]).toEqual([1, expect.stringContaining("1 test left out")]);
    const { tasks: told } = JSON.parse(stdout) as {
      readonly tasks: readonly { task: string; status: string; problems: { agent: string }[] }[];
    };
    expect(
      told.map(({ task: name, status, problems }) => [name, status, problems.map(({ agent }) => agent)]),
    ).toEqual([
      ["answered", "proven", []],
      ["echoed", "not-proven", ["repeating"]],
    ]);
  });

  it("says the same as JSON", async () => {
    const { "good.json": good, "messy.json": messy } = tasks;
    const { code, stdout } = await validate({ "good.json": good, "messy.json": messy }, [
      "--json",
      "-j",
      "1",
    ]);
    expect(code).toBe(1);
    expect(JSON.parse(stdout)).toMatchObject({
      proven: false,
      tasks: [
        {
          task: "good",
          status: "proven",
          null: { verdict: "fail", restored: true },
          oracle: { verdict: "pass", restored: true },
          problems: [],
        },
        {
          task: "messy",
          status: "not-proven",
          problems: [
            { agent: "null", kind: "state", differences: [expect.stringContaining("clock.now was ")] },
            { agent: "oracle", kind: "state" },
          ],
        },
      ],
    });
  });

  it("explains in the line of the verdict why it is open", async () => {
    const broken = await validate({ "broken.json": tasks["broken.json"] });
    expect(broken.code).toBe(3);
    expect(broken.stdout).toMatch(/^ +OPEN +exit 3: errors left it unproven$/m);
    const skipped = await validate({ "foreign.json": tasks["foreign.json"] });
    expect(skipped.code).toBe(3);
    expect(skipped.stdout).toMatch(/^ +OPEN +exit 3: nothing could be tried$/m);
  });

  it("tells of a solution's call that failed, and of checks that were skipped", async () => {
    const spec = { solution: [{ mcp: { tool: "writ_file" } }, { say: "ready" }] };
    const skipped = { command: { run: "test -d .", if: "false" } };
    const files = {
      "good.json": task("good", { spec, verify: [saysReady, skipped] }),
      "bad.json": task("bad", { spec, verify: [{ command: { id: "never", run: "false" } }] }),
    };
    const { code, stdout } = await validate(files, ["-j", "1"]);
    const failed = 'solution: writ_file failed: no server offers a tool called "writ_file"';
    expect(code).toBe(1);
    expect(stdout).toContain(`    - ${failed}\n`);
    expect(stdout).toContain(
      `Warnings\n\n  - good: ${failed}\n  - good: verify step "verify[1]" was skipped: its if does not hold\n`,
    );
  });

  it("says that it was interrupted, and judges no state that cleanup did not get to", async () => {
    const stopped = { command: { id: "stop", run: "kill -INT $PPID; sleep 100" } };
    const files = { "cut.json": task("cut", { spec: leaves, verify: [stopped] }) };
    const { code, stdout, stderr } = await validate(files);
    expect(code).toBe(130);
    expect(stderr).toContain("Interrupted: cleaning up");
    expect(stdout).toMatch(/^ +! cut +not run +not run +unknown$/m);
    expect(stdout).toMatch(/^ +INTERRUPTED +exit 130$/m);
    expect(stdout).not.toMatch(/NOT PROVEN|before setup/);
    const asJson = await validate(files, ["--json"]);
    expect(JSON.parse(asJson.stdout)).toMatchObject({
      proven: false,
      interrupted: true,
      tasks: [{ status: "open", null: { restored: null }, oracle: null }],
    });
  });

  it("looks at what a verify step gives, and still grades the step", async () => {
    const count = {
      command: { id: "count", run: "ls {workspace} | wc -l | tr -d ' '", outputs: { files: "{stdout}" } },
    };
    const probed = task("probed", {
      verify: [count, saysReady],
      spec: leaves,
      metadata: { stateProbe: ["count.files"] },
    });
    const { code, stdout } = await validate({ "probed.json": probed });
    expect(code).toBe(1);
    expect(stdout).toContain("count.files was 0 and is 1");
    expect(stdout).toContain("fails        passes       changed");
  });

  it("keeps the runs where it is told to", async () => {
    using folder = folderOf({ "good.json": proven });
    const { code } = await runHere(["validate", "good.json", "--run", "--output", "runs"], {
      cwd: folder.path,
    });
    expect(code).toBe(0);
    expect(readdirSync(join(folder.path, "runs")).filter((name) => name !== "latest").length).toBe(3);
    expect(existsSync(join(folder.path, ".mcpvals", "runs"))).toBe(false);
  });
});

describe("run", () => {
  const idle = { type: "command", command: "sh", args: ["-c", "echo ready; : $0", "{prompt}"] };
  const config = { agents: { c: idle }, tasks: ["*.task.json"] };

  it("notes the tasks that were never seen to fail when the agent does nothing", async () => {
    const files = {
      "mcp-eval.config.json": config,
      "a.task.json": proven,
      "b.task.json": tasks["hollow.json"],
    };
    using folder = folderOf(files);
    const at = { cwd: folder.path };
    const note = "note: never seen to fail when the agent does nothing: ";
    expect((await runHere(["run"], at)).stderr).toContain(`${note}good, hollow; `);
    expect((await runHere(["run", "--agent", "null"], at)).stderr).not.toContain(note);
    expect((await runHere(["validate", "--run"], at)).code).toBe(1);
    expect((await runHere(["run", "--timeout", "1m"], at)).stderr).toContain(`${note}hollow; `);
    writeFileSync(
      join(folder.path, "a.task.json"),
      JSON.stringify(task("good", { spec: { env: { A: "1" } } })),
    );
    expect((await runHere(["run"], at)).stderr).toContain(`${note}good, hollow; `);
  });
});
