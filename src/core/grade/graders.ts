import type { Task } from "../formats/model.ts";
import { assertionGraders } from "./assertions.ts";
import { findingsGrader } from "./findings.ts";
import type { Grader } from "./grader.ts";
import { toolCallHealth, toolInvocationOrder } from "./tool-calls.ts";
import { endToEndSuccess, turnEndsGrader } from "./turns.ts";
import { verifySteps } from "./verify-steps.ts";

/** The graders that need nothing but a trajectory, by the form of task that they grade. */
const pureGraders: Readonly<Record<Task["form"], readonly Grader[]>> = {
  workflow: [endToEndSuccess, toolInvocationOrder, toolCallHealth, turnEndsGrader],
  "tool-test": [toolCallHealth, verifySteps],
  task: [verifySteps, turnEndsGrader],
  check: [findingsGrader],
};

/** The graders of a task; the judge grades what an agent did, so only tasks with user turns. */
export function gradersOf(task: Task, judge: Grader | undefined): readonly Grader[] {
  const graders = [...pureGraders[task.form], ...assertionGraders(task)];
  return judge === undefined || task.turns.length === 0 || task.form === "task"
    ? graders
    : [...graders, judge];
}
