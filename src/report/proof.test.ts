import { expect, it } from "vitest";
import { portableTask } from "../../test/report/step-runs.ts";
import { canFail, proofExitCode, type ProofTrial, proveTask, type TaskProof } from "./proof.ts";
import type { TrialResult } from "../model/result.ts";
import type { Verdict } from "../model/grade.ts";

const solved = portableTask("t", ["v"], { solution: [{ kind: "say", text: "x" }] });

function trial(
  verdict: Verdict,
  differences: readonly string[] = [],
  error?: TrialResult["error"],
): ProofTrial {
  const result: TrialResult = {
    id: "t1",
    task: "t",
    form: "task",
    agent: "null",
    attempt: 1,
    verdict,
    score: null,
    durationMs: 1,
    grades: [],
    ...(error === undefined ? {} : { error }),
  };
  return { result, differences, untouched: [], evidence: [] };
}

const missing = { code: "task/missing-requirement", kind: "environment", message: "no jq" } as const;
const interrupted = { code: "run/interrupted", kind: "interrupted", message: "interrupted" } as const;

it.each<[string, ProofTrial | undefined, ProofTrial | undefined, string, string[]]>([
  ["both as they should be", trial("fail"), trial("pass"), "proven", []],
  ["a null agent that passes", trial("pass"), trial("pass"), "not-proven", ["null checks-nothing"]],
  ["nothing that was checked", trial("skip"), trial("pass"), "not-proven", ["null checks-nothing"]],
  ["an oracle's timeout", trial("fail"), trial("timeout"), "open", ["oracle broken"]],
  ["an error beside a failure", trial("error"), trial("fail"), "not-proven", ["null broken", "oracle fails"]],
  ["what one leaves behind", trial("fail"), trial("pass", ["a"]), "not-proven", ["oracle state"]],
  ["what both leave behind", trial("fail", ["a"]), trial("pass", ["a"]), "not-proven", ["both state"]],
  ["no trials", undefined, undefined, "open", ["null interrupted", "oracle interrupted"]],
  ["one that was cut off", trial("fail"), trial("skip", ["a"], interrupted), "open", ["oracle interrupted"]],
  ["a missing requirement", trial("skip", [], missing), trial("skip", [], missing), "skipped", []],
])("judges a task by %s", (_, nothing, oracle, status, problems) => {
  const proof = proveTask(solved, { nothing, oracle });
  expect(proof.status).toBe(status);
  expect(proof.problems.map(({ agent, kind }) => `${agent} ${kind}`)).toEqual(problems);
});

it("names what held for an agent that does nothing, and not what judged nothing", () => {
  const { result, ...rest } = trial("pass");
  const grade = { evidence: [] } as const;
  const grades: TrialResult["grades"] = [
    { ...grade, grader: "order", verdict: "skip", score: null, reason: "no expectTools" },
    { ...grade, grader: "text", verdict: "pass", score: 1, reason: "it is there" },
  ];
  const nothing = { ...rest, result: { ...result, grades } };
  const [problem] = proveTask(solved, { nothing, oracle: trial("pass") }).problems;
  expect(problem?.message).toMatch(/: text: it is there$/);
});

it.each<[string, ProofTrial, ProofTrial, string, boolean]>([
  ["a failure", trial("skip"), trial("fail"), "proven", true],
  ["a pass", trial("skip"), trial("pass"), "not-proven", false],
  ["an error", trial("skip"), trial("error"), "not-proven", false],
  ["a failure after an interruption", trial("skip", [], interrupted), trial("fail"), "open", false],
])(
  "judges a task whose checks need an answer by %s of an agent that repeats the prompt",
  (_, nothing, repeating, status, isSeen) => {
    const proof = proveTask(solved, { nothing, repeating, oracle: trial("pass") });
    expect([proof.status, canFail(proof)]).toEqual([status, isSeen]);
  },
);

it("does not take a task without a solution as proven", () => {
  const proof = proveTask(portableTask("t", ["v"]), { nothing: trial("fail"), oracle: undefined });
  expect(proof).toMatchObject({ status: "not-proven", problems: [{ kind: "no-solution" }] });
});

it.each<[TaskProof["status"][], number]>([
  [["proven"], 0],
  [["proven", "open"], 3],
  [["open", "not-proven"], 1],
  [["skipped"], 3],
  [[], 3],
])("gives for %j the exit code %i", (statuses, code) => {
  const proofs = statuses.map((status) => ({
    task: solved,
    status,
    problems: [],
    nothing: undefined,
    oracle: undefined,
  }));
  expect(proofExitCode(proofs, { interrupted: false })).toBe(code);
  expect(proofExitCode(proofs, { interrupted: true })).toBe(130);
});

const ofStep = { code: "step/cannot-run", kind: "environment", message: "no page" } as const;
const refused = { code: "task/outside", kind: "usage", message: "the path leads elsewhere" } as const;
const breaks = "with an agent that does nothing the trial breaks";

it.each<[string, ProofTrial, ProofTrial, string]>([
  [
    "a step for what only an agent makes",
    trial("error", [], ofStep),
    trial("pass"),
    `${breaks}; let its verify steps fail instead`,
  ],
  ["a step that breaks with either", trial("error", [], ofStep), trial("error", [], ofStep), breaks],
  ["a refused path", trial("error", [], refused), trial("pass"), breaks],
])("advises to let steps fail where that helps: %s", (_, nothing, oracle, message) => {
  expect(proveTask(solved, { nothing, oracle }).problems[0]?.message).toBe(message);
});

it.each([
  [["workspace/a was not there before: a folder"], "remove it"],
  [["workspace/a was not there before: a folder", "workspace/b is gone: it was a folder"], "undo that"],
])("says what to do about %j", (differences, what) => {
  const { problems } = proveTask(solved, { nothing: trial("fail", differences), oracle: trial("pass") });
  expect(problems[0]?.message).toBe(
    `once cleanup is done, not everything is as it was before setup; ${what} in cleanup: the state after a task has to be the state before it`,
  );
});
