import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { load } from "../../src/formats/load.ts";
import type { Config } from "../../src/formats/config/config-schema.ts";
import { replayRun } from "../../src/report/replay.ts";
import type { Reporter, RunEnd, RunStart } from "../../src/report/reporter.ts";
import type { RunVerdict } from "../../src/model/grade.ts";
import { reporters } from "../../src/report/reporters.ts";
import { run } from "../../src/run/run.ts";
import { readRun } from "../../src/store/run-folder.ts";
import { fixtureServer } from "../process/support.ts";
import {
  brokenRun,
  checkedRun,
  emptyRun,
  failingRun,
  interruptedRun,
  passingRun,
  variedRun,
} from "../report/runs.ts";
import {
  brokenTrial,
  claude,
  finding,
  grade,
  play,
  request,
  response,
  type SampleRun,
  sampleRun,
  textResult,
  toolTest,
  trialOf,
  workflow,
} from "../report/samples.ts";
import { captureOutput, type CapturedOutput, type CaptureOptions } from "../report/screen.ts";

/** What is particular to a reporter. */
interface Traits {
  /** Writes one document when the run has ended, and nothing before. */
  readonly isDocument: boolean;
  /** Throws when a text is not whole. */
  readonly check: (text: string) => void;
  /** Reads what it writes in the folder of the run, so a run that was made up here has nothing for it. */
  readonly readsFolder?: true;
}

const traits: Readonly<Record<string, Traits>> = {
  console: { isDocument: false, check: (text) => expect(text).toMatch(/\n$/) },
  json: { isDocument: true, check: (text) => expect(JSON.parse(text)).toHaveProperty("verdict") },
  junit: {
    isDocument: true,
    check: (text) => expect(text).toMatch(/^<\?xml [^]*<testsuites [^]*<\/testsuites>\n$/),
  },
  markdown: { isDocument: true, check: (text) => expect(text).toMatch(/^# [^\n]+\n\n[^]*[^\n]\n$/) },
  github: {
    isDocument: true,
    check: (text) => expect(text).toMatch(/^(?:::(?:error|warning|notice) .*\n)+$/),
  },
  html: {
    isDocument: true,
    check: (text) => expect(text).toMatch(/^<!doctype html>\n[^]*<\/html>\n$/),
    readsFolder: true,
  },
  sarif: { isDocument: true, check: (text) => expect(JSON.parse(text)).toHaveProperty("runs.0.results") },
};

it("has the traits of every reporter", () => {
  expect(Object.keys(traits)).toEqual(Object.keys(reporters));
});

const places: readonly [string, CaptureOptions][] = [
  ["a file", {}],
  ["a wide terminal", { isTerminal: true, colors: true, columns: 200 }],
  ["a narrow terminal", { isTerminal: true, columns: 12 }],
];

const cases = Object.entries(reporters).flatMap(([name, create]) =>
  (traits[name]?.readsFolder === true ? [] : places).map(([place, options]) => ({
    name,
    place,
    create,
    options,
    ...traits[name]!,
  })),
);

function bailedRun(): SampleRun {
  const tasks = ["a", "b", "c"].map((name) => toolTest(name));
  const bailed = { code: "run/bailed", kind: "interrupted", message: "not run" } as const;
  return sampleRun({
    tasks,
    trials: [
      trialOf(tasks[0]!, { grades: [grade("verify-steps", 0, "wrong")] }),
      ...tasks.slice(1).map((task) => brokenTrial(task, bailed)),
    ],
  });
}

/** Text that drives terminals and breaks documents. */
const evil = `\u001b[2J\u001b]0;title\u0007\u0000\r\b\u007f\ud800 ]]>"<&amp;{"a":\u009b31m\u202e\n\t`;

/** A run in which every text that comes from a file is hostile, and what comes from servers and models is huge too. */
function hostileRun(): SampleRun {
  const [failed, broken] = [toolTest(`t${evil}`, { suite: evil }), toolTest("u", { suite: evil })];
  const judged = workflow(evil);
  const huge = `${evil}${"x".repeat(1_000_000)}\udc00`;
  const error = {
    code: "server/exited",
    kind: "environment",
    message: huge,
    hint: huge,
    detail: huge,
  } as const;
  const events = [
    { type: "turn.started", turn: 0, user: evil } as const,
    request(1, huge, { [huge]: huge }),
    response(1, { isError: true, ...textResult(huge) }),
    { type: "agent.message", turn: 0, text: huge } as const,
  ];
  const place = { tool: evil, resource: evil, prompt: evil, parameter: evil, pointer: evil };
  const found = finding("call/crash", place, huge, {
    server: evil,
    fix: huge,
    clients: { [evil]: "refused" },
  });
  const grades = [{ ...grade(evil, 0, huge, [2, 3, 4]), findings: [found, { ...found, code: evil }] }];
  return sampleRun({
    name: evil,
    tasks: [failed, broken, judged],
    agents: [{ ...claude, name: evil, model: evil }],
    folder: evil,
    trials: [
      trialOf(failed, { events, grades, warnings: [huge] }),
      brokenTrial(broken, error, { events }),
      trialOf(judged, { agent: evil, events, grades }),
    ],
  });
}

const samples: readonly [string, SampleRun][] = [
  ["passing", passingRun()],
  ["failing", failingRun()],
  ["broken, with errors and timeouts", brokenRun()],
  ["varied, with agents and attempts", variedRun()],
  ["interrupted", interruptedRun()],
  ["bailed", bailedRun()],
  ["empty", emptyRun()],
  ["a check", checkedRun()],
];

/** Tells a reporter everything but the end. */
async function begin(sample: SampleRun, reporter: Reporter): Promise<void> {
  await reporter.onRunStart?.(sample.start);
  for (const [index, result] of sample.trials.entries()) {
    await reporter.onTrialStart?.(sample.start.plan.trials[index]!);
    for (const event of sample.end.evidence.get(result.id) ?? []) reporter.onEvent?.(event);
    await reporter.onTrialEnd?.(result);
  }
}

describe.each(cases)("$name, writing to $place", ({ create, options, isDocument, check }) => {
  it.each(samples)("tells a run that is %s, whole, and lets go of everything", async (_, sample) => {
    const output = captureOutput(options);
    const reporter = create(output);
    await begin(sample, reporter);
    output.pass(1000);
    await reporter.onRunEnd?.(sample.end);
    check(output.text());
    expect(output.timers()).toBe(0);
    const { length } = output.writes;
    await reporter.close?.();
    await reporter.close?.();
    output.pass(1000);
    expect([output.writes.length, output.timers()]).toEqual([length, 0]);
  });

  it.each(samples)("writes no document for a run that is %s and has no end", async (_, sample) => {
    const output = captureOutput(options);
    const reporter = create(output);
    await begin(sample, reporter);
    output.pass(1000);
    if (isDocument) expect(output.writes).toEqual([]);
    await reporter.close?.();
    if (isDocument) expect(output.writes).toEqual([]);
    expect(output.timers()).toBe(0);
  });

  it("lets go of everything when it is closed before it was told anything", async () => {
    const output = captureOutput(options);
    await create(output).close?.();
    expect([output.writes, output.timers()]).toEqual([[], 0]);
  });

  it.each([1, 2, 3])("holds no timer after close when write number %i fails", async (number) => {
    const output = failing(captureOutput(options), number);
    const reporter = create(output);
    await play(failingRun(), reporter).catch(() => undefined);
    try {
      await reporter.close?.();
    } catch {
      // What cannot be written is told by whoever calls; here only what is held counts.
    }
    expect(output.timers()).toBe(0);
  });

  it("lets nothing of hostile text through as it was", async () => {
    const output = captureOutput({ ...options, colors: false, isTerminal: false });
    await play(hostileRun(), create(output));
    const text = output.text();
    check(text);
    expect(text).not.toMatch(/[^\P{Cc}\n\t\u007f-\u009f]|\p{Surrogate}/u);
    if (!isDocument) {
      expect(text).not.toMatch(/[^\P{Cc}\n]|\u202e/u);
      expect(text.length).toBeLessThan(100_000);
    }
  });
});

function failing(output: CapturedOutput, number: number): CapturedOutput {
  let writes = 0;
  return {
    ...output,
    write(text) {
      writes += 1;
      if (writes === number) throw new Error("no space left");
      output.write(text);
    },
  };
}

/** A real run: what it told a reporter while it ran, and what its folder tells until it is removed. */
interface RealRun {
  readonly cwd: string;
  readonly verdict: RunVerdict;
  readonly live: (reporter: Reporter) => Promise<void>;
  readonly stored: (reporter: Reporter) => Promise<void>;
}

const server: NonNullable<Config["server"]> = {
  transport: "stdio",
  command: process.execPath,
  args: [fixtureServer],
};

type ToolTest = NonNullable<Config["toolHealthSuites"]>[number]["tests"][number];

function config(tests: readonly ToolTest[]): Config {
  const titled = tests.map((test, index) => ({ ...test, description: `test ${index}` }));
  return { server, toolHealthSuites: [{ name: "sums", tests: titled }] };
}

const right: ToolTest = { name: "add", args: { a: 2, b: 3 }, expectedResult: 5 };
const wrong: ToolTest = { name: "add", args: { a: 2, b: 2 }, expectedResult: 5 };
const dead: ToolTest = { name: "crash", args: { code: 7, stderr: "out of \u001b[31mmemory" } };
const slow: ToolTest = { name: "slow", args: { ms: 60_000 }, timeout: 100 };
const scripted = (b: number): NonNullable<Config["agents"]>[string] => ({
  type: "scripted",
  plan: { sum: [{ call: "add", args: { a: 2, b } }, { say: `It is ${2 + b}.` }] },
});
const agents = { one: scripted(3), two: scripted(4) };
const workflows = [
  { name: "sum", steps: [{ user: "Add.", expectedState: "5" }], expectTools: ["add", "fail"] },
];

/** An agent that calls what ends the server. */
const crashing: Pick<Config, "agent" | "workflows"> = {
  agent: { type: "scripted", plan: { crash: [{ call: "crash", args: { code: 7 } }, { say: "Done." }] } },
  workflows: [{ name: "crash", steps: [{ user: "Go.", expectedState: "Done" }] }],
};

interface RealOptions {
  readonly bail?: boolean;
  readonly interruptAfter?: number;
}

const realRuns: readonly [string, RunVerdict, Config, RealOptions][] = [
  ["passing", "pass", config([right]), {}],
  ["failing", "fail", config([right, wrong, dead, slow]), {}],
  ["incomplete, with a crash", "incomplete", { ...config([right]), ...crashing }, {}],
  ["of two agents with two attempts", "fail", { server, agents, workflows, trials: 2 }, {}],
  ["bailed", "fail", config([wrong, right, right]), { bail: true }],
  ["interrupted", "interrupted", config([right, right]), { interruptAfter: 1 }],
];

async function runReally(spec: Config, { bail = false, interruptAfter }: RealOptions): Promise<RealRun> {
  const cwd = await mkdtemp(join(tmpdir(), "mcpvals-contract-"));
  const told: ((reporter: Reporter) => unknown)[] = [];
  const controller = new AbortController();
  let ended = 0;
  const recorder: Required<Omit<Reporter, "close">> = {
    onRunStart: (start: RunStart) => void told.push((reporter) => reporter.onRunStart?.(start)),
    onTrialStart: (trial) => void told.push((reporter) => reporter.onTrialStart?.(trial)),
    onEvent: (event) => void told.push((reporter) => reporter.onEvent?.(event)),
    onTrialEnd(result) {
      told.push((reporter) => reporter.onTrialEnd?.(result));
      if (++ended === interruptAfter) controller.abort();
    },
    onRunEnd: (end: RunEnd) => void told.push((reporter) => reporter.onRunEnd?.(end)),
  };
  // The stored run tells of its trials in their order.
  const loaded = await load({ sources: { ...spec, concurrency: 1 }, cwd, env: {}, agents: [] });
  const { result, folder = "" } = await run(loaded, {
    cwd,
    bail,
    signal: controller.signal,
    reporters: [{ name: "recorder", reporter: recorder }],
  });
  const stored = await readRun(folder, folder);
  const { id, plan, startedAt, environment } = stored;
  const replayed = replayRun(stored);
  return {
    cwd,
    verdict: result.verdict,
    async live(reporter) {
      for (const tell of told) await tell(reporter);
      await reporter.close?.();
    },
    async stored(reporter) {
      await reporter.onRunStart?.({ id, plan, startedAt, environment, folder });
      for (const trial of replayed.result.trials) await reporter.onTrialEnd?.(trial);
      await reporter.onRunEnd?.(replayed);
      await reporter.close?.();
    },
  };
}

describe.each(realRuns)("a real run that is %s", (_, verdict, spec, options) => {
  let real: RealRun;
  beforeAll(async () => {
    real = await runReally(spec, options);
  });
  afterAll(() => rm(real.cwd, { recursive: true }));

  it.each(Object.entries(reporters))("is told by %s from its folder as it was live", async (name, create) => {
    expect(real.verdict).toBe(verdict);
    const [live, stored] = [captureOutput({ colors: true }), captureOutput({ colors: true })];
    await real.live(create(live));
    await real.stored(create(stored));
    traits[name]?.check(live.text());
    expect(stored.text()).toBe(live.text());
  });
});
