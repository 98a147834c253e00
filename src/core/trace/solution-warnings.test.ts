import { expect, it } from "vitest";
import { errorResult, textResult, TrialEvents } from "../../../test/support/trial-events.ts";
import { warningsOf } from "./warnings.ts";

/** Plays an agent of a kind whose calls end in every way. */
function played(kind: string): readonly string[] {
  const trial = new TrialEvents().server("files");
  trial.call("setup", {}, errorResult("a step's own"));
  trial.emit({ type: "phase.started", phase: "agent" });
  trial.emit({ type: "agent.started", agent: kind, kind });
  trial.turn("Do it.", () => {
    trial.call("writ_file", {}, errorResult("MCP error -32602: Tool writ_file\nnot found"));
    trial.call("write_file", {}, textResult("done"));
    trial.refuse(trial.request("read_file", {}), -32_000, "no such file");
    trial.reject("lost");
    trial.refuse(trial.send("resources/read", { uri: "x:y" }), -32_002, "unknown");
    trial.request("slow", {});
  });
  trial.emit({ type: "phase.finished", phase: "agent", durationMs: 1 });
  trial.step("check", {}, () => void trial.call("checks", {}, errorResult("no")));
  return warningsOf(trial.events);
}

it("tells of a solution's calls that failed, in order, and of nobody else's", () => {
  expect(played("oracle")).toEqual([
    "solution: files.writ_file failed: MCP error -32602: Tool writ_file not found",
    "solution: files.read_file failed: no such file",
    "solution: lost failed: no server offers it",
    "solution: x:y of files failed: unknown",
    "solution: files.slow failed: there was no answer",
  ]);
  expect(played("model").filter((warning) => warning.startsWith("solution"))).toEqual([]);
});

it("tells of the first ten", () => {
  const trial = new TrialEvents().server("files");
  trial.emit({ type: "agent.started", agent: "oracle", kind: "oracle" });
  for (let count = 1; count <= 12; count += 1) trial.reject(`t${count}`);
  const told = warningsOf(trial.events);
  expect([told.length, told.at(-2), told.at(-1)]).toEqual([
    11,
    "solution: t10 failed: no server offers it",
    "solution: 2 more calls failed",
  ]);
});
