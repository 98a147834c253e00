import { describe, expect, it } from "vitest";
import { TrialEvents, workflowTask } from "../../../test/support/trial-events.ts";
import type { EventBody } from "./events.ts";
import type { Json } from "../formats/model.ts";
import { toolDigest } from "./tool-digest.ts";
import { toolEvents } from "./tool-events.ts";

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
      expect.objectContaining({ sequence: 4, serverTool: "sub", isError: true, errorKind: "protocol" }),
      expect.objectContaining({ sequence: 5, serverTool: "slow", isError: true, errorKind: "timeout" }),
    ]);
    expect(new Date(events[0]?.startedAt ?? "").getTime()).toBe(trajectory.events[3]?.at);
    expect(toolDigest(events, ["other", "calc"])).toEqual({
      toolCalls: 5,
      mcpToolCalls: 4,
      serversUsed: ["calc"],
      serversUnused: ["other"],
      servers: { calc: { calls: 4, errors: 3, distinctTools: 3, p50Ms: 1, p95Ms: 1 } },
    });
    expect(trajectory.warnings).toEqual([
      "the agent's own log lacks calls that the gateway recorded: calc.add, calc.sub, calc.slow",
    ]);
  });

  it("tell of uses that never reached a server, which are no calls", () => {
    const run = new ProgramTrial();
    run.tells({ callId: "m1", name: "calc-add", source: "mcp:calc", tool: "add", args: { a: 1 } });
    run.tells({ callId: "m2", name: "calc-add", source: "mcp:calc", tool: "add", status: "failed" });
    const trajectory = run.trial.trajectory(workflowTask());
    expect(toolEvents(trajectory)).toMatchObject([{ unrecorded: true }, { unrecorded: true, isError: true }]);
    expect(toolDigest(toolEvents(trajectory), ["calc"])).toMatchObject({
      mcpToolCalls: 0,
      serversUnused: ["calc"],
    });
    expect(trajectory.warnings).toEqual([
      "the agent tells of calls that never reached the gateway: calc.add; only the record counts",
    ]);
  });

  it("do not count waiting for a rate limit as the server's time, and give late calls to the last turn", () => {
    const run = new ProgramTrial();
    run.trial.emit({ type: "turn.finished", turn: 0, reason: "done" });
    run.asks("1", 1, "add");
    run.trial.wait(100).emit({ type: "request.held", server: "calc", client: "1", id: 1, heldMs: 100 });
    run.gets("1", 1, { result: text("1") });
    const trajectory = run.trial.trajectory(workflowTask());
    expect(trajectory.calls).toMatchObject([{ latencyMs: 2, turn: 0, client: "1" }]);
    expect(trajectory.warnings).toEqual([]);
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
});
