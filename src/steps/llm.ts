import { excerpt } from "../core/checks/excerpt.ts";
import type { JudgeAnswer, JudgeQuestion } from "../core/grade/judge-prompt.ts";
import { McpvalsError } from "../core/errors/error.ts";
import { inRubric } from "../core/templates/places.ts";
import type { LlmStep } from "../core/formats/step.ts";
import type { Check } from "../core/trace/events.ts";
import type { StepAttempt, StepContext, StepRunner } from "./step-runner.ts";

/** Asks the judge about a text, by default what the agent said last: one question and one check for each criterion. */
export const llmStep: StepRunner<LlmStep> = {
  type: "llm",
  expand: (step, { text, wanted, placed }) => ({
    ...step,
    ...Object.fromEntries(
      criteriaOf(step).map(([kind, reference]) => [
        kind,
        kind === "rubric" ? placed(reference, inRubric) : wanted(reference),
      ]),
    ),
    ...(step.input === undefined ? {} : { input: text(step.input) }),
  }),
  input: (step) => ({
    ...Object.fromEntries(criteriaOf(step)),
    ...(step.input === undefined ? {} : { input: step.input }),
  }),
  run,
};

async function run(step: LlmStep, { trial, signal }: StepContext): Promise<StepAttempt> {
  const { judge, prompt, agent } = trial;
  if (judge === undefined)
    throw new McpvalsError("task/no-judge", `step ${step.id} asks a judge, and none is configured`);
  const input = step.input ?? agent?.output ?? "";
  if (input.trim() === "") return { kind: "checked", checks: [nothingToJudge(step, input)] };
  const answers: JudgeAnswer[] = [];
  const checks: Check[] = [];
  for (const [kind, reference] of criteriaOf(step)) {
    const answer = await judge({ kind, reference, prompt, input }, signal);
    answers.push(answer);
    checks.push(checkOf({ kind, reference, prompt, input }, answer));
  }
  const score = Math.min(...answers.map((answer) => answer.score));
  const reason = answers.map((answer) => answer.reason).join("\n");
  return { kind: "checked", checks, values: { score, reason } };
}

/** The criteria that the step has, in a fixed order. */
function criteriaOf(step: LlmStep): (readonly [JudgeQuestion["kind"], string])[] {
  return (["contains", "exact", "rubric"] as const).flatMap((kind) => {
    const reference = step[kind];
    return reference === undefined ? [] : [[kind, reference] as const];
  });
}

function checkOf({ kind, reference, input }: JudgeQuestion, { passed, score, reason }: JudgeAnswer): Check {
  return {
    name: kind,
    passed,
    expected: excerpt(reference),
    actual: excerpt(input),
    message: `score ${Math.round(score * 100) / 100}: ${reason}`,
  };
}

/** The check for an empty input: a judge might find anything in it. */
function nothingToJudge({ input: written }: LlmStep, input: string): Check {
  const message =
    written === undefined ? "the agent said nothing" : "there is nothing to judge: the input is empty";
  return { name: "input", passed: false, expected: "a text", actual: input, message, untried: true };
}
