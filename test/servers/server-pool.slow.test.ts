import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { describe, expect, it, onTestFinished } from "vitest";
import { builtMain, folderOf } from "../support/cli.ts";
import type { McpvalsError } from "../../src/base/error.ts";
import type { ServerSpec, StdioServerSpec } from "../../src/model/server.ts";
import type { Trial } from "../../src/model/plan.ts";
import { createGateway } from "../../src/servers/gateway/gateway.ts";
import { ServerPool, type TrialServer } from "../../src/servers/server-pool.ts";
import { livingProcesses } from "../process/support.ts";
import { callOptions, createRecord, fixtureSpec, type Record, rejection, stdioSpec } from "./support.ts";

const counter = fileURLToPath(new URL("../fixtures/servers/counter-server.mjs", import.meta.url));

function counterSpec(changes: Partial<StdioServerSpec> = {}, ...flags: string[]): StdioServerSpec {
  return stdioSpec(process.execPath, [counter, ...flags], changes);
}

/** Attempts of one task, then of the next, by two agents each. */
function trialsOf(tasks: readonly string[], attempts: number, agents: readonly string[] = ["a"]): Trial[] {
  let number = 0;
  return tasks.flatMap((task) =>
    agents.flatMap((agent) =>
      Array.from({ length: attempts }, (_one, index) => ({
        id: `t${(number += 1)}`,
        task,
        agent,
        attempt: index + 1,
      })),
    ),
  );
}

function poolFor(trials: readonly Trial[]): ServerPool {
  const pool = new ServerPool({
    version: "9.9.9",
    trials,
    createGateway: () => Promise.resolve(createGateway({ main: builtMain })),
  });
  onTestFinished(() => pool[Symbol.asyncDispose]());
  return pool;
}

interface Served {
  readonly server: TrialServer | undefined;
  readonly record: Record;
}

async function serve(
  pool: ServerPool,
  trial: Trial,
  spec: ServerSpec,
  signal = new AbortController().signal,
): Promise<Served> {
  const record = createRecord();
  return { server: await pool.serve({ name: "s", spec, trial }, { emit: record.emit, signal }), record };
}

async function count(server: TrialServer | undefined): Promise<number> {
  const outcome = await server?.session.callTool("count", {}, callOptions());
  return Number(/"text":"(\d+)"/.exec(JSON.stringify(outcome))?.[1]);
}

const [one, two, three] = trialsOf(["x"], 3) as [Trial, Trial, Trial];
const signal = new AbortController().signal;
const ended = ["server.started", "server.ready", "server.exited", "server.stopped by stdin"];

/** Runs each trial with one server, in turn, and gives what the server counted in each. */
async function counts(pool: ServerPool, trials: readonly Trial[], spec: ServerSpec): Promise<number[]> {
  const counted: number[] = [];
  for (const trial of trials) {
    const { server } = await serve(pool, trial, spec);
    counted.push(await count(server));
    await server?.stop();
    await pool.trialEnded(trial);
  }
  return counted;
}

async function expectLiving(number: number): Promise<void> {
  if (process.platform === "linux") expect(await livingProcesses()).toHaveLength(number);
}

/** The events of a trial without its messages. */
function storyOf({ events }: Record): string[] {
  return events.flatMap((event) => {
    if (event.type === "mcp.message") return [];
    const reused = event.type === "server.started" && event.reused === true ? " reused" : "";
    return `${event.type}${reused}${event.type === "server.stopped" ? ` by ${event.by}` : ""}`;
  });
}

describe("a server", () => {
  it.each([
    ["per_trial", ["x"], ["a"], [1, 1], 0],
    ["per_task", ["x", "y"], ["a", "b"], [1, 2, 1, 2, 1, 2, 1, 2], 0],
    ["per_run", ["x", "y"], ["a", "b"], [1, 2, 3, 4, 5, 6, 7, 8], 1],
  ] as const)("with the lifetime %s serves its trials, and ends after them", async (...row) => {
    const [lifetime, tasks, agents, expected, living] = row;
    const trials = trialsOf(tasks, 2, agents);
    const pool = poolFor(trials);
    expect(await counts(pool, trials, counterSpec({ lifetime }))).toEqual(expected);
    await expectLiving(living);
    await pool[Symbol.asyncDispose]();
    await expectLiving(0);
  });

  it("of a run is one, whatever filters stand between it and the agents of a trial", async () => {
    const pool = poolFor([one, two, three]);
    const fault = { kind: "delay", tool: "other", ms: 1, probability: 1 } as const;
    const filters = [{}, { tools: ["count"] }, { faults: [fault] }];
    for (const [index, trial] of [one, two, three].entries())
      expect(await counts(pool, [trial], counterSpec({ lifetime: "per_run", ...filters[index] }))).toEqual([
        index + 1,
      ]);
  });

  it("that is shared has one rate limit for all its trials", async () => {
    const pool = poolFor([one, two]);
    const spec = counterSpec({ lifetime: "per_run", rateLimit: { requests: 6, perMs: 60_000 } });
    const [first, second] = await Promise.all([serve(pool, one, spec), serve(pool, two, spec)]);
    const texts = (): string[] =>
      second.record.of("mcp.message").map(({ message }) => JSON.stringify(message));
    const greeted = (): number => texts().filter((text) => text.includes('"initialize"')).length;
    // With those of the two trials, the handshake of one agent is as much as is allowed.
    await first.server?.agentSession({ signal });
    const controller = new AbortController();
    const waiting = second.server?.agentSession({ signal: controller.signal });
    await expect.poll(greeted).toBe(2);
    expect(texts().filter((text) => text.includes("serverInfo"))).toHaveLength(1);
    controller.abort(new Error("enough"));
    await expect(waiting).rejects.toThrow("enough");
  });

  it("of a task ends after the last of its trials that runs at the same time", async () => {
    const pool = poolFor([one, two]);
    const spec = counterSpec({ lifetime: "per_task" });
    const [first, second] = await Promise.all([serve(pool, one, spec), serve(pool, two, spec)]);
    await expectLiving(1);
    for (const trial of [one, two]) await pool.trialEnded(trial);
    await first.server?.stop();
    expect(await count(second.server)).toBe(1);
    await second.server?.stop();
    await expectLiving(0);
  });

  it("that is shared is another one for another variant or another way to start it", async () => {
    const trials = [
      { ...one, variant: "v" },
      { ...two, variant: "w" },
    ];
    const pool = poolFor(trials);
    expect(await counts(pool, trials, counterSpec({ lifetime: "per_run" }))).toEqual([1, 1]);
    expect(await counts(pool, trials, counterSpec({ lifetime: "per_run" }, "own"))).toEqual([1, 1]);
    await expectLiving(4);
  });

  it("that is shared is on record in each trial, with what it wrote there", async () => {
    const pool = poolFor([one, two]);
    const spec = counterSpec({ lifetime: "per_run" }, "--stderr");
    for (const [index, trial] of [one, two].entries()) {
      const { server, record } = await serve(pool, trial, spec);
      await count(server);
      await expect.poll(() => record.of("server.stderr").length).toBe(1);
      await server?.stop();
      expect(record.of("server.stderr").map(({ text }) => text)).toEqual([`${index + 1}\n`]);
      const started = index === 0 ? "server.started" : "server.started reused";
      const story = [started, "server.ready", "server.stderr", "server.stopped by disconnect"];
      expect(storyOf(record)).toEqual(story);
    }
  });

  it("writes nothing to the record with captureStderr: false", async () => {
    const spec = counterSpec({ captureStderr: false }, "--stderr");
    const { server, record } = await serve(poolFor([]), one, spec);
    await count(server);
    await server?.stop();
    expect(storyOf(record)).toEqual(ended);
  });

  it("that is shared and dies is lost for all who use it, and a fresh one for the next", async () => {
    const pool = poolFor([one, two, three]);
    const spec = counterSpec({ lifetime: "per_run" }, "--exit-on=2");
    const [first, second] = await Promise.all([serve(pool, one, spec), serve(pool, two, spec)]);
    expect(await count(first.server)).toBe(1);
    const error = await rejection(count(second.server));
    expect(error.code).toBe("server/exited");
    for (const { server, record } of [first, second]) {
      expect(server?.lost.reason).toBe(error);
      expect(storyOf(record)).toContain("server.exited");
    }
    const next = await serve(pool, three, spec);
    expect(await count(next.server)).toBe(1);
    expect(storyOf(next.record)[0]).toBe("server.started");
    for (const { server } of [first, second, next]) await server?.stop();
    await expectLiving(1);
  });

  it("that is shared starts once for who asks at the same time, also when the first one gives up", async () => {
    const pool = poolFor([one, two, three]);
    const spec = counterSpec({ lifetime: "per_run" });
    const controller = new AbortController();
    const aborted = serve(pool, one, spec, controller.signal);
    const others = [serve(pool, two, spec), serve(pool, three, spec)];
    controller.abort(new Error("enough"));
    await expect(aborted).rejects.toThrow("enough");
    const served = await Promise.all(others);
    await expectLiving(1);
    expect((await Promise.all(served.map(({ server }) => count(server)))).toSorted()).toEqual([1, 2]);
  });

  it("that is shared and does not become healthy is started anew for the next trial", async () => {
    const pool = poolFor([one, two]);
    const spec = fixtureSpec(["--silent"], { lifetime: "per_run", startupTimeoutMs: 200 });
    for (const trial of [one, two])
      expect((await rejection(serve(pool, trial, spec))).code).toBe("server/handshake-timeout");
    await expectLiving(0);
  });
});

describe("a server that does not start", () => {
  const broken = fixtureSpec(["--exit=3", "--stderr=no database"]);
  const silent = fixtureSpec(["--silent"], { startupTimeoutMs: 200 });

  it.each([
    [broken, { code: "server/exited", detail: "no database" }],
    [silent, { code: "server/handshake-timeout" }],
  ])("is on record and left out with required: false", async (spec, error) => {
    const { server, record } = await serve(poolFor([one]), one, { ...spec, required: false });
    expect(server).toBeUndefined();
    expect(record.events.at(-1)).toMatchObject({ type: "server.failed", server: "s", error });
  });

  it("is started once more when it was only late, which is on record", async () => {
    using folder = folderOf({});
    const marker = join(folder.path, "started");
    const spec = fixtureSpec([`--silent-once=${marker}`], { startupTimeoutMs: 3000 });
    const { server, record } = await serve(poolFor([one]), one, spec);
    expect(storyOf(record).filter((type) => /started|late|ready/.test(type))).toEqual([
      "server.started",
      "server.late",
      "server.started",
      "server.ready",
    ]);
    await server?.stop();
    await expectLiving(0);
  });

  it("is not left out when the trial was aborted", async () => {
    const controller = new AbortController();
    const spec = fixtureSpec(["--silent"], { required: false });
    const serving = serve(poolFor([one]), one, spec, controller.signal);
    controller.abort(new Error("enough"));
    await expect(serving).rejects.toThrow("enough");
  });
});

describe("a required server", () => {
  it("is started once and waits for who asks first, with a record of its own", async () => {
    const pool = poolFor([one]);
    const spec = counterSpec({ required: true });
    const names = ["s", "s", "t"];
    await pool.startRequired(
      names.map((name) => ({ name, spec })),
      signal,
    );
    await expectLiving(2);
    const { server, record } = await serve(pool, one, spec);
    await expectLiving(2);
    expect(await count(server)).toBe(1);
    await server?.stop();
    expect(storyOf(record)).toEqual(ended);
    await pool[Symbol.asyncDispose]();
    await expectLiving(0);
  });

  it.runIf(process.platform === "linux")("that died before a trial asked is started again", async () => {
    const pool = poolFor([one]);
    const specs = ["1", "2", "3", "4"].map((flag) => counterSpec({ required: true }, flag));
    await pool.startRequired(
      specs.map((spec) => ({ name: "s", spec })),
      signal,
    );
    for (const pid of await livingProcesses()) process.kill(pid, "SIGKILL");
    await expect.poll(() => livingProcesses(), { timeout: 100_000 }).toEqual([]);
    // The end of a process is noticed a moment after it, so that the first ones may be given out dead.
    const countNext = async (): Promise<number> => {
      const spec = specs.pop();
      if (spec === undefined) return Number.NaN;
      return serve(pool, one, spec).then(({ server }) => count(server), Number);
    };
    await expect.poll(countNext, { interval: 250, timeout: 100_000 }).toBe(1);
  });

  it("that does not start is named, with all others, in one error", async () => {
    const pool = poolFor([one]);
    const starting = pool.startRequired(
      [
        { name: "good", spec: counterSpec({ required: true }) },
        { name: "bad", spec: fixtureSpec(["--exit=3", "--stderr=no database"], { required: true }) },
        { name: "none", spec: stdioSpec("no-such-program", [], { required: true }) },
      ],
      signal,
    );
    const error: McpvalsError = await rejection(starting);
    expect([error.code, error.kind]).toEqual(["server/required", "usage"]);
    expect(error.message).toContain(
      'server "bad" exited with code 3 before it had answered initialize; server "none"',
    );
    expect(error.details.detail).toContain("no database");
    expect((error.cause as AggregateError).errors).toHaveLength(2);
    await pool[Symbol.asyncDispose]();
    await expectLiving(0);
  });

  it("is no reason to fail when the run is interrupted", async () => {
    const pool = poolFor([one]);
    const controller = new AbortController();
    const starting = pool.startRequired([{ name: "s", spec: fixtureSpec(["--silent"]) }], controller.signal);
    controller.abort(new Error("enough"));
    await starting;
    await expectLiving(0);
  });
});

describe("the agent's side of a server", () => {
  /** Lets an agent outside count, over the gateway. */
  async function countOutside(server: TrialServer | undefined): Promise<number> {
    const endpoint = await server?.endpoint();
    const client = new Client({ name: "outside", version: "1" });
    await client.connect(new StreamableHTTPClientTransport(new URL(endpoint?.url ?? "")));
    const result = await client.callTool({ name: "count", arguments: {} });
    await client.close();
    return Number(/"text":"(\d+)"/.exec(JSON.stringify(result))?.[1]);
  }

  it("is our own session where nothing stands between", async () => {
    const { server } = await serve(poolFor([one]), one, counterSpec());
    expect(await server?.agentSession({ signal })).toBe(server?.session);
    await server?.closeAgentSide();
    expect(await count(server)).toBe(1);
  });

  it("is a session of its own behind filters, on the same process, which closes alone", async () => {
    const { server, record } = await serve(poolFor([one]), one, counterSpec({ tools: ["none"] }));
    const agents = await server?.agentSession({ signal });
    expect(await server?.agentSession({ signal })).toBe(agents);
    expect([server?.session.tools.length, agents?.tools]).toEqual([1, []]);
    expect(await agents?.callTool("count", {}, callOptions())).toMatchObject({ kind: "error" });
    expect(record.of("tool.refused")).toHaveLength(1);
    expect(record.of("server.ready")).toHaveLength(1);
    await server?.closeAgentSide();
    expect((await rejection(agents?.callTool("count", {}, callOptions()) ?? Promise.resolve())).code).toBe(
      "server/exited",
    );
    expect(await count(server)).toBe(1);
    await server?.stop();
    await expectLiving(0);
  });

  it("is an address for an agent outside, on the same process, gone when it is closed", async () => {
    const { server, record } = await serve(poolFor([one]), one, counterSpec());
    expect(await countOutside(server)).toBe(1);
    expect(await count(server)).toBe(2);
    expect(record.of("gateway.connected")).toHaveLength(1);
    const url = (await server?.endpoint())?.url ?? "";
    await server?.closeAgentSide();
    const late = await fetch(url, { method: "POST", body: "{}" }).then(
      ({ ok }) => ok,
      () => false,
    );
    expect(late).toBe(false);
    expect(await count(server)).toBe(3);
  });
});
