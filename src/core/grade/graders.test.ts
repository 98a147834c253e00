import { expect, it } from "vitest";
import { toolTestTask, workflowTask } from "../../../test/support/trial-events.ts";
import type { Task } from "../formats/model.ts";
import type { Grader } from "./grader.ts";
import { gradersOf } from "./graders.ts";

const judge: Grader = {
  name: "judge",
  grade: () => ({ grader: "judge", verdict: "pass", score: 1, reason: "", evidence: [] }),
};

function names(task: Task, withJudge: boolean): string[] {
  return gradersOf(task, withJudge ? judge : undefined).map((grader) => grader.name);
}

it("grades a workflow by what the agent did, and by a judge if there is one", () => {
  const metrics = ["end-to-end-success", "tool-invocation-order", "tool-call-health", "turn-ends"];
  expect(names(workflowTask(), false)).toEqual(metrics);
  expect(names(workflowTask(), true)).toEqual([...metrics, "judge"]);
});

it("grades a tool test by its checks, which need no judge", () => {
  expect(names(toolTestTask(), false)).toEqual(["tool-call-health", "verify-steps"]);
  expect(names(toolTestTask(), true)).toEqual(["tool-call-health", "verify-steps"]);
});
