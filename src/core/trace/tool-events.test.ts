import { describe, expect, it } from "vitest";
import { TrialEvents, workflowTask } from "../../../test/support/trial-events.ts";
import type { Json } from "../formats/model.ts";
import type { EventBody } from "./events.ts";
import { warningsOf } from "./warnings.ts";
import { matchAgentTools, toolDigest, type ToolEvent, toolEvents } from "./tool-events.ts";

const text = (value: string): Json => ({ content: [{ type: "text", text: value }] });

/** A trial of a program: each line of traffic is one event. */
class ProgramTrial {
  readonly trial = new TrialEvents();

  constructor() {
    this.trial.begin("workflow", "agent");
    this.trial.emit({ type: "phase.started", phase: "agent" });
    this.trial.emit({ type: "turn.started", turn: 0, user: "Do it." });
  }

  asks(client: string, id: number, tool: string, args: Json = {}): number {
    return this.#passes(client, "client-to-server", {
      id,
      method: "tools/call",
      params: { name: tool, arguments: args },
    });
  }

  gets(client: string, id: number, answer: { readonly result: Json } | { readonly error: Json }): number {
    return this.#passes(client, "server-to-client", { id, ...answer });
  }

  cancels(client: string, requestId: number, reason?: string): void {
    const params = { requestId, ...(reason === undefined ? {} : { reason }) };
    this.#passes(client, "client-to-server", { method: "notifications/cancelled", params });
  }

  tells(
    event: Partial<Extract<EventBody, { type: "agent.tool" }>> & {
      readonly callId: string;
      readonly name: string;
    },
  ): void {
    this.trial.emit({ type: "agent.tool", turn: 0, source: "builtin", status: "completed", ...event });
  }

  #passes(client: string, direction: "client-to-server" | "server-to-client", message: object): number {
    return this.trial.emit({
      type: "mcp.message",
      server: "calc",
      client,
      direction,
      message: { jsonrpc: "2.0", ...message } as Json,
    });
  }
}

describe("events of tools", () => {
  it("join the record of the gateway with what the agent tells", () => {
    const run = new ProgramTrial();
    run.trial.list([{ name: "add" }], { server: "calc" });
    run.tells({ callId: "b1", name: "bash", status: "started", args: { command: "ls" } });
    run.tells({ callId: "b1", name: "bash", status: "failed", args: {}, result: "no" });
    run.tells({
      callId: "m1",
      name: "calc-add",
      source: "mcp:calc",
      tool: "add",
      status: "started",
      args: { a: 1 },
    });
    run.asks("1", 7, "add", { a: 1 });
    run.gets("1", 7, { result: text("1") });
    run.tells({ callId: "m1", name: "calc-add", source: "mcp:calc", tool: "add", parentCallId: "p" });
    run.asks("2", 7, "add", { a: 2 });
    run.gets("2", 7, { result: { ...(text("bad") as object), isError: true } as Json });
    run.asks("2", 8, "sub");
    run.gets("2", 8, { error: { code: -32602, message: "no" } });
    run.asks("2", 9, "slow");
    run.cancels("2", 9);
    const trajectory = run.trial.trajectory(workflowTask());
    const events = toolEvents(trajectory);
    expect(events.map(({ startedAt: _startedAt, ...event }) => event)).toEqual([
      {
        sequence: 1,
        turn: 0,
        callId: "b1",
        name: "bash",
        source: "builtin",
        args: { command: "ls" },
        result: "no",
        isError: true,
        errorKind: "tool",
        durationMs: 1,
      },
      {
        sequence: 2,
        turn: 0,
        callId: "m1",
        name: "calc-add",
        source: "mcp:calc",
        server: "calc",
        serverTool: "add",
        args: { a: 1 },
        result: text("1"),
        isError: false,
        durationMs: 1,
        parentCallId: "p",
      },
      expect.objectContaining({ sequence: 3, args: { a: 2 }, isError: true, errorKind: "tool" }),
      expect.objectContaining({ sequence: 4, serverTool: "sub", isError: true, errorKind: "schema" }),
      expect.objectContaining({ sequence: 5, serverTool: "slow", isError: true, errorKind: "timeout" }),
    ]);
    expect(new Date(events[0]?.startedAt ?? "").getTime()).toBe(trajectory.events[5]?.at);
    expect(toolDigest(events, ["other", "calc"])).toEqual({
      toolCalls: 5,
      mcpToolCalls: 4,
      serversUsed: ["calc"],
      serversUnused: ["other"],
      servers: { calc: { calls: 4, errors: 3, distinctTools: 3, p50Ms: 1, p95Ms: 1 } },
    });
    expect(warningsOf(trajectory)).toEqual([
      "the agent's own log lacks calls that the gateway recorded: calc.add, calc.sub, calc.slow",
    ]);
  });

  it("have the reason where no answer has, the turn of each, and nobody's name for a tool that nobody has", () => {
    const run = new ProgramTrial();
    run.trial.emit({ type: "turn.finished", turn: 0, reason: "done" });
    run.trial.emit({ type: "turn.started", turn: 1, user: "Go on." });
    run.trial.emit({ type: "tool.rejected", tool: "none", args: { a: 1 }, reason: "no server offers it" });
    run.asks("1", 1, "sub");
    run.gets("1", 1, { error: { code: -32602, message: "no such tool" } });
    const events = toolEvents(run.trial.trajectory(workflowTask()));
    expect(events.map(({ startedAt: _startedAt, ...event }) => event)).toEqual([
      {
        sequence: 1,
        turn: 1,
        callId: "event-6",
        name: "none",
        source: "unknown",
        args: { a: 1 },
        result: { error: "no server offers it" },
        isError: true,
        errorKind: "schema",
      },
      {
        sequence: 2,
        turn: 1,
        callId: "event-7",
        name: "sub",
        source: "mcp:calc",
        server: "calc",
        serverTool: "sub",
        args: {},
        result: { error: "no such tool (code -32602)" },
        isError: true,
        errorKind: "schema",
        durationMs: 1,
      },
    ]);
  });

  it("tell what kind of failure it was", () => {
    const run = new ProgramTrial();
    run.asks("1", 1, "add");
    run.gets("1", 1, { error: { code: -32603, message: "broken" } });
    run.asks("1", 2, "add");
    run.gets("1", 2, {} as { result: Json });
    run.asks("1", 3, "add");
    run.cancels("2", 3);
    run.trial.emit({ type: "tool.rejected", tool: "none", args: {}, reason: "no server offers it" });
    const kinds = (): unknown =>
      toolEvents(run.trial.trajectory(workflowTask())).map(({ errorKind }) => errorKind);
    // Of a call without an answer nobody knows, unless it was taken back or there was no time left.
    expect(kinds()).toEqual(["protocol", "protocol", "protocol", "schema"]);
    run.cancels("1", 3);
    expect(kinds()).toEqual(["protocol", "protocol", "timeout", "schema"]);
  });

  it("of a call that ended with what broke the trial is no timeout", () => {
    const run = new ProgramTrial();
    run.asks("1", 1, "add");
    const message = "the server sent a message of more than 10 bytes";
    run.cancels("1", 1, `McpvalsError: ${message}`);
    const error = { code: "server/message-too-large", kind: "environment", message } as const;
    run.trial.emit({ type: "trial.finished", outcome: "error", durationMs: 5, error });
    expect(toolEvents(run.trial.trajectory(workflowTask()))).toMatchObject([{ errorKind: "protocol" }]);
  });

  it("of calls without an answer are timeouts when the trial's time is over", () => {
    const run = new ProgramTrial();
    run.asks("1", 1, "add");
    run.trial.emit({ type: "trial.finished", outcome: "timeout", durationMs: 5 });
    expect(toolEvents(run.trial.trajectory(workflowTask()))).toMatchObject([{ errorKind: "timeout" }]);
  });

  it("tell of uses that never reached a server, which are no calls", () => {
    const run = new ProgramTrial();
    const parentCallId = "p";
    run.tells({
      callId: "m1",
      name: "calc-add",
      source: "mcp:calc",
      tool: "add",
      args: { a: 1 },
      parentCallId,
    });
    run.tells({ callId: "m2", name: "calc-add", source: "mcp:calc", tool: "add", status: "failed" });
    const trajectory = run.trial.trajectory(workflowTask());
    expect(toolEvents(trajectory)).toMatchObject([
      { unrecorded: true, server: "calc", serverTool: "add", parentCallId },
      { unrecorded: true, isError: true },
    ]);
    expect(toolDigest(toolEvents(trajectory), ["calc"])).toMatchObject({
      mcpToolCalls: 0,
      serversUnused: ["calc"],
    });
    expect(warningsOf(trajectory)).toEqual([
      "the agent reports calls that never reached the gateway: calc.add; only the record counts",
    ]);
  });

  it("do not count waiting for a rate limit as the server's time, and give late calls to the last turn", () => {
    const run = new ProgramTrial();
    run.trial.list([{ name: "add" }], { server: "calc" });
    run.trial.emit({ type: "turn.finished", turn: 0, reason: "done" });
    run.asks("1", 1, "add");
    run.trial.wait(100).emit({ type: "request.held", server: "calc", client: "1", id: 1, heldMs: 100 });
    run.gets("1", 1, { result: text("1") });
    const trajectory = run.trial.trajectory(workflowTask());
    expect(trajectory.calls).toMatchObject([{ latencyMs: 2, turn: 0, client: "1" }]);
    expect(warningsOf(trajectory)).toEqual([]);
  });

  it("take tokens from our own count rather than from what the agent tells", () => {
    const run = new ProgramTrial();
    const usage = (inputTokens: number) => ({ inputTokens, outputTokens: 1, requests: 1 });
    run.trial.emit({ type: "agent.usage", source: "agent", usage: usage(5) });
    expect(run.trial.trajectory(workflowTask()).usage).toEqual(usage(5));
    run.trial.emit({ type: "agent.usage", source: "proxy", usage: usage(7) });
    run.trial.emit({ type: "agent.usage", source: "proxy", usage: usage(8) });
    expect(run.trial.trajectory(workflowTask()).usage).toEqual({
      inputTokens: 15,
      outputTokens: 2,
      requests: 2,
    });
  });

  it("come with a warning where a rule did nothing, or hid what the agent asked for", () => {
    const { trial } = new ProgramTrial();
    const hidden = { type: "tools.hidden", server: "calc", tools: ["sub"], unmatched: ["ad"] } as const;
    trial.emit(hidden);
    trial.emit(hidden);
    trial.emit({ type: "tool.rejected", tool: "sub", args: {}, reason: "no server offers it" });
    trial.emit({ type: "fault.unmet", server: "calc", fault: "error", method: "tools/call", tool: "nxt" });
    expect(trial.warnings()).toEqual([
      'server "calc": "ad" under its `tools` fits none of its tools',
      'server "calc" has the tool "sub", which its `tools` hide from agents',
      'the fault "error" of calc.nxt met no request',
    ]);
  });
});

const use = (server: string, serverTool: string, durationMs?: number): ToolEvent => ({
  sequence: 1,
  callId: "c",
  name: serverTool,
  source: `mcp:${server}`,
  server,
  serverTool,
  isError: durationMs === undefined,
  startedAt: "2026-11-22T00:00:00.000Z",
  ...(durationMs === undefined ? {} : { durationMs }),
});

describe("the numbers of an agent's uses of tools", () => {
  it("have the median and the 95th percentile of the calls that were answered, interpolated", () => {
    const times = [100, 9, 2, 1].map((time, index) => use("calc", index < 3 ? "add" : "sub", time));
    const { servers } = toolDigest([...times, use("calc", "add")], ["calc"]);
    expect(servers).toEqual({
      calc: { calls: 5, errors: 1, distinctTools: 2, p50Ms: 5.5, p95Ms: 86.35 },
    });
  });

  it("have no times where nothing was answered", () => {
    expect(toolDigest([use("calc", "add")], ["calc"]).servers).toEqual({
      calc: { calls: 1, errors: 1, distinctTools: 1 },
    });
  });

  it("name servers in the order of the task, whichever was called first", () => {
    const events = [use("c", "t", 1), use("b", "t", 1), use("elsewhere", "t", 1)];
    expect(toolDigest(events, ["a", "b", "c", "d"])).toMatchObject({
      serversUsed: ["b", "c", "elsewhere"],
      serversUnused: ["a", "d"],
    });
  });
});

/** A trial with two servers, and an agent that tells of its uses of tools before it makes its calls. */
class ToldTrial {
  readonly trial = new TrialEvents().begin("workflow", "agent");

  tells(callId: string, server: string, args?: Json, tool = "add"): this {
    const more = args === undefined ? {} : { args };
    const told = { callId, name: callId, source: `mcp:${server}`, tool, turn: 0, ...more } as const;
    this.trial.emit({ type: "agent.tool", status: "completed", ...told });
    return this;
  }

  calls(server: string, args: { readonly [key: string]: Json }, tool = "add"): this {
    this.trial.call(tool, args, { content: [] }, { server });
    return this;
  }

  /** Which use belongs to each call, and which ones belong to none. */
  matched(): readonly [(string | undefined)[], string[]] {
    const { calls, unrecorded } = matchAgentTools(this.trial.trajectory(workflowTask()));
    return [calls.map(({ told }) => told?.callId), unrecorded.map(({ callId }) => callId)];
  }
}

describe("an agent's uses of tools and the calls on record", () => {
  it("belong together by their arguments, whatever their order", () => {
    const run = new ToldTrial().tells("two", "calc", { a: 2, b: 1 }).tells("one", "calc", { a: 1 });
    run.calls("calc", { a: 1 }).calls("calc", { b: 1, a: 2 });
    expect(run.matched()).toEqual([["one", "two"], []]);
  });

  it("belong together in their order where arguments are not told, or otherwise", () => {
    const run = new ToldTrial().tells("untold", "calc").tells("other", "calc", { a: "2" });
    run.tells("exact", "calc", { a: 3 });
    run.calls("calc", { a: 3 }).calls("calc", { a: 1 }).calls("calc", { a: 2 }).calls("calc", { a: 4 });
    expect(run.matched()).toEqual([["exact", "untold", "other", undefined], []]);
  });

  it("never belong together for another server or another tool", () => {
    const run = new ToldTrial().tells("server", "calc", { a: 1 }).tells("tool", "calc", { a: 1 }, "sub");
    run.calls("other", { a: 1 }).calls("calc", { a: 1 }, "mul");
    expect(run.matched()).toEqual([
      [undefined, undefined],
      ["server", "tool"],
    ]);
  });

  it("leave out the calls of steps, which are not the agent's", () => {
    const run = new ToldTrial().tells("mine", "calc", { a: 1 });
    run.trial.step("check", {}, () => void run.calls("calc", { a: 1 }));
    expect(run.matched()).toEqual([[], ["mine"]]);
    run.calls("calc", { a: 1 });
    expect(run.matched()).toEqual([["mine"], []]);
  });
});
