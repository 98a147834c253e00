import { assert, constantFrom, property, stringMatching } from "fast-check";
import { describe, expect, it } from "vitest";
import { TrialEvents, workflowTask } from "../../test/support/trial-events.ts";
import type { Json, JsonObject } from "../base/json.ts";
import type { EventBody, EventOf } from "../model/event.ts";
import { agentActs, gotNoTools, isUnrecorded, toolDigest, type ToolEvent, toolEvents } from "./agent-acts.ts";
import { type AgentPreset, agentPresets } from "../agents/programs/presets.ts";
import { toolOrigin } from "../agents/tool-origin.ts";

const text = (value: string): Json => ({ content: [{ type: "text", text: value }] });
const badName = { error: { code: -32602, message: "no" } };

/** A trial of a program, with messages between it and the server `calc`. */
class ProgramTrial extends TrialEvents {
  constructor() {
    super();
    this.begin("workflow", "agent");
    this.emit({ type: "phase.started", phase: "agent" });
    this.emit({ type: "turn.started", turn: 0, user: "Do it." });
  }

  asks(client: string, id: number, tool: string, args: Json = {}): number {
    return this.#pass(client, "client-to-server", {
      id,
      method: "tools/call",
      params: { name: tool, arguments: args },
    });
  }

  lists(client: string, id: number): this {
    this.#pass(client, "client-to-server", { id, method: "tools/list" });
    return this;
  }

  gets(client: string, id: number, answer: object): number {
    return this.#pass(client, "server-to-client", { id, ...answer });
  }

  cancels(client: string, requestId: number, reason = "too slow"): void {
    this.#pass(client, "client-to-server", {
      method: "notifications/cancelled",
      params: { requestId, reason },
    });
  }

  /** The agent reports a use of a tool. */
  reports(callId: string, name: string, rest: Partial<EventOf<"agent.tool">> = {}): this {
    this.emit({ type: "agent.tool", turn: 0, source: "builtin", status: "completed", callId, name, ...rest });
    return this;
  }

  uses(): readonly ToolEvent[] {
    return toolEvents(this.trajectory(workflowTask()));
  }

  #pass(client: string, direction: "client-to-server" | "server-to-client", content: object): number {
    const message = { jsonrpc: "2.0", ...content } as Json;
    return this.emit({ type: "mcp.message", server: "calc", client, direction, message });
  }
}

const calcAdd = { source: "mcp:calc", tool: "add" };

describe("a program that lists tools", () => {
  const hasNone = (trial: ProgramTrial): boolean => gotNoTools(trial.trajectory(workflowTask()));

  it("has none before the first answer", () => {
    const trial = new ProgramTrial();
    expect(hasNone(trial)).toBe(false);
    expect(hasNone(trial.lists("1", 1))).toBe(true);
    trial.cancels("1", 1);
    expect(hasNone(trial.lists("1", 2))).toBe(true);
    trial.gets("1", 2, { result: { tools: [] } });
    expect(hasNone(trial.lists("1", 3))).toBe(false);
  });

  it("had some where a call was answered", () => {
    const trial = new ProgramTrial().lists("1", 1);
    trial.asks("1", 2, "add", { a: 1 });
    expect(hasNone(trial)).toBe(true);
    trial.gets("1", 2, { result: text("1") });
    expect(hasNone(trial)).toBe(false);
  });

  it("got an answer where that was an error, or a fault on purpose", () => {
    const trial = new ProgramTrial().lists("1", 1);
    trial.gets("1", 1, badName);
    expect(hasNone(trial)).toBe(false);
    const dropped = new ProgramTrial().lists("1", 1);
    const fault = { server: "calc", client: "1", id: 1, method: "tools/list", fault: "drop" } as const;
    dropped.emit({ type: "fault.injected", ...fault });
    expect(hasNone(dropped)).toBe(false);
  });
});

describe("events of tools", () => {
  it("join the record of the gateway with the agent's reports", () => {
    const run = new ProgramTrial();
    run.list([{ name: "add" }], { server: "calc" });
    run.reports("b1", "bash", { status: "started", args: { command: "ls" } });
    run.reports("b1", "bash", { status: "failed", args: {}, result: "no" });
    run.reports("m1", "calc-add", { ...calcAdd, status: "started", args: { a: 1 } });
    run.asks("1", 7, "add", { a: 1 });
    run.gets("1", 7, { result: text("1") });
    run.reports("m1", "calc-add", { ...calcAdd, parentCallId: "p" });
    run.asks("2", 7, "add", { a: 2 });
    run.gets("2", 7, { result: { ...(text("bad") as object), isError: true } });
    run.asks("2", 8, "sub");
    run.gets("2", 8, badName);
    run.asks("2", 9, "slow");
    run.cancels("2", 9);
    const events = run.uses();
    const bash = { sequence: 1, callId: "b1", name: "bash", source: "builtin", args: { command: "ls" } };
    const add = {
      sequence: 2,
      callId: "m1",
      name: "calc-add",
      source: "mcp:calc",
      server: "calc",
      serverTool: "add",
    };
    const common = { turn: 0, durationMs: 1 };
    expect(events.map(({ startedAt: _startedAt, ...event }) => event)).toEqual([
      { ...common, ...bash, result: "no", isError: true, errorKind: "tool" },
      { ...common, ...add, args: { a: 1 }, result: text("1"), isError: false, parentCallId: "p" },
      expect.objectContaining({ sequence: 3, args: { a: 2 }, isError: true, errorKind: "tool" }),
      expect.objectContaining({ sequence: 4, serverTool: "sub", isError: true, errorKind: "schema" }),
      expect.objectContaining({ sequence: 5, serverTool: "slow", isError: true, errorKind: "timeout" }),
    ]);
    expect(new Date(events[0]?.startedAt ?? "").getTime()).toBe(run.events[5]?.at);
    expect(toolDigest(run.trajectory(workflowTask()), ["other", "calc"])).toEqual({
      toolCalls: 5,
      mcpToolCalls: 4,
      serversUsed: ["calc"],
      serversUnused: ["other"],
      servers: { calc: { calls: 4, errors: 3, distinctTools: 3, p50Ms: 1, p95Ms: 1 } },
    });
    expect(run.warnings()).toEqual([
      "the agent's own log lacks calls that the gateway recorded: calc.add, calc.sub, calc.slow",
    ]);
  });

  it("have the reason where there is no result, the turn of each, and an unknown source for an unknown tool", () => {
    const run = new ProgramTrial();
    run.emit({ type: "turn.finished", turn: 0, reason: "done" });
    run.emit({ type: "turn.started", turn: 1, user: "Go on." });
    run.reject("none");
    run.asks("1", 1, "sub");
    run.gets("1", 1, badName);
    const failed = { turn: 1, args: {}, isError: true, errorKind: "schema" };
    const result = { error: "no server offers it" };
    expect(run.uses()).toEqual([
      expect.not.objectContaining({ server: expect.anything() as unknown }),
      expect.objectContaining({ ...failed, callId: "event-7", source: "mcp:calc", durationMs: 1 }),
    ]);
    expect(run.uses()).toMatchObject([
      { ...failed, callId: "event-6", name: "none", source: "unknown", result },
      { result: { error: "no (code -32602)" } },
    ]);
  });

  const broke = { code: "server/message-too-large", kind: "environment", message: "over 10 bytes" } as const;
  const dropped: EventBody = {
    type: "fault.injected",
    server: "calc",
    client: "1",
    fault: "drop",
    method: "tools/call",
    id: 1,
  };
  it.each<[string, ToolEvent["errorKind"], (run: ProgramTrial) => unknown]>([
    [
      "another JSON-RPC error",
      "protocol",
      (run) => run.gets("1", 1, { error: { code: -32603, message: "broken" } }),
    ],
    ["no result and no error", "protocol", (run) => run.gets("1", 1, {})],
    ["no answer", "protocol", () => undefined],
    ["a cancellation", "timeout", (run) => run.cancels("1", 1)],
    ["another client's cancellation", "protocol", (run) => run.cancels("2", 1)],
    ["no answer before the trial's end", "timeout", (run) => run.end("timeout")],
    [
      "what broke the trial",
      "protocol",
      (run) => [run.cancels("1", 1, `McpvalsError: ${broke.message}`), run.end("error", broke)],
    ],
    [
      "a cancellation in a trial that broke later",
      "timeout",
      (run) => [run.cancels("1", 1), run.end("error", broke)],
    ],
    ["a dropped answer", "timeout", (run) => run.emit(dropped)],
  ])("have the kind of failure of %s", (_, errorKind, play) => {
    const run = new ProgramTrial();
    run.asks("1", 1, "add");
    play(run);
    expect(run.uses()).toMatchObject([{ errorKind }]);
  });

  it("contain uses that never reached a server, which are no calls", () => {
    const run = new ProgramTrial();
    run.reports("m1", "calc-add", { ...calcAdd, args: { a: 1 }, parentCallId: "p" });
    run.reports("m2", "calc-add", { ...calcAdd, status: "failed" });
    expect(run.uses()).toMatchObject([
      { unrecorded: true, server: "calc", serverTool: "add", parentCallId: "p" },
      { unrecorded: true, isError: true },
    ]);
    expect(toolDigest(run.trajectory(workflowTask()), ["calc"])).toMatchObject({
      mcpToolCalls: 0,
      serversUnused: ["calc"],
    });
    expect(run.warnings()).toEqual([
      "the agent reports calls that never reached the gateway: calc.add; only the record counts",
    ]);
  });

  it("do not count waiting for a rate limit as the server's time, and give late calls to the last turn", () => {
    const run = new ProgramTrial();
    run.list([{ name: "add" }], { server: "calc" });
    run.emit({ type: "turn.finished", turn: 0, reason: "done" });
    run.asks("1", 1, "add");
    run.wait(100).emit({ type: "request.held", server: "calc", client: "1", id: 1, heldMs: 100 });
    run.gets("1", 1, { result: text("1") });
    expect(run.trajectory(workflowTask()).calls).toMatchObject([{ latencyMs: 2, turn: 0, client: "1" }]);
    expect(run.warnings()).toEqual([]);
  });

  it("take tokens from our own count rather than from the agent's", () => {
    const run = new ProgramTrial();
    const usage = (inputTokens: number) => ({ inputTokens, outputTokens: 1, requests: 1 });
    run.emit({ type: "agent.usage", source: "agent", usage: usage(5) });
    expect(run.trajectory(workflowTask()).usage).toEqual(usage(5));
    for (const tokens of [7, 8]) run.emit({ type: "agent.usage", source: "proxy", usage: usage(tokens) });
    const sum = { inputTokens: 15, outputTokens: 2, requests: 2 };
    expect(run.trajectory(workflowTask()).usage).toEqual(sum);
  });

  it("come with a warning where a rule had no effect, or hid what the agent asked for", () => {
    const run = new ProgramTrial();
    for (let time = 0; time < 2; time += 1)
      run.emit({ type: "tools.hidden", server: "calc", tools: ["sub"], unmatched: ["ad"] });
    run.reject("sub");
    run.emit({ type: "fault.unmet", server: "calc", fault: "error", method: "tools/call", tool: "nxt" });
    expect(run.warnings()).toEqual([
      'server "calc": "ad" under its `tools` matches no tool',
      'server "calc" has the tool "sub", which its `tools` hide from agents',
      'the fault "error" of calc.nxt was never injected',
    ]);
  });
});

describe("the numbers of an agent's uses of tools", () => {
  it("have the median and the 95th percentile of the calls that were answered, interpolated", () => {
    const run = new ProgramTrial();
    for (const [index, time] of [100, 9, 2, 1].entries()) {
      run.asks("1", index, index < 3 ? "add" : "sub");
      run.wait(time - 1);
      run.gets("1", index, { result: text("") });
    }
    run.asks("1", 9, "add");
    run.emit({ type: "trial.finished", outcome: "completed", durationMs: 1 });
    expect(toolDigest(run.trajectory(workflowTask()), ["calc"]).servers).toEqual({
      calc: { calls: 5, errors: 1, distinctTools: 2, p50Ms: 5.5, p95Ms: 86.35 },
    });
    const unanswered = new ProgramTrial();
    unanswered.asks("1", 9, "add");
    unanswered.emit({ type: "trial.finished", outcome: "completed", durationMs: 1 });
    expect(toolDigest(unanswered.trajectory(workflowTask()), ["calc"]).servers).toEqual({
      calc: { calls: 1, errors: 1, distinctTools: 1 },
    });
  });

  it("do not count as an error a call that was open when the trial was killed", () => {
    const killed = new ProgramTrial();
    killed.asks("1", 9, "add");
    expect(toolDigest(killed.trajectory(workflowTask()), ["calc"]).servers).toEqual({
      calc: { calls: 1, errors: 0, distinctTools: 1 },
    });
  });

  it("name servers in the order of the task, whichever was called first", () => {
    const run = new ProgramTrial();
    for (const server of ["c", "b", "elsewhere"]) run.call("t", {}, { content: [] }, { server });
    expect(toolDigest(run.trajectory(workflowTask()), ["a", "b", "c", "d"])).toMatchObject({
      serversUsed: ["b", "c", "elsewhere"],
      serversUnused: ["a", "d"],
    });
  });
});

describe("an agent's reports and the calls on record", () => {
  type Use = readonly [id: string, args?: JsonObject, server?: string, tool?: string];
  it.each<[string, readonly Use[], readonly Use[], (string | undefined)[], string[]]>([
    [
      "by their arguments, whatever their order",
      [
        ["two", { a: 2, b: 1 }],
        ["one", { a: 1 }],
      ],
      [
        ["", { a: 1 }],
        ["", { b: 1, a: 2 }],
      ],
      ["one", "two"],
      [],
    ],
    [
      "in their order where arguments are not reported, or otherwise",
      [["untold"], ["other", { a: "2" }], ["exact", { a: 3 }]],
      [3, 1, 2, 4].map((a) => ["", { a }]),
      ["exact", "untold", "other", undefined],
      [],
    ],
    [
      "never for another server or another tool",
      [
        ["server", { a: 1 }],
        ["tool", { a: 1 }, "calc", "sub"],
      ],
      [
        ["", { a: 1 }, "other"],
        ["", { a: 1 }, "calc", "mul"],
      ],
      [undefined, undefined],
      ["server", "tool"],
    ],
  ])("belong together %s", (_, reports, calls, told, unrecorded) => {
    const run = new ProgramTrial();
    for (const [id, args, server = "calc", tool = "add"] of reports)
      run.reports(id, id, { source: `mcp:${server}`, tool, ...(args === undefined ? {} : { args }) });
    for (const [, args = {}, server = "calc", tool = "add"] of calls)
      run.call(tool, args, { content: [] }, { server });
    const acts = agentActs(run.trajectory(workflowTask()));
    const recorded = acts.filter(({ call }) => call !== undefined);
    expect(recorded.map(({ report }) => report?.callId)).toEqual(told);
    expect(acts.filter(isUnrecorded).map(({ report }) => report?.callId)).toEqual(unrecorded);
  });

  it("are read in time linear to the reports of one use", () => {
    const run = new ProgramTrial();
    const count = 200_000;
    for (let index = 0; index < count; index += 1) run.reports("b1", "bash", { status: "started" });
    expect(agentActs(run.trajectory(workflowTask())).map(({ seqs }) => seqs.length)).toEqual([count]);
  });

  it("leave out the calls of steps, which are not the agent's", () => {
    const run = new ProgramTrial().reports("mine", "mine", { ...calcAdd, args: { a: 1 } });
    run.step("check", {}, () => void run.call("add", { a: 1 }, { content: [] }, { server: "calc" }));
    const acts = agentActs(run.trajectory(workflowTask()));
    expect(acts.map(({ call, report }) => [call, report?.callId])).toEqual([[undefined, "mine"]]);
  });
});

const servers = ["git", "git-hub", "my.server", "fs"];

const written: readonly (readonly [AgentPreset, string, string, string])[] = [
  ["claude-code", "mcp__git-hub__create_issue", "git-hub", "create_issue"],
  ["claude-code", "mcp__my_server__x", "my.server", "x"],
  ["codex", "git.log", "git", "log"],
  ["codex", "mcp__git_hub.list", "git-hub", "list"],
  ["gemini", "mcp_git-hub_list_all", "git-hub", "list_all"],
  ["gemini", "log (git MCP Server)", "git", "log"],
  ["copilot", "git-hub-log", "git-hub", "log"],
  ["copilot", "my-server-read-it", "my.server", "read-it"],
  ["opencode", "git-hub_log", "git-hub", "log"],
  ["qwen-code", "mcp__git-hub__log_all", "git-hub", "log_all"],
  ["qwen-code", "log (git MCP Server)", "git", "log"],
];

describe("toolOrigin", () => {
  it.each(written)("%s: %s is of %s, also where the program is not known", (preset, name, server, tool) => {
    const origin = { source: `mcp:${server}`, tool };
    expect(toolOrigin(name, { preset, servers })).toEqual(origin);
    expect(toolOrigin(name, { servers })).toEqual(origin);
  });

  it.each(agentPresets)("takes other names of %s for its own tools", (preset) => {
    for (const name of ["shell", "git", "", "gitlog", "Read"])
      expect(toolOrigin(name, { preset, servers })).toEqual({ source: "builtin" });
  });

  const both = ["a", "a_b", "a-b"];
  it.each<[string, AgentPreset | undefined, Partial<Parameters<typeof toolOrigin>[1]>, string, string?]>([
    ["Skill", "claude-code", {}, "skill"],
    ["activate_skill", "gemini", {}, "skill"],
    ["load", undefined, { skillTool: "load" }, "skill"],
    ["skill", "copilot", { skillTool: "load" }, "builtin"],
    ["mcp__other__x", "claude-code", {}, "unknown"],
    ["mcp_other_x", "gemini", {}, "unknown"],
    ["shell", undefined, {}, "unknown"],
    // The longest name, and the one that is written exactly so.
    ["a-b_c", "opencode", { servers: both }, "mcp:a-b", "c"],
    ["a_b_c", "opencode", { servers: both }, "mcp:a_b", "c"],
    ["a_c", "opencode", { servers: both }, "mcp:a", "c"],
    // The way of naming that has more marks of its own, and all of them.
    ["mcp__a__b", "gemini", { servers: ["mcp", "a"] }, "mcp:a", "b"],
    ["b (a MCP Server)", "gemini", { servers: ["mcp", "a"] }, "mcp:a", "b"],
    ["b (a web Server)", "gemini", { servers: ["mcp", "a"] }, "builtin"],
  ])("%s of %s with %j is of %s", (name, preset, options, source, tool) => {
    const known = { servers, ...(preset === undefined ? {} : { preset }), ...options };
    expect(toolOrigin(name, known)).toEqual({ source, ...(tool === undefined ? {} : { tool }) });
  });

  const serverName = stringMatching(/^[A-Za-z0-9_.-]{1,12}$/);
  const toolName = stringMatching(/^[A-Za-z0-9_./-]{1,12}$/);
  const spell: Readonly<Record<AgentPreset, (server: string, tool: string) => string>> = {
    "claude-code": (server, tool) => `mcp__${server.replaceAll(".", "_")}__${tool}`,
    codex: (server, tool) => `mcp__${server.replaceAll(/[.-]/g, "_")}__${tool}`,
    gemini: (server, tool) => `${tool} (${server} MCP Server)`,
    copilot: (server, tool) => `${server.replaceAll(".", "-")}-${tool}`,
    opencode: (server, tool) => `${server.replaceAll(".", "_")}_${tool}`,
    "qwen-code": (server, tool) => `mcp__${server}__${tool}`,
  };

  it("finds the only server whatever its name and whatever the tool's", () => {
    assert(
      property(constantFrom(...agentPresets), serverName, toolName, (preset, server, tool) => {
        const name = spell[preset](server, tool);
        expect(toolOrigin(name, { preset, servers: [server] })).toEqual({ source: `mcp:${server}`, tool });
      }),
    );
  });
});
