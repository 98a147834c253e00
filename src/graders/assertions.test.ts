import { describe, expect, it } from "vitest";
import { AgentTrial, gradeBy, settingIssues } from "../../test/support/grading.ts";
import { portableTask } from "../../test/support/portable.ts";
import {
  check,
  errorResult,
  gradeContext,
  mcpStep,
  textResult,
  TrialEvents,
} from "../../test/support/trial-events.ts";
import type { JsonObject } from "../base/json.ts";
import type { Task } from "../model/task.ts";
import type { EventBody, EventOf } from "../model/event.ts";
import type { GraderResult } from "./grader.ts";
import { type Assertions, assertions } from "./assertions.ts";
import { gradersOf } from "./kinds.ts";
import type { Grade } from "../model/grade.ts";

/** A task with servers and, unless they are left out, steps that check something. */
function taskWith(sets: readonly Assertions[], verify: Task["verify"] = [mcpStep()]): Task {
  return {
    ...portableTask({ assertions: sets as readonly JsonObject[] }),
    turns: [{ user: "Do it." }],
    verify,
  };
}

/** A trial whose agent phase is what `play` adds, between calls of steps. */
class Played extends TrialEvents {
  readonly started: number;

  constructor(play: (trial: Played) => void = () => undefined) {
    super();
    this.server("k8s", [{ name: "list" }, { name: "get" }, { name: "delete" }]).server("docs");
    this.emit({ type: "phase.started", phase: "setup" });
    this.call("delete", {}, textResult("ok"));
    this.emit({ type: "phase.finished", phase: "setup", durationMs: 1 });
    this.started = this.emit({ type: "phase.started", phase: "agent" });
    this.turn("Do it.", () => play(this));
    this.emit({ type: "phase.finished", phase: "agent", durationMs: 1 });
    const checks = [check("call", true)];
    this.step("verify[0]", { checks }, () => this.call("delete", {}, textResult("ok")));
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

  /** The agent reports a use of a tool. */
  report(name: string, source = "builtin", rest: Partial<EventOf<"agent.tool">> = {}): number {
    return this.emit({
      type: "agent.tool",
      turn: 0,
      callId: name,
      name,
      source,
      status: "completed",
      ...rest,
    });
  }
}

async function findingOf(
  trial: TrialEvents,
  sets: readonly Assertions[],
  verify?: Task["verify"],
): Promise<GraderResult> {
  return assertions.grade(sets, trial.trajectory(taskWith(sets, verify)), { ...gradeContext(), dir: "" });
}

async function grade(trial: TrialEvents, ...sets: readonly Assertions[]): Promise<Grade> {
  return { grader: "assertions", ...(await findingOf(trial, sets)) };
}

/** The verdict of a task whose steps check nothing. */
async function unverified(trial: TrialEvents, ...sets: readonly Assertions[]): Promise<string> {
  return (await findingOf(trial, sets, [])).verdict;
}

const get = { server: "k8s", tool: "get" };
const remove = { server: "k8s", tool: "delete" };
const review = { server: "docs", prompt: "review" };
const getCall = { type: "tool", server: "k8s", name: "get" } as const;

describe("tools, resources and prompts", () => {
  it.each([{ content: [{}] }, { content: [{ type: "text", text: "x" }], IsError: true }, { content: "x" }])(
    "are not used when the answer is unusable: %j",
    async (result) => {
      const trial = new Played((trial) => void trial.call("get", {}, result));
      const reason = expect.stringContaining("it failed: the answer is unusable: ") as string;
      expect(await grade(trial, { toolsUsed: [get] })).toMatchObject({ verdict: "fail", reason });
      expect((await grade(trial, { toolsNotUsed: [get] })).verdict).toBe("fail");
    },
  );

  it("are used when every entry fits a call of the agent", async () => {
    let evidence: number[] = [];
    const trial = new Played((trial) => {
      const list = trial.call("list", {}, textResult("ok"));
      evidence = [list.request, trial.get(), trial.read("file:///a.md"), trial.prompt("review")];
    });
    const set = {
      toolsUsed: [
        { server: "k8s", tool: "list" },
        { server: "k8s", toolPattern: "^g" },
        { server: "k8s", tool: "x", toolPattern: "is" },
        { server: "k8s" },
      ],
      requireAny: [{ server: "docs", tool: "get" }, get],
      resourcesRead: [{ server: "docs", uriPattern: "\\.md$" }],
      promptsUsed: [review],
    };
    const reason =
      "toolsUsed: k8s.list, k8s./^g/, k8s.x or /is/, anything of k8s; requireAny: k8s.get; " +
      "resourcesRead: docs./\\.md$/; promptsUsed: docs.review";
    expect(await grade(trial, set)).toEqual({
      grader: "assertions",
      verdict: "pass",
      score: 1,
      reason,
      evidence,
    });
  });

  const failing = new Played((trial) => {
    trial.call("get", {}, errorResult("no such pod"));
    trial.refuse(trial.request("get", {}), -32602, "no");
    trial.request("get", {});
    trial.refuse(trial.send("prompts/get", { name: "review" }, { server: "docs" }), -32602, "no");
  });
  const made = "called: k8s.get, docs.review";
  it.each<[Assertions, string]>([
    [{ toolsUsed: [get] }, `no successful call of k8s.get (it failed: no such pod); ${made}`],
    [{ promptsUsed: [review] }, `no successful use of docs.review (it failed: no (code -32602)); ${made}`],
    [{ minToolCalls: 1 }, "0 tool calls that succeeded and 3 that did not, at least 1 expected"],
    [{ callOrder: [getCall] }, `no successful call of k8s.get; ${made}`],
    [{ maxToolCalls: 2 }, "3 tool calls, at most 2 expected"],
    [{ noDuplicateCalls: true }, "called again with equal arguments: k8s.get"],
  ])("are neither used nor unused by calls that failed: %j", async (set, reason) => {
    const told = `${Object.keys(set).join("")}: ${reason}`;
    expect(await grade(failing, set)).toMatchObject({ verdict: "fail", reason: told });
  });

  it("that are missing are named with what was called instead", async () => {
    let last = 0;
    const trial = new Played((trial) => (last = trial.get()));
    const set = {
      toolsUsed: [get, { server: "k8s", tool: "lst" }],
      requireAny: [{ server: "docs" }],
      resourcesRead: [{ server: "docs", uri: "file:///a" }],
      promptsUsed: [{ server: "docs", promptPattern: "a" }],
      maxToolCalls: 1,
    };
    const reason =
      'toolsUsed: no call of k8s.lst (did you mean "list"?); called: k8s.get; ' +
      "requireAny: no call of anything of docs; called: k8s.get; " +
      "resourcesRead: no read of docs.file:///a; called: k8s.get; " +
      "promptsUsed: no use of docs./a/; called: k8s.get";
    expect(await grade(trial, set)).toMatchObject({ verdict: "fail", score: 0.2, reason, evidence: [last] });
  });

  it("that must not be used are evidence when they were, and the agent's start is when nothing was", async () => {
    const unwanted: Assertions = {
      toolsNotUsed: [remove],
      resourcesNotRead: [{ server: "docs" }],
      promptsNotUsed: [{ server: "docs", promptPattern: "^x" }],
    };
    const idle = new Played();
    const nothing =
      "toolsNotUsed: no call of k8s.delete; resourcesNotRead: no read of anything of docs; promptsNotUsed: no use of docs./^x/";
    expect(await grade(idle, unwanted)).toMatchObject({
      score: 1,
      reason: nothing,
      evidence: [idle.started],
    });
    const evidence: number[] = [];
    const trial = new Played((trial) => {
      evidence.push(trial.read("a"), trial.read("b"));
      trial.prompt("y");
    });
    const reason = "resourcesNotRead: docs.a, docs.b were read";
    expect(await grade(trial, unwanted)).toMatchObject({ verdict: "fail", score: 2 / 3, reason, evidence });
  });
});

describe("the order of calls", () => {
  const callOrder: NonNullable<Assertions["callOrder"]> = [
    getCall,
    { type: "resource", server: "docs", name: "a" },
    getCall,
  ];

  it("may have others in between", async () => {
    let evidence: number[] = [];
    const trial = new Played((trial) => {
      const first = trial.get();
      trial.prompt("p");
      const read = trial.read("a");
      trial.read("a");
      evidence = [first, read, trial.get()];
    });
    const reason = "callOrder: k8s.get, docs.a, k8s.get";
    expect(await grade(trial, { callOrder })).toMatchObject({ verdict: "pass", reason, evidence });
  });

  it("is not kept by one call that serves twice", async () => {
    const trial = new Played((trial) => {
      trial.get();
      trial.read("a");
    });
    const reason = "callOrder: no call of k8s.get after docs.a; called: k8s.get, docs.a";
    expect(await grade(trial, { callOrder })).toMatchObject({ verdict: "fail", reason });
    const twice = [getCall, getCall];
    expect(await grade(trial, { callOrder: twice })).toMatchObject({ verdict: "fail" });
    const otherType: Assertions = { callOrder: [{ ...getCall, type: "resource" }] };
    expect(await grade(trial, otherType)).toMatchObject({ verdict: "fail" });
  });
});

describe("duplicates", () => {
  it("are calls with arguments that are equal as JSON", async () => {
    let evidence: number[] = [];
    const trial = new Played((trial) => {
      trial.get({ a: 1 });
      evidence = [trial.get({ a: 1, b: "x" }), trial.get({ b: "x", a: 1 })];
    });
    const reason = "noDuplicateCalls: called again with equal arguments: k8s.get";
    expect(await grade(trial, { noDuplicateCalls: true })).toMatchObject({
      verdict: "fail",
      reason,
      evidence,
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
    const reason = "noDuplicateCalls: all tool calls differ";
    expect(await grade(trial, { noDuplicateCalls: true })).toMatchObject({ verdict: "pass", reason });
  });

  it("without arguments are equal to those with empty ones", async () => {
    const trial = new Played((trial) => {
      trial.send("tools/call", { name: "get" });
      trial.send("tools/call", { name: "get", arguments: null });
    });
    expect((await grade(trial, { noDuplicateCalls: true })).verdict).toBe("fail");
  });
});

it("the number of calls is that of all servers together, without reads", async () => {
  const trial = new Played((trial) => {
    trial.get();
    trial.call("get", {}, textResult("x"), { server: "docs" });
    trial.read("a");
    trial.prompt("review");
  });
  expect(await grade(trial, { minToolCalls: 2, maxToolCalls: 2 })).toMatchObject({ verdict: "pass" });
  expect(await grade(trial, { minToolCalls: 3 })).toMatchObject({ verdict: "fail" });
  expect(await grade(trial, { maxToolCalls: 1 })).toMatchObject({ verdict: "fail" });
  expect(await grade(trial, { maxToolCalls: 0 })).toMatchObject({ verdict: "fail" });
});

describe("assertion sets", () => {
  it("of a task have one grade together", async () => {
    const task = taskWith([{ toolsUsed: [{ server: "k8s" }] }, { minToolCalls: 1 }]);
    const trajectory = new Played((trial) => trial.call("list", {}, textResult("ok"))).trajectory(task);
    const [grader, ...more] = gradersOf(task).slice(3);
    expect([grader?.name, more]).toEqual(["assertions", []]);
    const reason = expect.stringMatching(/^set 1, .*; set 2, /) as string;
    expect(await grader?.grade(trajectory, gradeContext())).toMatchObject({ verdict: "pass", reason });
    expect(gradersOf(taskWith([])).length).toBe(3);
  });

  it("that say nothing are no evidence, nor is a trial without an agent", async () => {
    const nothing = { verdict: "skip", score: null, reason: "nothing is asserted" };
    expect(await grade(new Played(), { toolsUsed: [], noDuplicateCalls: false })).toMatchObject(nothing);
    const alone = new TrialEvents().server("k8s");
    const nobody = { verdict: "skip", reason: "no agent took part" };
    expect(await grade(alone, { toolsNotUsed: [{ server: "k8s" }] })).toMatchObject(nobody);
  });

  it("that hold because nothing was called are no evidence where no step checks anything", async () => {
    const forbidden = { toolsNotUsed: [remove], maxToolCalls: 3 };
    expect(await unverified(new Played(), forbidden)).toBe("skip");
    expect(await unverified(new Played((trial) => void trial.send("constructor", {})), forbidden)).toBe(
      "skip",
    );
    expect(await unverified(new Played((trial) => void trial.request("get", {})), forbidden)).toBe("skip");
    expect(await unverified(new Played((trial) => trial.get()), forbidden)).toBe("pass");
    expect((await grade(new Played(), forbidden)).verdict).toBe("pass");
  });

  it("that hold for calls which were made to fail are no evidence where no step checks anything", async () => {
    const used = { toolsUsed: [get], maxToolCalls: 3 };
    const withFault = (trial: Played, fault: "error" | "delay"): void => {
      const request = trial.request("get", {});
      const { id, server } = request;
      trial.emit({ type: "fault.injected", server, fault, method: "tools/call", tool: "get", id });
      if (fault === "delay") trial.answer(request, textResult("late"));
    };
    const faulted = new Played((trial) => withFault(trial, "error"));
    expect(await unverified(faulted, used)).toBe("skip");
    expect((await grade(faulted, used)).verdict).toBe("pass");
    expect(await unverified(faulted, { maxToolCalls: 0 })).toBe("fail");
    expect(await unverified(new Played((trial) => withFault(trial, "delay")), used)).toBe("pass");
    const mixed = new Played((trial) => {
      withFault(trial, "error");
      trial.get();
    });
    expect(await unverified(mixed, used)).toBe("pass");
  });

  it.each<Assertions>([
    { toolsNotUsed: [remove] },
    { maxToolCalls: 2 },
    { noDuplicateCalls: true },
    { toolsUsed: [remove] },
    { minToolCalls: 1 },
    { callOrder: [{ type: "tool", server: "k8s", name: "delete" }] },
  ])("are broken, and never kept, by calls that ask for no answer: %j", async (set) => {
    const trial = new Played((trial) => {
      for (const id of [undefined, null, true]) {
        const params = { name: "delete", arguments: {} };
        const message = { jsonrpc: "2.0", method: "tools/call", params, ...(id === undefined ? {} : { id }) };
        trial.emit({ type: "mcp.message", server: "k8s", direction: "client-to-server", message });
      }
    });
    expect(await grade(trial, set)).toMatchObject({ verdict: "fail" });
  });

  it("that a tool was not called says nothing when its name is a slip", async () => {
    const reason =
      'toolsNotUsed: k8s offers no tool delte, so this assertion cannot fail; did you mean "delete"?';
    const graded = await grade(new Played((trial) => trial.get()), {
      toolsNotUsed: [{ server: "k8s", tool: "delte" }],
    });
    expect(graded).toMatchObject({ verdict: "fail", reason });
  });
});

describe("skills", () => {
  const copied = {
    type: "skills.copied",
    folder: ".claude/skills",
    skills: ["farewell", "greeting"],
  } as const;
  const load =
    (status: "completed" | "failed" = "completed") =>
    (trial: Played): void => {
      trial.emit({ ...copied, tool: "Skill" } satisfies EventBody);
      trial.report("Skill", "builtin", { args: { command: "greeting" }, status });
      trial.report("Read", "builtin", { args: { file: "farewell" } });
    };
  const file = (trial: Played): void => {
    trial.emit({ ...copied, folder: ".agents/skills" });
    trial.report("shell", "builtin", {
      args: { command: ["cat", "/tmp/w/.agents/skills/greeting/SKILL.md"] },
    });
  };
  const given = "it was given farewell, greeting";
  const greeting = [{ skill: "greeting" }];
  const both = [...greeting, { skill: "farewell" }];

  it.each<[Assertions, (trial: Played) => void, boolean, string]>([
    [{ skillsLoaded: [{ skillPattern: "^.*greet" }] }, load(), true, "/^.*greet/"],
    [{ skillsLoaded: [{}] }, load(), true, "any skill"],
    [{ skillsLoaded: both }, load(), false, `the agent did not load farewell; ${given}`],
    [{ skillsNotLoaded: [{ skill: "farewell" }] }, load(), true, "the agent did not load farewell"],
    [{ skillsLoaded: greeting }, load("failed"), false, `the agent did not load greeting; ${given}`],
    [{ skillsNotLoaded: greeting }, load("failed"), false, "the agent loaded greeting"],
    [{ skillsLoaded: greeting }, () => undefined, false, "the agent was given no skills"],
    [{ skillsNotLoaded: greeting }, () => undefined, false, "the agent was given no skills"],
    [{ skillsLoaded: greeting }, file, true, "greeting"],
    [{ skillsNotLoaded: [{ skill: "farewell" }] }, file, true, "the agent did not load farewell"],
  ])("%j", async (set, play, holds, reason) => {
    const told = `${Object.keys(set).join("")}: ${reason}`;
    expect(await grade(new Played(play), set)).toMatchObject({
      verdict: holds ? "pass" : "fail",
      reason: told,
    });
  });
});

describe("the grader of type assertions", () => {
  const trial = new AgentTrial((agent) => {
    agent.use("list");
    agent.fail("get");
  });

  it.each<[JsonObject, string, number]>([
    [{ toolsUsed: [{ server: "k8s", toolPattern: "^li" }], maxToolCalls: 2 }, "pass", 1],
    [{ toolsUsed: [{ server: "k8s", tool: "get" }], maxToolCalls: 2 }, "fail", 1 / 2],
    [{ toolsNotUsed: [{ server: "k8s", tool: "get" }] }, "fail", 0],
  ])("with %j: %s", async (config, verdict, score) => {
    expect(await gradeBy("assertions", config, trial)).toMatchObject({ verdict, score });
  });

  it("is not evidence where the agent did nothing, and refuses settings that assert nothing", async () => {
    const config = { toolsNotUsed: [{ server: "k8s" }] };
    expect(await gradeBy("assertions", config, new AgentTrial())).toMatchObject({ verdict: "skip" });
    expect(settingIssues("assertions", { minToolCalls: 3, maxToolCalls: 1 })).toEqual([
      "has a maxToolCalls below minToolCalls",
    ]);
    expect(settingIssues("assertions", { toolsUsed: [], minToolCalls: 0 })).toEqual([
      "must have an assertion that says something",
    ]);
  });
});
