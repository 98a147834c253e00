import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Config } from "../../src/formats/config/config-schema.ts";
import type { RunResult } from "../../src/model/result.ts";
import { folderOf, linkPackage, runShell } from "../support/cli.ts";
import { startFakeProvider } from "../support/fake-provider.ts";
import { exampleServer } from "../support/programs.ts";
import { livingProcesses } from "../process/support.ts";
import { TestServer } from "../../src/vitest/server.ts";
import { fixtureServer, gradesOf, processTag, toolTest, trialOf } from "../e2e/support.ts";

interface Told {
  /** What the program told, in order. */
  readonly said: readonly unknown[];
  /** Names of files and folders that it left, beside those it was given. */
  readonly left: readonly string[];
}

/**
 * Runs a program that uses the library in a process of its own, which must end by itself, with success, having printed
 * nothing at all. It tells what it finds with `tell(value)`; `evaluate`, `McpvalsError` and `config` are there.
 */
async function program(
  text: string,
  { config = toolTest("add", { args: { a: 2, b: 3 }, expectedResult: 5 }), env = {} }: ProgramOptions = {},
): Promise<Told> {
  using folder = folderOf({
    "mcp-eval.config.json": config,
    "program.mjs": [
      `import { globSync, readFileSync, writeFileSync } from "node:fs";`,
      `import { evaluate, McpvalsError } from "mcpvals";`,
      `const config = ${JSON.stringify(config)};`,
      `const said = [];`,
      `const tell = (value) => said.push(value);`,
      text,
      `writeFileSync("said.json", JSON.stringify({ said }));`,
    ].join("\n"),
  });
  linkPackage(folder.path);
  const outcome = await runShell("node program.mjs", { cwd: folder.path, env });
  expect(outcome).toMatchObject({ stdout: "", stderr: "", code: 0 });
  const { said } = JSON.parse(readFileSync(join(folder.path, "said.json"), "utf8")) as {
    readonly said: readonly unknown[];
  };
  const given = ["mcp-eval.config.json", "node_modules", "program.mjs", "said.json"];
  const left = readdirSync(folder.path).filter((name) => !given.includes(name));
  return { said, left };
}

interface ProgramOptions {
  readonly config?: Config;
  readonly env?: Readonly<Record<string, string>>;
}

/** Calls a function that must reject, and gives what there is to know about the error. */
const rejects = `
  const rejects = (promise) => promise.then(
    (result) => "no error but " + result.verdict,
    (error) => ({
      ours: error instanceof McpvalsError,
      code: error.code,
      kind: error.kind,
      message: error.message,
      diagnostics: (error.details?.diagnostics ?? []).map(({ code, location }) => [code, location?.line, location?.path]),
    }),
  );`;

describe("evaluate", () => {
  it("prints nothing, gives the result, keeps the run, and lets the process end", async () => {
    const { said, left } = await program(`tell(await evaluate("./mcp-eval.config.json"));`);
    const [result] = said as [RunResult];
    expect(result).toMatchObject({
      schema: "mcpvals.result/1",
      verdict: "pass",
      summary: { total: 1, pass: 1 },
    });
    expect(left).toEqual([".mcpvals"]);
  });

  it("takes a config itself, several calls at once, and keeps runs in the order in which they began", async () => {
    const { said, left } = await program(`
      const both = [evaluate(config, { output: "runs" }), evaluate(".", { output: false, trials: 2 })];
      tell((await Promise.all(both)).map(({ verdict, summary }) => [verdict, summary.pass]));
      const ids = [];
      for (let count = 0; count < 6; count += 1) ids.push((await evaluate(config, { output: "runs" })).id);
      tell(ids);
      tell(ids.toSorted());
    `);
    const [both, ids, sorted] = said as [unknown, string[], string[]];
    expect(both).toEqual([
      ["pass", 1],
      ["pass", 2],
    ]);
    expect(ids).toEqual(sorted);
    expect(left).toEqual(["runs"]);
  });

  it("has the options that the command line has", async () => {
    const config: Config = {
      server: { ...fixtureServer(), env: { WORD: "${WORD}" } },
      agents: {
        one: { type: "scripted", plan: { work: [{ say: "no" }] } },
        two: {
          type: "scripted",
          plan: { work: [{ call: "echo", args: { message: "yes" } }, { say: "yes" }] },
        },
      },
      workflows: [{ name: "work", steps: [{ user: "Do you agree?", expectedState: "yes" }] }],
      toolHealthSuites: [
        {
          name: "suite",
          tests: [
            { name: "env", expectedResult: '"WORD":"given"' },
            { name: "slow", args: { ms: 20_000 } },
          ],
        },
      ],
    };
    await using provider = await startFakeProvider(() => ({ text: '{"score": 0.9, "reason": "Fine."}' }));
    const { said } = await program(
      `
      const env = { WORD: "given" };
      const cwd = process.cwd();
      process.chdir("/");
      const options = { cwd, env, output: false };
      tell(await evaluate("mcp-eval.config.json", {
        ...options, agents: ["two"], tasks: ["work", "suite/env"], trials: 2, concurrency: 2, llm: true,
      }));
      tell(await evaluate("mcp-eval.config.json", { ...options, tasks: ["suite"], timeoutMs: 3000 }));
      tell(await evaluate("mcp-eval.config.json", { ...options, tasks: ["work"], bail: true, concurrency: 1 }));
      const few = { tasks: ["suite/env"], trials: 3, concurrency: 1, budget: { calls: 2 }, prices: "prices.json" };
      writeFileSync(cwd + "/prices.json", '{ "models": { "gpt-5": { "input": 1, "output": 2 } } }');
      tell(await evaluate("mcp-eval.config.json", { ...options, ...few }));
      process.chdir(cwd);
    `,
      { config, env: provider.env },
    );
    const [chosen, limited, bailed, short] = said as [RunResult, RunResult, RunResult, RunResult];
    expect(chosen.trials.map(({ task, agent, attempt, verdict }) => [task, agent, attempt, verdict])).toEqual(
      [
        ["suite/env", null, 1, "pass"],
        ["suite/env", null, 2, "pass"],
        ["work", "two", 1, "pass"],
        ["work", "two", 2, "pass"],
      ],
    );
    expect(chosen.trials[2] && gradesOf(chosen.trials[2])).toMatchObject({ "llm-judge": "pass 0.9" });
    expect(trialOf(limited, "suite/slow").verdict).toBe("timeout");
    expect(bailed.trials.map(({ agent, verdict }) => [agent, verdict])).toEqual([
      ["one", "fail"],
      ["two", "skip"],
    ]);
    expect(short.trials.map(({ verdict }) => verdict)).toEqual(["pass", "pass", "skip"]);
    expect(short).toMatchObject({
      verdict: "incomplete",
      budget: { calls: 2, usedUp: "the budget of 2 calls is used up" },
      environment: { prices: expect.any(String) as string },
    });
  });

  it("runs a config as it was given, even if its owner changes it later; many runs share one exit listener", async () => {
    const { said } = await program(`
      const runs = [];
      const listeners = () => process.listenerCount("exit");
      const [before, counts] = [listeners(), new Set()];
      const timer = setInterval(() => counts.add(listeners() - before), 1);
      for (let b = 0; b < 12; b += 1) {
        const [test] = config.toolHealthSuites[0].tests;
        test.args.b = b;
        test.expectedResult = { $equals: 2 + b };
        runs.push(evaluate(config, { output: false }));
      }
      config.toolHealthSuites[0].tests[0].expectedResult = "nothing like it";
      for (const { trials } of await Promise.all(runs)) tell(trials[0].grades[1].verdict);
      clearInterval(timer);
      tell(Math.max(...counts));
    `);
    expect(said).toEqual([...Array.from({ length: 12 }, () => "pass"), 2]);
  });

  it("takes nothing for the nearest config that is none at all", async () => {
    const { said } = await program(`${rejects}
      for (const none of [undefined, null, 5]) tell(await rejects(evaluate(none)));`);
    expect(said).toMatchObject([
      { ours: true, code: "usage/invalid-option" },
      { ours: true, code: "config/invalid-value" },
      { ours: true, code: "usage/invalid-option" },
    ]);
  });

  it("rejects for a wrong config with everything that is wrong, and for wrong options", async () => {
    const { said, left } = await program(
      `${rejects}
      tell(await rejects(evaluate("mcp-eval.config.json")));
      tell(await rejects(evaluate(config)));
      tell(await rejects(evaluate("none.yaml")));
      const good = { ...config, workflow: undefined, workflows: [], toolHealthSuites: [{ name: "s", tests: [{ name: "add" }] }] };
      delete good.workflow;
      for (const options of [{ task: ["s"] }, { trials: 0 }, { concurrency: NaN }, { timeoutMs: "1s" }, { budget: { time: "1m" } }, { prices: {} }, { tasks: ["x"] }]) {
        tell(await rejects(evaluate(good, options)));
      }
    `,
      { config: { server: fixtureServer(), workflow: [], workflows: [{ name: "w", steps: [] }] } as Config },
    );
    const [file, value, missing, ...options] = said;
    const common = { ours: true, kind: "usage" };
    expect(file).toMatchObject({
      ...common,
      code: "config/unknown-key",
      message: expect.stringMatching(/^mcp-eval\.config\.json:\d+:\d+: .* \(and 1 more\)$/) as string,
      diagnostics: [
        ["config/unknown-key", 9, "workflow"],
        ["config/invalid-value", 13, "workflows[0].steps"],
      ],
    });
    expect(value).toMatchObject({
      ...common,
      diagnostics: expect.arrayContaining([["config/unknown-key", null, "workflow"]]) as unknown,
    });
    expect(missing).toMatchObject({ ...common, code: "config/not-found" });
    expect(options).toMatchObject([
      { ...common, code: "usage/invalid-option", message: 'evaluate has no option "task"' },
      { ...common, code: "usage/invalid-option", message: expect.stringContaining("trials") as string },
      { ...common, code: "usage/invalid-option", message: expect.stringContaining("concurrency") as string },
      { ...common, code: "usage/invalid-option", message: expect.stringContaining("timeoutMs") as string },
      { ...common, code: "usage/invalid-option", message: expect.stringContaining("budget") as string },
      { ...common, code: "usage/invalid-option", message: expect.stringContaining("prices") as string },
      { ...common, code: "usage/no-match" },
    ]);
    expect(left).toEqual([]);
  });

  it("ends in order when its signal aborts, before or during the work, with the servers gone", async () => {
    const tag = processTag();
    const { said } = await program(
      `
      tell(await evaluate(config, { signal: AbortSignal.abort(), output: false }));
      const during = new AbortController();
      const timer = setInterval(() => {
        const journals = globSync(".mcpvals/runs/*/journal.jsonl").map((file) => readFileSync(file, "utf8"));
        if (journals.join().includes('"trial.graded"')) during.abort(new Error("enough"));
      }, 10);
      tell(await evaluate(config, { signal: during.signal }));
      clearInterval(timer);
    `,
      {
        config: {
          server: { ...fixtureServer("--grandchild"), env: tag.env },
          timeout: "1m",
          toolHealthSuites: [
            {
              name: "suite",
              tests: [
                { name: "add", args: { a: 1, b: 1 } },
                { name: "slow", args: { ms: 50_000 } },
              ],
            },
          ],
        },
      },
    );
    const [before, during] = said as [RunResult, RunResult];
    expect(before).toMatchObject({ verdict: "interrupted", summary: { total: 2, skip: 2 } });
    expect(during).toMatchObject({ verdict: "interrupted", summary: { total: 2, pass: 1, skip: 1 } });
    expect(trialOf(during, "suite/slow").error).toMatchObject({
      code: "run/interrupted",
      kind: "interrupted",
    });
    expect(await tag.living()).toEqual([]);
  });

  it("leaves no listener, timer or rejection behind, whatever went wrong", async () => {
    const { said } = await program(
      `
      const signals = ["SIGINT", "SIGTERM", "SIGHUP", "uncaughtException", "unhandledRejection", "exit"];
      const listeners = () => signals.map((name) => process.listenerCount(name));
      await evaluate(config, { output: false });
      const before = listeners();
      for (let count = 0; count < 3; count += 1) tell((await evaluate(config, { output: false })).summary);
      tell([before, listeners()]);
      tell(process.getActiveResourcesInfo().filter((name) => name === "Timeout").length);
    `,
      {
        config: {
          servers: {
            crashing: fixtureServer("--exit=3"),
            missing: { transport: "stdio", command: "no-such-program" },
            silent: { ...fixtureServer("--silent"), startupTimeout: 300 },
            refusing: { transport: "shttp", url: "http://127.0.0.1:1/mcp" },
            fine: fixtureServer(),
          },
          toolHealthSuites: [
            {
              name: "suite",
              parallel: true,
              tests: ["crashing", "missing", "silent", "refusing", "fine"].map((server) => ({
                name: "crash",
                description: server,
                server,
                args: { code: 1 },
              })),
            },
          ],
        },
      },
    );
    const [before, after] = said[3] as [unknown, unknown];
    const timers = said[4];
    const summary = { total: 5, pass: 0, fail: 1, error: 4, timeout: 0, skip: 0, warnings: 1 };
    expect(said.slice(0, 3)).toEqual([summary, summary, summary]);
    expect(after).toEqual(before);
    expect(timers).toBe(0);
  });
});

it("a server of a test in Vitest has ended when it is stopped", async () => {
  await using server = new TestServer([process.execPath, exampleServer]);
  await server.start();
  expect(await livingProcesses()).not.toEqual([]);
  await server.stop();
  expect(await livingProcesses()).toEqual([]);
});
