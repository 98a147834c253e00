import { describe, expect, it } from "vitest";
import type { LlmStep } from "../../src/model/step.ts";
import { runStep } from "../../src/steps/run-step.ts";
import type { StepJudge, StepReport } from "../../src/steps/step-runner.ts";
import { plainTrial, scopeOf, stepContext } from "../support/step-context.ts";
import type { JudgeAnswer, JudgeQuestion } from "../../src/model/event.ts";

const by = { model: "a/b", prompt: "sha256:0", threshold: 0.8, votes: [1] };
const good: JudgeAnswer = { passed: true, score: 1, reason: "it is there", judge: by };

/** Runs a step with a judge that gives these answers; `said` is the agent's last message, absent without an agent. */
async function play(
  parts: Partial<LlmStep>,
  said: string | undefined,
  ...answers: readonly JudgeAnswer[]
): Promise<StepReport & { readonly questions: readonly JudgeQuestion[]; readonly input: unknown }> {
  const rest = [...answers];
  const questions: JudgeQuestion[] = [];
  const judge: StepJudge = (question) => {
    questions.push(question);
    const answer = rest.shift();
    return answer === undefined ? Promise.reject(new Error("asked too often")) : Promise.resolve(answer);
  };
  const agent = said === undefined ? undefined : { output: said, exitCode: 0 };
  const trial = { ...plainTrial("a task"), prompt: "Add 2 and 3.", judge, agent };
  const context = stepContext({ trial, scope: scopeOf({ env: { X: "5", EMPTY: "" } }) });
  const report = await runStep({ type: "llm", id: "ask", timeoutMs: 1000, ...parts }, context);
  return { ...report, questions, input: context.events[0] };
}

it.each(["contains", "exact", "rubric"] as const)("%s is asked about what the agent said", async (kind) => {
  const played = await play({ [kind]: "five" }, "It is 5.", good);
  const check = { name: kind, passed: true, expected: "five", actual: "It is 5." };
  expect(played).toMatchObject({
    outcome: "passed",
    questions: [{ kind, reference: "five", prompt: "Add 2 and 3.", input: "It is 5." }],
    checks: [{ ...check, message: "score 1: it is there", judge: by }],
    input: { stepType: "llm", input: { [kind]: "five" } },
  });
  const failed = await play({ [kind]: "five" }, "6", { ...good, passed: false, score: 0.904, reason: "six" });
  const message = "score 0.9: six";
  expect(failed).toMatchObject({ outcome: "failed", checks: [{ name: kind, passed: false, message }] });
});

it("asks each question by itself, of its own input where it has one; all have to hold", async () => {
  const played = await play(
    {
      contains: "c {env.X}",
      exact: "e {env.X}",
      rubric: "r {env.X}",
      input: "i {env.X}",
      outputs: { score: "{score}", reason: "{reason}" },
    },
    "never mind",
    good,
    { ...good, score: 0.7, reason: "nearly" },
    { ...good, score: 0.9, reason: "well" },
  );
  expect(played).toMatchObject({
    outcome: "passed",
    questions: ["c 5", "e 5", "r 5"].map((reference) => ({ reference, input: "i 5" })),
    checks: [{ name: "contains" }, { name: "exact" }, { name: "rubric" }],
    outputs: { score: "0.7", reason: "it is there\nnearly\nwell" },
  });
  const failing = await play({ contains: "a", exact: "b" }, "x", good, { ...good, passed: false });
  expect(failing.outcome).toBe("failed");
});

describe("nothing to judge fails without asking anyone", () => {
  it.each<[string, Partial<LlmStep>, string | undefined, string]>([
    ["an agent that says blanks", {}, " \n", "the agent said nothing"],
    ["no agent", {}, undefined, "the agent said nothing"],
    ["an empty input", { input: "{env.EMPTY}" }, "x", "there is nothing to judge: the input is empty"],
  ])("%s", async (_, parts, said, message) => {
    const checks = [{ name: "input", passed: false, message }];
    const played = await play({ contains: "x", ...parts }, said, good);
    expect(played).toMatchObject({ outcome: "failed", questions: [], checks });
  });
});

it("without a judge is an error", async () => {
  const trial = { ...plainTrial("a task"), agent: { output: "words", exitCode: 0 } };
  const step: LlmStep = { type: "llm", id: "ask", timeoutMs: 1000, contains: "x" };
  const report = await runStep(step, stepContext({ trial }));
  expect(report).toMatchObject({ outcome: "error", checks: [], error: { code: "task/no-judge" } });
});
