import { expect, it } from "vitest";
import { errorResult, textResult, TrialEvents, workflowTask } from "../../../test/support/trial-events.ts";
import type { CheckSpec, PlannedCall } from "../../model/check.ts";
import type { JsonObject } from "../../base/json.ts";
import { ServerTotals } from "./servers-document.ts";

const run = { id: "r", environment: { servers: {} }, findings: [] } as never;

it("tells planned calls of a check from uses, and leaves its other probes out", () => {
  const valid: PlannedCall = { tool: "word", args: {}, expects: "result", why: "the required arguments" };
  const invalid: PlannedCall = { ...valid, expects: "refusal", why: "an unknown argument" };
  const notCalled = [{ tool: "other", reason: "calls are off" }];
  const check: CheckSpec = { kind: "calls", disable: [], calls: [valid, valid, invalid], notCalled };
  const trial = new TrialEvents().server("notes", [{ name: "word" }, { name: "other" }]);
  const probe = (tool: string, result: JsonObject, call?: number): void => {
    const of = { server: "notes", probe: call === undefined ? "unknown-tool" : "call" } as const;
    trial.emit({ type: "probe.started", ...of, ...(call === undefined ? {} : { call }) });
    trial.answer(trial.request(tool, {}, { server: "notes" }), result);
    trial.emit({ type: "probe.finished", ...of, outcome: "done", durationMs: 1 });
  };
  probe("word", textResult("ok"), 0);
  probe("word", errorResult("no file"), 1);
  probe("word", errorResult("unknown argument"), 2);
  probe("mcpvals-no-such-tool", errorResult("unknown tool"));
  const totals = new ServerTotals();
  totals.add(trial.trajectory({ ...workflowTask({ turns: [], servers: ["notes"] }), form: "check", check }));
  const checked = { valid: 2, failed: 1, invalid: 1, refused: 1 };
  const [server] = totals.rows(run, new Map());
  expect(server).toMatchObject({ name: "notes", calls: 0, errors: 0, checked });
  expect(server?.tools.map((tool) => [tool.name, tool.calls, tool.checked, tool.notCalled])).toEqual([
    ["word", 0, checked, undefined],
    ["other", 0, undefined, "calls are off"],
  ]);
});
