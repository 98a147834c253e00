import { once } from "node:events";
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { RunResult } from "../../src/model/result.ts";
import type { TraceEvent } from "../../src/model/event.ts";
import { folderOf, root, runHere, startCli } from "../support/cli.ts";

const file = "mcp-eval.config.json";
const add = { inputSchema: { type: "object" }, responses: [{ match: { a: 1, b: 2 }, return: "3" }] };
const sum = {
  servers: { math: { transport: "mock", mock: { tools: { add } } } },
  agent: { type: "scripted", plan: { sum: [{ call: "add", args: { a: 1, b: 2 } }, { say: "It is 3." }] } },
  workflows: [{ name: "sum", steps: [{ user: "Add 1 and 2.", expectedState: "3" }], expectTools: ["add"] }],
  trials: 3,
  concurrency: 1,
};

interface RunFolder extends Disposable {
  readonly path: string;
  /** The run folder; there is only one. */
  readonly run: string;
  readonly lines: () => string[];
  readonly events: () => TraceEvent[];
  readonly result: () => RunResult;
}

/** A folder in which a config has been run once. */
async function ran(config: object = sum, args: readonly string[] = []): Promise<RunFolder> {
  const folder = folderOf({ [file]: config });
  const outcome = await runHere(["run", ...args], { cwd: folder.path });
  expect(outcome.stderr).toBe("");
  const runs = join(folder.path, ".mcpvals/runs");
  const run = join(runs, readdirSync(runs).at(-1) ?? "");
  const lines = (): string[] => readFileSync(join(run, "journal.jsonl"), "utf8").split("\n").slice(0, -1);
  return {
    ...folder,
    run,
    lines,
    events: () => lines().map((line) => (JSON.parse(line) as { event: TraceEvent }).event),
    result: () => JSON.parse(readFileSync(join(run, "result.json"), "utf8")) as RunResult,
  };
}

/** Leaves what a process that was killed after so many lines of the journal leaves. */
function cutOff({ run, lines }: RunFolder, count: number): void {
  const kept = lines().slice(0, count);
  rmSync(join(run, "result.json"));
  writeFileSync(join(run, "journal.jsonl"), kept.map((line) => `${line}\n`).join(""));
}

const ofType = (events: readonly TraceEvent[], type: TraceEvent["type"]): string[] =>
  events.filter((event) => event.type === type).map(({ trial }) => trial);

describe("resume", () => {
  it("finishes a run that was killed after any line of its journal, and repeats no finished trial", async () => {
    using folder = await ran();
    const whole = folder.lines();
    const { summary, rates } = folder.result();
    for (let count = 0; count < whole.length; count += 5) {
      writeFileSync(join(folder.run, "journal.jsonl"), `${whole.join("\n")}\n`);
      cutOff(folder, count);
      const finished = ofType(folder.events().slice(0, count), "trial.finished");
      const before = folder
        .events()
        .filter(({ type, trial }) => type === "trial.started" && finished.includes(trial));
      const outcome = await runHere(["resume"], { cwd: folder.path });
      expect([outcome.code, outcome.stderr], `after ${count} lines`).toEqual([0, ""]);
      const events = folder.events();
      for (const type of ["trial.started", "trial.finished", "trial.graded"] as const)
        expect(ofType(events, type).toSorted(), `after ${count} lines`).toEqual(["t1", "t2", "t3"]);
      expect(events).toEqual(expect.arrayContaining(before));
      expect(folder.result()).toMatchObject({ summary, rates: { groups: [{ passed: 3, scored: 3 }] } });
      expect(rates?.groups[0]?.passed).toBe(3);
      const shown = await runHere(["show", "--json"], { cwd: folder.path });
      expect(JSON.parse(shown.stdout)).toMatchObject({ summary, verdict: "pass" });
    }
  });

  it("goes on with a run that is killed again and again", { timeout: 120_000 }, async () => {
    const everything = join(root, "node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    const call = [{ call: "echo", args: { message: "hi" } }, { say: "hi" }];
    const config = {
      servers: { e: { transport: "stdio", command: "node", args: [everything, "stdio"] } },
      agent: { type: "scripted", plan: { echo: call } },
      workflows: [{ name: "echo", steps: [{ user: "Say hi.", expectedState: "hi" }], expectTools: ["echo"] }],
      trials: 6,
      concurrency: 2,
    };
    using folder = folderOf({ [file]: config });
    const at = { cwd: folder.path };
    const runs = join(folder.path, ".mcpvals/runs");
    const journal = (): string => {
      const [run = ""] = existsSync(runs) ? readdirSync(runs) : [];
      const path = join(runs, run, "journal.jsonl");
      return existsSync(path) ? readFileSync(path, "utf8") : "";
    };
    const graded = (): number => journal().split('"type":"trial.graded"').length - 1;
    for (const goal of [1, 2, 4]) {
      const cli = startCli(goal === 1 ? ["run"] : ["resume"], at);
      const ended = once(cli.child, "exit");
      while (graded() < goal && cli.child.exitCode === null) await new Promise((next) => setTimeout(next, 5));
      cli.child.kill("SIGKILL");
      await ended;
    }
    const last = startCli(["resume", "-r", "json"], at);
    const { code, stdout, stderr } = await last.finished;
    expect([code, stderr]).toEqual([0, ""]);
    expect(JSON.parse(stdout)).toMatchObject({ verdict: "pass", summary: { total: 6, pass: 6 } });
    expect(graded()).toBe(6);
    expect(journal().split('"type":"trial.started"')).toHaveLength(7);
  });

  it("grades a trial that was executed, and does not execute it again", async () => {
    using folder = await ran({ ...sum, trials: 1 });
    const before = folder.events();
    cutOff(
      folder,
      before.findIndex(({ type }) => type === "trial.graded"),
    );
    const outcome = await runHere(["resume"], { cwd: folder.path });
    expect(outcome.code, outcome.stderr).toBe(0);
    const after = folder.events();
    expect(after.slice(0, -1)).toEqual(before.slice(0, -1));
    expect(after.at(-1)).toMatchObject({ type: "trial.graded", verdict: "pass", seq: before.length });
  });

  it("runs again what a damaged line belongs to, says so, and keeps what it left out", async () => {
    using folder = await ran();
    const lines = folder.lines();
    const second = folder.events().findIndex(({ trial }) => trial === "t2");
    const flipped = lines.map((line, index) =>
      index === second + 3 ? line.replace('"at":1', '"at":2') : line,
    );
    rmSync(join(folder.run, "result.json"));
    writeFileSync(join(folder.run, "journal.jsonl"), `${flipped.join("\n")}\n{"crc":"00`);
    // Its process is no longer there.
    const head = join(folder.run, "run.json");
    writeFileSync(head, readFileSync(head, "utf8").replace(/"pid": \d+/, '"pid": 999999999'));
    const shown = await runHere(["show"], { cwd: folder.path });
    expect(shown.stderr).toContain("mcpvals resume goes on with the run");
    const outcome = await runHere(["resume"], { cwd: folder.path });
    expect(outcome.code).toBe(0);
    expect(outcome.stderr).toMatch(
      /line \d+ of the journal does not match its checksum: what it belongs to runs again/,
    );
    expect(outcome.stdout).toContain("resumed: 2 of 3 trials had ended before");
    expect(ofType(folder.events(), "trial.graded").toSorted()).toEqual(["t1", "t2", "t3"]);
    expect(folder.result().summary).toMatchObject({ total: 3, pass: 3 });
  });

  it("keeps the lines of trials that were cut off", async () => {
    using folder = await ran();
    const count = folder.events().findIndex(({ trial }) => trial === "t2") + 4;
    const cut = folder.lines().slice(count - 4, count);
    cutOff(folder, count);
    await runHere(["resume"], { cwd: folder.path });
    const left = readFileSync(join(folder.run, "journal.left-out.jsonl"), "utf8").trimEnd().split("\n");
    expect(left).toEqual(cut);
  });

  it("leaves a finished run as it is, and gives its exit code", async () => {
    using folder = await ran({ ...sum, agent: { type: "scripted", plan: { sum: [{ say: "no" }] } } });
    const [journal, result] = [folder.lines(), folder.result()];
    const outcome = await runHere(["resume"], { cwd: folder.path });
    expect([outcome.code, outcome.stdout]).toEqual([1, ""]);
    expect(outcome.stderr).toMatch(/has ended, so there is nothing to resume: fail/);
    const reported = await runHere(["resume", "-r", "json"], { cwd: folder.path });
    expect([reported.code, JSON.parse(reported.stdout)]).toEqual([1, result]);
    expect([folder.lines(), folder.result()]).toEqual([journal, result]);
  });

  const step = { user: "Add 1 and 2.", expectedState: "3" };
  it.each([
    [
      "a prompt",
      { workflows: [{ ...sum.workflows[0], steps: [{ ...step, user: "Add 2 and 1." }] }] },
      "the task sum",
    ],
    [
      "a task more",
      {
        workflows: [...sum.workflows, { ...sum.workflows[0], name: "more" }],
        agent: { type: "scripted", plan: { ...sum.agent.plan, more: sum.agent.plan.sum } },
      },
      "the task is new: more",
    ],
    ["the number of trials", { trials: 4 }, "the trials"],
    [
      "a server",
      { servers: { math: { transport: "mock", mock: { tools: { add, sub: add } } } } },
      "the servers",
    ],
    [
      "what an agent does",
      { agent: { type: "scripted", plan: { sum: [{ say: "It is 3." }] } } },
      "the agent scripted",
    ],
    ["a limit", { limits: { maxToolCalls: 9 } }, "the limits"],
  ])("refuses a run of which %s has changed", async (_, change, message) => {
    using folder = await ran();
    cutOff(folder, 10);
    const lines = folder.lines();
    writeFileSync(join(folder.path, file), JSON.stringify({ ...sum, ...change }));
    const outcome = await runHere(["resume"], { cwd: folder.path });
    expect([outcome.code, outcome.stderr]).toEqual([2, expect.stringContaining(message)]);
    expect(outcome.stderr).toContain("(store/not-resumable)");
    expect(folder.lines()).toEqual(lines);
  });

  const model = { model: "local/any", baseURL: "http://127.0.0.1:9/v1", apiKey: "a-key-of-mine" };
  const command = { type: "command", command: "node", args: ["-e", "0"], env: { MODE: "a" } };
  it.each([
    ["the steps of a model", model, { maxSteps: 3 }],
    ["the address of a model", model, { baseURL: "http://127.0.0.1:9/v2" }],
    ["the temperature of a model", model, { temperature: 0.5 }],
    ["the headers of a model", model, { headers: { "x-mode": "fast" } }],
    ["the arguments of a program", command, { args: ["-e", "1"] }],
    ["the variables of a program", command, { env: { MODE: "a", OTHER: "b" } }],
    ["the variables that a program inherits", command, { inheritEnv: ["NOT_SET_HERE"] }],
    ["the folder of a program", command, { cwd: "." }],
  ])("refuses a run after a change of %s, and names the agent", async (_, agent, change) => {
    const config = { ...sum, agents: { other: agent, same: sum.agent }, agent: undefined, trials: 1 };
    using folder = folderOf({ [file]: config });
    const at = { cwd: folder.path };
    await runHere(["run", "-q", "--bail"], at);
    const runs = join(folder.path, ".mcpvals/runs");
    rmSync(join(runs, readdirSync(runs)[0] ?? "", "result.json"));
    const changed = { ...config, agents: { ...config.agents, other: { ...agent, ...change } } };
    writeFileSync(join(folder.path, file), JSON.stringify(changed));
    const outcome = await runHere(["resume"], at);
    expect([outcome.code, outcome.stderr]).toEqual([
      2,
      expect.stringContaining("this has changed: the agent other (store/not-resumable)"),
    ]);
  });

  it("goes on when only values of variables, keys, time limits and lines of the file have changed", async () => {
    const agents = { other: command, third: model, same: sum.agent };
    using folder = await ran({ ...sum, agents, agent: "same" });
    cutOff(folder, 10);
    const text = JSON.stringify({
      ...sum,
      agents: {
        ...agents,
        other: { ...command, env: { MODE: "another" } },
        third: { ...model, apiKey: "another key" },
      },
      agent: "same",
    });
    writeFileSync(join(folder.path, file), `\n\n${text.replace("{", '{"limits":{"trial":"9m"},')}`);
    const outcome = await runHere(["resume"], { cwd: folder.path });
    expect(outcome.code, outcome.stderr).toBe(0);
  });

  it("goes on with a run of before, which has no hashes of its agents and limits", async () => {
    using folder = await ran();
    cutOff(folder, 10);
    const head = join(folder.run, "run.json");
    const { environment, ...others } = JSON.parse(readFileSync(head, "utf8")) as {
      environment: Record<string, unknown>;
    };
    expect(environment).toMatchObject({ agentHashes: { scripted: expect.any(String) as string } });
    const { agentHashes: _, limits: __, ...older } = environment;
    writeFileSync(head, JSON.stringify({ ...others, environment: older }));
    const outcome = await runHere(["resume"], { cwd: folder.path });
    expect(outcome.code, outcome.stderr).toBe(0);
  });

  it("says what the file system refuses, and goes on when it no longer does", async () => {
    using folder = await ran();
    cutOff(folder, 10);
    const inTheWay = join(folder.run, "journal.jsonl.part");
    mkdirSync(inTheWay);
    const refused = await runHere(["resume"], { cwd: folder.path });
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining("(store/unwritable)")]);
    rmSync(inTheWay, { recursive: true });
    expect((await runHere(["resume"], { cwd: folder.path })).code).toBe(0);
  });

  it("refuses a run that does not say how it was started, that still goes on, and in another folder", async () => {
    using folder = await ran();
    cutOff(folder, 10);
    const path = join(folder.run, "run.json");
    const head = JSON.parse(readFileSync(path, "utf8")) as { command: object; process: object };
    const resume = async (change: object, at = folder.path): Promise<string> => {
      writeFileSync(path, JSON.stringify({ ...head, ...change }));
      const { code, stderr } = await runHere(["resume", folder.run], { cwd: at });
      expect(code).toBe(2);
      return stderr;
    };
    expect(await resume({ command: undefined })).toContain("does not say how it was started");
    expect(await resume({ process: { ...head.process, pid: process.ppid } })).toContain("(store/in-use)");
    using other = folderOf({});
    expect(await resume({}, other.path)).toContain(`Resume it there: cd ${folder.path}`);
    writeFileSync(path, JSON.stringify(head));
    expect((await runHere(["resume"], { cwd: folder.path })).code).toBe(0);
  });

  it("asks for variables whose values are not kept", async () => {
    const config = { ...sum, workflows: [{ ...sum.workflows[0], description: "${GREETING}" }] };
    using folder = await ran(config, ["--env", "GREETING=a word to remember"]);
    cutOff(folder, 10);
    for (const name of ["run.json", "plan.json"] as const) {
      const text = readFileSync(join(folder.run, name), "utf8");
      if (name === "run.json") expect(text).not.toContain("a word to remember");
    }
    const at = { cwd: folder.path };
    const refused = await runHere(["resume"], at);
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining("--env GREETING=VALUE")]);
    const resumed = await runHere(["resume", "--env", "GREETING=a word to remember"], at);
    expect(resumed.code, resumed.stderr).toBe(0);
  });

  it("goes on with a run of only some tasks", async () => {
    const other = { ...sum.workflows[0], name: "other" };
    const plan = { sum: sum.agent.plan.sum, other: sum.agent.plan.sum };
    const config = { ...sum, agent: { type: "scripted", plan }, workflows: [...sum.workflows, other] };
    using folder = await ran(config, ["--task", "o*", "--trials", "2"]);
    cutOff(folder, 3);
    const outcome = await runHere(["resume", "-r", "json"], { cwd: folder.path });
    expect(outcome.code, outcome.stderr).toBe(0);
    const { trials } = JSON.parse(outcome.stdout) as RunResult;
    expect(trials.map(({ task }) => task)).toEqual(["other", "other"]);
  });
});

describe("retry", () => {
  /** A server whose tool answers by the number of starts, which it keeps in a file; "error": it does not start. */
  const server = `
    import { existsSync, readFileSync, writeFileSync } from "node:fs";
    import { createInterface } from "node:readline";
    const count = existsSync("count") ? Number(readFileSync("count", "utf8")) : 0;
    writeFileSync("count", String(count + 1));
    const answers = process.argv.slice(2);
    const answer = answers[count % answers.length];
    if (answer === "error") process.exit(1);
    const serverInfo = { name: "moody", version: "1" };
    const tools = [{ name: "mood", inputSchema: { type: "object" } }];
    for await (const line of createInterface({ input: process.stdin })) {
      const { id, method, params } = JSON.parse(line);
      const results = {
        initialize: { protocolVersion: params?.protocolVersion, capabilities: { tools: {} }, serverInfo },
        "tools/list": { tools },
        "tools/call": { content: [{ type: "text", text: answer }] },
      };
      if (id !== undefined) console.log(JSON.stringify({ jsonrpc: "2.0", id, result: results[method] ?? {} }));
    }
  `;

  async function runWith(
    answers: readonly string[],
    args: readonly string[] = [],
  ): Promise<Disposable & { readonly path: string }> {
    const config = {
      server: { transport: "stdio", command: "node", args: ["server.mjs", ...answers] },
      toolHealthSuites: [{ name: "suite", tests: [{ name: "mood", args: {}, expectedResult: "good" }] }],
      trials: 4,
    };
    const folder = folderOf({ "server.mjs": server, [file]: config });
    const { code, stderr } = await runHere(["run", "-q", ...args], { cwd: folder.path });
    expect(code, stderr).not.toBe(2);
    return folder;
  }

  it("--errors takes over the trials with a verdict and runs the others in a new run", async () => {
    using folder = await runWith(["good", "bad", "error", "good", "good"]);
    const at = { cwd: folder.path };
    const first = JSON.parse((await runHere(["show", "--json"], at)).stdout) as RunResult;
    expect(first.summary).toMatchObject({ pass: 2, fail: 1, error: 1 });
    const outcome = await runHere(["retry", "--errors"], at);
    expect(outcome.code, outcome.stderr).toBe(1);
    expect(outcome.stdout).toContain(`retry of run ${first.id}: 3 of 4 trials keep their verdicts`);
    const second = JSON.parse((await runHere(["show", "--json"], at)).stdout) as RunResult;
    expect(second).toMatchObject({ summary: { pass: 3, fail: 1 }, retryOf: { id: first.id } });
    expect(second.id).not.toBe(first.id);
    const durations = ({ trials }: RunResult): number[] => trials.map(({ durationMs }) => durationMs);
    expect(durations(second).filter((each) => durations(first).includes(each))).toHaveLength(3);
    const unchanged = JSON.parse((await runHere(["show", first.id, "--json"], at)).stdout) as RunResult;
    expect(unchanged.summary).toEqual(first.summary);
    const nothing = await runHere(["retry", "--errors"], at);
    expect([nothing.code, nothing.stderr]).toEqual([2, expect.stringContaining("has a verdict")]);
  });

  it("--errors runs all that --bail left out, also after one that fails", async () => {
    using folder = await runWith(["bad", "good", "bad", "good"], ["--bail"]);
    const at = { cwd: folder.path };
    const result = async (): Promise<RunResult> =>
      JSON.parse((await runHere(["show", "--json"], at)).stdout) as RunResult;
    expect((await result()).summary).toMatchObject({ fail: 1, skip: 3 });
    expect((await runHere(["retry", "--errors"], at)).code).toBe(1);
    expect((await result()).summary).toMatchObject({ pass: 2, fail: 2, skip: 0 });
  });

  it("of a run with --bail that was cut off runs nothing more after a trial that failed, and --errors all", async () => {
    using folder = await runWith(["bad", "good", "good", "good"], ["--bail", "-j", "1"]);
    const at = { cwd: folder.path };
    const run = join(folder.path, ".mcpvals/runs", readdirSync(join(folder.path, ".mcpvals/runs"))[0] ?? "");
    rmSync(join(run, "result.json"));
    const resumed = await runHere(["resume", "--reporter", "json"], at);
    const { summary, trials } = JSON.parse(resumed.stdout) as RunResult;
    expect([resumed.code, summary]).toMatchObject([1, { fail: 1, skip: 3 }]);
    expect(trials.map(({ error }) => error?.code)).toEqual([undefined, ...Array(3).fill("run/bailed")]);
    const retried = await runHere(["retry", "--errors", "--reporter", "json"], at);
    expect((JSON.parse(retried.stdout) as RunResult).summary).toMatchObject({ pass: 3, fail: 1 });
  });

  it("--errors goes on until it is decided, as the run did", async () => {
    const until = ["--until", "decided", "--max-trials", "40", "--threshold", "passRate=0.3"];
    const goods = Array<string>(40).fill("good");
    using folder = await runWith(["error", ...goods], until);
    const at = { cwd: folder.path };
    const result = async (): Promise<RunResult> =>
      JSON.parse((await runHere(["show", "--json"], at)).stdout) as RunResult;
    const first = await result();
    expect(first.summary).toMatchObject({ error: 1, fail: 0 });
    expect(first.trials.length).toBeLessThan(40);
    const outcome = await runHere(["retry", "--errors"], at);
    expect(outcome.code, outcome.stderr).toBe(0);
    expect(await result()).toMatchObject({
      retryOf: { id: first.id },
      summary: { error: 0, pass: first.trials.length },
      decisions: [{ verdict: "met" }],
    });
  });

  it("--flaky runs all trials of the tasks with different verdicts", async () => {
    using folder = await runWith(["good", "bad", "good"]);
    const outcome = await runHere(["retry", "--flaky", "-r", "json"], { cwd: folder.path });
    const result = JSON.parse(outcome.stdout) as RunResult;
    expect(result.summary.total).toBe(4);
    expect(outcome.code).toBe(1);
    const again = await runHere(["retry", "--flaky", "-r", "json"], { cwd: folder.path });
    const { retryOf, id } = JSON.parse(again.stdout) as RunResult;
    const first = result.retryOf?.id ?? "";
    expect(retryOf).toMatchObject({ id: result.id, first });
    const compared = await runHere(["compare", first, id], { cwd: folder.path });
    expect([compared.code, compared.stderr]).toEqual([2, expect.stringContaining("have the same trials")]);
    await runHere(["grade", id], { cwd: folder.path });
    const graded = await runHere(["compare", first, "latest"], { cwd: folder.path });
    expect([graded.code, graded.stderr]).toEqual([2, expect.stringContaining("have the same trials")]);
    const { stdout } = await runHere(["runs", "list", "--json"], { cwd: folder.path });
    const rows = JSON.parse(stdout) as readonly { readonly origin?: string }[];
    expect(rows.map(({ origin }) => origin)).toEqual([first, first, first, first]);
  });

  it("refuses a run that has not ended, and an option too few", async () => {
    using folder = await runWith(["good"]);
    const at = { cwd: folder.path };
    expect(await runHere(["retry"], at)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("--errors or --flaky"),
    });
    const runs = join(folder.path, ".mcpvals/runs");
    rmSync(join(runs, readdirSync(runs)[0] ?? "", "result.json"));
    expect(await runHere(["retry", "--errors"], at)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("mcpvals resume"),
    });
  });
});

describe("runs", () => {
  it("lists a run as damaged whose result was changed, and show says how to read its journal", async () => {
    using folder = await ran();
    const at = { cwd: folder.path };
    const path = join(folder.run, "result.json");
    const whole = readFileSync(path, "utf8");
    writeFileSync(path, whole.replace('"pass": 3,', ""));
    const listed = await runHere(["runs", "list"], at);
    expect(listed.stdout).toContain("damaged");
    expect(listed.stdout).not.toContain("undefined");
    writeFileSync(path, whole.slice(0, 20));
    const advice = "remove it, and mcpvals show reads the journal";
    expect((await runHere(["show"], at)).stderr).toContain(advice);
    const journal = join(folder.run, "journal.jsonl");
    const events = readFileSync(journal);
    // It lacks its end, so it has not all that the result said.
    writeFileSync(journal, events.subarray(0, -40));
    const { stderr } = await runHere(["show"], at);
    expect(stderr).toContain("was changed or damaged");
    expect(stderr).not.toContain(advice);
    writeFileSync(journal, events);
    rmSync(path);
    expect((await runHere(["show"], at)).stdout).toContain("PASS");
  });

  it("lists runs newest first, pins them and deletes old ones", async () => {
    using folder = await ran();
    const at = { cwd: folder.path };
    await runHere(["run", "--trials", "1", "--task", "sum"], at);
    const ids = async (args: readonly string[] = []): Promise<string[]> => {
      const { stdout } = await runHere(["runs", "list", "--json", ...args], at);
      return (JSON.parse(stdout) as { id: string }[]).map(({ id }) => id);
    };
    const [newest = "", oldest = ""] = await ids();
    expect(newest > oldest && oldest.length > 0).toBe(true);
    const listed = await runHere(["runs"], at);
    expect(listed.stdout.split("\n").slice(0, 2)).toEqual([
      expect.stringMatching(new RegExp(`^${newest}  pass  1/1 passed +\\S+ \\S+ +${file} --task sum$`)),
      expect.stringMatching(new RegExp(`^${oldest}  pass  3/3 passed +\\S+ \\S+ +${file}$`)),
    ]);
    expect(await ids(["--verdict", "fail"])).toEqual([]);
    expect(await ids(["--source", "*.json", "--limit", "1"])).toEqual([newest]);
    expect((await runHere(["runs", "prune"], at)).code).toBe(2);
    const dry = await runHere(["runs", "prune", "--keep", "1", "--dry-run"], at);
    expect(dry.stdout).toContain(`would delete  ${oldest}`);
    await runHere(["runs", "pin", oldest], at);
    await runHere(["runs", "prune", "--keep", "1"], at);
    expect(await ids()).toEqual([newest, oldest]);
    await runHere(["runs", "unpin", oldest], at);
    expect((await runHere(["runs", "prune", "--older-than", "1d"], at)).stdout).toContain(
      "0 runs deleted, 2 kept",
    );
    await runHere(["runs", "prune", "--keep", "1"], at);
    expect(await ids()).toEqual([newest]);
  });

  it("shows a run that was cut off", async () => {
    using folder = await ran();
    cutOff(folder, 10);
    appendFileSync(join(folder.run, "run.json"), " ");
    const head = JSON.parse(readFileSync(join(folder.run, "run.json"), "utf8")) as object;
    writeFileSync(join(folder.run, "run.json"), JSON.stringify({ ...head, process: undefined }));
    const listed = await runHere(["runs", "--verdict", "cut-off"], { cwd: folder.path });
    expect(listed.stdout).toMatch(/ {2}cut-off {2}/);
    const shown = await runHere(["show"], { cwd: folder.path });
    expect([shown.code, shown.stderr]).toEqual([130, ""]);
    expect(shown.stdout).toMatch(/INTERRUPTED[^]*to go on: npx mcpvals resume \S+\n$/);
  });

  it("shows a run that goes on, and says that it does", async () => {
    using folder = await ran();
    cutOff(folder, 10);
    const path = join(folder.run, "run.json");
    const head = JSON.parse(readFileSync(path, "utf8")) as { process: object };
    writeFileSync(path, JSON.stringify({ ...head, process: { ...head.process, pid: process.ppid } }));
    const shown = await runHere(["show"], { cwd: folder.path });
    expect(shown.stderr).toContain("note: the run still goes on");
    expect(shown.stdout).not.toContain("to go on:");
  });
});
