import { expect, it } from "vitest";
import { TrialEvents, workflowTask } from "../../../test/support/trial-events.ts";

it("tells of every fault that was injected, with how often, and of servers that a trial did without", () => {
  const trial = new TrialEvents().begin("workflow", "agent");
  const error = { code: "server/exited", message: "it ended", kind: "environment" } as const;
  trial.emit({ type: "server.failed", server: "extra", error });
  const about = { server: "calc", method: "tools/call" } as const;
  trial.emit({ type: "fault.injected", fault: "delay", ...about, tool: "add", id: 1 });
  trial.emit({ type: "fault.injected", fault: "error", server: "calc", method: "tools/list", id: 2 });
  trial.emit({ type: "fault.injected", fault: "delay", ...about, tool: "add", id: 3 });
  expect(trial.trajectory(workflowTask()).warnings).toEqual([
    'the trial went on without server "extra", which did not start: it ended',
    "injected on purpose: delay of calc.add (2 times), error of calc.tools/list",
  ]);
});

it("tells of a server that a program did not connect to, where it did connect to another one", () => {
  const warningsOf = (...connected: readonly string[]): readonly string[] => {
    const trial = new TrialEvents().begin("workflow", "agent");
    const ready = {
      type: "server.ready",
      version: "1",
      protocolVersion: "1",
      tools: 1,
      durationMs: 1,
    } as const;
    for (const server of ["calc", "files"]) trial.emit({ ...ready, server, name: server });
    for (const server of connected)
      trial.emit({ type: "gateway.connected", server, client: server, via: "http" });
    return trial.trajectory(workflowTask()).warnings;
  };
  expect(warningsOf("calc")).toEqual(['the agent never connected to server "files"']);
  expect(warningsOf("calc", "files")).toEqual([]);
  expect(warningsOf()).toEqual([]);
});
