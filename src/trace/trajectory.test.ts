import { describe, expect, it } from "vitest";
import {
  check,
  errorResult,
  structuredResult,
  textResult,
  toolTestTask,
  TrialEvents,
  workflowTask,
} from "../../test/support/trial-events.ts";
import type { Json } from "../base/json.ts";
import type { TraceEvent, TurnEnd } from "../model/event.ts";
import { callHistory } from "./agent-acts.ts";
import { addUsage, type CallError, readTrace } from "./trajectory.ts";
import type { Usage } from "../model/grade.ts";

const task = workflowTask();
const neither = "the response has neither a result object nor an error";
const unanswered = { kind: "no-response", message: "never answered" };

/** A trial with functions for messages that a client sends and gets. */
function trialWithMessages(server = "s") {
  const trial = new TrialEvents();
  const add = (direction: "client-to-server" | "server-to-client") => (message: object) =>
    trial.emit({ type: "mcp.message", server, direction, message: { jsonrpc: "2.0", ...message } as Json });
  return { trial, send: add("client-to-server"), receive: add("server-to-client") };
}

/** What became of the calls: tool, result or error. */
function outcomes(trial: TrialEvents): unknown[] {
  return trial.trajectory(task).calls.map(({ tool, result, error }) => [tool, result ?? error]);
}

describe("a trajectory", () => {
  it("is a view of a whole trial", () => {
    const tools = [{ name: "add", outputSchema: { type: "object" } }, { name: "echo" }];
    const trial = new TrialEvents().begin("workflow", "agent").server("calc", tools);
    let call = { request: 0, response: 0 };
    trial.turn("Add 2 and 3.", () => {
      trial.say("Let me see.");
      call = trial.call("add", { a: 2, b: 3 }, structuredResult({ sum: 5 }));
      trial.say("5.");
    });
    trial.turn("Again.", undefined, "max-steps");
    const step = trial.events[trial.step("call", { checks: [check("result", true)] }) - 1];
    trial.end();
    const declared = tools.map((tool, index) => ({
      server: "calc",
      name: tool.name,
      definition: { inputSchema: { type: "object" }, ...tool },
      seq: 7,
      index,
    }));
    const add = {
      server: "calc",
      tool: "add",
      args: { a: 2, b: 3 },
      declared: declared.slice(0, 1),
      turn: 0,
      superseded: false,
      seq: call.request,
      at: trial.events[call.request - 1]?.at,
      responseSeq: call.response,
      latencyMs: 1,
      result: structuredResult({ sum: 5 }),
    };
    const messages = [{ text: "Let me see." }, { text: "5." }];
    const trajectory = trial.trajectory(task);
    expect(trajectory).toMatchObject({
      trial: { id: "t1", task: "workflow", agent: "agent", attempt: 1 },
      turns: [
        { turn: 0, user: "Add 2 and 3.", messages, calls: [add], end: { reason: "done" } },
        { turn: 1, user: "Again.", messages: [], calls: [], end: { reason: "max-steps" } },
      ],
      messages,
      steps: [{ step: "call", phase: "verify", attempts: [{ finished: step }], last: { finished: step } }],
      tools: declared,
      unasked: [],
    });
    expect(trajectory.calls).toEqual([add]);
  });

  it("assigns a message to the turn that it names", () => {
    const trial = new TrialEvents();
    trial.emit({ type: "turn.started", turn: 0, user: "One." });
    trial.emit({ type: "turn.started", turn: 1, user: "Two." });
    const message = trial.emit({ type: "agent.message", turn: 0, text: "late" });
    trial.emit({ type: "agent.message", turn: 7, text: "of no turn" });
    trial.emit({ type: "turn.finished", turn: 0, reason: "done" });
    trial.emit({ type: "turn.finished", turn: 7, reason: "done" });
    const { turns } = trial.trajectory(task);
    expect(turns).toMatchObject([
      { turn: 0, user: "One.", messages: [trial.events[message - 1]], calls: [], end: { reason: "done" } },
      { turn: 1, user: "Two.", messages: [], calls: [] },
    ]);
    expect(turns[1]).not.toHaveProperty("end");
  });

  it("has the tools of all pages of all servers, as declared", () => {
    const trial = new TrialEvents().server("a", [{ name: "add" }]).server("b", [{ name: "add" }]);
    trial.list([{ name: "more", outputSchema: false }], { server: "b" });
    expect(trial.trajectory(task).tools).toEqual([
      {
        server: "a",
        name: "add",
        definition: { name: "add", inputSchema: { type: "object" } },
        seq: 6,
        index: 0,
      },
      {
        server: "b",
        name: "add",
        definition: { name: "add", inputSchema: { type: "object" } },
        seq: 13,
        index: 0,
      },
      {
        server: "b",
        name: "more",
        seq: 16,
        index: 0,
        definition: { name: "more", inputSchema: { type: "object" }, outputSchema: false },
      },
    ]);
  });

  it.each<Json>([null, "tools", {}, { tools: {} }, { tools: [null, 1, []] }])(
    "has no tools of %j",
    (result) => {
      const trial = new TrialEvents();
      trial.answer(trial.send("tools/list", {}), result);
      expect(trial.trajectory(task).tools).toEqual([]);
    },
  );

  it("finds tools that one list has twice, on one page or on two, but not in two lists", () => {
    const repeated = (...pages: (readonly [cursor: boolean, names: readonly string[]])[]) => {
      const trial = new TrialEvents();
      for (const [cursor, names] of pages) {
        const request = trial.send("tools/list", cursor ? { cursor: "2" } : {});
        trial.answer(request, { tools: names.map((name) => ({ name })) });
      }
      return trial.trajectory(task).repeatedTools.map(({ name }) => name);
    };
    expect(repeated([false, ["a", "b", "a"]])).toEqual(["a"]);
    expect(repeated([false, ["a"]], [true, ["b", "a"]])).toEqual(["a"]);
    expect(repeated([false, ["a"]], [false, ["a"]])).toEqual([]);
  });
});

describe("calls", () => {
  it("are joined with their answers by server and id, in whatever order these come", () => {
    const trial = new TrialEvents();
    const slow = trial.request("slow", {});
    const fast = trial.request("fast", {});
    const other = { ...trial.request("other", {}, { server: "b" }), id: slow.id };
    trial.answer(fast, textResult("fast"));
    trial.answer(other, textResult("of another server"));
    trial.answer(slow, textResult("slow"));
    expect(outcomes(trial)).toEqual([
      ["slow", textResult("slow")],
      ["fast", textResult("fast")],
      ["other", unanswered],
    ]);
  });

  it('with the ids 1 and "1" are two', () => {
    const { trial, send, receive } = trialWithMessages();
    for (const id of [1, "1"]) send({ id, method: "tools/call", params: { name: typeof id } });
    receive({ id: "1", result: textResult("text id") });
    expect(outcomes(trial)).toEqual([
      ["number", unanswered],
      ["string", textResult("text id")],
    ]);
  });

  it("keep their first answer, and an id may be used again, also for another kind of request", () => {
    const { trial, send, receive } = trialWithMessages();
    for (const name of ["add", "again", "hang"]) {
      send({ id: 1, method: "tools/call", params: { name } });
      if (name === "hang") send({ id: 1, method: "resources/read", params: { uri: "a:b" } });
      receive({ id: 1, result: textResult(name) });
      receive({ id: 1, result: textResult("second") });
    }
    expect(outcomes(trial)).toEqual([
      ["add", textResult("add")],
      ["again", textResult("again")],
      ["hang", unanswered],
    ]);
  });

  it("that were cancelled have no answer, even if one comes later", () => {
    const { trial, send, receive } = trialWithMessages();
    const cancel = { method: "notifications/cancelled", params: { requestId: 1, reason: "timeout" } };
    send({ id: 1, method: "tools/call", params: { name: "add" } });
    trial.wait(18);
    send(cancel);
    receive({ id: 1, result: textResult("too late") });
    send({ id: 1, method: "tools/call", params: { name: "answered" } });
    receive({ id: 1, result: textResult("in time") });
    send(cancel);
    expect(outcomes(trial)).toEqual([
      ["add", { kind: "no-response", message: "not answered within 19 ms", cancelled: "timeout" }],
      ["answered", textResult("in time")],
    ]);
  });

  it("that were held back until they were cancelled never got to the server", () => {
    const { trial, send } = trialWithMessages();
    send({ id: 1, method: "tools/call", params: { name: "add" } });
    trial.wait(18);
    trial.emit({ type: "request.held", server: "s", id: 1, heldMs: 20 });
    send({ method: "notifications/cancelled", params: { requestId: 1, reason: "timeout" } });
    expect(outcomes(trial)).toEqual([
      ["add", expect.objectContaining({ message: expect.stringContaining("held back by mcpvals") })],
    ]);
  });

  it.each<[Json, CallError]>([
    [
      { error: { code: -32602, message: "Unknown tool" } },
      { kind: "protocol", message: "Unknown tool (code -32602)", code: -32602 },
    ],
    [{ error: { message: "no code" } }, { kind: "protocol", message: "no code" }],
    [{ error: { code: 1 } }, { kind: "protocol", message: '{"code":1} (code 1)', code: 1 }],
    [{ error: "words" }, { kind: "no-response", message: neither }],
    [{ result: "words" }, { kind: "no-response", message: neither }],
    [{ result: [1] }, { kind: "no-response", message: neither }],
    [{}, { kind: "no-response", message: neither }],
  ])("that get %j have an error", (rest, error) => {
    const { trial, send, receive } = trialWithMessages();
    send({ id: 1, method: "tools/call", params: { name: "add" } });
    receive({ id: 1, ...(rest as object) });
    expect(outcomes(trial)).toEqual([["add", error]]);
  });

  it("are only what a client sends: requests of the server and its answers to other things are none", () => {
    const { trial, send, receive } = trialWithMessages();
    trial.answer(trial.send("resources/list", {}), { resources: [] });
    receive({ id: 7, method: "tools/call", params: { name: "not-a-call" } });
    trial.emit({ type: "mcp.message", server: "s", direction: "client-to-server", message: ["batch"] });
    send({ method: "tools/call" });
    expect(trial.trajectory(task).calls).toEqual([]);
    send({ id: 8, method: "tools/call" });
    expect(trial.trajectory(task).calls).toMatchObject([{ tool: "", args: {} }]);
  });

  it("that no server can take have none", () => {
    const trial = new TrialEvents();
    trial.turn("Do.", () => trial.reject("ad", "no server offers it", { a: 1 }));
    const error = { kind: "rejected", message: "no server offers it" };
    const at = trial.events[1]?.at;
    const call = { server: null, tool: "ad", args: { a: 1 }, turn: 0, seq: 2, at, superseded: false, error };
    expect(trial.trajectory(task).calls).toEqual([call]);
  });

  it("have the HTTP status of their request, the last one, before or after the answer", () => {
    const trial = new TrialEvents();
    trial.status(trial.request("add", {}), 500);
    const granted = trial.request("add", {});
    trial.status(granted, 401);
    trial.status(granted, 200);
    trial.answer(granted, textResult("5"));
    const late = trial.request("add", {});
    trial.answer(late, textResult("5"));
    trial.status(late, 200);
    expect(trial.trajectory(task).calls.map(({ httpStatus, error }) => [httpStatus, error?.kind])).toEqual([
      [500, "no-response"],
      [200, undefined],
      [200, undefined],
    ]);
  });

  it.each([
    [["delay"], "delay"],
    [["error", "delay"], "error"],
    [["delay", "drop"], "drop"],
  ] as const)("have of the faults %j the one that takes the answer away", (faults, fault) => {
    const trial = new TrialEvents();
    const { server, id } = trial.request("add", {});
    for (const each of faults)
      trial.emit({ type: "fault.injected", server, fault: each, method: "tools/call", tool: "add", id });
    expect(trial.trajectory(task).calls).toMatchObject([{ fault }]);
  });

  it("belong to their turn or step, or to none", () => {
    const trial = new TrialEvents();
    trial.call("outside", {}, textResult(""));
    trial.turn("One.", () => trial.call("one", {}, textResult("")));
    trial.turn("Two.", () => trial.call("two", {}, textResult("")));
    trial.call("after", {}, textResult(""));
    trial.step("verify", {}, () => trial.call("checked", {}, textResult("")));
    const { calls, turns } = trial.trajectory(task);
    expect(calls.map(({ tool, turn, step }) => [tool, turn, step])).toEqual([
      ["outside", undefined, undefined],
      ["one", 0, undefined],
      ["two", 1, undefined],
      ["after", undefined, undefined],
      ["checked", undefined, "verify"],
    ]);
    expect(turns.map((turn) => turn.calls.map((call) => call.tool))).toEqual([["one"], ["two"]]);
  });

  it("of a step's attempts that were tried again are superseded, and kept", () => {
    const trial = new TrialEvents();
    const attempt = (attempt: number, passed: boolean) =>
      trial.step("call", { attempt, checks: [check("result", passed)] }, () =>
        trial.call("add", {}, passed ? textResult("5") : errorResult("busy")),
      );
    const seqs = [attempt(1, false), attempt(2, true)];
    trial.step("next", {}, () => trial.call("add", {}, textResult("6")));
    const { calls, steps } = trial.trajectory(toolTestTask());
    expect(calls.map(({ step, superseded }) => [step, superseded])).toEqual([
      ["call", true],
      ["call", false],
      ["next", false],
    ]);
    expect(steps[0]?.attempts.map(({ finished }) => finished?.seq)).toEqual(seqs);
    expect(steps[0]?.last.finished?.seq).toBe(seqs[1]);
  });
});

describe("usage", () => {
  const usage: Usage = { inputTokens: 10, outputTokens: 2, requests: 1 };
  const twice = { inputTokens: 20, outputTokens: 4, requests: 2 };

  it("is that of the agent's model, not of the judge's", () => {
    const trial = new TrialEvents();
    const called = { type: "model.called", model: "m", durationMs: 1, finishReason: "stop", usage } as const;
    for (const purpose of ["agent", "agent", "judge"] as const) trial.emit({ ...called, purpose });
    expect(trial.trajectory(task).usage).toEqual(twice);
  });

  it("adds cache counts where either side has them", () => {
    expect(addUsage(undefined, usage)).toBe(usage);
    expect(addUsage(usage, { ...usage, cacheReadTokens: 3 })).toEqual({ ...twice, cacheReadTokens: 3 });
    const sum = addUsage({ ...usage, cacheWriteTokens: 1 }, { ...usage, cacheWriteTokens: 2 });
    expect(sum).toEqual({ ...twice, cacheWriteTokens: 3 });
    const { requests: _, ...unknown } = usage;
    expect(addUsage(unknown, usage).requests).toBeUndefined();
  });
});

describe("the call history", () => {
  /** What the agent asked for in its phase; steps call before and after it. */
  function historyOf(play: (events: TrialEvents) => void): ReturnType<typeof callHistory> {
    const events = new TrialEvents().server("calc", [{ name: "add" }]);
    events.call("reset", {}, textResult("done"));
    events.emit({ type: "phase.started", phase: "agent" });
    play(events);
    events.emit({ type: "phase.finished", phase: "agent", durationMs: 1 });
    events.call("look", {}, textResult("fine"));
    return callHistory(events.events);
  }

  it("has everything that the agent asked of servers, with its answer and time, and nothing of steps", () => {
    let at = 0;
    const history = historyOf((agent) => {
      agent.server("files");
      const add = agent.request("add", { a: 2 });
      at = agent.events.at(-1)?.at ?? 0;
      agent.wait(5000).answer(add, textResult("5"));
      agent.answer(agent.send("resources/read", { uri: "file:///a" }, { server: "files" }), { contents: [] });
      agent.answer(agent.send("prompts/get", { name: "ask", arguments: { of: "x" } }), { messages: [] });
      agent.answer(agent.send("prompts/get", { name: "plain" }), { messages: [] });
    });
    const timestamp = expect.stringMatching(/^2026-11-18T/) as unknown;
    const prompt = { serverName: "calc", result: { messages: [] }, timestamp };
    const add = { serverName: "calc", toolName: "add", arguments: { a: 2 }, result: textResult("5") };
    expect(history).toEqual({
      toolCalls: [{ ...add, timestamp: new Date(at).toISOString() }],
      resourceReads: [{ serverName: "files", uri: "file:///a", result: { contents: [] }, timestamp }],
      promptGets: [
        { ...prompt, promptName: "ask", arguments: { of: "x" } },
        { ...prompt, promptName: "plain", arguments: {} },
      ],
    });
  });

  it("keeps the order of the requests, and has an error where there was no result", () => {
    const { toolCalls } = historyOf((agent) => {
      const [first, second] = [agent.request("add", { a: 1 }), agent.request("add", { a: 2 })];
      agent.answer(second, textResult("2"));
      agent.answer(first, textResult("1"));
      agent.refuse(agent.request("add", {}), -32602, "no such tool");
      agent.request("add", {});
      agent.call("add", {}, "text");
      agent.call("add", {}, errorResult("no"));
      const late = agent.request("add", { a: 1 });
      const message = { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: late.id } };
      agent.emit({ type: "mcp.message", server: "calc", direction: "client-to-server", message });
      agent.answer(late, textResult("late"));
    });
    expect(toolCalls.map(({ result }) => result)).toEqual([
      textResult("1"),
      textResult("2"),
      { error: "no such tool (code -32602)" },
      { error: "never answered" },
      { error: neither },
      errorResult("no"),
      { error: "not answered within 1 ms" },
    ]);
  });
});

/** Events by their names: a turn `begins` and `ends REASON`; what the agent `says`; calls of models with how they finished. */
function turnEvents(names: string): TraceEvent[] {
  let turn = -1;
  return names.split(", ").map((name, index): TraceEvent => {
    const [what, word = ""] = name.split(" ");
    const stamp = { seq: index + 1, at: 0, trial: "t1" };
    if (what === "begins") return { ...stamp, type: "turn.started", turn: (turn += 1), user: "Do it." };
    if (what === "ends") return { ...stamp, type: "turn.finished", turn, reason: word as TurnEnd };
    if (what === "says") return { ...stamp, type: "agent.message", turn, text: "Done." };
    const purpose = what === "judge" ? "judge" : "agent";
    const usage = { inputTokens: 1, outputTokens: 1, requests: 1 };
    const called = { type: "model.called", model: "m", durationMs: 1, finishReason: word, usage } as const;
    return { ...stamp, ...called, purpose };
  });
}

describe("the end of a turn", () => {
  const wanted = "the model still wanted to call tools after 2 model calls, the most that maxSteps allows";
  it.each<[string, string?]>([
    ["begins, agent tool-calls, agent stop, says, ends done"],
    ["begins, ends done"],
    ["begins, agent stop, says, ends done, judge length"],
    [
      "begins, agent other, says, ends done",
      'turn 1: the model\'s last answer ended for an unknown reason: "other"',
    ],
    ["begins, agent tool-calls, says, agent stop, ends done", "turn 1: the model's last answer was empty"],
    [
      "begins, agent stop, says, ends done, begins, agent stop, ends done",
      "turn 2: the model's last answer was empty",
    ],
    ["begins, agent tool-calls, agent tool-calls, ends max-steps", `turn 1: ${wanted}`],
    [
      "begins, agent length, says, ends max-tokens",
      "turn 1: the model's last answer was cut off at its output limit",
    ],
    ["begins, ends max-steps", "turn 1: the agent had no model calls left"],
    ["begins, ends max-tokens", "turn 1: the agent's model reached its output limit"],
    ["begins, ends refused", "turn 1: the agent refused to go on"],
    ["begins, agent stop, ends cancelled", "turn 1: the turn was cancelled"],
  ])("%s", (names, oddity) => {
    expect(readTrace(turnEvents(names)).turns.at(-1)?.end?.oddity).toBe(oddity);
  });
});
