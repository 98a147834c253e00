import { suggestion } from "../formats/did-you-mean.ts";
import { assertionKinds, graderOfSet, type Task } from "../formats/model.ts";
import { findingsGrader } from "./findings.ts";
import { createGrader, type Grader } from "./grader.ts";
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

/** Name of the grades of the judge of workflows. */
export const judgeName = "llm-judge";

/** The graders of a task; the judge grades what an agent did, so only tasks with user turns. */
export function gradersOf(task: Task, judge: Grader | undefined): readonly Grader[] {
  const graders = [...pureGraders[task.form], ...assertionGraders(task)];
  return judge === undefined || !canBeJudged(task) ? graders : [...graders, judge];
}

/** The graders of a task's sets of assertions: one for all that name the same one. Their code is loaded when they grade. */
function assertionGraders({ portable }: Task): readonly Grader[] {
  const groups = [...Map.groupBy(portable?.assertions ?? [], graderOfSet)];
  return groups
    .filter(([, sets]) => sets.some((set) => assertionKinds(set).length > 0))
    .map(([name, sets]) =>
      createGrader(name, async (trajectory) =>
        (await import("./assertions.ts")).gradeAssertions(sets, trajectory),
      ),
    );
}

function canBeJudged({ turns, form }: Task): boolean {
  return turns.length > 0 && form !== "task";
}

/** The names of the graders of a task, those of the judge and of what its files declare included. */
function graderNames(task: Task): readonly string[] {
  const names = gradersOf(task, undefined).map(({ name }) => name);
  const declared = (task.graders ?? []).map(({ name }) => name);
  return [...names, ...(canBeJudged(task) ? [judgeName] : []), ...declared];
}

/** What to do about a threshold of a grader that none of the tasks has; undefined when one has it. */
export function unknownThreshold(name: string, tasks: readonly Task[]): string | undefined {
  const known = new Set(["score", "passRate", ...tasks.flatMap(graderNames)]);
  return known.has(name) ? undefined : suggestion(name, [...known], "thresholds");
}
