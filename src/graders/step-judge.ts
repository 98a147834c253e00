import type { JudgeAnswer, JudgeQuestion } from "../core/checks/judge-question.ts";
import type { JudgeSpec } from "../core/formats/model.ts";
import type { Emit } from "../core/trace/events.ts";

interface StepJudgeOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly emit: Emit;
  readonly modelMs: number;
}

/** Makes the judge that steps ask. */
export function createStepJudge(
  _spec: JudgeSpec,
  _options: StepJudgeOptions,
): (question: JudgeQuestion, signal: AbortSignal) => Promise<JudgeAnswer> {
  return () => Promise.reject(new Error("to be written"));
}
