import { describe, expect, it } from "vitest";
import type { TrialResult } from "../model/result.ts";
import { averageScore, exitCode, runVerdict, summarize, trialVerdict } from "./result.ts";
import type { Grade, Verdict } from "../model/grade.ts";

const lacking = { code: "task/missing-requirement", kind: "environment", message: "no jq" } as const;
const nothingChecked = grade("skip", null);

function trial(verdict: Verdict, rest: Partial<TrialResult> = {}): TrialResult {
  return {
    id: "t1",
    task: "task",
    form: "tool-test",
    agent: null,
    attempt: 1,
    verdict,
    score: null,
    durationMs: 1,
    grades: verdict === "skip" ? [nothingChecked] : [],
    ...rest,
  };
}

function grade(verdict: Grade["verdict"], score: number | null): Grade {
  return { grader: "any", verdict, score, reason: "", evidence: [] };
}

describe("summarize", () => {
  it("counts trials by verdict", () => {
    const verdicts: Verdict[] = ["pass", "fail", "pass", "error", "timeout", "skip", "pass"];
    expect(summarize(verdicts.map((verdict) => trial(verdict)))).toEqual({
      total: 7,
      pass: 3,
      fail: 1,
      error: 1,
      timeout: 1,
      skip: 1,
    });
  });
});

describe("runVerdict", () => {
  const cases: readonly [string, readonly TrialResult[], string][] = [
    ["a failure counts more than errors", [trial("error"), trial("fail"), trial("timeout")], "fail"],
    ["so could a timeout", [trial("pass"), trial("timeout")], "incomplete"],
    ["some lack what they require", [trial("skip", { grades: [], error: lacking }), trial("pass")], "pass"],
    ["some checked nothing", [trial("skip"), trial("pass")], "incomplete"],
    ["one was skipped without a reason", [trial("pass"), trial("skip", { grades: [] })], "incomplete"],
  ];
  it.each(cases)("%s", (_, trials, verdict) => {
    expect(runVerdict(trials, { interrupted: false })).toBe(verdict);
  });

  it("fails with more warnings than are allowed", () => {
    const trials = [trial("pass", { warnings: ["a", "b"] }), trial("pass", { warnings: ["b"] })];
    const verdicts = [0, 1, 2, undefined].map((maxWarnings) =>
      runVerdict(trials, { interrupted: false, maxWarnings }),
    );
    expect(verdicts).toEqual(["fail", "fail", "pass", "pass"]);
  });

  it("is interrupted whatever has happened", () => {
    expect(runVerdict([trial("fail")], { interrupted: true })).toBe("interrupted");
    expect(runVerdict([trial("pass")], { interrupted: true })).toBe("interrupted");
  });
});

it("gives every verdict its exit code", () => {
  expect((["pass", "fail", "incomplete", "interrupted"] as const).map(exitCode)).toEqual([0, 1, 3, 130]);
});

describe("averageScore", () => {
  it("averages what passed or failed", () => {
    const grades = [
      grade("pass", 1),
      grade("fail", 0.5),
      grade("skip", 0),
      grade("error", 0),
      grade("pass", null),
    ];
    expect(averageScore(grades)).toBe(0.75);
  });

  it("is null when nothing was scored", () => {
    expect(averageScore([])).toBeNull();
    expect(averageScore([grade("skip", null), grade("error", null)])).toBeNull();
  });
});

describe("trialVerdict", () => {
  it.each([
    ["only skips", [grade("skip", null)], "skip"],
    ["a grade without verdict", [grade("pass", 1), grade("error", null)], "error"],
    ["a failure", [grade("error", null), grade("fail", 0), grade("pass", 1)], "fail"],
  ] as const)("%s", (_, grades, verdict) => {
    expect(trialVerdict("completed", grades)).toBe(verdict);
  });

  it("never grades a trial that did not complete", () => {
    const passed = [grade("pass", 1)];
    const failed = [grade("fail", 0)];
    expect(trialVerdict("error", passed)).toBe("error");
    expect(trialVerdict("timeout", failed)).toBe("timeout");
    expect(trialVerdict("interrupted", failed)).toBe("skip");
    expect(trialVerdict("not-started", passed)).toBe("skip");
  });
});
