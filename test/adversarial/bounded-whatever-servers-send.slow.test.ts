import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Config } from "../../src/formats/config/config-schema.ts";
import { containsText } from "../../src/expect/contains-text.ts";
import type { RunResult } from "../../src/model/result.ts";
import { evaluate } from "../../src/evaluate.ts";
import { SchemaValidator } from "../../src/graders/schema-validator.ts";
import { callOptions, startSession, stdioSpec } from "../servers/support.ts";
import { root } from "../support/cli.ts";
import { startRun } from "../support/faults.ts";
import { hostileServer, startAtPort } from "../support/hostile.ts";

// A trial stays under 1 GB of memory, and its error does not affect the next one.

type Server = NonNullable<Config["server"]>;

/** A suite for each server, with a test that makes it attack and one that does not. */
function attacksBy(servers: Readonly<Record<string, Server>>): Config {
  const tests = ["attack", "calm"].map((name) => ({ name }));
  const suites = Object.keys(servers).map((name) => ({ name, server: name, tests }));
  return { servers: { ...servers }, timeout: 60_000, toolHealthSuites: suites };
}

/** Verdict, code and message of each trial. */
function outcomesOf({ trials }: RunResult): string[] {
  return trials.map(({ verdict, error }) =>
    error === undefined ? verdict : `${verdict} ${error.code}: ${error.message}`,
  );
}

/** Starts a server with an address that ends with the test. */
async function hostileAddress(transport: "shttp" | "sse", ...attack: readonly string[]): Promise<Server> {
  const url = await startAtPort(hostileServer(transport === "sse" ? "sse" : "http", ...attack));
  return { transport, url: `${url}/mcp` };
}

it("a trial records 128 MiB: whoever sends more ends it, is named, and ends no other", async () => {
  const servers = {
    texts: hostileServer("attack=notes", "count=140", "bytes=9000000"),
    // Values can take twenty times the memory of their text.
    values: hostileServer("attack=notes", "payload=members", "count=100", "bytes=9000000"),
  };
  using run = startRun(attacksBy(servers));
  const { result, peak, code } = await run.ended();
  const full =
    "error trial/record-full: a trial records at most 128 MiB, and this one had more: 129 MiB from server";
  const error: unknown = expect.stringContaining("trial/record-full");
  expect(outcomesOf(result)).toEqual([`${full} "texts"`, "pass", error, "pass"]);
  expect(code).toBe(3);
  expect(peak).toBeLessThan(1000);
});

const nested = "sent a message nested more than 400 levels deep";
const heavy = "sent a message of so many values that it would take more than 128 MiB of memory";
const result = (payload: string): string[] => ["attack=result", `payload=${payload}`, "bytes=10000000"];

it("a message is measured before it is parsed", async () => {
  const servers = {
    objects: hostileServer(...result("objects")),
    arrays: hostileServer(...result("arrays")),
    deep: hostileServer(...result("deep")),
    shttp: await hostileAddress("shttp", ...result("objects")),
    sse: await hostileAddress("sse", ...result("objects")),
    // An error whose body has ten gigabytes is read to 64 KiB.
    status: await hostileAddress("shttp", "attack=status", "count=1000", "bytes=10000000"),
    gzip: await hostileAddress("shttp", "attack=gzip", "bytes=100000000"),
  };
  const ended = await evaluate(attacksBy(servers), { output: false });
  const names = Object.keys(servers);
  expect(outcomesOf(ended)).toEqual(names.flatMap(() => ["fail", "pass"]));
  const reasons = ended.trials.flatMap(({ grades }) => grades.map(({ reason }) => reason)).join("\n");
  for (const name of ["objects", "arrays", "shttp", "sse"])
    expect(reasons).toContain(`server "${name}" ${heavy}`);
  expect(reasons).toContain(`server "deep" ${nested}`);
  expect(reasons).toContain('server "gzip" sent a message of more than 10485760 bytes');
});

it("a list of tools that never ends makes the server one that did not start", async () => {
  const servers = { pages: hostileServer("attack=pages", "count=100000000") };
  const [outcome] = outcomesOf(await evaluate(attacksBy(servers), { output: false }));
  expect(outcome).toMatch(/^error server\/protocol-error: .* tools\/list has more than 1000 pages$/);
});

it("a schema of 200,000 properties is unusable at once, and the next one is not", async () => {
  await using validator = new SchemaValidator();
  const entries = Array.from({ length: 200_000 }, (_none, index) => [`p${index}`, { type: "string" }]);
  const schema = { type: "object", properties: Object.fromEntries(entries) };
  const reason = "it has more than 20,000 parts";
  expect(await validator.validate(schema, { p0: "x" })).toEqual({
    status: "unusable",
    reason,
    isLimit: true,
  });
  expect(await validator.validate({ type: "object" }, {})).toEqual({ status: "valid" });
});

describe("a list of 130,000 items, more than a function takes as arguments", () => {
  it("of tools or resources is a list like any other", async () => {
    const server = hostileServer("attack=tools", "count=130000");
    const tests = [{ name: "calm" }, { name: "t129999" }];
    const config = { server, toolHealthSuites: [{ name: "s", tests }] };
    expect(outcomesOf(await evaluate(config, { output: false }))).toEqual(["pass", "pass"]);
    const { command, args } = hostileServer("attack=list", "count=130000");
    const { session } = await startSession(stdioSpec(command, args));
    const outcome = await session.list("resources", callOptions());
    expect(outcome.kind === "result" && (outcome.result["resources"] as unknown[]).length).toBe(130_000);
  });

  it("of characters in what looks like the mark of a secret is a text like any other", () => {
    const mark = `[secret:${"x".repeat(200_000)}]`;
    expect([mark, "xxx"].map((text) => containsText(`a ${mark} b`, text))).toEqual([true, false]);
  });

  it("from outside is nowhere spread into the arguments of a call that takes any number of them", () => {
    const calls =
      /\b(?:push|unshift|splice|concat|max|min|fromCharCode|fromCodePoint)\(\s*(?:[^()[\]{}]*,\s*)?\.\.\.([^;]{0,60})/g;
    const folders = "agents,extensions/host,graders,process,run,servers,steps,trace";
    const files = globSync([`src/{${folders}}/**/*.ts`, "extensions/**/*.ts"], { cwd: root });
    // These spread as many items as a config has limits, or a task has checks, or 8,192 characters.
    const known = ["src/agents/model.ts", "src/process/spawn.ts", "src/steps/file.ts", "src/trace/leaks.ts"];
    const found = files
      .filter((file) => !file.endsWith(".test.ts") && !known.includes(file))
      .flatMap((file) =>
        [...readFileSync(join(root, file), "utf8").matchAll(calls)].map(([written]) => `${file}: ${written}`),
      );
    expect(found).toEqual([]);
  });
});

describe("an agent program", () => {
  /** Agents that attack with these arguments, and one that says `done`. */
  function agentsOf(attacks: Readonly<Record<string, readonly string[]>>): Config {
    const program = join(root, "test/fixtures/agents/hostile-agent.mjs");
    const agents = Object.entries(attacks).map(([name, [kind = "", ...args]]) => {
      const base = { command: process.execPath, args: [program, kind, ...args] };
      const lines = { type: "command", output: "claude-code", stdin: true, ...base };
      return [name, kind === "acp" ? { type: "acp", ...base } : lines];
    });
    return {
      server: hostileServer(),
      timeout: 60_000,
      agents: { ...Object.fromEntries(agents), good: { type: "scripted", plan: { w: [{ say: "done" }] } } },
      workflows: [{ name: "w", steps: [{ user: "hi", expectedState: "done" }] }],
    };
  }

  it("that sends too much breaks its own trial", async () => {
    const deep = "wrote a message nested more than 400 levels deep";
    const wide = "wrote a message of so many values that it would take more than 128 MiB of memory";
    const attacks = {
      deep: ["acp", "deep", "count=2", "bytes=100000"],
      wide: ["acp", "wide", "bytes=9000000"],
      line: ["acp", "line", "count=20", "bytes=1000000"],
      chunks: ["acp", "chunks", "count=100", "bytes=1000000"],
      asked: ["acp", "asked", "count=20001", "bytes=1"],
      deepLine: ["lines", "deep", "bytes=100000"],
      wideLine: ["lines", "wide", "bytes=9000000"],
    };
    const agents = [...Object.keys(attacks), "good"];
    expect(outcomesOf(await evaluate(agentsOf(attacks), { output: false, agents }))).toEqual([
      `error agent/protocol: agent deep ${deep}`,
      `error agent/protocol: agent wide ${wide}`,
      "error agent/protocol: agent line wrote a message of more than 10485760 bytes",
      "error agent/protocol: the agent wrote a message of more than 10485760 characters",
      "error agent/protocol: agent asked asked for something more than 20000 times in one trial",
      `error agent/failed: agent deepLine could not act: it ${deep}`,
      `error agent/failed: agent wideLine could not act: it ${wide}`,
      "pass",
    ]);
  });

  it("may write 256 MiB in a trial", async () => {
    const config = agentsOf({ bad: ["acp", "asked", "count=1000", "bytes=9000000"] });
    using run = startRun(config, { args: ["--agent", "bad", "--agent", "good"] });
    const { result: outcome, peak } = await run.ended();
    const tooMuch = "error agent/protocol: agent bad wrote more than 256 MiB in one trial";
    expect(outcomesOf(outcome)).toEqual([tooMuch, "pass"]);
    expect(peak).toBeLessThan(1000);
  });
});
