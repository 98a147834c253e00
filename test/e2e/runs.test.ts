import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { run as runEval } from "../../src/run/run.ts";
import type { Plan } from "../../src/model/plan.ts";
import type { RunResult } from "../../src/model/result.ts";
import { folderOf, runHere } from "../support/cli.ts";
import { commandAgent } from "../support/programs.ts";

const file = "mcp-eval.config.json";
const readJson = (...path: string[]): unknown => JSON.parse(readFileSync(join(...path), "utf8"));

describe("a matrix of 3 agents, 2 sets of servers and 2 attempts", () => {
  const add = { inputSchema: { type: "object" }, responses: [{ match: { a: 1, b: 2 }, return: "3" }] };
  const call = { call: "add", args: { a: 1, b: 2 } };
  const say = { say: "The sum is 3." };
  const program = [commandAgent, JSON.stringify([["connect", "{mcpConfig}"], ["args"]]), "{prompt}"];
  const matrix = {
    servers: { math: { transport: "mock", mock: { tools: { add } } } },
    variants: { with: {}, without: { servers: { math: null } } },
    agents: {
      caller: { type: "scripted", plan: { sum: [call, say] } },
      guesser: { type: "scripted", plan: { sum: [say] } },
      program: { type: "command", command: "node", args: program },
    },
    workflows: [{ name: "sum", steps: [{ user: "Add 1 and 2.", expectedState: "3" }], expectTools: ["add"] }],
    trials: 2,
    concurrency: 4,
  };

  it("is planned, run and reported apart", async () => {
    using folder = folderOf({ [file]: matrix });
    const args = ["run", "--reporter", "console", "--reporter", "json=result.json"];
    const run = await runHere(args, { cwd: folder.path });
    expect(run.code, run.stderr).toBe(1);
    const result = readJson(folder.path, "result.json") as RunResult;
    const plan = readJson(folder.path, ".mcpvals/runs", result.id, "plan.json") as Plan;
    const cells = ["caller", "guesser", "program"].flatMap((agent) =>
      ["with", "without"].flatMap((variant) => [1, 2].map((attempt) => `${agent} ${variant} ${attempt}`)),
    );
    const cellOf = (trial: { agent: string | null; variant?: string | undefined; attempt: number }): string =>
      `${trial.agent} ${trial.variant} ${trial.attempt}`;
    expect([plan.trials.map(cellOf), result.trials.map(cellOf)]).toEqual([cells, cells]);
    const passed = result.trials.filter(({ verdict }) => verdict === "pass");
    expect(passed.map(cellOf)).toEqual(["caller with 1", "caller with 2"]);
    const [first, , without] = result.trials;
    expect(first?.tools).toMatchObject({ serversUsed: ["math"], mcpToolCalls: 1 });
    expect(without?.tools).toMatchObject({ serversUsed: [], serversUnused: [], mcpToolCalls: 0 });
    expect(result.environment.variants).toMatchObject({
      with: { servers: { math: { transport: "mock" } } },
      without: { servers: {} },
    });
    expect(run.stdout).toMatch(/^ {2}sum +caller · with +2\/2 +100 % \(34 to 100\) /m);
    expect(run.stdout).toMatch(/^ {2}sum +guesser · without +0\/2 +0 % \(0 to 66\) /m);
    expect(run.stdout).toContain(
      "On these tasks it is undecided whether without is better or worse than with",
    );
    expect(result.rates?.groups).toHaveLength(6);
    expect(result.rates?.tasks?.[0]).toMatchObject({
      task: "sum",
      agent: "caller",
      variant: "with",
      passed: 2,
      scored: 2,
    });
  });

  it("can be cut to one variant", async () => {
    using folder = folderOf({ [file]: matrix });
    const at = { cwd: folder.path };
    const run = await runHere(["run", "--variant", "with", "--agent", "caller"], at);
    expect([run.code, run.stdout]).toEqual([0, expect.stringContaining("2 passed")]);
    const typo = await runHere(["run", "--variant", "wiht"], at);
    expect([typo.code, typo.stderr]).toEqual([2, expect.stringContaining('Did you mean "with"?')]);
  });
});

const talk = {
  agent: { type: "scripted", plan: { talks: [{ say: "hello" }] } },
  workflows: [{ name: "talks", steps: [{ user: "Who is there?", expectedState: "hello" }] }],
};
const broken = { transport: "stdio", command: "node", args: ["nothere.js"] };

describe("before anything starts", () => {
  const touch = "require('node:fs').writeFileSync('started', '')";
  const sandbox = { kind: "docker", image: "none", runtime: ["no-such-engine"] };

  it.each([
    [
      "a required server that does not start",
      { ...broken, required: true },
      /server "broken".*\(server\/required\)[^]*Cannot find module/,
    ],
    [
      "a sandbox that cannot be had",
      { transport: "stdio", command: "node", args: ["-e", touch], sandbox },
      /no-such-engine.*\(sandbox\/unavailable\)/s,
    ],
  ])("%s ends the run, and reports stay as they were", async (_, server, message) => {
    using folder = folderOf({ [file]: { ...talk, servers: { broken: server } }, "old.xml": "<older/>" });
    const args = ["run", "-r", "json=new.json", "-r", "junit=old.xml"];
    const run = await runHere(args, { cwd: folder.path });
    expect([run.code, run.stderr]).toEqual([2, expect.stringMatching(message)]);
    const left = ["new.json", "started", ".mcpvals"].filter((name) => existsSync(join(folder.path, name)));
    expect(left).toEqual([]);
    expect(readFileSync(join(folder.path, "old.xml"), "utf8")).toBe("<older/>");
  });
});

it("a report that is written replaces the older one whole", async () => {
  const mock = { tools: { ping: { responses: [{ return: "pong" }] } } };
  using folder = folderOf({ [file]: { ...talk, servers: { s: { transport: "mock", mock } } } });
  writeFileSync(join(folder.path, "out.json"), "x".repeat(100_000));
  await runHere(["run", "-r", "json=out.json"], { cwd: folder.path });
  expect(readJson(folder.path, "out.json")).toMatchObject({ schema: "mcpvals.result/1" });
});

it("a cleanup step says that its server did not start", async () => {
  const spec = {
    servers: { broken },
    verify: [{ mcp: { server: "broken", tool: "look" } }],
    cleanup: [{ mcp: { server: "broken", tool: "drop" } }],
  };
  const task = { apiVersion: "mcp-eval/v1", kind: "Task", metadata: { name: "t" }, spec };
  using folder = folderOf({ "t.json": task });
  expect((await runHere(["run", "t.json", "-o", "runs"], { cwd: folder.path })).code).toBe(3);
  const [run = ""] = readdirSync(join(folder.path, "runs"));
  const journal = readFileSync(join(folder.path, "runs", run, "journal.jsonl"), "utf8");
  expect(journal).toContain('the tool \\"drop\\" needs server \\"broken\\", which did not start');
});

it("writes no secret from the names of its trials into the plan", async () => {
  using folder = folderOf({});
  const name = "task hunter2-hunter2";
  const { folder: path = "" } = await runEval(
    {
      eval: {
        name: "secret",
        servers: {},
        agents: [{ type: "null", name: "nobody" }],
        tasks: [
          { name, form: "workflow", servers: [], turns: [], expectTools: [], verify: [], parallel: false },
        ],
        trials: 2,
        limits: { trialMs: 60_000, callMs: 1000, modelMs: 1000 },
        reporters: [],
      },
      secrets: [{ name: "KEY", value: "hunter2-hunter2" }],
      env: {},
      overrides: {},
      dir: folder.path,
      extensionUses: new Map(),
    },
    { cwd: folder.path },
  );
  const { trials } = readJson(path, "plan.json") as Plan;
  expect(trials.map(({ task }) => task)).toEqual(["task [secret:KEY]", "task [secret:KEY]"]);
});
