import { describe, expect, it } from "vitest";
import {
  check,
  gradeContext,
  mcpStep,
  toolTestTask,
  TrialEvents,
} from "../../../test/support/trial-events.ts";
import type { Task } from "../formats/model.ts";
import type { Grade } from "../trace/events.ts";
import { verifySteps } from "./verify-steps.ts";

async function grade(trial: TrialEvents): Promise<Grade> {
  return verifySteps.grade(trial.trajectory(toolTestTask()), gradeContext());
}

describe("verify-steps", () => {
  it("passes when all checks hold", async () => {
    const trial = new TrialEvents();
    const one = trial.step("one", {
      checks: [check("result", true, "it is 5"), check("latency", true, "3 ms")],
    });
    const two = trial.step("two", { checks: [check("error", true, "failed as expected")] });
    expect(await grade(trial)).toEqual({
      grader: "verify-steps",
      verdict: "pass",
      score: 1,
      reason: "result: it is 5; latency: 3 ms; error: failed as expected",
      evidence: [one, two],
    });
  });

  it("scores the share that holds and tells the others", async () => {
    const trial = new TrialEvents();
    trial.step("one", { checks: [check("result", true)] });
    const two = trial.step("two", {
      checks: [check("result", false, "it is 6"), check("latency", false, "9 ms"), check("x", true)],
    });
    expect(await grade(trial)).toEqual({
      grader: "verify-steps",
      verdict: "fail",
      score: 0.5,
      reason: "result: it is 6; latency: 9 ms",
      evidence: [two],
    });
  });

  it("looks at the last attempt only, and says which it was", async () => {
    const trial = new TrialEvents();
    trial.step("one", { attempt: 1, checks: [check("result", false, "it is 6")] });
    const last = trial.step("one", { attempt: 2, checks: [check("result", true, "it is 5")] });
    expect(await grade(trial)).toEqual({
      grader: "verify-steps",
      verdict: "pass",
      score: 1,
      reason: "result: it is 5 (attempt 2)",
      evidence: [last],
    });
    trial.step("two", { attempt: 1, checks: [check("result", true)] });
    const worse = trial.step("two", { attempt: 2, checks: [check("result", false, "it is 7")] });
    expect(await grade(trial)).toMatchObject({
      verdict: "fail",
      score: 0.5,
      reason: "result: it is 7 (2 attempts)",
      evidence: [worse],
    });
  });

  it("has nothing to say when nothing was checked", async () => {
    const trial = new TrialEvents();
    trial.step("one");
    expect(await grade(trial)).toEqual({
      grader: "verify-steps",
      verdict: "skip",
      score: null,
      reason: "no step checks anything",
      evidence: [],
    });
  });

  const taskOf = (...steps: readonly { readonly id: string; readonly name?: string }[]): Task => ({
    ...toolTestTask(),
    form: "task",
    verify: steps.map((step) => ({ ...mcpStep(), ...step })),
  });

  it("names the steps where a task has several, and says what was not looked at", async () => {
    const trial = new TrialEvents();
    trial.step("one", { checks: [check("status", true, "it is 200")] });
    trial.step("two", { attempt: 1, checks: [check("body", false)] });
    const two = trial.step("two", { attempt: 2, checks: [check("body", false, "it is empty")] });
    trial.step("three", { outcome: "skipped" });
    const task = taskOf({ id: "one" }, { id: "two", name: "the page" }, { id: "three" });
    expect(await verifySteps.grade(trial.trajectory(task), gradeContext())).toEqual({
      grader: "verify-steps",
      verdict: "fail",
      score: 0.5,
      reason: "the page: body: it is empty (2 attempts); skipped, as its condition does not hold: three",
      evidence: [two],
    });
  });

  it("does not say a step's name twice where its check is called the same", async () => {
    const trial = new TrialEvents();
    trial.step("status", {
      checks: [check("status", false, "it is 404"), check("body", false, "it is empty")],
    });
    trial.step("other", { checks: [check("status", false, "it is 500")] });
    const task = taskOf({ id: "status" }, { id: "other" });
    expect(await verifySteps.grade(trial.trajectory(task), gradeContext())).toMatchObject({
      reason: "status: it is 404; status: body: it is empty; other: status: it is 500",
    });
  });

  it("counts many checks that hold", async () => {
    const trial = new TrialEvents();
    const checks = [1, 2, 3, 4, 5].map((number) => check(`c${number}`, true));
    trial.step("one", { checks });
    trial.step("two", { checks });
    const task = taskOf({ id: "one" }, { id: "two" });
    expect(await verifySteps.grade(trial.trajectory(task), gradeContext())).toMatchObject({
      verdict: "pass",
      reason: "all 10 checks of 2 steps hold",
    });
  });

  it("fails a step that failed though all of its checks hold", async () => {
    const trial = new TrialEvents();
    const end = trial.step("one", { checks: [check("text", true)], outcome: "failed" });
    expect(await verifySteps.grade(trial.trajectory(taskOf({ id: "one" })), gradeContext())).toEqual({
      grader: "verify-steps",
      verdict: "fail",
      score: 0.5,
      reason: "one: failed",
      evidence: [end],
    });
  });

  it("has nothing to say when steps only did something", async () => {
    const trial = new TrialEvents();
    trial.step("one", { outcome: "skipped" });
    trial.step("two", { checks: [{ ...check("written", true), acted: true }] });
    expect(await grade(trial)).toMatchObject({
      verdict: "skip",
      reason: "no step checks anything; skipped, as its condition does not hold: one",
    });
  });

  it("has nothing to say when every step was skipped", async () => {
    const trial = new TrialEvents();
    trial.step("one", { outcome: "skipped" });
    expect(await verifySteps.grade(trial.trajectory(taskOf({ id: "one" })), gradeContext())).toMatchObject({
      verdict: "skip",
      reason: "no step checks anything; skipped, as its condition does not hold: one",
    });
  });
});
