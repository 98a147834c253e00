import { expect, it } from "vitest";
import { gradeContext, toolTestTask, TrialEvents, workflowTask } from "../../test/support/trial-events.ts";
import type { Task } from "../model/task.ts";
import { gradersOf } from "./kinds.ts";

const judge = { model: "anthropic/m", passThreshold: 0.8 };

function names(task: Task, withJudge: boolean): string[] {
  return gradersOf(task, withJudge ? judge : undefined).map((grader) => grader.name);
}

it("grades a workflow by what the agent did, and by a judge if there is one", () => {
  const metrics = [
    "end-to-end-success",
    "tool-invocation-order",
    "tool-call-health",
    "turn-ends",
    "reported-verdict",
    "attack-resistance",
  ];
  expect(names(workflowTask(), false)).toEqual(metrics);
  expect(names(workflowTask(), true)).toEqual([...metrics, "llm-judge"]);
});

it("grades a tool test by its checks, which need no judge", () => {
  expect(names(toolTestTask(), false)).toEqual(["tool-call-health", "verify-steps"]);
  expect(names(toolTestTask(), true)).toEqual(["tool-call-health", "verify-steps"]);
});

it.each(["max-steps", "max-tokens", "refused"] as const)(
  "a turn that ends as %s fails the grader of ends, which applies only then",
  async (reason) => {
    const trial = new TrialEvents();
    const ends = gradersOf(workflowTask()).find(({ name }) => name === "turn-ends");
    trial.turn("Go.", () => trial.say("Done."));
    expect(ends?.applies(trial.trajectory(workflowTask()))).toBe(false);
    trial.emit({ type: "turn.started", turn: 1, user: "Go on." });
    const seq = trial.emit({ type: "turn.finished", turn: 1, reason });
    const trajectory = trial.trajectory(workflowTask());
    expect(ends?.applies(trajectory)).toBe(true);
    expect(await ends?.grade(trajectory, gradeContext())).toMatchObject({
      verdict: "fail",
      score: 0.5,
      evidence: [seq],
    });
  },
);
