import { describe, expect, it } from "vitest";
import { errorResult, textResult, TrialEvents } from "../../../test/support/trial-events.ts";
import { callHistory } from "./agent-calls.ts";

/** The events of a trial whose agent does what `play` does, with calls of steps before and after. */
function trial(play: (events: TrialEvents) => void): TrialEvents {
  const events = new TrialEvents();
  events.server("calc", [{ name: "add" }]);
  events.emit({ type: "phase.started", phase: "setup" });
  events.call("reset", {}, textResult("done"));
  events.emit({ type: "phase.finished", phase: "setup", durationMs: 1 });
  events.emit({ type: "phase.started", phase: "agent" });
  play(events);
  events.emit({ type: "phase.finished", phase: "agent", durationMs: 1 });
  events.emit({ type: "phase.started", phase: "verify" });
  events.call("look", {}, textResult("fine"));
  return events;
}

function results(play: (events: TrialEvents) => void): unknown[] {
  return callHistory(trial(play).events).toolCalls.map(({ result }) => result);
}

describe("the call history", () => {
  it("has everything that the agent asked of servers, with its answer, and nothing of steps", () => {
    const events = trial((agent) => {
      agent.server("files");
      agent.list([{ name: "late" }]);
      agent.call("add", { a: 2 }, textResult("5"));
      agent.answer(agent.send("resources/read", { uri: "file:///a" }, { server: "files" }), { contents: [] });
      agent.answer(agent.send("prompts/get", { name: "ask", arguments: { of: "x" } }), { messages: [] });
      agent.answer(agent.send("prompts/get", { name: "plain" }), { messages: [] });
    });
    expect(callHistory(events.events)).toEqual({
      toolCalls: [
        {
          serverName: "calc",
          toolName: "add",
          arguments: { a: 2 },
          result: textResult("5"),
          timestamp: expect.stringMatching(/^2026-11-18T\d\d:\d\d:\d\d\.\d{3}Z$/),
        },
      ],
      resourceReads: [
        {
          serverName: "files",
          uri: "file:///a",
          result: { contents: [] },
          timestamp: expect.any(String),
        },
      ],
      promptGets: [
        {
          serverName: "calc",
          promptName: "ask",
          arguments: { of: "x" },
          result: { messages: [] },
          timestamp: expect.any(String),
        },
        {
          serverName: "calc",
          promptName: "plain",
          arguments: {},
          result: { messages: [] },
          timestamp: expect.any(String),
        },
      ],
    });
  });

  it("tells when a call was made, not when it was answered", () => {
    const events = new TrialEvents();
    events.emit({ type: "phase.started", phase: "agent" });
    const request = events.request("add", {}, { server: "calc" });
    events.wait(5000).answer(request, textResult("5"));
    const { at } = events.events[request.seq - 1]!;
    expect(callHistory(events.events).toolCalls[0]?.timestamp).toBe(new Date(at).toISOString());
  });

  it("keeps the order of the requests, whatever order the answers have", () => {
    const given = results((agent) => {
      const [first, second] = [agent.request("add", { a: 1 }), agent.request("add", { a: 2 })];
      agent.answer(second, textResult("2"));
      agent.answer(first, textResult("1"));
    });
    expect(given).toEqual([textResult("1"), textResult("2")]);
  });

  it("tells two servers' requests with the same id apart", () => {
    const events = new TrialEvents();
    events.emit({ type: "phase.started", phase: "agent" });
    for (const server of ["one", "two"]) {
      const message = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "add" } };
      events.emit({ type: "mcp.message", server, direction: "client-to-server", message });
    }
    for (const server of ["two", "one"]) events.answer({ server, id: 1, seq: 0 }, textResult(server));
    expect(callHistory(events.events).toolCalls.map((call) => [call.serverName, call.result])).toEqual([
      ["one", textResult("one")],
      ["two", textResult("two")],
    ]);
  });

  it("has an error where there was no result, and the tool's own error as its result", () => {
    const given = results((agent) => {
      agent.refuse(agent.request("add", {}), -32602, "no such tool");
      agent.request("add", {});
      agent.call("add", {}, "text");
      agent.call("add", {}, errorResult("no"));
    });
    expect(given).toEqual([
      { error: "no such tool (code -32602)" },
      { error: "never answered" },
      { error: "the response has neither a result object nor an error" },
      errorResult("no"),
    ]);
  });

  it("leaves out an answer that comes after the agent gave up, or that is not the first", () => {
    const given = results((agent) => {
      const late = agent.request("add", { a: 1 });
      const message = { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: late.id } };
      agent.emit({ type: "mcp.message", server: "calc", direction: "client-to-server", message });
      agent.answer(late, textResult("late"));
      const twice = agent.request("add", { a: 2 });
      agent.answer(twice, textResult("first"));
      agent.answer(twice, textResult("second"));
    });
    expect(given).toEqual([{ error: "never answered" }, textResult("first")]);
  });

  it("does not take the answer of a later step's request with the same id", () => {
    const events = new TrialEvents();
    events.emit({ type: "phase.started", phase: "agent" });
    const open = events.request("add", {}, { server: "calc" });
    events.emit({ type: "phase.finished", phase: "agent", durationMs: 1 });
    const message = { jsonrpc: "2.0", id: open.id, method: "tools/call", params: { name: "look" } };
    events.emit({ type: "mcp.message", server: "calc", direction: "client-to-server", message });
    events.answer(open, textResult("of the step"));
    expect(callHistory(events.events).toolCalls).toMatchObject([
      { toolName: "add", result: { error: "never answered" } },
    ]);
  });

  it("is empty when no agent took part", () => {
    const events = new TrialEvents();
    events.server("calc");
    events.call("add", {}, textResult("5"));
    expect(callHistory(events.events)).toEqual({ toolCalls: [], resourceReads: [], promptGets: [] });
  });
});
