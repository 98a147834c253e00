import { describe, expect, it } from "vitest";
import {
  check,
  errorResult,
  structuredResult,
  textResult,
  toolTestTask,
  TrialEvents,
  workflowTask,
} from "../../../test/support/trial-events.ts";
import type { Json } from "../formats/model.ts";
import type { Usage } from "./events.ts";
import { addUsage } from "./build-trajectory.ts";
import { type CallError, type ToolCall } from "./trajectory.ts";

const task = workflowTask();

/** What became of the calls: tool, result or error. */
function fates(trial: TrialEvents): unknown[] {
  return trial.trajectory(task).calls.map(({ tool, result, error }) => [tool, result ?? error]);
}

describe("a trajectory", () => {
  it("is a view of a whole trial", () => {
    const trial = new TrialEvents()
      .begin("workflow", "agent")
      .server("calc", [{ name: "add", outputSchema: { type: "object" } }, { name: "echo" }]);
    const numbers: number[] = [];
    trial.turn("Add 2 and 3.", () => {
      numbers.push(trial.say("Let me see."));
      const { request, response } = trial.call("add", { a: 2, b: 3 }, structuredResult({ sum: 5 }));
      numbers.push(request, response, trial.say("5."));
    });
    trial.turn("Again.", undefined, "max-steps");
    const step = trial.step("call", { checks: [check("result", true)] });
    trial.end();

    const trajectory = trial.trajectory(task);
    const [first = 0, request = 0, response = 0, last = 0] = numbers;
    const add: ToolCall = {
      server: "calc",
      tool: "add",
      args: { a: 2, b: 3 },
      declared: [{ server: "calc", name: "add", outputSchema: { type: "object" } }],
      turn: 0,
      superseded: false,
      seq: request,
      responseSeq: response,
      latencyMs: 1,
      result: structuredResult({ sum: 5 }),
    };
    const event = (seq: number): unknown => trial.events[seq - 1];
    expect(trajectory).toEqual({
      trial: { id: "t1", task: "workflow", agent: "agent", attempt: 1 },
      task,
      events: trial.events,
      turns: [
        {
          turn: 0,
          user: "Add 2 and 3.",
          messages: [event(first), event(last)],
          calls: [add],
          reason: "done",
        },
        { turn: 1, user: "Again.", messages: [], calls: [], reason: "max-steps" },
      ],
      calls: [add],
      steps: [{ step: "call", phase: "verify", attempts: [event(step)], last: event(step) }],
      tools: [
        { server: "calc", name: "add", outputSchema: { type: "object" } },
        { server: "calc", name: "echo" },
      ],
      warnings: [],
    });
  });

  it("of nothing is empty", () => {
    expect(new TrialEvents().trajectory(task)).toMatchObject({
      turns: [],
      calls: [],
      steps: [],
      tools: [],
      warnings: [],
    });
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
    expect(fates(trial)).toEqual([
      ["slow", textResult("slow")],
      ["fast", textResult("fast")],
      ["other", { kind: "no-response", message: "never answered" }],
    ]);
  });

  it('with the ids 1 and "1" are two', () => {
    const trial = new TrialEvents();
    const message = (id: Json, rest: object) => ({ jsonrpc: "2.0", id, ...rest }) as Json;
    const call = { method: "tools/call", params: { name: "add", arguments: {} } };
    trial.emit({
      type: "mcp.message",
      server: "s",
      direction: "client-to-server",
      message: message(1, call),
    });
    trial.emit({
      type: "mcp.message",
      server: "s",
      direction: "client-to-server",
      message: message("1", call),
    });
    const answer = message("1", { result: textResult("text id") });
    trial.emit({ type: "mcp.message", server: "s", direction: "server-to-client", message: answer });
    expect(fates(trial)).toEqual([
      ["add", { kind: "no-response", message: "never answered" }],
      ["add", textResult("text id")],
    ]);
  });

  it("keep their first answer, and an id may be used again", () => {
    const trial = new TrialEvents();
    const call = trial.request("add", {});
    trial.answer(call, textResult("first"));
    trial.answer(call, textResult("second"));
    const params = { name: "again", arguments: {} };
    const message = { jsonrpc: "2.0", id: call.id, method: "tools/call", params };
    trial.emit({ type: "mcp.message", server: call.server, direction: "client-to-server", message });
    trial.answer(call, textResult("third"));
    expect(fates(trial)).toEqual([
      ["add", textResult("first")],
      ["again", textResult("third")],
    ]);
  });

  it("do not get the answer of a later request of another kind with their id", () => {
    const trial = new TrialEvents().server("calc");
    const call = trial.request("hang", {});
    const message = { jsonrpc: "2.0", id: call.id, method: "resources/read", params: { uri: "a:b" } };
    trial.emit({ type: "mcp.message", server: "calc", direction: "client-to-server", message });
    trial.answer(call, textResult("from elsewhere"));
    expect(fates(trial)).toEqual([["hang", { kind: "no-response", message: "never answered" }]]);
  });

  it("that were given up have no answer, even if one comes later", () => {
    const trial = new TrialEvents();
    const call = trial.request("add", {});
    const params = { requestId: call.id, reason: "timeout" };
    const message = { jsonrpc: "2.0", method: "notifications/cancelled", params };
    trial.emit({ type: "mcp.message", server: call.server, direction: "client-to-server", message });
    trial.answer(call, textResult("too late"));
    const words = expect.stringMatching(/^not answered within \d+ ms$/) as unknown;
    expect(fates(trial)).toEqual([["add", { kind: "no-response", message: words }]]);
  });

  const neither = "the response has neither a result object nor an error";

  it.each<[Json, CallError]>([
    [
      { error: { code: -32602, message: "Unknown tool" } },
      { kind: "protocol", message: "Unknown tool (code -32602)" },
    ],
    [{ error: { message: "no code" } }, { kind: "protocol", message: "no code" }],
    [{ error: { code: 1 } }, { kind: "protocol", message: '{"code":1} (code 1)' }],
    [{ error: "words" }, { kind: "no-response", message: neither }],
    [{ result: "words" }, { kind: "no-response", message: neither }],
    [{ result: [1] }, { kind: "no-response", message: neither }],
    [{}, { kind: "no-response", message: neither }],
  ])("that get %j have an error", (rest, error) => {
    const trial = new TrialEvents();
    const { id, server } = trial.request("add", {});
    const answer = { jsonrpc: "2.0", id, ...(rest as object) } as Json;
    trial.emit({ type: "mcp.message", server, direction: "server-to-client", message: answer });
    expect(fates(trial)).toEqual([["add", error]]);
  });

  it("are only what a client sends: requests of the server and its answers to other things are none", () => {
    const trial = new TrialEvents().server("calc", []);
    trial.answer(trial.send("resources/list", {}), { resources: [] });
    const sampling = { jsonrpc: "2.0", id: 7, method: "tools/call", params: { name: "not-a-call" } };
    trial.emit({ type: "mcp.message", server: "calc", direction: "server-to-client", message: sampling });
    trial.emit({ type: "mcp.message", server: "calc", direction: "client-to-server", message: ["batch"] });
    trial.emit({
      type: "mcp.message",
      server: "calc",
      direction: "client-to-server",
      message: { method: "tools/call" },
    });
    expect(trial.trajectory(task).calls).toEqual([]);
  });

  it("without name and arguments are calls too", () => {
    const trial = new TrialEvents();
    trial.answer(trial.send("tools/call", {}), textResult("?"));
    expect(trial.trajectory(task).calls).toMatchObject([{ tool: "", args: {} }]);
  });

  it("that no server can take have none", () => {
    const trial = new TrialEvents();
    trial.turn("Do.", () => trial.reject("ad", "no server offers it", { a: 1 }));
    expect(trial.trajectory(task).calls).toEqual([
      {
        server: null,
        tool: "ad",
        args: { a: 1 },
        turn: 0,
        seq: 2,
        superseded: false,
        error: { kind: "rejected", message: "no server offers it" },
      },
    ]);
  });

  it("have the HTTP status of their request, the last one, before or after the answer", () => {
    const trial = new TrialEvents();
    const refused = trial.request("add", {});
    trial.status(refused, 500);
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

  it("know how long they took", () => {
    const trial = new TrialEvents();
    const call = trial.request("add", {});
    trial.wait(99).answer(call, textResult("5"));
    expect(trial.trajectory(task).calls).toMatchObject([{ latencyMs: 100 }]);
  });

  it("belong to their turn or step, or to none", () => {
    const trial = new TrialEvents();
    trial.call("outside", {}, textResult(""));
    trial.turn("One.", () => trial.call("one", {}, textResult("")));
    trial.turn("Two.", () => trial.call("two", {}, textResult("")));
    trial.step("verify", {}, () => trial.call("checked", {}, textResult("")));
    const { calls, turns } = trial.trajectory(task);
    expect(calls.map(({ tool, turn, step }) => [tool, turn, step])).toEqual([
      ["outside", undefined, undefined],
      ["one", 0, undefined],
      ["two", 1, undefined],
      ["checked", undefined, "verify"],
    ]);
    expect(turns.map((turn) => turn.calls.map((call) => call.tool))).toEqual([["one"], ["two"]]);
  });

  it("of a step's attempts that were tried again are superseded, and kept", () => {
    const trial = new TrialEvents();
    const failed = trial.step("call", { attempt: 1, checks: [check("result", false)] }, () =>
      trial.call("add", {}, errorResult("busy")),
    );
    const passed = trial.step("call", { attempt: 2, checks: [check("result", true)] }, () =>
      trial.call("add", {}, textResult("5")),
    );
    trial.step("next", {}, () => trial.call("add", {}, textResult("6")));
    const { calls, steps } = trial.trajectory(toolTestTask());
    expect(calls.map(({ step, superseded }) => [step, superseded])).toEqual([
      ["call", true],
      ["call", false],
      ["next", false],
    ]);
    expect(steps[0]?.attempts.map((attempt) => attempt.seq)).toEqual([failed, passed]);
    expect(steps[0]?.last?.seq).toBe(passed);
  });
});

describe("messages", () => {
  it("belong to the turn that they name", () => {
    const trial = new TrialEvents();
    trial.emit({ type: "turn.started", turn: 0, user: "One." });
    trial.emit({ type: "turn.started", turn: 1, user: "Two." });
    const message = trial.emit({ type: "agent.message", turn: 0, text: "late" });
    trial.emit({ type: "agent.message", turn: 7, text: "of no turn" });
    trial.emit({ type: "turn.finished", turn: 0, reason: "done" });
    trial.emit({ type: "turn.finished", turn: 7, reason: "done" });
    expect(trial.trajectory(task).turns).toEqual([
      { turn: 0, user: "One.", messages: [trial.events[message - 1]], calls: [], reason: "done" },
      { turn: 1, user: "Two.", messages: [], calls: [] },
    ]);
  });
});

describe("tools", () => {
  it("are those of all pages of all servers, as declared", () => {
    const trial = new TrialEvents().server("a", [{ name: "add" }]).server("b", [{ name: "add" }]);
    trial.list([{ name: "more", outputSchema: false }], { server: "b" });
    expect(trial.trajectory(task).tools).toEqual([
      { server: "a", name: "add" },
      { server: "b", name: "add" },
      { server: "b", name: "more", outputSchema: false },
    ]);
  });

  it.each<[Json]>([[null], ["tools"], [{}], [{ tools: {} }], [{ tools: [null, 1, []] }]])(
    "are none in %j",
    (result) => {
      const trial = new TrialEvents();
      trial.answer(trial.send("tools/list", {}), result);
      expect(trial.trajectory(task).tools).toEqual([]);
    },
  );
});

describe("usage", () => {
  const usage: Usage = { inputTokens: 10, outputTokens: 2, requests: 1 };

  it("is that of the agent's model, not of the judge's", () => {
    const trial = new TrialEvents();
    const called = { type: "model.called", model: "m", durationMs: 1, finishReason: "stop", usage } as const;
    trial.emit({ ...called, purpose: "agent" });
    trial.emit({ ...called, purpose: "agent" });
    trial.emit({ ...called, purpose: "judge" });
    expect(trial.trajectory(task).usage).toEqual({ inputTokens: 20, outputTokens: 4, requests: 2 });
  });

  it("adds cache counts where either side has them", () => {
    expect(addUsage(undefined, usage)).toBe(usage);
    expect(addUsage(usage, { ...usage, cacheReadTokens: 3 })).toEqual({
      inputTokens: 20,
      outputTokens: 4,
      requests: 2,
      cacheReadTokens: 3,
    });
    expect(addUsage({ ...usage, cacheWriteTokens: 1 }, { ...usage, cacheWriteTokens: 2 })).toMatchObject({
      cacheWriteTokens: 3,
    });
  });
});
