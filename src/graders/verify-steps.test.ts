import { expect, it } from "vitest";
import {
  check,
  gradeOf,
  mcpStep,
  type StepOptions,
  toolTestTask,
  TrialEvents,
} from "../../test/support/trial-events.ts";
import type { Task } from "../model/task.ts";
import { verifySteps } from "./verify-steps.ts";
import type { Grade } from "../model/grade.ts";

type Steps = readonly (readonly [id: string, options?: StepOptions])[];

/** The grade of attempts of steps; the ends of the steps are the events 2, 4, 6 and so on. */
async function grade(steps: Steps, task: Task): Promise<Grade> {
  const trial = new TrialEvents();
  for (const [id, options] of steps) trial.step(id, options);
  return gradeOf(verifySteps, trial.trajectory(task));
}

const taskOf = (...steps: readonly { readonly id: string; readonly name?: string }[]): Task => ({
  ...toolTestTask(),
  form: "task",
  verify: steps.map((step) => ({ ...mcpStep(), ...step })),
});
const [test, one] = [toolTestTask(), taskOf({ id: "one" })];
const many = [1, 2, 3, 4, 5].map((number) => check(`c${number}`, true));
const skippedOne = "no step checks anything; skipped, as its condition does not hold: one";

it.each<[string, Task, Steps, number | null, string, number[]]>([
  [
    "passes when all checks hold",
    test,
    [
      ["one", { checks: [check("result", true, "it is 5"), check("latency", true, "3 ms")] }],
      ["two", { checks: [check("error", true, "failed as expected")] }],
    ],
    1,
    "result: it is 5; latency: 3 ms; error: failed as expected",
    [2, 4],
  ],
  [
    "scores the share that holds and tells the others",
    test,
    [
      ["one", { checks: [check("result", true)] }],
      [
        "two",
        { checks: [check("result", false, "it is 6"), check("latency", false, "9 ms"), check("x", true)] },
      ],
    ],
    0.5,
    "result: it is 6; latency: 9 ms",
    [4],
  ],
  [
    "looks at the last attempt only, and says which it was",
    test,
    [
      ["one", { attempt: 1, checks: [check("result", false, "it is 6")] }],
      ["one", { attempt: 2, checks: [check("result", true, "it is 5")] }],
    ],
    1,
    "result: it is 5 (attempt 2)",
    [4],
  ],
  [
    "says after how many attempts a check failed",
    test,
    [
      ["one", { attempt: 1, checks: [check("result", true)] }],
      ["one", { attempt: 2, checks: [check("result", false, "it is 7")] }],
    ],
    0,
    "result: it is 7 (2 attempts)",
    [4],
  ],
  ["has nothing to say when nothing was checked", test, [["one"]], null, "no step checks anything", []],
  [
    "names the steps where a task has several, and says what was not looked at",
    taskOf({ id: "one" }, { id: "two", name: "the page" }, { id: "three" }),
    [
      ["one", { checks: [check("status", true, "it is 200")] }],
      ["two", { attempt: 1, checks: [check("body", false)] }],
      ["two", { attempt: 2, checks: [check("body", false, "it is empty")] }],
      ["three", { outcome: "skipped" }],
    ],
    0.5,
    "the page: body: it is empty (2 attempts); skipped, as its condition does not hold: three",
    [6],
  ],
  [
    "does not say a step's name twice where its check is called the same",
    taskOf({ id: "status" }, { id: "other" }),
    [
      ["status", { checks: [check("status", false, "it is 404"), check("body", false, "it is empty")] }],
      ["other", { checks: [check("status", false, "it is 500")] }],
    ],
    0,
    "status: it is 404; status: body: it is empty; other: status: it is 500",
    [2, 4],
  ],
  [
    "counts many checks that hold",
    taskOf({ id: "one" }, { id: "two" }),
    [
      ["one", { checks: many }],
      ["two", { checks: many }],
    ],
    1,
    "all 10 checks of 2 steps hold",
    [2, 4],
  ],
  [
    "fails a step that failed though all of its checks hold",
    one,
    [["one", { checks: [check("text", true)], outcome: "failed" }]],
    0.5,
    "one: failed",
    [2],
  ],
  [
    "has nothing to say when steps only did something",
    test,
    [
      ["one", { outcome: "skipped" }],
      ["two", { checks: [{ ...check("written", true), evidence: "sideEffect" }] }],
    ],
    null,
    skippedOne,
    [],
  ],
  [
    "has nothing to say when every step was skipped",
    one,
    [["one", { outcome: "skipped" }]],
    null,
    skippedOne,
    [],
  ],
])("%s", async (_, task, steps, score, reason, evidence) => {
  const verdict = score === null ? "skip" : score === 1 ? "pass" : "fail";
  expect(await grade(steps, task)).toEqual({ grader: "verify-steps", verdict, score, reason, evidence });
});
