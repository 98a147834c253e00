import { expect, it } from "vitest";
import { createWrittenAgent } from "../../src/agents/scripted.ts";
import type { SolutionAction } from "../../src/model/task.ts";
import type { TraceEvent } from "../../src/model/event.ts";
import { leaf } from "../support/sessions.ts";
import { playTrial, portableTask } from "../support/portable.ts";
import { scriptStepOf } from "../support/step-context.ts";

/** Returns the outputs of steps that it reads on stdin as its own output. */
const echo = `#!/usr/bin/env node
const chunks = [];
process.stdin.on("data", (chunk) => chunks.push(chunk)).on("end", () => {
  const { steps } = JSON.parse(Buffer.concat(chunks).toString());
  console.log(JSON.stringify({ passed: true, outputs: { steps } }));
});`;

const setup = [leaf("made", "pass", { outputs: { name: "lamp" } })];
const solution: readonly SolutionAction[] = [
  { kind: "tool", id: "found", tool: "pass", args: {}, outputs: { name: "{steps.made.outputs.name}s" } },
  { kind: "tool", id: "made", tool: "pass", args: {}, outputs: { name: "other" } },
  { kind: "say", text: "{env.WHAT}: {steps.found.outputs.name}, {steps.made.outputs.name}" },
];

function said(events: readonly TraceEvent[]): readonly string[] {
  return events.flatMap((event) => (event.type === "agent.message" ? event.text : []));
}

const oracle = createWrittenAgent({ type: "oracle", name: "oracle" });

it("a solution sees the outputs of setup and of its own calls; other steps do not see those of its calls", async () => {
  const seen = scriptStepOf({ inline: echo }, { id: "seen", protocol: "json" });
  const task = portableTask(
    { setup, solution, env: { WHAT: "{steps.made.outputs.name}" } },
    { verify: [seen], turns: [{ user: "Find it." }] },
  );
  const { events, finished } = await playTrial(task, { agent: (context) => oracle.run(context) });
  expect(finished.outcome).toBe("completed");
  expect(said(events)).toEqual(["other: lamps, other"]);
  const end = events.find((event) => event.type === "step.finished" && event.step === "seen");
  expect(end).toMatchObject({ outputs: { steps: { made: { outputs: { name: "lamp" } } } } });
  expect(JSON.stringify(end)).not.toContain("found");
});

it("a verify step cannot use the outputs of a solution", async () => {
  const uses = leaf("uses", "pass", {
    request: { kind: "tool", tool: "pass", args: { id: "{steps.found.outputs.name}" } },
  });
  const task = portableTask({ setup, solution }, { verify: [uses], turns: [{ user: "Find it." }] });
  const { finished } = await playTrial(task, { agent: (context) => oracle.run(context) });
  expect(finished).toMatchObject({ outcome: "error", error: { code: "task/template" } });
});
