import { randomUUID } from "node:crypto";
import { type JudgeAnswer, type JudgeQuestion, stepJudgePrompt } from "../core/grade/judge-prompt.ts";
import { McpvalsError } from "../core/errors/error.ts";
import type { JudgeSpec } from "../core/formats/model.ts";
import { askJudge, type AskOptions } from "./ask-judge.ts";
import { scoreForm, yesOrNoForm } from "./verdict-form.ts";

interface StepJudgeOptions extends Omit<AskOptions, "signal"> {
  /** Gives a text that nobody can know before. Default: a random UUID. */
  readonly nonce?: () => string;
}

/** Longest text that is judged, in characters. A text is judged whole or not at all: what is cut off could decide. */
const longestInput = 400_000;

/**
 * Makes the judge that steps ask. Whether a text contains a reference or equals it is the judge's own yes or no, with a
 * score of 1 or 0; a rubric passes from the spec's threshold on. The judge throws `judge/no-verdict` without a usable
 * verdict, what the model throws when it could not be asked, and the signal's reason.
 */
export function createStepJudge(
  spec: JudgeSpec,
  options: StepJudgeOptions,
): (question: JudgeQuestion, signal: AbortSignal) => Promise<JudgeAnswer> {
  const { nonce = randomUUID, ...ask } = options;
  return async (question, signal) => {
    checkLength(question);
    signal.throwIfAborted();
    const prompt = stepJudgePrompt(question, nonce());
    if (question.kind === "rubric") {
      const verdict = await askJudge({ prompt, form: scoreForm }, spec, { ...ask, signal });
      return { ...verdict, passed: verdict.score >= spec.passThreshold };
    }
    const verdict = await askJudge({ prompt, form: yesOrNoForm }, spec, { ...ask, signal });
    return { ...verdict, score: verdict.passed ? 1 : 0 };
  };
}

function checkLength({ input }: JudgeQuestion): void {
  if (input.length <= longestInput) return;
  throw new McpvalsError(
    "judge/no-verdict",
    `the text to be judged has ${input.length} characters, and only ${longestInput} can be judged`,
    { hint: "Judge a part of it: give `input` the part that matters." },
  );
}
