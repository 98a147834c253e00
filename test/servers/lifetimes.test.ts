import { spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import type { Config } from "../../src/core/formats/config/config-schema.ts";
import { evaluate } from "../../src/evaluate.ts";
import { fixtureServer, processTag, type ServerConfig } from "../e2e/support.ts";
import { startHttpFixture } from "../fixtures/servers/http-server.ts";
import { livingProcesses } from "../process/support.ts";
import { builtMain, folderOf, runHere } from "../support/cli.ts";
import { watchLeftovers } from "../support/leftovers.ts";

type Stdio = ReturnType<typeof fixtureServer>;

const counter: Stdio = {
  transport: "stdio",
  command: process.execPath,
  args: [fileURLToPath(new URL("../fixtures/servers/counter-server.mjs", import.meta.url))],
};
const linux = process.platform === "linux";

it("servers of a run go on counting, and one that dies in a trial is a fresh one in the next", async () => {
  const server: Stdio = { ...counter, args: [...(counter.args ?? []), "--exit-on=3"], lifetime: "per_run" };
  const tests = [1, 2, 3, 1].map((count, index) => ({
    name: "count",
    description: `call ${index + 1}`,
    args: {},
    expectedResult: String(count),
  }));
  const { trials } = await evaluate({ server, toolHealthSuites: [{ name: "s", tests }] }, { output: false });
  expect(trials.map(({ verdict }) => verdict)).toEqual(["pass", "pass", "fail", "pass"]);
  expect(trials[2]?.grades[0]?.reason).toBe('count gave no result: server "default" exited with code 7');
});

describe("a server that does not start", () => {
  const broken = fixtureServer("--exit=3", "--stderr=no database");
  const echo = { name: "echo", args: { message: "hi" }, expectedResult: "hi", server: "good" };
  const workflow = { name: "w", steps: [{ user: "Greet me.", expectedState: "Hello" }] };
  const script: Config["agents"] = {
    script: {
      type: "scripted",
      plan: { w: [{ call: "echo", args: { message: "Hello" } }, { say: "Hello" }] },
    },
  };

  it("that is required ends the run before any trial, with exit code 2 and the reason", async () => {
    const tag = processTag();
    const good = { ...fixtureServer(), env: tag.env, required: true };
    using folder = folderOf({
      "mcp-eval.config.json": {
        servers: { good, bad: { ...broken, env: tag.env, required: true } },
        toolHealthSuites: [{ name: "s", tests: [echo, { ...echo, server: "bad" }] }],
      },
    });
    const { code, stdout, stderr } = await runHere(["run"], { cwd: folder.path });
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toContain('server "bad" exited with code 3 before it had answered initialize');
    expect(stderr).toContain("no database");
    expect(existsSync(join(folder.path, ".mcpvals"))).toBe(false);
    if (linux) expect(await tag.living()).toEqual([]);
  });

  it("that is not required is left out of the trial, which goes on", async () => {
    const servers = { good: fixtureServer(), bad: { ...broken, required: false } };
    const { trials } = await evaluate({ servers, agents: script, workflows: [workflow] }, { output: false });
    expect(trials.map(({ verdict, error }) => error?.message ?? verdict)).toEqual(["pass"]);
  });

  it("is an error of the trial by default", async () => {
    const servers = { good: fixtureServer(), bad: broken };
    const { trials } = await evaluate({ servers, agents: script, workflows: [workflow] }, { output: false });
    expect(trials.map(({ error }) => error?.code)).toEqual(["server/exited"]);
  });
});

describe.runIf(linux)("nothing is left of servers that many trials share", () => {
  /** One test that passes and one that hangs, on a server that heeds nothing and has a daemon. */
  function hanging(env: Readonly<Record<string, string>>): Config {
    const flags = ["--stubborn", "--grandchild", "--daemon"];
    const server: ServerConfig = { ...fixtureServer(...flags), env, lifetime: "per_run" };
    const tests = [
      { name: "echo", args: { message: "hi" }, expectedResult: "hi" },
      { name: "slow", args: { ms: 1_000_000 } },
    ];
    return { server, timeout: 60_000, toolHealthSuites: [{ name: "s", tests }] };
  }

  it.each([
    ["SIGINT", 130],
    ["SIGKILL", null],
  ] as const)("after %s to mcpvals", async (signal, expected) => {
    const tag = processTag();
    using folder = folderOf({ "mcp-eval.config.json": hanging(tag.env) });
    const child = spawn(process.execPath, [builtMain, "run"], {
      cwd: folder.path,
      env: { PATH: process.env["PATH"] ?? "", HOME: folder.path },
      stdio: "ignore",
    });
    const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
    const journal = (): string =>
      readdirSync(folder.path, { recursive: true, encoding: "utf8" })
        .filter((name) => name.endsWith("journal.jsonl"))
        .map((name) => readFileSync(join(folder.path, name), "utf8"))
        .join("");
    await vi.waitFor(() => expect(journal()).toContain('"name":"slow","arguments"'), {
      timeout: 100_000,
      interval: 50,
    });
    await vi.waitFor(async () => expect(await tag.living()).toHaveLength(3), {
      timeout: 100_000,
      interval: 20,
    });
    child.kill(signal);
    expect(await ended).toBe(expected);
    await vi.waitFor(async () => expect(await tag.living()).toEqual([]), { timeout: 100_000, interval: 20 });
  });
});

it.runIf(linux)("24 trials at once with three servers each leave no process, port or timer", async () => {
  const web = await startHttpFixture();
  onTestFinished(() => web.close());
  const config: Config = {
    servers: {
      own: counter,
      shared: { ...counter, args: [...(counter.args ?? []), "shared"], lifetime: "per_run" },
      web: { transport: "shttp", url: web.url },
    },
    agents: {
      script: {
        type: "scripted",
        plan: {
          w: [
            { call: "count", server: "own", args: {} },
            { call: "count", server: "shared", args: {} },
            { call: "echo", server: "web", args: { message: "hi" } },
            { say: "Done" },
          ],
        },
      },
    },
    workflows: [{ name: "w", steps: [{ user: "count", expectedState: "Done" }] }],
  };
  const verdicts = async (trials: number): Promise<string[]> => {
    const result = await evaluate(config, { output: false, trials, concurrency: trials });
    return result.trials.map(({ verdict, error }) => error?.message ?? verdict);
  };
  await verdicts(1);
  const nothingIsLeft = watchLeftovers();
  expect(await verdicts(24)).toEqual(Array.from({ length: 24 }, () => "pass"));
  expect(await livingProcesses()).toEqual([]);
  await nothingIsLeft();
});
