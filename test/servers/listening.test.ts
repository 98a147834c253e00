import { fileURLToPath } from "node:url";
import { describe, expect, it, onTestFinished } from "vitest";
import type { Config } from "../../src/formats/config/config-schema.ts";
import { eventsOf } from "../../src/model/event.ts";
import { evaluate } from "../../src/evaluate.ts";
import { readRun } from "../../src/store/run-folder.ts";
import { closedAddress, processTag, type ServerConfig } from "../e2e/support.ts";
import { startHttpFixture } from "../fixtures/servers/http-server.ts";
import { folderOf } from "../support/cli.ts";
import { everythingServer } from "../support/programs.ts";
import { runsOf } from "../support/faults.ts";

type HttpServer = Extract<ServerConfig, { transport: "shttp" | "http" | "sse" }>;

const program = fileURLToPath(new URL("../fixtures/servers/listening-server.mjs", import.meta.url));
const echo = { name: "echo", args: { message: "hi" }, expectedResult: "hi" };

async function listening(rest: Partial<HttpServer> = {}): Promise<HttpServer> {
  const url = new URL("/mcp", await closedAddress());
  return { transport: "shttp", url: url.href, command: process.execPath, args: [program, url.port], ...rest };
}

function configOf(server: ServerConfig, ...tests: object[]): Config {
  const described = tests.map((test, index) => ({ ...echo, description: `test ${index + 1}`, ...test }));
  return { server, toolHealthSuites: [{ name: "s", tests: described }] };
}

describe("a program that serves at a URL", () => {
  it("is started once for a run, with its environment, is recorded, and is stopped", async () => {
    const tag = processTag();
    const server = await listening({ env: { ...tag.env, GREETING: "hello" } });
    const config = configOf(
      server,
      {},
      { name: "variable", args: { name: "GREETING" }, expectedResult: "hello" },
    );
    using folder = folderOf({});
    const { trials } = await evaluate(config, { cwd: folder.path });
    expect(trials.map(({ verdict }) => verdict)).toEqual(["pass", "pass"]);
    expect(await tag.living()).toEqual([]);
    const { events } = await readRun(runsOf(folder.path), "latest");
    const started = eventsOf(events, "server.started");
    expect(started.map(({ pid, reused = false }) => [pid, reused])).toEqual([
      [started[0]?.pid, false],
      [started[0]?.pid, true],
    ]);
    expect(eventsOf(events, "server.stdout").map(({ text }) => text)).toEqual(["listening\n"]);
  });

  it("fails the tool test in which it crashes, and is started again for the next", async () => {
    const crash = { name: "crash", args: { code: 7 }, expectedError: "memory" };
    const { trials } = await evaluate(configOf(await listening(), {}, crash, {}), { output: false });
    expect(trials.map(({ verdict }) => verdict)).toEqual(["pass", "fail", "pass"]);
    expect(trials[1]?.grades[0]?.reason).toBe(
      'crash gave no result: server "default" exited with code 7: out of memory',
    );
  });

  it("may speak the older transport", async () => {
    const { origin, port } = new URL(await closedAddress());
    const server = { url: `${origin}/sse`, args: [everythingServer, "sse"], env: { PORT: port } };
    const config = configOf(await listening({ transport: "sse", ...server }), { expectedResult: "Echo: hi" });
    const { trials } = await evaluate(config, { output: false });
    expect(trials).toMatchObject([{ verdict: "pass" }]);
  });

  it("belongs to one trial where the lifetime says so, at a random port", async () => {
    const servers = {
      s: {
        url: "http://127.0.0.1:{random.port}/mcp",
        command: process.execPath,
        args: [program, "{random.port}"],
        lifetime: "per_trial",
      },
    };
    const verify = [{ mcp: { tool: "echo", args: { message: "hi" }, expect: { text: "hi" } } }];
    const spec = { servers, verify };
    const task = { kind: "Task", apiVersion: "mcp-eval/v1", metadata: { name: "t" }, spec };
    using folder = folderOf({ "task.json": task });
    const { trials } = await evaluate(`${folder.path}/task.json`, {
      cwd: folder.path,
      trials: 2,
      concurrency: 2,
    });
    expect(trials.map(({ verdict }) => verdict)).toEqual(["pass", "pass"]);
    const { events } = await readRun(runsOf(folder.path), "latest");
    expect(new Set(eventsOf(events, "server.started").map(({ pid }) => pid)).size).toBe(2);
  });
});

describe("a program that does not serve at its URL", () => {
  it.each<[string, Partial<HttpServer>, string, string]>([
    [
      "since it ends",
      { command: "sh", args: ["-c", "echo no database >&2; exit 4"] },
      "server/exited",
      'server "default" exited with code 4 before it had answered initialize',
    ],
    [
      "since it listens elsewhere",
      { command: "sh", args: ["-c", "echo no database; exec sleep 1000"], startupTimeout: 500 },
      "server/handshake-timeout",
      'within 500 ms, though server "default" was started',
    ],
    [
      "since there is no such program",
      { command: "no-such-program" },
      "server/spawn-failed",
      "command not found",
    ],
  ])("%s is an error with its output", async (_, rest, code, message) => {
    const { trials } = await evaluate(configOf(await listening(rest), {}), { output: false });
    expect(trials).toMatchObject([{ verdict: "error", error: { code } }]);
    expect(trials[0]?.error?.message).toContain(message);
    if (rest.command === "sh") expect(trials[0]?.error?.detail).toBe("no database");
  });

  it("is not started where something answers already", async () => {
    const other = await startHttpFixture();
    onTestFinished(() => other.close());
    const { trials } = await evaluate(configOf(await listening({ url: other.url }), {}), { output: false });
    expect(trials).toMatchObject([{ verdict: "error", error: { code: "server/spawn-failed" } }]);
    expect(trials[0]?.error?.message).toContain("something answers at");
  });
});
