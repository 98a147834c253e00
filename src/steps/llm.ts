import { excerpt } from "../core/checks/expectations.ts";
import { McpvalsError } from "../core/errors/error.ts";
import { withoutUndefined } from "../core/formats/json.ts";
import type { LlmStep } from "../core/formats/step.ts";
import type { Check } from "../core/trace/events.ts";
import type { StepRunner } from "./step-runner.ts";

/** Asks the judge about a text, by default the agent's last message: one question and one check for each criterion. */
export const llmStep: StepRunner<LlmStep> = {
  input: ({ contains, exact, rubric, input }) => withoutUndefined({ contains, exact, rubric, input }),
  async run(step, { trial, signal }) {
    const { judge, prompt, agent } = trial;
    if (judge === undefined)
      throw new McpvalsError("task/no-judge", `step ${step.id} asks a judge, and none is configured`);
    const input = step.input ?? agent?.output ?? "";
    if (input.trim() === "") {
      // A judge might find anything in an empty text.
      const message =
        step.input === undefined ? "the agent said nothing" : "there is nothing to judge: the input is empty";
      const check = { name: "input", passed: false, expected: "a text", actual: input, message };
      return { kind: "checked", checks: [{ ...check, untried: true }] };
    }
    const scores: number[] = [];
    const reasons: string[] = [];
    const checks: Check[] = [];
    for (const kind of ["contains", "exact", "rubric"] as const) {
      const reference = step[kind];
      if (reference === undefined) continue;
      const answer = await judge({ kind, reference, prompt, input }, signal);
      const { passed, score, reason } = answer;
      scores.push(score);
      reasons.push(reason);
      const message = `score ${Math.round(score * 100) / 100}: ${reason}`;
      const [expected, actual] = [excerpt(reference), excerpt(input)];
      checks.push({ name: kind, passed, expected, actual, message, judge: answer.judge });
    }
    return { kind: "checked", checks, values: { score: Math.min(...scores), reason: reasons.join("\n") } };
  },
};
