import { expect, it } from "vitest";
import { calibrate, type JudgedCase, judgesOf } from "./calibration.ts";
import type { Grade, JudgeRecord } from "../../model/grade.ts";

const judge = (...votes: readonly number[]): JudgeRecord => ({
  model: "test/judge",
  prompt: "sha256:1",
  threshold: 0.5,
  votes,
});

it("takes what most votes say, and counts cases whose votes disagree", () => {
  const cases: readonly JudgedCase[] = [
    { label: "pass", judge: judge(1, 1, 0) },
    { label: "pass", judge: judge(1, 0, 0) },
    { label: "fail", judge: judge(0.5, 0.5, 0.5) },
    { label: "fail", judge: judge(0, 0, 0) },
    { label: "fail" },
  ];
  expect(calibrate(cases)).toMatchObject({
    labels: 4,
    unscored: 1,
    votes: 3,
    confusion: { passPass: 1, passFail: 1, failPass: 1, failFail: 1 },
    agreement: { value: 0.5 },
    flipRate: 0.5,
  });
  expect(calibrate([{ label: "pass" }])).toBeUndefined();
});

it.each<[string, Partial<JudgeRecord>]>([
  ["model", { model: "test/other" }],
  ["prompt", { prompt: "sha256:2" }],
  ["threshold", { threshold: 0.6 }],
  ["number of votes", { votes: [1, 1, 1] }],
])("a calibration is of no use for a judge with another %s", (_, changes) => {
  const known = calibrate([{ label: "pass", judge: judge(1) }]);
  if (known === undefined) throw new Error("the judge gave a verdict");
  const graded = (record: JudgeRecord): { readonly grades: readonly Grade[] } => ({
    grades: [{ grader: "prompt", verdict: "pass", score: 1, reason: "", evidence: [1], judge: record }],
  });
  const trials = [graded(judge(0.5)), graded({ ...judge(1), ...changes })];
  expect(judgesOf(trials, [known])?.map(({ calibration }) => calibration)).toEqual([known, null]);
});

it("cases of one task are alike: a calibration says of how many tasks they are, and what they are worth", () => {
  const of = (task: string | undefined, label: "pass" | "fail", score: number): JudgedCase => ({
    ...(task === undefined ? {} : { task }),
    label,
    judge: judge(score),
  });
  const cases = [1, 1, 1, 1, 0, 0, 0, 0].map((score, index) => [
    of(index < 4 ? "a" : "b", "pass", score),
    of(undefined, "pass", score),
  ]);
  const [alike, apart] = [0, 1].map((side) =>
    calibrate(cases.map((pair) => pair[side] ?? of("", "pass", 0))),
  );
  expect(alike).toMatchObject({ labels: 8, tasks: 2, agreement: { value: 0.5 } });
  expect(apart).toMatchObject({ labels: 8, tasks: 8, agreement: { value: 0.5 } });
  expect(apart).not.toHaveProperty("worth");
  expect(alike?.worth?.pass).toBeLessThan(1);
  expect(alike?.agreement?.low).toBeLessThan((apart?.agreement?.low ?? 0) - 0.1);
});
