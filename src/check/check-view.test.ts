import { expect, it } from "vitest";
import { TrialEvents, workflowTask } from "../../test/support/trial-events.ts";
import type { CheckSpec } from "../model/check.ts";
import type { EventBody } from "../model/event.ts";
import { readCheck } from "./check-view.ts";

it("gives each of the probes that run at the same time its own events, in the order of their series", () => {
  const call = (tool: string) => ({ tool, args: {}, expects: "result", why: "a test" }) as const;
  const check: CheckSpec = { kind: "security", disable: [], calls: [call("a"), call("b")] };
  const task = { ...workflowTask({ turns: [], servers: ["notes"] }), form: "check", check } as const;
  const trial = new TrialEvents();
  const of = (series: number, event: EventBody): number => trial.emit({ ...event, series });
  const started = { type: "probe.started", server: "notes", probe: "call" } as const;
  const finished = {
    type: "probe.finished",
    server: "notes",
    probe: "call",
    outcome: "done",
    durationMs: 1,
  } as const;
  const message = (id: number, direction: "client-to-server" | "server-to-client"): EventBody => ({
    type: "mcp.message",
    server: "notes",
    direction,
    message: {
      jsonrpc: "2.0",
      id,
      ...(direction === "client-to-server" ? { method: "ping" } : { result: {} }),
    },
  });
  of(2, { ...started, call: 1 });
  of(1, { ...started, call: 0 });
  of(2, message(1, "client-to-server"));
  of(1, message(2, "client-to-server"));
  of(2, message(1, "server-to-client"));
  of(2, finished);
  of(1, message(2, "server-to-client"));
  of(1, finished);
  const { probes } = readCheck(trial.trajectory(task), check);
  expect(
    probes.map(({ call: made, events, exchanges }) => [
      made?.tool,
      events.map(({ seq }) => seq),
      exchanges.map(({ request, answer }) => [request.seq, answer?.seq]),
    ]),
  ).toEqual([
    ["a", [2, 4, 7, 8], [[4, 7]]],
    ["b", [1, 3, 5, 6], [[3, 5]]],
  ]);
});
