import { describe, expect, it } from "vitest";
import {
  check,
  errorResult,
  gradeContext,
  mcpStep,
  textResult,
  TrialEvents,
} from "../../../test/support/trial-events.ts";
import type { AssertionSet, Task } from "../formats/model.ts";
import type { EventBody, TraceEvent } from "../trace/events.ts";
import { assertionsGrader, skillsLoaded, skillsNotLoaded } from "./assertions.ts";
import type { Grade } from "./grader.ts";
import { gradersOf } from "./graders.ts";

function taskWith(...assertions: readonly AssertionSet[]): Task {
  return {
    name: "pods",
    form: "task",
    servers: ["k8s", "docs"],
    turns: [{ user: "Do it." }],
    expectTools: [],
    verify: [mcpStep()],
    parallel: false,
    portable: {
      format: "script-form",
      file: "/tasks/pods.yaml",
      dir: "/tasks",
      env: {},
      setup: [],
      cleanup: [],
      fixtures: [],
      requires: [],
      tags: [],
      labels: {},
      cleanupTimeoutMs: 1000,
      stateProbe: [],
      randomPorts: [],
      assertions,
      inheritEnv: true,
    },
  };
}

/** A trial whose agent phase is what `play` adds. */
class Played extends TrialEvents {
  readonly started: number;

  constructor(play: (trial: Played) => void = () => undefined) {
    super();
    this.server("k8s", [{ name: "list" }, { name: "get" }, { name: "delete" }]).server("docs");
    // What a setup step calls is not the agent's.
    this.emit({ type: "phase.started", phase: "setup" });
    this.call("delete", {}, textResult("ok"));
    this.emit({ type: "phase.finished", phase: "setup", durationMs: 1 });
    this.started = this.emit({ type: "phase.started", phase: "agent" });
    this.turn("Do it.", () => play(this));
    this.emit({ type: "phase.finished", phase: "agent", durationMs: 1 });
    this.step("verify[0]", { checks: [check("call", true)] }, () =>
      this.call("delete", {}, textResult("ok")),
    );
  }

  read(uri: string): number {
    const request = this.send("resources/read", { uri }, { server: "docs" });
    this.answer(request, { contents: [] });
    return request.seq;
  }

  prompt(name: string): number {
    const request = this.send("prompts/get", { name }, { server: "docs" });
    this.answer(request, { messages: [] });
    return request.seq;
  }

  get(args: Readonly<Record<string, string | number>> = {}): number {
    return this.call("get", args, textResult("x")).request;
  }
}

async function grade(trial: TrialEvents, ...sets: readonly AssertionSet[]): Promise<Grade> {
  return assertionsGrader().grade(trial.trajectory(taskWith(...sets)), gradeContext());
}

describe("tools, resources and prompts", () => {
  it.each([{ content: [{}] }, { content: [{ type: "text", text: "x" }], IsError: true }, { content: "x" }])(
    "are not used when the answer is unusable: %j",
    async (result) => {
      const trial = new Played((trial) => void trial.call("get", {}, result));
      const used = await grade(trial, { toolsUsed: [{ server: "k8s", name: "get" }] });
      expect(used).toMatchObject({
        verdict: "fail",
        reason: expect.stringContaining("it failed: the answer is unusable: ") as string,
      });
      const forbidden = await grade(trial, { toolsNotUsed: [{ server: "k8s", name: "get" }] });
      expect(forbidden.verdict).toBe("fail");
    },
  );

  it("are used when every entry fits a call of the agent", async () => {
    let calls: number[] = [];
    const trial = new Played((trial) => {
      const list = trial.call("list", {}, textResult("ok"));
      calls = [list.request, trial.get(), trial.read("file:///a.md"), trial.prompt("review")];
    });
    expect(
      await grade(trial, {
        toolsUsed: [
          { server: "k8s", name: "list" },
          { server: "k8s", pattern: "^g" },
          { server: "k8s", name: "x", pattern: "is" },
          { server: "k8s" },
        ],
        requireAny: [
          { server: "docs", name: "get" },
          { server: "k8s", name: "get" },
        ],
        resourcesRead: [{ server: "docs", pattern: "\\.md$" }],
        promptsUsed: [{ server: "docs", name: "review" }],
      }),
    ).toEqual({
      grader: "assertions",
      verdict: "pass",
      score: 1,
      reason:
        "toolsUsed: k8s.list, k8s./^g/, k8s.x or /is/, anything of k8s; requireAny: k8s.get; " +
        "resourcesRead: docs./\\.md$/; promptsUsed: docs.review",
      evidence: calls,
    });
  });

  it("are not used by calls that failed, and are not unused by them either", async () => {
    const trial = new Played((trial) => {
      trial.call("get", {}, errorResult("no such pod"));
      trial.refuse(trial.request("get", {}), -32602, "no");
      trial.request("get", {});
      trial.refuse(trial.send("prompts/get", { name: "review" }, { server: "docs" }), -32602, "no");
    });
    const get = { server: "k8s", name: "get" };
    const review = { server: "docs", name: "review" };
    const made = "called: k8s.get, docs.review";
    const wanted: readonly (readonly [AssertionSet, string])[] = [
      [{ toolsUsed: [get] }, `toolsUsed: no successful call of k8s.get (it failed: no such pod); ${made}`],
      [{ requireAny: [get] }, `requireAny: no successful call of k8s.get (it failed: no such pod); ${made}`],
      [{ promptsUsed: [review] }, `promptsUsed: no successful use of docs.review (it failed: no); ${made}`],
      [
        { minToolCalls: 1 },
        "minToolCalls: 0 tool calls that succeeded and 3 that did not, at least 1 expected",
      ],
      [{ callOrder: [{ type: "tool", ...get }] }, `callOrder: no successful call of k8s.get; ${made}`],
      [{ toolsNotUsed: [get] }, "toolsNotUsed: k8s.get was called"],
      [{ maxToolCalls: 2 }, "maxToolCalls: 3 tool calls, at most 2 expected"],
      [{ noDuplicateCalls: true }, "noDuplicateCalls: called again with equal arguments: k8s.get"],
    ];
    for (const [set, reason] of wanted)
      expect(await grade(trial, set)).toMatchObject({ verdict: "fail", reason });
  });

  it("are used by one call that succeeds among others that do not", async () => {
    const trial = new Played((trial) => {
      trial.call("get", {}, errorResult("no such pod"));
      trial.get();
    });
    expect(await grade(trial, { toolsUsed: [{ server: "k8s", name: "get" }] })).toMatchObject({
      verdict: "pass",
    });
  });

  it("that are missing are told with what there was instead", async () => {
    const trial = new Played((trial) => trial.get());
    const last = trial.events.findLast((event) => JSON.stringify(event).includes('"get"'));
    expect(
      await grade(trial, {
        toolsUsed: [
          { server: "k8s", name: "get" },
          { server: "k8s", name: "lst" },
        ],
        requireAny: [{ server: "docs" }],
        resourcesRead: [{ server: "docs", name: "file:///a" }],
        promptsUsed: [{ server: "docs", pattern: "a" }],
        maxToolCalls: 1,
      }),
    ).toEqual({
      grader: "assertions",
      verdict: "fail",
      score: 0.2,
      reason:
        'toolsUsed: no call of k8s.lst (did you mean "list"?); called: k8s.get; ' +
        "requireAny: no call of anything of docs; called: k8s.get; " +
        "resourcesRead: no read of docs.file:///a; called: k8s.get; " +
        "promptsUsed: no use of docs./a/; called: k8s.get",
      evidence: [last?.seq],
    });
  });

  it("that must not be used are evidence when they were, and the agent's start is when nothing was", async () => {
    const unwanted: AssertionSet = {
      toolsNotUsed: [{ server: "k8s", name: "delete" }],
      resourcesNotRead: [{ server: "docs" }],
      promptsNotUsed: [{ server: "docs", pattern: "^x" }],
    };
    const idle = new Played();
    expect(await grade(idle, unwanted)).toEqual({
      grader: "assertions",
      verdict: "pass",
      score: 1,
      reason:
        "toolsNotUsed: no call of k8s.delete; resourcesNotRead: no read of anything of docs; promptsNotUsed: no use of docs./^x/",
      evidence: [idle.started],
    });
    let read = 0;
    let second = 0;
    const trial = new Played((trial) => {
      read = trial.read("a");
      second = trial.read("b");
      trial.prompt("y");
    });
    expect(await grade(trial, unwanted)).toMatchObject({
      verdict: "fail",
      score: 2 / 3,
      reason: "resourcesNotRead: docs.a, docs.b were read",
      evidence: [read, second],
    });
  });
});

describe("the number of calls", () => {
  it("is over all servers, and zero means something", async () => {
    const trial = new Played((trial) => {
      trial.get({ a: 1 });
      trial.get({ a: 2 });
      trial.call("search", {}, textResult("x"), { server: "docs" });
      trial.read("a");
      trial.reject("unknown");
    });
    expect(await grade(trial, { minToolCalls: 3, maxToolCalls: 3 })).toMatchObject({
      verdict: "pass",
      reason:
        "minToolCalls: 3 tool calls, at least 3 expected; maxToolCalls: 3 tool calls, at most 3 expected",
    });
    expect(await grade(trial, { minToolCalls: 4 })).toMatchObject({ verdict: "fail", score: 0 });
    expect(await grade(new Played(), { maxToolCalls: 0 })).toMatchObject({ verdict: "pass" });
    expect(await grade(new Played((trial) => trial.get()), { maxToolCalls: 0 })).toMatchObject({
      verdict: "fail",
      reason: "maxToolCalls: 1 tool call, at most 0 expected",
    });
  });
});

describe("the order of calls", () => {
  const order = [
    { type: "tool", server: "k8s", name: "get" },
    { type: "resource", server: "docs", name: "a" },
    { type: "tool", server: "k8s", name: "get" },
  ] as const;

  it("may have others in between", async () => {
    let seqs: number[] = [];
    const trial = new Played((trial) => {
      const first = trial.get();
      trial.prompt("p");
      const read = trial.read("a");
      trial.read("a");
      seqs = [first, read, trial.get()];
    });
    expect(await grade(trial, { callOrder: order })).toMatchObject({
      verdict: "pass",
      reason: "callOrder: k8s.get, docs.a, k8s.get",
      evidence: seqs,
    });
  });

  it("is not kept by one call that serves twice", async () => {
    const trial = new Played((trial) => {
      trial.get();
      trial.read("a");
    });
    expect(await grade(trial, { callOrder: order })).toMatchObject({
      verdict: "fail",
      reason: "callOrder: no call of k8s.get after docs.a; called: k8s.get, docs.a",
    });
  });
});

describe("duplicates", () => {
  it("are calls with arguments that are equal as JSON", async () => {
    let calls: number[] = [];
    const trial = new Played((trial) => {
      trial.get({ a: 1 });
      const first = trial.get({ a: 1, b: "x" });
      calls = [first, trial.get({ b: "x", a: 1 })];
    });
    expect(await grade(trial, { noDuplicateCalls: true })).toMatchObject({
      verdict: "fail",
      reason: "noDuplicateCalls: called again with equal arguments: k8s.get",
      evidence: calls,
    });
  });

  it("are not those of other tools or servers, nor reads", async () => {
    const trial = new Played((trial) => {
      trial.get();
      trial.call("list", {}, textResult("x"));
      trial.call("get", {}, textResult("x"), { server: "docs" });
      trial.read("a");
      trial.read("a");
    });
    expect(await grade(trial, { noDuplicateCalls: true })).toMatchObject({
      verdict: "pass",
      reason: "noDuplicateCalls: all tool calls differ",
    });
  });

  it("without arguments are equal to those with none in them", async () => {
    const trial = new Played((trial) => {
      trial.get();
      trial.send("tools/call", { name: "get" });
      trial.send("tools/call", { name: "get", arguments: null });
    });
    expect((await grade(trial, { noDuplicateCalls: true })).verdict).toBe("fail");
  });
});

describe("sets that name their graders", () => {
  it("have a grade each, and those without a name one together", () => {
    const task = taskWith(
      { grader: "calm", maxToolCalls: 1 },
      { toolsUsed: [{ server: "k8s" }] },
      { grader: "uses get", toolsUsed: [{ server: "k8s", name: "get" }] },
      { minToolCalls: 1 },
      { grader: "empty", toolsUsed: [] },
    );
    const trajectory = new Played((trial) => trial.call("list", {}, textResult("ok"))).trajectory(task);
    const graders = gradersOf(task, undefined).slice(2);
    const grades = graders.map((grader) => grader.grade(trajectory, gradeContext()));
    expect(grades).toMatchObject([
      { grader: "calm", verdict: "pass", reason: "maxToolCalls: 1 tool call, at most 1 expected" },
      { grader: "assertions", verdict: "pass", reason: expect.stringMatching(/^set 1, .*; set 2, /) },
      { grader: "uses get", verdict: "fail" },
    ]);
    expect(graders.map(({ name }) => name)).toEqual(["calm", "assertions", "uses get"]);
  });
});

describe("assertion sets", () => {
  it("must all hold", async () => {
    const trial = new Played((trial) => trial.get());
    const used: AssertionSet = { toolsUsed: [{ server: "k8s", name: "get" }] };
    expect(await grade(trial, used, { maxToolCalls: 0 })).toMatchObject({
      verdict: "fail",
      score: 0.5,
      reason: "set 2, maxToolCalls: 1 tool call, at most 0 expected",
    });
    expect(await grade(trial, used, used)).toMatchObject({ verdict: "pass", score: 1 });
  });

  it("that say nothing are no evidence, and neither is a trial without an agent", async () => {
    expect(await grade(new Played(), { toolsUsed: [], noDuplicateCalls: false })).toMatchObject({
      verdict: "skip",
      score: null,
      reason: "nothing is asserted",
    });
    const alone = new TrialEvents().server("k8s");
    expect(await grade(alone, { toolsNotUsed: [{ server: "k8s" }] })).toMatchObject({
      verdict: "skip",
      reason: "no agent took part",
    });
  });

  it("that hold because nothing was called are no evidence where no step checks anything", async () => {
    const forbidden = { toolsNotUsed: [{ server: "k8s", name: "delete" }], maxToolCalls: 3 };
    const unverified = { ...taskWith(forbidden), verify: [] };
    const grading = async (trial: TrialEvents): Promise<string> =>
      (await assertionsGrader().grade(trial.trajectory(unverified), gradeContext())).verdict;
    expect(await grading(new Played())).toBe("skip");
    expect(await grading(new Played((trial) => trial.get()))).toBe("pass");
    expect((await grade(new Played(), forbidden)).verdict).toBe("pass");
  });

  it("that hold for calls which were made to fail are no evidence where no step checks anything", async () => {
    const used = { toolsUsed: [{ server: "k8s", name: "get" }], maxToolCalls: 3 };
    const unverified: Task = { ...taskWith(used), verify: [] };
    const spoil = (trial: Played, fault: "error" | "delay"): void => {
      const request = trial.request("get", {});
      const { id, server } = request;
      trial.emit({ type: "fault.injected", server, fault, method: "tools/call", tool: "get", id });
      if (fault === "delay") trial.answer(request, textResult("late"));
    };
    const grading = async (trial: TrialEvents, task = unverified): Promise<string> =>
      (await assertionsGrader().grade(trial.trajectory(task), gradeContext())).verdict;
    const faulted = new Played((trial) => spoil(trial, "error"));
    expect(await grading(faulted)).toBe("skip");
    expect(await grading(faulted, taskWith(used))).toBe("pass");
    expect(await grading(faulted, { ...taskWith({ maxToolCalls: 0 }), verify: [] })).toBe("fail");
    expect(await grading(new Played((trial) => spoil(trial, "delay")))).toBe("pass");
    const mixed = new Played((trial) => {
      spoil(trial, "error");
      trial.get();
    });
    expect(await grading(mixed)).toBe("pass");
  });

  it("are broken, and never kept, by calls that ask for no answer", async () => {
    const trial = new Played((trial) => {
      for (const id of [undefined, null, true]) {
        const params = { name: "delete", arguments: {} };
        const message = { jsonrpc: "2.0", method: "tools/call", params, ...(id === undefined ? {} : { id }) };
        trial.emit({ type: "mcp.message", server: "k8s", direction: "client-to-server", message });
      }
    });
    const deletes = { server: "k8s", name: "delete" };
    for (const broken of [{ toolsNotUsed: [deletes] }, { maxToolCalls: 2 }, { noDuplicateCalls: true }])
      expect(await grade(trial, broken)).toMatchObject({ verdict: "fail" });
    const order = [{ type: "tool" as const, ...deletes }];
    for (const kept of [{ toolsUsed: [deletes] }, { minToolCalls: 1 }, { callOrder: order }])
      expect(await grade(trial, kept)).toMatchObject({ verdict: "fail" });
  });

  it("take methods for what they are, whatever their name", async () => {
    const unverified: Task = { ...taskWith({ maxToolCalls: 3 }), verify: [] };
    const trial = new Played((trial) => void trial.send("constructor", {}));
    const { verdict } = await assertionsGrader().grade(trial.trajectory(unverified), gradeContext());
    expect(verdict).toBe("skip");
  });

  it("that a tool was not called says nothing when its name is a slip", async () => {
    const finding = await grade(new Played((trial) => trial.get()), {
      toolsNotUsed: [{ server: "k8s", name: "delte" }],
    });
    expect(finding).toMatchObject({
      verdict: "fail",
      reason:
        'toolsNotUsed: k8s offers no tool delte, so that it was not called says nothing; did you mean "delete"?',
    });
  });

  it("bring the grader with them", () => {
    const names = (task: Task) => gradersOf(task, undefined).map((grader) => grader.name);
    expect(names(taskWith({ maxToolCalls: 0 }))).toContain("assertions");
    expect(names(taskWith({ toolsUsed: [] }))).not.toContain("assertions");
    expect(names(taskWith())).not.toContain("assertions");
  });
});

describe("a pattern without a server", () => {
  /** An agent that calls a tool of a server, and uses one of its own. */
  function played(): { readonly trial: Played; readonly got: number; readonly ran: number } {
    let got = 0;
    let ran = 0;
    const trial = new Played((trial) => {
      got = trial.get();
      const use = { turn: 0, callId: "c1", name: "bash", source: "builtin" };
      ran = trial.emit({ type: "agent.tool", ...use, status: "started" });
      trial.emit({ type: "agent.tool", ...use, status: "completed" });
      // What the agent tells of a server's tool is on record already.
      trial.emit({
        type: "agent.tool",
        turn: 0,
        callId: "c2",
        name: "list",
        source: "mcp:k8s",
        status: "started",
      });
    });
    return { trial, got, ran };
  }

  it("fits the tools of every server, and those of the agent itself", async () => {
    const { trial, got, ran } = played();
    expect(await grade(trial, { toolsUsed: [{ name: "get" }, { name: "bash" }] })).toEqual({
      grader: "assertions",
      verdict: "pass",
      score: 1,
      reason: "toolsUsed: get, bash",
      evidence: [got, ran],
    });
    expect(await grade(trial, { toolsNotUsed: [{ pattern: "^ba" }, { name: "delete" }] })).toMatchObject({
      verdict: "fail",
      reason: "toolsNotUsed: builtin.bash was called",
      evidence: [ran],
    });
    expect(await grade(trial, { toolsUsed: [{ name: "list" }, { name: "gett" }, {}] })).toMatchObject({
      verdict: "fail",
      reason: 'toolsUsed: no call of list, gett (did you mean "get"?); called: k8s.get',
    });
  });

  it("does not fit what the agent only tells of a tool that a server offers, unless that is forbidden", async () => {
    const trial = new Played((trial) => {
      const use = { turn: 0, callId: "c1", name: "delete", source: "builtin" } as const;
      trial.emit({ type: "agent.tool", ...use, status: "completed" });
    });
    for (const told of [{ toolsUsed: [{ name: "delete" }] }, { requireAny: [{ pattern: "^del" }] }])
      expect(await grade(trial, told)).toMatchObject({ verdict: "fail", score: 0 });
    expect(await grade(trial, { toolsNotUsed: [{ name: "delete" }] })).toMatchObject({
      verdict: "fail",
      reason: "toolsNotUsed: builtin.delete was called",
    });
  });

  it("does not fit an agent's own tools when it names a server, and they are not counted", async () => {
    const { trial } = played();
    expect(await grade(trial, { toolsNotUsed: [{ server: "builtin" }], maxToolCalls: 1 })).toMatchObject({
      verdict: "pass",
      reason: "toolsNotUsed: no call of anything of builtin; maxToolCalls: 1 tool call, at most 1 expected",
    });
  });

  it("fits tools of the agent itself alone, of the kind that it names", async () => {
    const own = new Played((trial) => {
      const tell = (callId: string, name: string, source: string): void =>
        void trial.emit({ type: "agent.tool", turn: 0, callId, name, source, status: "completed" });
      tell("c1", "get", "builtin");
      tell("c2", "Skill", "skill");
      tell("c3", "odd", "unknown");
    });
    const holds: readonly AssertionSet[] = [
      { toolsUsed: [{ source: "builtin", name: "get" }, { source: "skill" }] },
      { toolsNotUsed: [{ source: "skill", name: "get" }] },
    ];
    for (const set of holds) expect(await grade(own, set)).toMatchObject({ verdict: "pass" });
    // Of a tool of which nobody knows whose it is, nobody knows that it is not of that kind either.
    const broken: readonly AssertionSet[] = [
      { toolsUsed: [{ source: "builtin", name: "Skill" }] },
      { toolsUsed: [{ source: "builtin", name: "odd" }] },
      { toolsNotUsed: [{ source: "builtin", name: "odd" }] },
      { toolsNotUsed: [{ source: "skill" }] },
    ];
    for (const set of broken) expect(await grade(own, set)).toMatchObject({ verdict: "fail" });
    const { trial } = played();
    expect(await grade(trial, { toolsUsed: [{ source: "builtin", name: "get" }] })).toMatchObject({
      verdict: "fail",
      reason: "toolsUsed: no call of builtin.get; called: k8s.get",
    });
  });

  it("says nothing when it is a slip for a tool that is offered", async () => {
    const { trial } = played();
    expect(await grade(trial, { toolsNotUsed: [{ name: "delet" }] })).toMatchObject({
      verdict: "fail",
      reason:
        'toolsNotUsed: no server offers a tool delet, so that it was not called says nothing; did you mean "delete"?',
    });
  });
});

function events(...bodies: readonly EventBody[]): readonly TraceEvent[] {
  return bodies.map((body, index) => ({ trial: "t", seq: index + 1, at: 0, ...body }));
}

const copied: EventBody = {
  type: "skills.copied",
  folder: ".claude/skills",
  skills: ["farewell", "greeting"],
  tool: "Skill",
};

function use(name: string, args: object, status: "completed" | "failed" = "completed"): EventBody {
  const callId = JSON.stringify([name, args]);
  return { type: "agent.tool", turn: 0, callId, name, source: "builtin", status, args: { ...args } };
}

const greeted = events(copied, use("Skill", { command: "greeting" }), use("Read", { file: "farewell" }));

it.each([
  [[{ skill: "greeting" }], true, "greeting", [2]],
  [[{ pattern: "^.*greet" }], true, "/^.*greet/", [2]],
  [[{}], true, "any skill", [2]],
  [
    [{ skill: "greeting" }, { skill: "farewell" }],
    false,
    "the agent did not load farewell; it was given farewell, greeting",
    [],
  ],
  [[{ skill: "greet" }], false, "the agent did not load greet; it was given farewell, greeting", []],
])("skillsLoaded %j", (wanted, holds, reason, seqs) => {
  expect(skillsLoaded(wanted, greeted)).toEqual({ holds, reason, seqs });
});

it.each([
  [[{ skill: "farewell" }], true, "the agent did not load farewell", []],
  [[{ skill: "farewell" }, { pattern: "ting" }], false, "the agent loaded farewell, /ting/", [2]],
])("skillsNotLoaded %j", (unwanted, holds, reason, seqs) => {
  expect(skillsNotLoaded(unwanted, greeted)).toEqual({ holds, reason, seqs });
});

it("a load that failed is none, and not nothing either", () => {
  const failed = events(copied, use("Skill", { command: "greeting" }, "failed"));
  expect(skillsLoaded([{ skill: "greeting" }], failed).holds).toBe(false);
  expect(skillsNotLoaded([{ skill: "greeting" }], failed).holds).toBe(false);
});

it("neither holds for an agent that was given no skills", () => {
  for (const judge of [skillsLoaded, skillsNotLoaded]) {
    expect(judge([{ skill: "a" }], events())).toMatchObject({
      holds: false,
      reason: "the agent was given no skills",
    });
  }
});

it("an agent without a tool for it loads a skill by using its files", () => {
  const read = use("shell", { command: ["cat", "/tmp/w/.agents/skills/greeting/SKILL.md"] });
  const told = events({ type: "skills.copied", folder: ".agents/skills", skills: ["greeting", "x"] }, read);
  expect(skillsLoaded([{ skill: "greeting" }], told)).toEqual({ holds: true, reason: "greeting", seqs: [2] });
  expect(skillsNotLoaded([{ skill: "x" }], told).holds).toBe(true);
});
