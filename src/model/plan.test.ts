import { describe, expect, it } from "vitest";
import { portableTask } from "../../test/support/portable.ts";
import { toolTestTask, workflowTask } from "../../test/support/trial-events.ts";
import type { AgentSpec } from "./agent.ts";
import type { Eval } from "./eval.ts";
import type { Task } from "./task.ts";
import { createPlan, effectiveServers, lifetimeOf, taskOf, type Trial } from "./plan.ts";

const claude: AgentSpec = {
  type: "model",
  name: "claude",
  model: "anthropic/claude-sonnet-4-5",
  apiKey: "secret",
  headers: { authorization: "secret" },
  maxSteps: 5,
};
const script: AgentSpec = { type: "scripted", name: "script", plan: {} };

const flow = workflowTask({ name: "flow" });
const first = test("sums/first");
const second = test("sums/second");
const free = { ...test("words/free", "words"), parallel: true };

const program = {
  transport: "stdio",
  command: "x",
  args: [],
  env: {},
  cwd: "/",
  startupTimeoutMs: 1,
  maxMessageBytes: 1,
} as const;

function test(name: string, suite = "sums"): Task {
  return { ...toolTestTask(), name, suite };
}

function spec(rest: Partial<Eval>): Eval {
  const limits = { trialMs: 1, callMs: 1, modelMs: 1 };
  const servers = { calc: program, files: program, leaves: program };
  return { name: "any", servers, agents: [script], tasks: [], trials: 1, limits, reporters: [], ...rest };
}

function lanes(rest: Partial<Eval>): [concurrency: number, ...lanes: (string | undefined)[]] {
  const { trials, concurrency } = createPlan(spec(rest), 3);
  return [concurrency, ...trials.map((trial) => trial.lane)];
}

describe("createPlan", () => {
  it("lays out task by task, agent by agent, attempt by attempt", () => {
    const plan = createPlan(spec({ agents: [claude, script], tasks: [flow, first], trials: 2 }));
    const trial = (id: string, task: string, agent: string | null, attempt: number): Trial => ({
      id,
      task,
      agent,
      attempt,
      lane: agent === null ? "suite:sums" : undefined,
    });
    expect(plan).toEqual({
      schema: "mcpvals.plan/1",
      name: "any",
      agents: [
        { name: "claude", type: "model", model: "anthropic/claude-sonnet-4-5" },
        { name: "script", type: "scripted" },
      ],
      tasks: [flow, first],
      trials: [
        trial("t1", "flow", "claude", 1),
        trial("t2", "flow", "claude", 2),
        trial("t3", "flow", "script", 1),
        trial("t4", "flow", "script", 2),
        trial("t5", "sums/first", null, 1),
        trial("t6", "sums/first", null, 2),
      ],
      concurrency: 1,
    });
  });

  it("runs as many trials at once as there are processors", () => {
    expect(lanes({ tasks: [flow, first, second, free] })).toEqual([
      3,
      undefined,
      "suite:sums",
      "suite:sums",
      undefined,
    ]);
  });

  it("runs trials that share a server one after the other, unless their suite is parallel or a concurrency is given", () => {
    const servers = { calc: { ...program, lifetime: "per_run" } } as const;
    const tasks = [flow, first, free].map((task) => ({ ...task, servers: ["calc"] }));
    expect(lanes({ tasks, servers })).toEqual([3, "shared server", "shared server", undefined]);
    expect(lanes({ tasks, servers, concurrency: 2 })).toEqual([2, undefined, "suite:sums", undefined]);
  });

  it("lets as many trials share a server as it says, the smallest number for one name", () => {
    const calc = { ...program, lifetime: "per_run", maxConcurrent: 4 } as const;
    const tasks = [flow, first].map((task) => ({ ...task, servers: ["calc"] }));
    expect(lanes({ tasks, servers: { calc } })).toEqual([3, undefined, "suite:sums"]);
    const limitsOf = (rest: Partial<Eval>): unknown => createPlan(spec({ tasks, ...rest })).maxConcurrent;
    expect(limitsOf({})).toBeUndefined();
    expect(limitsOf({ servers: { calc, files: program } })).toEqual({ calc: 4 });
    const other = { ...program, maxConcurrent: 2 };
    expect(limitsOf({ servers: { calc }, taskServers: { flow: { calc: other, leaves: other } } })).toEqual({
      calc: 2,
      leaves: 2,
    });
    const variants = [{ name: "v", servers: { flow: { calc: other }, "sums/first": { calc } } }];
    expect(limitsOf({ variants })).toEqual({ calc: 2 });
  });

  it("runs the trials of an agent program that share a home or a folder one after the other, unless a concurrency is given", () => {
    const mine = { type: "command", name: "mine", command: "x", args: [] } as unknown as AgentSpec;
    const apart = { ...mine, userHome: {} } as AgentSpec;
    expect(lanes({ tasks: [flow], agents: [apart] })).toEqual([3, undefined]);
    const inFolder = { ...apart, cwd: "/project" } as AgentSpec;
    expect(lanes({ tasks: [flow], agents: [inFolder] })).toEqual([3, "agent:mine"]);
    const agents = [mine, script];
    expect(lanes({ tasks: [flow], agents, trials: 2 })).toEqual([
      3,
      "agent:mine",
      "agent:mine",
      undefined,
      undefined,
    ]);
    expect(lanes({ tasks: [flow], agents, concurrency: 2 })).toEqual([2, undefined, undefined]);
  });

  it("with a given concurrency keeps only the tests of a suite that is not parallel in a row", () => {
    const tasks = [flow, first, second, test("words/third", "words"), free];
    expect(lanes({ tasks, concurrency: 8 })).toEqual([
      8,
      undefined,
      "suite:sums",
      "suite:sums",
      "suite:words",
      undefined,
    ]);
    expect(lanes({ tasks: [free], concurrency: 1 })).toEqual([1, undefined]);
  });

  it("keeps tasks of the older forms in a row, unless they are parallel", () => {
    const older = portableTask({ format: "step-form" }, { name: "older" });
    const tasks = [older, { ...older, name: "other", parallel: true }, portableTask({}, { name: "new" })].map(
      (task) => ({ ...task, turns: [{ user: "hi" }] }),
    );
    expect(lanes({ tasks })).toEqual([3, "not parallel", undefined, undefined]);
    expect(lanes({ tasks, concurrency: 2 })).toEqual([2, "not parallel", undefined, undefined]);
  });
});

it("has as many attempts of a task as the task says, else as the eval does", () => {
  const tasks = [portableTask({ runs: 3 }, { name: "three" }), flow];
  const { trials } = createPlan(spec({ tasks, trials: 2 }));
  expect(trials.map(({ task, attempt }) => `${task} ${attempt}`)).toEqual([
    "three 1",
    "three 2",
    "three 3",
    "flow 1",
    "flow 2",
  ]);
});

it("has servers with an address for the run, and all others for one trial, unless they say", () => {
  const rest = { startupTimeoutMs: 1, maxMessageBytes: 1 } as const;
  const http = { ...rest, url: "http://127.0.0.1/", headers: {} } as const;
  const mock = { tools: {}, resources: [], prompts: [], state: {} };
  expect(lifetimeOf({ ...http, transport: "shttp" })).toBe("per_run");
  expect(lifetimeOf({ ...http, transport: "sse" })).toBe("per_run");
  expect(lifetimeOf(program)).toBe("per_trial");
  expect(lifetimeOf({ ...rest, transport: "mock", mock })).toBe("per_trial");
  expect(lifetimeOf({ ...http, transport: "shttp", lifetime: "per_trial" })).toBe("per_trial");
});

describe("variants", () => {
  const agent = (name: string) => ({ type: "null", name }) as const;
  const spec: Eval = {
    name: "matrix",
    servers: { db: program },
    agents: [agent("a"), agent("b"), agent("c")],
    tasks: [workflowTask({ name: "one" })],
    trials: 2,
    limits: { trialMs: 1, callMs: 1, modelMs: 1 },
    reporters: [],
    variants: [
      { name: "with", servers: { one: { db: program } } },
      { name: "without", servers: { one: {} } },
    ],
  };

  it("make a matrix with agents and attempts", () => {
    const plan = createPlan(spec);
    expect(plan.trials.map(({ agent: who, variant, attempt }) => `${who} ${variant} ${attempt}`)).toEqual(
      ["a", "b", "c"].flatMap((who) => [
        `${who} with 1`,
        `${who} with 2`,
        `${who} without 1`,
        `${who} without 2`,
      ]),
    );
    expect(new Set(plan.trials.map(({ id }) => id)).size).toBe(12);
  });

  it("have servers of their own", () => {
    const plan = createPlan(spec);
    const [task] = spec.tasks;
    if (task === undefined) throw new Error("there is a task");
    expect(taskOf({ task: "one", variant: "with" }, plan).servers).toEqual(["db"]);
    expect(taskOf({ task: "one", variant: "without" }, plan).servers).toEqual([]);
    expect(() => taskOf({ task: "two" }, plan)).toThrow("a trial of a task that it lacks: two");
    expect(effectiveServers(spec, task, "without")).toEqual({});
    expect(effectiveServers(spec, task, "with")).toEqual({ db: program });
    expect(() => effectiveServers(spec, task, "other")).toThrow("a variant that the eval lacks: other");
  });
});
